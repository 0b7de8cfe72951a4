"""Calls that may have happened: they are never refused, forgotten or repeated blindly, and no run ends before it is known."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tercet.contracts.errors import UsageError
from tercet.core import codec
from tercet.core import events as e
from tercet.core.state import OpenGate
from tercet.executor.breaker import CircuitBreaker
from tercet.journal.protocol import Append
from tercet.runtime import Runtime
from tercet.tools import ToolContext
from tercet.tools.tool import Absent, Happened

from .workshop import ADA, ASK, BOB, Workshop, events, names, plan, step

REFUND = {"type": "object", "required": ["refund"]}


async def lost(_: ToolContext, params: dict[str, Any]) -> Any:
    """A tool whose answer never arrives."""
    raise ConnectionError("lost")


async def gates(runtime: Runtime, session: str) -> dict[str, OpenGate]:
    """The open gates of a session by the step that they are about."""
    return {gate.step: gate for gate in (await runtime.state(session)).gates.values()}


def networked(workshop: Workshop) -> None:
    """A tool that nobody calls without a person's word."""
    workshop.tool("net.it", mode="network", authority=(), no_compensation="it only tells")


@pytest.mark.parametrize("found", [{"id": "rf_1"}, {"refund": object()}], ids=["schema", "no JSON"])
async def test_a_look_up_that_finds_something_unusable_has_found_it(workshop: Workshop, found: Any) -> None:
    """What was found happened, so the step is done and failed, and no resume calls the tool again."""

    async def look_up(context: ToolContext) -> Any:
        return Happened(found)

    workshop.tool("do.it", lost, reconcile=look_up, result=REFUND)

    async def main() -> None:
        async with workshop.runtime(workshop.pack()) as runtime:
            result = await runtime.run(ASK, plan=plan(step("a")), actor=ADA)
            assert result.status == "paused"
            assert "step a is done, but failed" in result.reason
            found = await events(runtime.journal, result.session_id)
            [complete] = [event for event in found if isinstance(event, e.Complete)]
            assert (complete.reconciled, bool(complete.error)) == (True, True)
            state = await runtime.state(result.session_id)
            assert (state.steps["a"].status, state.steps["a"].outcome) == ("failed", "done")
            assert (await runtime.resume(result.session_id)).status == "paused"

    await main()
    assert workshop.calls == [("a", 1)]


async def test_the_time_to_settle_counts_from_the_end_of_the_attempt(workshop: Workshop) -> None:
    """An effect at the end of a long call, which shows up some seconds later, is waited for and not made twice."""
    effects: list[int] = []

    async def late(_: ToolContext, params: dict[str, Any]) -> Any:
        await workshop.clock.sleep(29_900)
        effects.append(workshop.clock.now())
        await workshop.clock.sleep(1_000)

    async def look_up(context: ToolContext) -> Any:
        return Happened({"x": 1}) if effects and workshop.clock.now() >= effects[0] + 5_000 else Absent()

    workshop.tool("do.it", late, reconcile=look_up, settle_after_ms=6_000, timeout_ms=30_000)

    async with workshop.runtime(workshop.pack()) as runtime:
        assert (await runtime.run(ASK, plan=plan(step("a")), actor=ADA)).status == "completed"
    assert (len(effects), workshop.calls) == (1, [("a", 1)])


@pytest.mark.parametrize(
    ("budget", "calls"),
    [({"max_step_retries": 20, "max_retries": 20}, CircuitBreaker().threshold), ({"tool_calls": 2}, 2)],
    ids=["open circuit", "spent budget"],
)
@pytest.mark.parametrize("optional", [False, True])
async def test_a_call_that_may_have_happened_is_not_refused(
    workshop: Workshop, budget: dict[str, int], calls: int, optional: bool
) -> None:
    """Where it cannot be run again, a person is asked, and the run goes on with the answer."""
    workshop.tool("do.it", lost, idempotent=True)
    alone = plan(step("a", optional=optional), outputs={} if optional else {"x": {"$from": "a#/x"}})

    async with workshop.runtime(workshop.pack(budget=budget)) as runtime:
        result = await runtime.run(ASK, plan=alone, actor=ADA)
        assert (result.status, len(workshop.calls)) == ("awaiting_gate", calls)
        assert result.gate is not None
        assert (result.gate.kind, result.gate.step) == ("reconcile", "a")
        told = names(await events(runtime.journal, result.session_id))
        assert not {"step_refused", "step_skipped"} & set(told)
        await runtime.settle(result.gate.id, happened=True, value={"x": 7}, actor=BOB)
        result = await runtime.resume(result.session_id)
        assert (result.status, result.outputs) == ("completed", {} if optional else {"x": 7})
    assert len(workshop.calls) == calls
    assert len(set(workshop.keys)) == 1


@pytest.mark.parametrize("happened", [True, False])
async def test_a_denial_leaves_the_other_question_open(workshop: Workshop, url: str, happened: bool) -> None:
    """A run that was denied ends only when it is known whether its lost call happened, and calls nothing any more."""
    workshop.tool("do.it", lost)
    networked(workshop)
    two = plan(step("a"), step("b", "net.it"))

    async with workshop.journal(url) as journal, workshop.runtime(workshop.pack(), journal) as runtime:
        session = (await runtime.run(ASK, plan=two, actor=ADA)).session_id
        asked = await gates(runtime, session)
        assert {name: gate.kind for name, gate in asked.items()} == {"a": "reconcile", "b": "approval"}
        await runtime.deny(asked["b"].id, actor=BOB, note="no")
        assert (await runtime.resume(session)).status == "awaiting_gate"
        assert await gates(runtime, session) == {"a": asked["a"]}
        await runtime.settle(asked["a"].id, happened=happened, value=1 if happened else None, actor=BOB)
        result = await runtime.resume(session)
        assert (result.status, result.reason) == ("rejected", "bob denied b: no")
        state = await runtime.state(session)
        assert state.steps["a"].outcome == ("done" if happened else "not_done")
    assert workshop.calls == [("a", 1)]


async def test_a_call_that_is_lost_after_a_denial_is_asked_about(workshop: Workshop) -> None:
    """A call in flight whose outcome stays unknown keeps the denied run from ending until a person knows."""

    async def slow(context: ToolContext, params: dict[str, Any]) -> Any:
        await workshop.clock.sleep(5_000)
        raise ConnectionError("lost")

    workshop.tool("do.it", slow, idempotent=True)
    networked(workshop)

    async with workshop.runtime(workshop.pack()) as runtime:
        running = asyncio.ensure_future(
            runtime.run(ASK, plan=plan(step("a"), step("b", "net.it")), actor=ADA)
        )
        await workshop.clock.sleep(1_000)
        [row] = await runtime.sessions()
        asked = await gates(runtime, row.session_id)
        await runtime.deny(asked["b"].id, actor=BOB)
        result = await running
        assert result.status == "awaiting_gate"
        assert result.gate is not None
        assert (result.gate.kind, result.gate.step) == ("reconcile", "a")
        await runtime.settle(result.gate.id, happened=False, actor=BOB)
        assert (await runtime.resume(result.session_id)).status == "rejected"
    assert workshop.calls == [("a", 1)]


@pytest.mark.req("R157")
async def test_giving_up_leaves_the_question_open(workshop: Workshop, url: str) -> None:
    """A session that gives up while a lost call is asked about ends when it is answered, and not before."""
    workshop.is_forged = True
    workshop.tool("do.it", lost)

    async with workshop.journal(url) as journal, workshop.runtime(workshop.pack(), journal) as runtime:
        result = await runtime.run(ASK, plan=plan(step("a")), actor=ADA)
        state, now = await runtime.state(result.session_id), workshop.clock.now()
        lease = await journal.acquire("default", result.session_id, owner="other", now_ms=now, ttl_ms=1_000)
        given_up = e.GivenUp(at=now, reason="iteration_budget_exceeded", iterations=50)
        await journal.append(
            Append(
                tenant="default",
                stream=result.session_id,
                expected=state.position,
                epoch=lease.epoch,
                events=(codec.encode(given_up),),
            )
        )
        await journal.release(lease)
        result = await runtime.resume(result.session_id)
        assert result.status == "awaiting_gate"
        assert result.gate is not None
        assert result.gate.kind == "reconcile"
        await runtime.settle(result.gate.id, happened=True, value=1, actor=BOB)
        result = await runtime.resume(result.session_id)
        assert (result.status, result.reason) == ("failed", "iteration_budget_exceeded")
    assert workshop.calls == [("a", 1)]


async def test_nobody_settles_a_call_with_what_it_cannot_have_brought(workshop: Workshop) -> None:
    """A value that breaks the tool's result schema is refused, the question stays, and a fitting value is taken."""
    workshop.tool("do.it", lost, result=REFUND)
    bound = plan(step("a"), outputs={"x": {"$from": "a#/refund"}})

    async with workshop.runtime(workshop.pack()) as runtime:
        result = await runtime.run(ASK, plan=bound, actor=ADA)
        assert result.gate is not None
        before = await runtime.state(result.session_id)
        for value in (None, 1, {"id": "rf_1"}):
            with pytest.raises(UsageError) as caught:
                await runtime.settle(result.gate.id, happened=True, value=value, actor=BOB)
            assert caught.value.code == "wrong_value"
        assert await runtime.state(result.session_id) == before
        await runtime.settle(result.gate.id, happened=True, value={"refund": "rf_1"}, actor=BOB)
        result = await runtime.resume(result.session_id)
        assert (result.status, result.outputs) == ("completed", {"x": "rf_1"})


@pytest.mark.parametrize("happened", [True, False])
async def test_a_call_that_would_be_repeated_is_asked_about_at_the_end(
    workshop: Workshop, happened: bool
) -> None:
    """Cancelled while a lost call waits to be called again, a run asks whether it happened before it ends."""
    workshop.tool("do.it", lost, idempotent=True)
    pack = workshop.pack(budget={"max_step_retries": 9})

    async with workshop.runtime(pack) as runtime:
        running = asyncio.ensure_future(runtime.run(ASK, plan=plan(step("a")), actor=ADA))
        await workshop.clock.sleep(10)
        [row] = await runtime.sessions()
        waiting = (await runtime.state(row.session_id)).steps["a"]
        assert (waiting.status, waiting.outcome) == ("pending", "unknown")
        await runtime.cancel(row.session_id, actor=ADA)
        result = await running
        assert result.gate is not None
        assert (result.status, result.gate.kind) == ("awaiting_gate", "reconcile")
        await runtime.settle(result.gate.id, happened=happened, value=1 if happened else None, actor=BOB)
        assert (await runtime.resume(row.session_id)).status == "cancelled"
    assert workshop.calls == [("a", 1), ("a", 2)]
