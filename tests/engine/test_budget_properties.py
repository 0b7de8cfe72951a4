"""Budgets under any interleaving: never negative, never overshot, and the same after every death of a process."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tercet.contracts.errors import NotDone
from tercet.core import events as e
from tercet.core.fold.apply import fold_event
from tercet.core.state import State, Used
from tercet.tools import ToolContext

from .crowd import SCENES, UNDO, Played, Scene, play
from .workshop import ADA, ASK, BOB, Workshop, events, plan, step

QUICK = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def spent(used: Used) -> dict[str, int]:
    """What is used up, reserved and kept back, by dimension."""
    return {
        "tool_calls": used.tool_calls + used.reserved_calls + used.held_calls,
        "tokens": used.tokens + used.reserved_tokens,
        "cost_microcents": used.cost + used.reserved_cost + used.held_cost,
    }


def folded(history: list[e.Event]) -> list[State]:
    """The state after each event."""
    states = [State()]
    for event in history:
        states.append(fold_event(states[-1], event))
    return states[1:]


def within(state: State, limits: dict[str, int]) -> None:
    """Nothing is negative, and nothing is over what was given."""
    assert all(amount >= 0 for amount in msgspec.structs.asdict(state.used).values())
    for name, amount in spent(state.used).items():
        if name in limits:
            assert amount <= limits[name] + state.extended.get(name, 0), name


def counted(played: Played) -> dict[str, int]:
    """What was really used, by the events alone: calls begun, and the tokens and money of those that happened."""
    intents = [each for each in played.history if isinstance(each, e.Intent)]
    gates = {each.gate: each for each in played.history if isinstance(each, e.GateOpened)}
    latest: dict[str, e.Intent] = {}
    done: list[e.Intent] = []
    for event in played.history:
        match event:
            case e.Intent():
                latest[event.step] = event
            case e.Complete():
                done.append(latest[event.step])
            case e.GateAnswered(answer="happened"):
                done.append(latest[gates[event.gate].step])
            case _:
                pass
    return {
        "tool_calls": sum(bool(each.tool) for each in intents),
        "tokens": sum(each.tokens for each in done),
        "cost_microcents": sum(each.cost for each in done),
    }


@pytest.mark.req("R221")
@QUICK
@given(SCENES)
def test_no_budget_is_overshot(scene: Scene) -> None:
    """At every event what is used, reserved and kept back is within the limits, and in the end it is what was used."""
    played = play(scene)
    states = folded(played.history)
    for state in states:
        within(state, scene.budget)
    if states:
        used = states[-1].used
        really = counted(played)
        assert used.tool_calls == really["tool_calls"]
        assert (used.tokens, used.cost) == (really["tokens"], really["cost_microcents"])
        assert used.reserved_calls == used.reserved_tokens == used.reserved_cost == 0


@QUICK
@given(SCENES)
def test_the_way_back_is_always_paid_for(scene: Scene) -> None:
    """What takes an effect back is never refused its first attempt for want of budget: that was kept for it."""
    played = play(scene)
    begun = {event.step for event in played.history if isinstance(event, e.Intent)}
    for event in played.history:
        if isinstance(event, e.StepRefused) and event.step.startswith("~"):
            assert event.code != "budget_exceeded" or event.step in begun


SIDE = st.sampled_from(["good", "lost", "refuses"])


@pytest.mark.req("R254", "R260")
@settings(max_examples=80, deadline=None)
@given(
    st.lists(st.tuples(SIDE, st.sampled_from([0, 10, 300]), st.integers(1, 4)), min_size=2, max_size=6),
    st.integers(2, 12),
    st.integers(8, 60),
    st.integers(1, 4),
)
def test_concurrent_steps_share_one_budget(
    moods: list[tuple[str, int, int]], calls: int, cost: int, slots: int
) -> None:
    """Steps side by side, with ways back to keep money for, stay within the budget in every order of their ends."""
    workshop = Workshop()

    async def behave(context: ToolContext, _: dict[str, Any]) -> Any:
        mood, takes, times = moods[int(context.step_id.strip("~s"))]
        await workshop.clock.sleep(takes)
        if context.attempt <= times and mood == "lost":
            raise ConnectionError("lost")
        if context.attempt <= times and mood == "refuses":
            raise NotDone("not now")
        return {"n": 1}

    workshop.tool("undo.it", cost_microcents=4, idempotent=True)
    workshop.tool("do.it", behave, cost_microcents=3, idempotent=True, **UNDO)
    budget = {"tool_calls": calls, "cost_microcents": cost, "max_parallel": slots}
    pack = workshop.pack(budget=budget, on_failure="compensate")
    steps = [step(f"s{number}", params={"id": f"i{number}"}) for number in range(len(moods))]

    async def main() -> list[e.Event]:
        async with workshop.runtime(pack) as runtime:
            result = await runtime.run(ASK, plan=plan(*steps), actor=ADA)
            for _ in range(40):
                if result.status in ("completed", "failed"):
                    break
                assert result.gate is not None
                if result.gate.kind == "escalation":
                    await runtime.decide(result.gate.id, "abandon", actor=BOB)
                else:
                    await runtime.settle(result.gate.id, happened=True, value={"n": 1}, actor=BOB)
                result = await runtime.resume(result.session_id)
            assert result.status in ("completed", "failed")
            return await events(runtime.journal, result.session_id)

    history = workshop.run(main())
    states = folded(history)
    for state in states:
        within(state, budget)
    undone = {each.step for each in history if isinstance(each, e.Complete) and each.step.startswith("~")}
    assert undone == ({f"~{name}" for name in states[-1].done} if states[-1].status == "failed" else set())


async def test_another_attempt_at_the_way_back_needs_a_budget_too(workshop: Workshop) -> None:
    """A compensation that fails is tried again only while calls are left; what it could not do is left to a person."""

    async def never(_: ToolContext, params: dict[str, Any]) -> Any:
        raise NotDone("not now")

    workshop.tool("undo.it", never)
    workshop.tool("do.it", **UNDO)
    workshop.tool("fail.it", never)
    pack = workshop.pack(budget={"tool_calls": 6, "max_step_retries": 3}, on_failure="compensate")
    both = plan(step("a", params={"id": "i"}), step("f", "fail.it", depends_on=("a",)))

    async with workshop.runtime(pack) as runtime:
        result = await runtime.run(ASK, plan=both, actor=ADA)
        assert result.gate is not None
        await runtime.decide(result.gate.id, "abandon", actor=BOB)
        assert (await runtime.resume(result.session_id)).status == "failed"
        state = await runtime.state(result.session_id)
        assert (state.used.tool_calls, state.steps["~a"].status) == (6, "skipped")
    assert workshop.calls == [("a", 1), *(("f", attempt) for attempt in (1, 2, 3, 4)), ("~a", 1)]
