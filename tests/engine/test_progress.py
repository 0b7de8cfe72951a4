"""How far a session is: progress envelopes while it moves, and its row with heartbeat and checkpoints."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tercet.contracts.errors import UsageError
from tercet.contracts.gate import Gate
from tercet.contracts.runs.session import ProgressEnvelope
from tercet.core.transcript import timestamp
from tercet.engine.progress import envelope
from tercet.tools import ToolContext

from .test_limits import taking
from .workshop import ADA, ASK, BOB, Workshop, plan, step

BOSS = Gate(name="BOSS", roles=("boss",))
BUDGET = {"tokens": 1_000, "tool_calls": 10, "cost_microcents": 5_000_000, "wall_clock_ms": 60_000}
THREE = plan(
    step("a", estimated_tokens=100), step("b", depends_on=("a",)), step("w", "wipe.it", depends_on=("b",))
)


def tools(workshop: Workshop) -> None:
    """A tool that takes a second and costs a cent, and one that waits for a person."""
    workshop.tool("do.it", taking(1_000), cost_microcents=1_000_000, no_compensation="none")
    workshop.tool("wipe.it", mode="destructive", gates=("BOSS",), authority=(), no_compensation="gone")


@pytest.mark.req("R261")
def test_an_envelope_says_how_far_a_session_is(workshop: Workshop, url: str) -> None:
    """Steps done and to do, the one that is on, what is left of each budget to the unit, and the gate that waits."""
    tools(workshop)
    seen: list[ProgressEnvelope] = []
    pack = workshop.pack(gates=(BOSS,), budget=BUDGET)

    async def main() -> None:
        async with (
            workshop.journal(url) as journal,
            workshop.runtime(pack, journal, progress=seen.append) as runtime,
        ):
            result = await runtime.run(ASK, plan=THREE, actor=ADA)
            assert result.gate is not None
            last = seen[-1]
            assert (last.completed_step_count, last.total_step_count, last.current_step) == (2, 3, "w")
            assert last.awaiting_gate == result.gate.id
            left = last.budget_remaining.model_dump()
            assert left == {"tokens": 900, "tool_calls": 8, "cost_cents": 3.0, "wall_clock_ms": 58_000}
            assert last.emitted_at == timestamp(workshop.clock.now())
            await workshop.clock.sleep(5_000)  # waiting costs no wall clock
            state = await runtime.state(result.session_id)
            assert envelope(state, workshop.clock.now()).budget_remaining == last.budget_remaining
            await runtime.extend(result.session_id, {"tokens": 50}, actor=BOB)
            state = await runtime.state(result.session_id)
            assert envelope(state, workshop.clock.now()).budget_remaining.tokens == 950
            await runtime.approve(result.gate.id, actor=BOB)
            await runtime.resume(result.session_id)
            over = seen[-1]
            assert (over.completed_step_count, over.current_step, over.awaiting_gate) == (3, None, None)
            counts = [each.completed_step_count for each in seen]
            assert counts == sorted(counts)
            assert len({each.progress_id for each in seen}) == len(seen)

    workshop.run(main())


@pytest.mark.req("R261")
def test_what_has_no_limit_has_nothing_left_to_count(workshop: Workshop) -> None:
    """Where a budget sets no limit, the envelope says so rather than making up a number."""
    workshop.tool("do.it")

    async def main() -> None:
        async with workshop.runtime(workshop.pack()) as runtime:
            result = await runtime.run(ASK, plan=plan(step("a")), actor=ADA)
            [last] = [each async for each in runtime.watch(result.session_id)]
            assert set(last.budget_remaining.model_dump().values()) == {None}

    workshop.run(main())


@pytest.mark.req("R261")
def test_a_session_is_watched_from_another_process(workshop: Workshop, url: str) -> None:
    """Whoever watches sees each step end, waits through a gate, and hears the end, without the pack's help."""
    tools(workshop)
    pack = workshop.pack(gates=(BOSS,), budget=BUDGET)

    async def main() -> None:
        async with (
            workshop.journal(url) as journal,
            workshop.runtime(pack, journal) as runtime,
            workshop.runtime(workshop.pack(name="other"), journal) as spectator,
        ):
            running = asyncio.ensure_future(runtime.run(ASK, plan=THREE, actor=ADA))
            await workshop.clock.sleep(100)
            [row] = await spectator.sessions()

            async def watch() -> list[ProgressEnvelope]:
                return [each async for each in spectator.watch(row.session_id)]

            watching = asyncio.ensure_future(watch())
            result = await running
            await workshop.clock.sleep(60_000)
            assert result.gate is not None
            assert not watching.done()
            await runtime.approve(result.gate.id, actor=BOB)
            await runtime.resume(result.session_id)
            seen = await watching
            assert {each.completed_step_count for each in seen} == {0, 1, 2, 3}
            assert result.gate.id in {each.awaiting_gate for each in seen}
            assert seen[-1].current_step is None

    workshop.run(main())


def test_a_spectator_who_fails_does_not_fail_the_run(workshop: Workshop) -> None:
    """A progress callable that raises is signalled, and the run goes on."""
    workshop.tool("do.it")
    signals: list[str] = []

    def fail(_: ProgressEnvelope) -> None:
        raise RuntimeError("no screen")

    def signal(name: str, _: dict[str, Any]) -> None:
        signals.append(name)

    async def main() -> None:
        async with workshop.runtime(workshop.pack(), progress=fail, signal=signal) as runtime:
            assert (await runtime.run(ASK, plan=plan(step("a")), actor=ADA)).status == "completed"
            with pytest.raises(UsageError) as caught:
                [_ async for _ in runtime.watch("ses_none")]
            assert caught.value.code == "unknown_session"

    workshop.run(main())
    assert "progress_failed" in signals


@pytest.mark.req("R249", "R250", "R257")
def test_a_session_has_its_published_row(workshop: Workshop, url: str) -> None:
    """Pins, intent, owner, heartbeat with the time of the last verdict, the next step, and a checkpoint a verdict."""
    tools(workshop)
    pack = workshop.pack(
        gates=(BOSS,), budget=BUDGET, session={"heartbeat_interval_ms": 7_000, "ttl_ms": 100_000}
    )

    async def main() -> None:
        async with workshop.journal(url) as journal, workshop.runtime(pack, journal) as runtime:
            began = workshop.clock.now()
            result = await runtime.run(ASK, plan=THREE, actor=ADA)
            row = await runtime.session(result.session_id)
            assert (row.session_id, row.tenant_id) == (result.session_id, "default")
            assert (row.pack_pin, row.intent, row.owner_actor) == ("workshop@1.0.0", "work", "ada")
            assert (row.status, row.next_step) == ("awaiting_gate", "w")
            assert row.started_at == timestamp(began)
            assert (row.heartbeat.interval_ms, row.heartbeat.ttl_ms) == (7_000, 100_000)
            assert row.heartbeat.last_seen == timestamp(began + 2_000)
            steps = [(each.after_step, each.critic_verdict) for each in row.checkpoints]
            assert steps == [("", "ok"), ("a", "accept"), ("b", "accept")]
            saved = [each.saved_at for each in row.checkpoints]
            assert saved == [timestamp(began), timestamp(began + 1_000), timestamp(began + 2_000)]
            stored = await journal.checkpoints("default", result.session_id)
            assert {each.checkpoint_id for each in row.checkpoints} <= {each.hash for each in stored}
            await runtime.deny(result.gate.id if result.gate else "", actor=BOB)
            await runtime.resume(result.session_id)
            row = await runtime.session(result.session_id)
            assert row.next_step is None

    workshop.run(main())


@pytest.mark.req("R261")
def test_an_envelope_names_the_phase_in_which_outputs_are_judged(workshop: Workshop) -> None:
    """No step is on then; which of the three phases it is stands in its place."""

    async def draft(_: ToolContext, __: dict[str, Any]) -> Any:
        return {"letter": 7}

    workshop.tool("do.it", draft, mode="read_only")
    schema = {"type": "object", "properties": {"letter": {"type": "string"}}}
    decision = {"outputs_schema": schema, "required_outputs": ("letter",), "quality": {}}
    pack = workshop.pack(decision=decision)
    seen: list[ProgressEnvelope] = []

    async def main() -> None:
        async with workshop.runtime(pack, progress=seen.append) as runtime:
            await runtime.run(ASK, plan=plan(step("a"), declared_outputs=("letter",)), actor=ADA)

    workshop.run(main())
    steps = [each.current_step for each in seen]
    assert [name for name in dict.fromkeys(steps) if name in ("VERIFY", "CRITIQUE", "REPAIR")] == [
        "VERIFY",
        "REPAIR",
        "CRITIQUE",
    ]
