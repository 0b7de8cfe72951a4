"""Collectors that lie: what they say beyond a status is neither read nor followed."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from engine.workshop import ADA, ASK, Workshop, plan, step
from tercet.contracts.errors import UsageError
from tercet.observe import Sampling, Telemetry, TelemetrySettings
from tercet.observe.settings import collector_address

from .receiver import Receiver

PIECE = b"x" * 65_536


class Liar(ThreadingHTTPServer):
    """Answers with a redirect, or with bytes without end; `sent` counts them."""

    daemon_threads = True
    target = ""
    sent = 0


class Handler(BaseHTTPRequestHandler):
    """One answer of a liar."""

    server: Liar  # pyright: ignore[reportIncompatibleVariableOverride] - whoever made it

    def do_POST(self) -> None:
        """Lie."""
        self.rfile.read(int(self.headers["Content-Length"]))
        if self.server.target:
            self.send_response(307)
            self.send_header("Location", self.server.target + self.path)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        self.send_response(200)
        self.end_headers()
        try:
            while self.server.sent < 200_000_000:
                self.server.sent += self.wfile.write(PIECE)
        except OSError:
            pass

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name that it has there
        """Say nothing."""


@contextmanager
def lying(target: str = "") -> Generator[Liar]:
    """A liar on the loopback."""
    server = Liar(("127.0.0.1", 0), Handler)
    server.target = target
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def told(workshop: Workshop) -> dict[str, int]:
    """A traced run, and what of its telemetry was dropped."""
    workshop.tool("do.it")
    settings = TelemetrySettings(otlp=True, sampling=Sampling(1), flush_ms=30_000)

    async def main() -> dict[str, int]:
        with workshop.clock.hold():
            telemetry = await Telemetry(settings).__aenter__()
        async with workshop.runtime(workshop.pack(), observers=[telemetry]) as runtime:
            assert (await runtime.run(ASK, plan=plan(step("a")), actor=ADA)).status == "completed"
        with workshop.clock.hold():
            await telemetry.__aexit__(None, None, None)
        return telemetry.dropped

    return workshop.run(main())


def test_a_redirect_is_a_refusal(
    workshop: Workshop, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is told to the address that a collector names, and what was not taken is counted."""
    with lying(receiver.url) as liar:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{liar.server_port}")
        dropped = told(workshop)
    assert receiver.raw == []
    assert dropped["spans"] > 0
    assert dropped["metrics"] == 1


def test_an_answer_without_end_is_not_read(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    """A collector that sends for ever fills no memory: no more is taken than what lies in buffers."""
    with lying() as liar:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{liar.server_port}")
        assert told(workshop) == {}
    assert liar.sent < 20_000_000


@pytest.mark.parametrize("address", ["http://me:pa55@[::", "ftp://me:pa55@x", "pa55:4318", "http:///pa55"])
def test_what_is_no_address_is_told_without_its_words(address: str) -> None:
    """An endpoint that nobody can reach is wrong use, told before anything runs, and not repeated."""
    with pytest.raises(UsageError) as refused:
        collector_address({"OTEL_EXPORTER_OTLP_ENDPOINT": address})
    assert refused.value.code == "wrong_telemetry"
    assert "pa55" not in str(refused.value)
