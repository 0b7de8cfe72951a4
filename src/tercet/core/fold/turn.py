"""What becomes of one turn of an agent that decides step by step. Each function folds the event of its name."""

from __future__ import annotations

from tercet.contracts.loop import Phase
from tercet.core import events as e
from tercet.core.budget import add
from tercet.core.fold.base import changed, demand
from tercet.core.fold.session import ending, escalated
from tercet.core.state import Learned, State

P = Phase


def turn_judged(state: State, event: e.TurnJudged) -> State:
    is_due = state.is_turn_open and event.turn == state.turns + 1
    demand(state, event, is_met=is_due, why=f"turn {event.turn} is not open")
    demand(state, event, is_met=not state.frontier or state.phase is P.PLAN, why="a step has not ended")
    turned = changed(state, turns=event.turn, learned=(*state.learned, *_learned(state, event)))
    match event.action:
        case "continue":
            return changed(turned, phase=P.PLAN, feedback=())
        case "retry":
            return changed(
                turned,
                phase=P.PLAN,
                feedback=(event.reason,),
                used=add(state.used, retries=1),
                repeats=_uncounted(state),
            )
        case "replan":
            return changed(turned, phase=P.PLAN, feedback=(event.reason,), used=add(state.used, replans=1))
        case "final":
            demand(state, event, is_met=state.phase is P.ACT, why="its decision was refused")
            return turned
        case "limit":
            return ending(turned, "failed", event.reason)
        case "stop" | "escalate":
            return escalated(turned, P.PLAN, event.reason)


def _uncounted(state: State) -> dict[str, int]:
    """What the loop guard counts, without the steps that a critic discards: those belong to the retry budget."""
    discarded = [step.same for step in state.steps.values() if step.same]
    repeats = dict(state.repeats)
    for same in discarded:
        repeats[same] -= 1
    return repeats


def _learned(state: State, event: e.TurnJudged) -> tuple[Learned, ...]:
    tools = {step["id"]: step.get("tool") for step in state.plan.get("steps", ())}
    return tuple(
        Learned(step=name, tool=tools[name], value=state.steps[name].value, blob=state.steps[name].blob)
        for name in event.trusted
        if tools.get(name) and state.steps[name].status == "done"
    )
