"""What a collector is sent: one connected tree for each run, whoever carried it, and never a value."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from engine.workshop import ADA, ASK, BOB, Death, Workshop, plan, step
from tercet.critics import Decision, Engine
from tercet.engine.result import RunResult
from tercet.observe import Sampling, Telemetry, TelemetrySettings
from tercet.tools import ToolContext, tool

from .receiver import Receiver, attributes_of
from .shop import PLAN, pack_of

ALL = TelemetrySettings(otlp=True, sampling=Sampling(1.0), flush_ms=20_000)
PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


async def run_to_gate(workshop: Workshop, file: str, settings: TelemetrySettings, **more: Any) -> RunResult:
    """One process, from the request to the gate."""
    pack = pack_of(workshop)
    async with (
        Telemetry(settings) as telemetry,
        workshop.journal(file) as journal,
        workshop.runtime(pack, journal, observers=[telemetry]) as runtime,
    ):
        return await runtime.run(ASK, plan=PLAN, actor=ADA, **more)


async def run_on(workshop: Workshop, file: str, session: str, settings: TelemetrySettings) -> RunResult:
    """Another process, which approves and goes on."""
    workshop.tools.clear()
    pack = pack_of(workshop)
    async with (
        Telemetry(settings) as telemetry,
        workshop.journal(file) as journal,
        workshop.runtime(pack, journal, observers=[telemetry]) as runtime,
    ):
        state = await runtime.state(session)
        for gate in state.gates:
            await runtime.approve(gate, actor=BOB)
        return await runtime.resume(session)


def demand_tree(receiver: Receiver, *, parent: bytes = b"") -> None:
    """Every span but one has its parent here, ids are unique, and no child is outside of its parent's time."""
    spans = {span.span_id: span for span in receiver.spans}
    assert len(spans) == len(receiver.spans)
    assert len({span.trace_id for span in receiver.spans}) == 1
    roots = [span for span in receiver.spans if span.parent_span_id not in spans]
    assert [root.name for root in roots] == ["run work"]
    assert roots[0].parent_span_id == parent
    for span in receiver.spans:
        above = spans.get(span.parent_span_id)
        if above is not None:
            assert above.start_time_unix_nano <= span.start_time_unix_nano, (above.name, span.name)
            assert span.end_time_unix_nano <= above.end_time_unix_nano, (above.name, span.name)


PHASES = ["PLAN", "DECOMPOSE", "RETRIEVE", "REVIEW", "ACT", "VERIFY", "COMMIT"]


@pytest.mark.req("R319")
def test_a_run_with_a_gate_and_a_retry_is_one_tree_also_across_processes(
    workshop: Workshop, receiver: Receiver, tmp_path: Path
) -> None:
    """The process ends at the gate, another one goes on, and together they sent one tree with every phase in it."""
    file = f"sqlite:///{tmp_path / 'runs.db'}"
    waiting = workshop.run(run_to_gate(workshop, file, ALL))
    assert waiting.status == "awaiting_gate"
    sent_before = {span.span_id for span in receiver.spans}
    assert {"PLAN", "REVIEW", "step knead"} <= {span.name for span in receiver.spans}
    done = workshop.run(run_on(workshop, file, waiting.session_id, ALL))
    assert done.status == "completed"
    demand_tree(receiver)
    assert sent_before < {span.span_id for span in receiver.spans}
    assert [span.name for phase in PHASES for span in receiver.named(phase)] == PHASES
    tries = receiver.named("execute_tool shop.knead")
    assert [attributes_of(span)["tercet.outcome"] for span in tries] == ["not_done", "done"]
    assert {span.parent_span_id for span in tries} == {receiver.named("step knead")[0].span_id}
    assert [attributes_of(span).get("error.type") for span in tries] == ["cold", None]
    (gate,) = receiver.named("gate approval")
    assert gate.parent_span_id == receiver.named("step pay")[0].span_id
    assert attributes_of(gate)["tercet.gate.answer"] == "approve"
    assert receiver.resources[0]["service.name"] == "tercet"


@pytest.mark.req("R319")
def test_a_run_whose_process_died_is_one_tree_with_all_that_it_did(
    workshop: Workshop, receiver: Receiver, tmp_path: Path
) -> None:
    """Nobody could export what the dead process did; whoever carries the run on exports it."""
    file = f"sqlite:///{tmp_path / 'runs.db'}"

    async def die() -> None:
        death = Death("before_call", 2)
        pack = pack_of(workshop)
        async with workshop.journal(file) as journal, workshop.runtime(pack, journal, crash=death) as runtime:
            assert await death.of(runtime.run(ASK, plan=PLAN, actor=ADA)) is None

    workshop.run(die())
    waiting = workshop.run(run_on(workshop, file, "ses_0001", ALL))
    assert waiting.status == "awaiting_gate"
    assert workshop.run(run_on(workshop, file, "ses_0001", ALL)).status == "completed"
    demand_tree(receiver)
    assert receiver.named("execute_tool shop.look")
    errors = [attributes_of(span).get("error.type") for span in receiver.named("execute_tool shop.knead")]
    assert errors[0] == "interrupted"
    resumed = [event.name for span in receiver.named("run work") for event in span.events]
    assert resumed.count("session_resumed") == 2


def test_a_run_is_part_of_the_trace_of_whoever_asked(workshop: Workshop, receiver: Receiver) -> None:
    """With a traceparent the run's span hangs below the caller's, and tools are told the span of their own call."""
    told: list[str] = []

    async def main() -> None:
        pack = pack_of(workshop)

        async def look(context: Any, params: Any) -> Any:
            told.append(context.traceparent)
            return params

        workshop.tools[0] = workshop.tool("shop.look", look, mode="read_only")
        workshop.tools.pop()
        pack = workshop.pack(gates=pack.gates)
        async with Telemetry(ALL) as telemetry, workshop.runtime(pack, observers=[telemetry]) as runtime:
            first = await runtime.run(ASK, plan=PLAN, actor=ADA, traceparent=PARENT)
            await runtime.approve(first.gate.id if first.gate else "", actor=BOB)
            assert (await runtime.resume(first.session_id)).status == "completed"

    workshop.run(main())
    demand_tree(receiver, parent=bytes.fromhex("00f067aa0ba902b7"))
    (look,) = receiver.named("execute_tool shop.look")
    assert told == [f"00-{look.trace_id.hex()}-{look.span_id.hex()}-01"]
    assert look.trace_id.hex() == "4bf92f3577b34da6a3ce929d0e0e4736"


def test_a_run_inside_of_a_run_is_part_of_its_trace(workshop: Workshop, receiver: Receiver) -> None:
    """A tool that starts a run hands its context on: the inner run hangs below the call that started it."""
    workshop.tool("shop.look", mode="read_only")

    async def main() -> None:
        async def nest(context: ToolContext, params: dict[str, Any]) -> Any:
            inner = await runtime.run(ASK, plan=plan(step("look", "shop.look")), actor=ADA, parent=context)
            return {"status": inner.status, **params}

        workshop.tool("shop.nest", nest, mode="read_only")
        async with (
            Telemetry(ALL) as telemetry,
            workshop.runtime(workshop.pack(), observers=[telemetry]) as runtime,
        ):
            outer = await runtime.run(ASK, plan=plan(step("nest", "shop.nest")), actor=ADA)
            assert outer.status == "completed"
        assert telemetry.figures.lanes == {"completed": 1}

    workshop.run(main())
    demand_tree_of_runs(receiver, 2)
    (call,) = receiver.named("execute_tool shop.nest")
    inner = [span for span in receiver.named("run work") if span.parent_span_id]
    assert [span.parent_span_id for span in inner] == [call.span_id]


def demand_tree_of_runs(receiver: Receiver, number: int) -> None:
    """So many runs in one trace with one root."""
    spans = {span.span_id for span in receiver.spans}
    assert len(receiver.named("run work")) == number
    assert len({span.trace_id for span in receiver.spans}) == 1
    assert len([span for span in receiver.spans if span.parent_span_id not in spans]) == 1


@dataclass
class Memory:
    """What the clerk knows."""

    time: str = ""
    metadata: dict[str, Any] = field(default_factory=dict[str, Any])


@tool("clock.tell", mode="read_only")
def tell_time() -> dict[str, str]:
    """Tells the time."""
    return {"time": "noon"}


class Clerk:
    """Looks at the clock once, and says what it saw."""

    tools = (tell_time,)
    system_prompt = ""

    def init_state(self, task: Any) -> Memory:
        """Begin with nothing."""
        return Memory()

    def decide(self, state: Memory) -> Decision:
        """Look, then answer."""
        return Decision.final(state.time) if state.time else Decision.act("clock.tell")

    def reduce(self, state: Memory, decision: Decision, results: Any) -> None:
        """Remember the time."""
        for result in results:
            state.time = result["time"]


def test_an_agent_that_decides_step_by_step_is_traced_like_any_run(receiver: Receiver) -> None:
    """The Engine takes observers as a runtime does: its turns are phases of one tree."""

    async def main() -> None:
        async with Telemetry(ALL) as telemetry:
            result = await Engine(Clerk(), observers=[telemetry]).run("what time is it?")
            assert result.status == "completed", result

    asyncio.run(main())
    spans = {span.span_id for span in receiver.spans}
    assert len([span for span in receiver.spans if span.parent_span_id not in spans]) == 1
    assert receiver.named("execute_tool clock.tell")
    assert len(receiver.named("PLAN")) == 2
