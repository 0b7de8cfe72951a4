"""Somebody is told that a gate waits, and no run depends on it."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from tercet.contracts.gate import Gate
from tercet.runtime import RunResult

from .test_limits import failing
from .workshop import ADA, ASK, BOB, Workshop, plan, step

BOSS = Gate(name="BOSS", roles=("boss",), quorum=2, ttl_ms=60_000)

KEEP = "import os, sys; open(sys.argv[1], 'ab').write(sys.stdin.buffer.read() + b'\\n')"
TELL_ENV = "import json, os, sys; sys.stdin.read(); json.dump(dict(os.environ), open(sys.argv[1], 'w'))"


def told(path: Path) -> list[dict[str, Any]]:
    """What a program was told, one message a line."""
    return [json.loads(line) for line in path.read_bytes().splitlines()]


class Signals(list[tuple[str, dict[str, Any]]]):
    """Keeps what was signalled."""

    def __call__(self, name: str, fields: dict[str, Any]) -> None:
        """Keep it."""
        self.append((name, fields))

    @property
    def failures(self) -> list[str]:
        """Why somebody could not be told."""
        return [fields["error"] for name, fields in self if name == "notify_failed"]


def run_to_gate(workshop: Workshop, notify: dict[str, Any], signals: Signals | None = None) -> RunResult:
    """Run a plan up to a gate, in a runtime that is closed afterwards."""
    workshop.tool("wipe.it", mode="destructive", gates=("BOSS",), authority=(), no_compensation="gone")
    pack = workshop.pack(gates=(BOSS,), notify=notify)

    async def main() -> RunResult:
        async with workshop.runtime(pack, signal=Signals() if signals is None else signals) as runtime:
            return await runtime.run(ASK, plan=plan(step("w", "wipe.it")), actor=ADA)

    return workshop.run(main())


@pytest.mark.slow
def test_a_program_reads_the_gate_from_its_input(workshop: Workshop, tmp_path: Path) -> None:
    """It gets one JSON object: which gate, the call with its parameters, who may answer, until when and how."""
    out = tmp_path / "told"
    result = run_to_gate(workshop, {"command": (sys.executable, "-c", KEEP, str(out))})
    [message] = told(out)
    assert result.gate is not None
    assert message["gate"] == result.gate.id == f"{result.session_id}.g1"
    assert (message["session"], message["kind"], message["step"]) == (result.session_id, "approval", "w")
    assert (message["tool"], message["params"]) == ("wipe.it", {"n": "w"})
    assert (message["roles"], message["quorum"]) == (["boss"], 2)
    assert message["expires_at"] == "2026-01-01T00:01:00.000Z"
    assert message["answers"] == ["approve", "deny", "modify", "withdraw"]
    assert message["command"] == f"tercet gates show {result.gate.id}"


@pytest.mark.slow
@pytest.mark.req("R235")
def test_a_program_is_told_of_a_compensation_that_failed(workshop: Workshop, tmp_path: Path) -> None:
    """An operator hears which step is left, why, and how to look at its session; a compensation that worked is not told."""
    out = tmp_path / "told"
    undone = {"params": {"n": {"$from": "self#/n"}}}
    workshop.tool("undo.it")
    workshop.tool("undo.not", failing(9))
    workshop.tool("do.it", compensate={"tool": "undo.it", **undone})
    workshop.tool("do.more", compensate={"tool": "undo.not", **undone})
    workshop.tool("fail.it", failing(9), mode="read_only")
    notify = {"command": (sys.executable, "-c", KEEP, str(out))}
    pack = workshop.pack(on_failure="compensate", budget={"max_step_retries": 0}, notify=notify)
    bad = plan(step("a"), step("b", "do.more", depends_on=("a",)), step("c", "fail.it", depends_on=("b",)))

    async def main() -> RunResult:
        async with workshop.runtime(pack) as runtime:
            result = await runtime.run(ASK, plan=bad, actor=ADA)
            assert result.gate is not None
            await runtime.decide(result.gate.id, "abandon", actor=BOB)
            return await runtime.resume(result.session_id)

    result = workshop.run(main())
    assert result.status == "failed"
    [alert] = [message for message in told(out) if message["kind"] == "compensation_failed"]
    assert (alert["session"], alert["step"]) == (result.session_id, "b")
    assert alert["reason"]
    assert alert["command"] == f"tercet sessions show {result.session_id}"


@pytest.mark.slow
def test_a_program_gets_no_secrets_of_the_environment(
    workshop: Workshop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only a handful of harmless variables are handed on."""
    monkeypatch.setenv("PAYMENT_KEY", "sk_secret")
    monkeypatch.setenv("LANG", "C.UTF-8")
    out = tmp_path / "env"
    run_to_gate(workshop, {"command": (sys.executable, "-c", TELL_ENV, str(out))})
    env = json.loads(out.read_text())
    assert env["LANG"] == "C.UTF-8"
    assert "PAYMENT_KEY" not in env


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "why"),
    [
        ((sys.executable, "-c", "raise SystemExit(3)"), "ended with 3"),
        (("no-such-program-anywhere",), "cannot be run"),
        ((sys.executable, "-c", "import time; time.sleep(600)"), "did not end within 0.3 s"),
    ],
)
def test_a_program_that_fails_is_signalled_and_holds_nothing_up(
    workshop: Workshop, command: tuple[str, ...], why: str
) -> None:
    """A wrong exit, a missing program and one that hangs are each a signal; the run waits at its gate as it should."""
    signals = Signals()
    result = run_to_gate(
        workshop, {"command": command, "timeout_ms": 300 if "within" in why else 600_000}, signals
    )
    assert result.status == "awaiting_gate"
    [fault] = signals.failures
    assert why in fault


@pytest.mark.slow
def test_a_program_that_hangs_is_ended_with_its_children(tmp_path: Path) -> None:
    """It has a process group of its own, and all of it goes when its time is over."""
    out = tmp_path / "pid"
    script = (
        "import subprocess, sys; child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)']);"
        "import os; open(sys.argv[1] + '.part', 'w').write(str(child.pid)); os.rename(sys.argv[1] + '.part', sys.argv[1]);"
        "child.wait()"
    )
    for timeout_ms in (2_000, 20_000, 200_000):  # on a busy machine the program may not even have begun
        signals = Signals()
        hang = {"command": (sys.executable, "-c", script, str(out)), "timeout_ms": timeout_ms}
        run_to_gate(Workshop(), hang, signals)
        assert len(signals.failures) == 1
        if out.exists():
            break
    assert is_gone(int(out.read_text()))


def is_gone(pid: int) -> bool:
    """Whether a process has ended; a signal may take a moment to arrive."""
    end = time.monotonic() + 600
    while time.monotonic() < end:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        stat = Path(f"/proc/{pid}/stat")
        if stat.exists() and stat.read_text().rpartition(")")[2].split()[0] == "Z":
            return True  # nobody has asked for its exit code yet
    return False


@contextmanager
def webhook(answer: int, posted: list[tuple[str, dict[str, Any]]]) -> Generator[str]:
    """A server on this machine that answers so, and keeps what was posted to it."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            posted.append((self.path, json.loads(body)))
            self.send_response(answer)
            if answer == 302:
                self.send_header("Location", "/elsewhere")
            self.end_headers()

        do_GET = do_POST  # noqa: N815 - the name that the server looks for

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the server's own name
            """Say nothing."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/gates"
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize(
    ("answer", "fault"), [(200, None), (500, "the webhook answered 500"), (302, "the webhook answered 302")]
)
def test_a_webhook_is_posted_the_gate(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch, answer: int, fault: str | None
) -> None:
    """The gate is posted as JSON, to this address alone: a redirection is not followed, and counts as a failure."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    signals, posted = Signals(), list[tuple[str, dict[str, Any]]]()
    with webhook(answer, posted) as address:
        result = run_to_gate(workshop, {"webhook": address}, signals)
    [(path, message)] = posted
    assert result.gate is not None
    assert (path, message["gate"], message["params"]) == ("/gates", result.gate.id, {"n": "w"})
    assert signals.failures == ([fault] if fault else [])


def test_a_webhook_that_nobody_answers_is_signalled(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An address at which nobody listens is a signal like any other failure."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    signals = Signals()
    with webhook(200, []) as address:
        pass
    result = run_to_gate(workshop, {"webhook": address}, signals)
    assert result.status == "awaiting_gate"
    assert "cannot be reached" in signals.failures[0]


@pytest.mark.slow
async def test_every_kind_of_gate_is_told_of_once(workshop: Workshop, tmp_path: Path) -> None:
    """Approval, reconcile, escalation and compensation: each opening is told once, a resumed session's not again."""
    out = tmp_path / "told"
    workshop.tool("do.it", compensate={"tool": "undo.it"}, reversibility="compensable")
    workshop.tool("undo.it", no_compensation="it takes back", idempotent=True)
    workshop.tool("lose.it", failing(1, ConnectionError("lost")), no_compensation="none")
    workshop.tool("break.it", failing(9), no_compensation="none")
    pack = workshop.pack(
        notify={"command": (sys.executable, "-c", KEEP, str(out)), "timeout_ms": 600_000},
        on_failure="ask",
        budget={"max_step_retries": 0},
    )
    course = plan(
        step("a"), step("l", "lose.it", depends_on=("a",)), step("b", "break.it", depends_on=("l",))
    )

    async with workshop.runtime(pack) as runtime:
        result = await runtime.run(ASK, plan=course, actor=ADA)
        assert result.gate is not None
        await runtime.resume(result.session_id)
        await runtime.settle(result.gate.id, happened=True, value={}, actor=BOB)
        result = await runtime.resume(result.session_id)
        assert result.gate is not None
        await runtime.decide(result.gate.id, "abandon", actor=BOB)
        result = await runtime.resume(result.session_id)
        assert result.gate is not None
        assert result.gate.kind == "compensation"
    kinds = {message["kind"]: message for message in told(out)}
    assert sorted(message["kind"] for message in told(out)) == ["compensation", "escalation", "reconcile"]
    assert kinds["reconcile"]["answers"] == ["happened", "did_not_happen"]
    assert "abandon" in kinds["escalation"]["answers"]
    assert kinds["compensation"]["answers"] == ["compensate", "keep"]


@pytest.mark.slow
def test_a_hook_does_not_hold_up_the_run(workshop: Workshop, tmp_path: Path) -> None:
    """The run waits at its gate while the program still works; closing the runtime waits for the program."""
    go, out = tmp_path / "go", tmp_path / "out"
    script = (
        "import pathlib, sys, time\n"
        "while not pathlib.Path(sys.argv[1]).exists(): time.sleep(0.01)\n"
        "pathlib.Path(sys.argv[2]).write_text('done')"
    )
    workshop.tool("wipe.it", mode="destructive", gates=("BOSS",), authority=(), no_compensation="gone")
    notify = {"command": (sys.executable, "-c", script, str(go), str(out)), "timeout_ms": 600_000}
    pack = workshop.pack(gates=(BOSS,), notify=notify)

    async def main() -> None:
        async with workshop.runtime(pack, clock=None) as runtime:
            result = await runtime.run(ASK, plan=plan(step("w", "wipe.it")), actor=ADA)
            assert (result.status, out.exists()) == ("awaiting_gate", False)
            go.touch()
        assert out.read_text() == "done"

    asyncio.run(main())


@pytest.mark.slow
def test_closing_does_not_wait_for_a_long_queue(workshop: Workshop) -> None:
    """Many gates behind a hook that hangs are given up when the runtime is closed, each of them with a signal."""
    workshop.tool("wipe.it", mode="destructive", gates=("BOSS",), authority=(), no_compensation="gone")
    notify = {"command": (sys.executable, "-c", "import time; time.sleep(600)"), "timeout_ms": 500}
    pack = workshop.pack(gates=(BOSS,), notify=notify)
    signals = Signals()

    async def main() -> None:
        async with workshop.runtime(pack, signal=signals, clock=None) as runtime:
            for _ in range(40):
                await runtime.run(ASK, plan=plan(step("w", "wipe.it")), actor=ADA)

    asyncio.run(main())
    assert len(signals.failures) == 40
    assert "the runtime was closed before the hook ran" in signals.failures
