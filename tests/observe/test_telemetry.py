"""Telemetry as a spectator: nothing that becomes of it becomes of a run."""

from __future__ import annotations

import json
import socket
import threading
from pathlib import Path
from typing import Any

import pytest

from engine.oracle import GOOD, ORDER, planner, scripted, shop
from engine.workshop import ADA, ASK, BOB, Workshop, plan, step
from tercet.contracts.errors import UsageError
from tercet.contracts.question import ModelFault
from tercet.observe import Sampling, Telemetry, TelemetrySettings
from tercet.observe.outbox import Outbox
from tercet.observe.settings import read_settings

from .receiver import Receiver, attributes_of
from .shop import PLAN, pack_of

QUICK = TelemetrySettings(otlp=True, sampling=Sampling(1.0), flush_ms=50, delay_ms=0)
READ = plan(step("look", "shop.look"))


def run_many(workshop: Workshop, settings: TelemetrySettings, number: int) -> tuple[list[str], Telemetry]:
    """How so many runs end under such settings, and the telemetry of them."""
    pack = pack_of(workshop)

    async def main() -> tuple[list[str], Telemetry]:
        async with Telemetry(settings) as telemetry, workshop.runtime(pack, observers=[telemetry]) as runtime:
            return [(await runtime.run(ASK, plan=READ, actor=ADA)).status for _ in range(number)], telemetry

    return workshop.run(main())


def test_a_collector_that_never_answers_delays_no_run(workshop: Workshop, receiver: Receiver) -> None:
    """Every run completes while the collector holds its first request; what did not fit, and what was left, is counted."""
    receiver.is_stuck = True
    settings = TelemetrySettings(otlp=True, sampling=Sampling(1.0), flush_ms=50, delay_ms=0, most_waiting=5)
    statuses, telemetry = run_many(workshop, settings, 40)
    assert statuses == ["completed"] * 40
    assert telemetry.dropped["runs"] >= 34
    assert telemetry.dropped["spans"] > 0
    assert telemetry.figures.commits == 40


def test_a_collector_that_is_not_there_fails_no_run(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody listens at the address: the runs complete, and their spans are counted as dropped."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
    statuses, telemetry = run_many(workshop, QUICK, 3)
    assert statuses == ["completed"] * 3
    assert telemetry.dropped["spans"] > 0


def test_a_collector_that_refuses_is_counted(workshop: Workshop, receiver: Receiver) -> None:
    """An answer that is no success drops what was sent, once."""
    receiver.status = 400
    settings = TelemetrySettings(otlp=True, sampling=Sampling(1.0), flush_ms=20_000)
    _, telemetry = run_many(workshop, settings, 1)
    assert telemetry.dropped == {"spans": len(receiver.spans), "metrics": 1}


def test_what_does_not_fit_is_dropped_and_putting_never_waits() -> None:
    """While its carrier is busy, an outbox takes as much as it holds and counts the rest; then it carries on."""
    busy, go, taken, dropped = threading.Event(), threading.Event(), list[int](), list[int]()

    class Slow:
        def take(self, item: int, /) -> None:
            taken.append(item)
            busy.set()
            go.wait(30)
            if item == 1:
                raise ValueError("one that cannot be told")

        def due(self) -> float | None:
            return None

        def send(self, *, is_last: bool) -> None:
            assert is_last
            taken.append(-1)

        def abort(self) -> None:
            raise AssertionError("it had time enough")

    outbox = Outbox(Slow(), name="test", most=3, dropped=dropped.append)
    outbox.put(0)
    assert busy.wait(300)
    for item in range(1, 8):
        outbox.put(item)
    assert dropped == [1, 1, 1, 1]
    go.set()
    outbox.close(30)
    assert taken == [0, 1, 2, 3, -1]
    assert len(dropped) == 5


def test_an_observer_that_raises_is_told_and_goes_no_further(workshop: Workshop) -> None:
    """Whatever a spectator raises, the run is as it would have been, and a signal says who failed."""

    class Broken:
        def samples(self, run: str) -> bool:
            return False

        def wrote(self, *_: Any) -> None:
            raise RuntimeError("no")

        def rested(self, *_: Any) -> None:
            raise RuntimeError("never")

    told: list[tuple[str, str]] = []
    pack = pack_of(workshop)

    def signal(name: str, about: dict[str, Any]) -> None:
        told.append((name, about.get("error", "")))

    async def main() -> str:
        async with workshop.runtime(pack, observers=[Broken()], signal=signal) as runtime:
            return (await runtime.run(ASK, plan=READ, actor=ADA)).status

    assert workshop.run(main()) == "completed"
    assert ("observer_failed", "RuntimeError: no") in told
    assert ("observer_failed", "RuntimeError: never") in told


def test_a_call_of_a_model_follows_the_conventions(workshop: Workshop, receiver: Receiver) -> None:
    """Model, provider, tokens and how it ended are told by the names that everybody uses; a fault is an error."""
    pack = shop(workshop)
    settings = TelemetrySettings(otlp=True, sampling=Sampling(1.0), flush_ms=20_000)
    name = "openai-compatible:small@http://host/v1"
    failing = scripted(ModelFault("not now", code="model_unavailable"), name=name)
    answering = scripted(GOOD, name=name)

    async def main() -> None:
        async with Telemetry(settings) as telemetry, workshop.runtime(pack, observers=[telemetry]) as runtime:
            result = await runtime.run(ORDER, planner=planner(failing, answering), actor=ADA)
            assert result.status == "completed"

    workshop.run(main())
    failed, answered = map(attributes_of, receiver.named("chat small"))
    assert failed["error.type"] == "model_unavailable"
    assert answered["gen_ai.operation.name"] == "chat"
    assert answered["gen_ai.provider.name"] == "openai-compatible"
    assert answered["gen_ai.request.model"] == answered["gen_ai.response.model"] == "small"
    assert answered["gen_ai.usage.input_tokens"] > 0
    assert answered["gen_ai.usage.output_tokens"] > 0
    assert answered["gen_ai.response.finish_reasons"] == ["stop"]
    (phase,) = receiver.named("PLAN")
    assert {span.parent_span_id for span in receiver.named("chat small")} == {phase.span_id}
    assert not any(b"//host" in body for body in receiver.raw)


@pytest.mark.req("R319", "R320")
def test_the_log_has_a_line_with_an_action_word_for_what_matters(workshop: Workshop, tmp_path: Path) -> None:
    """Each line is JSON with a sentence, the action word, run, session and tenant; together they tell the run."""
    log = tmp_path / "runs.jsonl"
    pack = pack_of(workshop)

    async def main() -> None:
        settings = TelemetrySettings(log=log, flush_ms=20_000)
        async with Telemetry(settings) as telemetry, workshop.runtime(pack, observers=[telemetry]) as runtime:
            first = await runtime.run(ASK, plan=PLAN, actor=ADA)
            assert first.gate is not None
            await runtime.approve(first.gate.id, actor=BOB)
            assert (await runtime.resume(first.session_id)).status == "completed"

    workshop.run(main())
    told = [json.loads(line) for line in log.read_text().splitlines()]
    assert {(line["run"], line["session"], line["tenant"]) for line in told} == {
        ("run_0002", "ses_0001", "default")
    }
    assert all(line["message"] and line["at"].endswith("Z") for line in told)
    seen = [line["action"] for line in told]
    for action in (
        "loop_started",
        "checkpoint_written",
        "action_dispatched",
        "loop_resumed",
        "gate_answered",
        "commit",
    ):
        assert action in seen, action
    assert seen.count("action_dispatched") == 4
    assert [line["code"] for line in told if line["action"] == "action_aborted"] == ["cold"]
    assert {line["seq"] for line in told if line["action"] == "commit"} == {max(line["seq"] for line in told)}


@pytest.mark.parametrize(
    "words", [["otlp", "prometheus:9", "log:x.jsonl"], ["prometheus"], ["prometheus:[::1]:0"], []]
)
def test_settings_as_people_type_them(words: list[str]) -> None:
    """Each way is named by a word, and what stands behind it says where."""
    found = read_settings(words)
    assert found.otlp is ("otlp" in words)
    assert found.is_on is bool(words)
    ports = {"prometheus:9": 9, "prometheus": 9464, "prometheus:[::1]:0": 0}
    assert found.prometheus_port == next((ports[word] for word in words if word in ports), None)
    assert found.prometheus_host == ("::1" if "prometheus:[::1]:0" in words else "127.0.0.1")
    assert found.log == (Path("x.jsonl") if "log:x.jsonl" in words else None)


@pytest.mark.parametrize(
    "said", ["", "jaeger", "otlp:here", "prometheus:x", "prometheus:70000", "prometheus:-1"]
)
def test_what_is_no_telemetry_is_refused(said: str) -> None:
    """A word that means nothing is answered with those that do."""
    with pytest.raises(UsageError) as caught:
        read_settings([said])
    assert caught.value.code == "wrong_telemetry"


def test_without_the_libraries_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """Told before anything is done; a log alone needs nothing."""

    def find_nothing(name: str) -> None:
        assert name

    monkeypatch.setattr("tercet.observe.settings.find_spec", find_nothing)
    with pytest.raises(UsageError, match="not installed") as caught:
        Telemetry(QUICK)
    assert (
        caught.value.remedy
        == "install the extra telemetry from where you have Tercet: pip install './tercet[telemetry]' beside a clone"
    )
    assert not Telemetry(TelemetrySettings(log=Path("-"))).settings.needs_library


def test_a_port_or_a_file_that_cannot_be_had_is_told(workshop: Workshop, tmp_path: Path) -> None:
    """Before any run: the port is taken, the folder is not there."""
    with socket.create_server(("127.0.0.1", 0)) as taken:

        async def serve() -> None:
            async with Telemetry(TelemetrySettings(prometheus_port=taken.getsockname()[1])):
                pass

        with pytest.raises(UsageError) as caught:
            workshop.run(serve())
        assert caught.value.code == "port_unavailable"

    async def write() -> None:
        async with Telemetry(TelemetrySettings(log=tmp_path / "none" / "x.jsonl")):
            pass

    with pytest.raises(UsageError) as caught:
        Workshop().run(write())
    assert caught.value.code == "log_unwritable"


def test_telemetry_that_does_not_open_whole_leaves_nothing_running(
    workshop: Workshop, tmp_path: Path
) -> None:
    """Where the port is taken, the log that was opened before is closed again."""
    before = set(threading.enumerate())
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        settings = TelemetrySettings(log=tmp_path / "log", prometheus_port=taken.getsockname()[1])

        async def main() -> None:
            with pytest.raises(UsageError):
                await Telemetry(settings).__aenter__()

        workshop.run(main())
    assert set(threading.enumerate()) <= before
