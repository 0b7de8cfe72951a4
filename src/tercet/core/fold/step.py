"""What happens to steps: intended, completed, aborted, refused, retried, settled, skipped, judged.

Each function folds the event of its name.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import msgspec

from tercet.contracts.canonical import hash_bytes
from tercet.contracts.loop import Phase
from tercet.contracts.shape import as_object
from tercet.core import events as e
from tercet.core.fold.base import (
    INTERRUPTED,
    NOT_MADE,
    ROLE_LOST,
    STOPPED,
    WITHHELD,
    changed,
    demand,
    more,
    step_of,
    with_step,
)
from tercet.core.fold.session import escalated
from tercet.core.state import UNDO, State, StepState, Used

P = Phase


def repeats_checked(state: State, event: e.RepeatsChecked) -> State:
    step = step_of(state, event.step, event)
    demand(
        state,
        event,
        is_met=step.status == "pending" and not step.unmet and not step.is_unsettled,
        why=f"step {event.step} is {step.status}",
    )
    steps = with_step(state, event.step, checked=event.key, earlier_calls=event.found)
    return changed(state, steps=steps)


def intent(state: State, event: e.Intent) -> State:
    step = step_of(state, event.step, event)
    demand(
        state,
        event,
        is_met=step.status == "pending" and not step.unmet,
        why=f"step {event.step} is {step.status}",
    )
    demand(state, event, is_met=event.attempt == step.attempt + 1, why=f"attempt {step.attempt + 1} is due")
    calls = 1 if event.tool else 0  # a note calls nothing
    is_kept = step.is_reserving  # an attempt before this one may have happened: the same is kept for both
    used = more(
        state,
        reserved_calls=calls,
        reserved_tokens=event.tokens - step.tokens * is_kept,
        reserved_cost=event.cost - step.cost * is_kept,
        held_calls=event.hold_calls - step.hold_calls,
        held_cost=event.hold_cost - step.hold_cost,
    )
    steps = with_step(
        state,
        event.step,
        status="in_flight",
        attempt=event.attempt,
        key=event.key,
        occurrence=event.occurrence,
        calls=calls,
        tokens=event.tokens,
        cost=event.cost,
        error="",
        code="",
        call=event.call,
        began=event.at,
        deadline=event.deadline,
        hold_calls=event.hold_calls,
        hold_cost=event.hold_cost,
        params=event.params,
    )
    return changed(state, steps=steps, used=used)


def _in_flight(state: State, name: str, attempt: int, event: e.Event) -> StepState:
    step = step_of(state, name, event)
    demand(state, event, is_met=step.attempt == attempt, why=f"step {name} is at attempt {step.attempt}")
    demand(state, event, is_met=step.status in ("in_flight", "unknown"), why=f"step {name} is {step.status}")
    return step


def complete(state: State, event: e.Complete) -> State:
    step = _in_flight(state, event.step, event.attempt, event)
    same = _same(step.call, event)
    repeated = 0 if event.error or not step.call else state.repeats.get(same, 0) + 1
    steps = with_step(
        state,
        event.step,
        status="failed" if event.error else "done",
        outcome="done",
        value=event.value if event.step in state.needed else None,
        blob=event.blob,
        error=event.error,
        gate="",
        call="",
        repeated=repeated,
        same=same if repeated and state.is_stepwise else "",
    )
    changes: dict[str, Any] = {
        "used": _spent(state, step, steps=1, tokens=event.tokens, cost=event.cost),
        "keys": {**state.keys, step.key: event.step},
        "unjudged": (*state.unjudged, event.step),
    }
    if event.error:
        return changed(state, steps=steps, **changes)
    if repeated:
        changes["repeats"] = {**state.repeats, same: repeated}
    return _freed(
        state,
        event.step,
        steps,
        done=state.done if event.step.startswith(UNDO) else (*state.done, event.step),
        head=hash_bytes(f"{state.head}{event.step}{same}".encode()),
        **changes,
        **_named(state, event),
    )


def _same(call: str, event: e.Complete) -> str:
    """The hash of a call with its result: what the loop guard counts. Half of one, since folds hold it for every step."""
    return sha256(msgspec.json.encode([call, event.value, event.blob])).hexdigest()[:32]


def _named(state: State, event: e.Complete) -> dict[str, Any]:
    """Outputs by name only come from the last completed result that carries them: what changes with this one."""
    declared = state.plan.get("declared_outputs")
    if not declared:
        return {}
    result = as_object(event.value) or {}
    carried = {name: result[name] for name in declared if name in result}
    kept = {name: value for name, value in state.named.items() if name not in event.carries}
    kept_in = {name: blob for name, blob in state.named_in.items() if name not in carried}
    return {
        "named": {**kept, **carried},
        "named_in": {**kept_in, **dict.fromkeys(event.carries, event.blob)},
    }


def _spent(
    state: State,
    step: StepState,
    *,
    steps: int = 0,
    tokens: int = 0,
    cost: int = 0,
    is_undone: bool = False,
) -> Used:
    """What was reserved for a call is given back, and what it really used is booked. `is_undone` says that it did not
    happen: then nothing is kept back for taking it back.

    A call whose outcome was unknown until now was counted when it became unknown; its tokens and money were kept.
    """
    used = state.used
    is_flying, is_kept = step.status == "in_flight", step.is_reserving
    return msgspec.structs.replace(
        used,
        steps=used.steps + steps,
        tool_calls=used.tool_calls + step.calls * is_flying,
        tokens=used.tokens + tokens,
        cost=used.cost + cost,
        reserved_calls=used.reserved_calls - step.calls * is_flying,
        reserved_tokens=used.reserved_tokens - step.tokens * is_kept,
        reserved_cost=used.reserved_cost - step.cost * is_kept,
        held_calls=used.held_calls - step.hold_calls * is_undone,
        held_cost=used.held_cost - step.hold_cost * is_undone,
    )


def abort(state: State, event: e.Abort) -> State:
    step = _in_flight(state, event.step, event.attempt, event)
    demand(state, event, is_met=step.status == "in_flight", why=f"step {event.step} is {step.status}")
    # A call that was not made after all says nothing of the attempt before it, which may have happened.
    is_of_this_one = event.attempt_only or event.code in NOT_MADE
    is_known = event.outcome == "not_done" and not (step.outcome == "unknown" and is_of_this_one)
    steps = with_step(
        state,
        event.step,
        status="failed" if is_known else "unknown",
        outcome=event.outcome if is_known else "unknown",
        error=event.error,
        code=event.code,
        is_retriable=event.retriable,
        retry_after=event.retry_after,
        hold_calls=0 if is_known else step.hold_calls,
        hold_cost=0 if is_known else step.hold_cost,
        # A call that its process left behind may still take effect until its deadline.
        not_before=step.deadline if event.code == STOPPED else step.not_before,
        since=step.deadline if event.code == STOPPED else event.at,
    )
    unjudged = (*state.unjudged, event.step) if is_known else state.unjudged
    used = _spent(state, step, is_undone=True) if is_known else _counted(state, step)
    return changed(state, steps=steps, used=used, unjudged=unjudged)


def _counted(state: State, step: StepState) -> Used:
    """A call that may have happened counts as made; what it would cost stays kept until that is known."""
    return more(state, tool_calls=step.calls, reserved_calls=-step.calls)


def step_refused(state: State, event: e.StepRefused) -> State:
    step = step_of(state, event.step, event)
    demand(state, event, is_met=step.status == "pending", why=f"step {event.step} is {step.status}")
    is_open = step.attempt > 0 and step.outcome == "unknown"
    demand(state, event, is_met=not is_open, why=f"nobody knows whether step {event.step} happened")
    if event.code == ROLE_LOST and any(_is_covered(undo, event.step) for undo in state.undo):
        return changed(state, undo=tuple(_uncovered(undo, event.step) for undo in state.undo))
    steps = with_step(
        state,
        event.step,
        status="failed",
        outcome="refused",
        error=event.reason,
        code=event.code,
        is_retriable=False,
    )
    refused = changed(state, steps=steps, unjudged=(*state.unjudged, event.step))
    return _unapproved(refused, event.step) if event.code == ROLE_LOST else refused


def _is_covered(undo: e.Undo, name: str) -> bool:
    """Whether this is the compensation of that name, and the approval of its step covers it."""
    return name == f"{UNDO}{undo.step}" and undo.bound is not None and undo.bound.approved is not None


def _uncovered(undo: e.Undo, name: str) -> e.Undo:
    """Return a compensation that the approval of its step covers no longer, so that its own gate opens."""
    if undo.bound is None or not _is_covered(undo, name):
        return undo
    return msgspec.structs.replace(undo, bound=msgspec.structs.replace(undo.bound, approved=None))


def _unapproved(state: State, name: str) -> State:
    """Approvals that do not count any more are none: when the call is due again, people are asked again."""
    void = [gate for gate in state.approved.values() if name in gate.calls]
    for step in {
        step for gate in void for step in gate.calls if state.steps[step].status in ("pending", "failed")
    }:
        state = changed(state, steps=with_step(state, step, approved=""))
    gone = {gate.id for gate in void}
    return changed(state, approved={gate: kept for gate, kept in state.approved.items() if gate not in gone})


def retry_scheduled(state: State, event: e.RetryScheduled) -> State:
    step = step_of(state, event.step, event)
    is_due = step.status == "failed" and event.step not in state.unjudged
    demand(state, event, is_met=is_due, why=f"step {event.step} is {step.status}")
    retries = 0 if step.code in WITHHELD else 1
    steps = with_step(
        state, event.step, status="pending", not_before=event.not_before, retries=step.retries + retries
    )
    return changed(state, steps=steps, used=more(state, retries=retries))


def settled(state: State, event: e.Settled) -> State:
    step = step_of(state, event.step, event)
    is_open = step.status == "unknown" and not step.gate
    demand(state, event, is_met=is_open, why=f"step {event.step} is {step.status}, or a person was asked")
    if event.how == "ask_again":
        return changed(
            state,
            steps=with_step(
                state,
                event.step,
                asked=step.asked + 1,
                not_before=event.not_before,
                look_up_error=event.reason,
            ),
        )
    # That a process stopped is not the tool's fault, so the call that it cut off is no retry of the tool's.
    retries = 0 if step.code in (INTERRUPTED, STOPPED, *WITHHELD) else 1
    retried = changed(
        state,
        steps=with_step(
            state,
            event.step,
            status="pending",
            asked=0,
            retries=step.retries + retries,
            not_before=event.not_before,
        ),
        used=more(state, retries=retries),
    )
    return did_not_happen(retried, event.step) if event.how == "absent" else retried


def did_not_happen(state: State, name: str) -> State:
    """A call of unknown outcome that turns out not to have happened: nothing is kept for it any more."""
    used = _spent(state, state.steps[name], is_undone=True)
    steps = with_step(state, name, outcome="not_done", hold_calls=0, hold_cost=0)
    return changed(state, steps=steps, used=used)


def step_skipped(state: State, event: e.StepSkipped) -> State:
    step = step_of(state, event.step, event)
    demand(
        state, event, is_met=step.status in ("pending", "failed"), why=f"step {event.step} is {step.status}"
    )
    # What became of taking a step back is told by its error; of other steps the transcript tells that.
    why = step.error if event.step.startswith(UNDO) else event.reason
    return _freed(state, event.step, with_step(state, event.step, status="skipped", error=why))


def _freed(state: State, name: str, steps: dict[str, StepState], **changes: Any) -> State:
    """What waited for a step that has ended comes nearer. `steps` is a new copy, and becomes the state's."""
    ready: list[str] = []
    for after in state.after.get(name, ()):
        waiting = msgspec.structs.replace(steps[after], unmet=steps[after].unmet - 1)
        steps[after] = waiting
        if not waiting.unmet and waiting.status in ("pending", "gated"):
            ready.append(after)
    frontier = (*(step for step in state.frontier if step != name), *ready)
    return changed(state, steps=steps, frontier=frontier, **changes)


def step_judged(state: State, event: e.StepJudged) -> State:
    step = step_of(state, event.step, event)
    demand(
        state,
        event,
        is_met=step.status in ("done", "failed", "unknown"),
        why=f"step {event.step} is {step.status}",
    )
    judged = changed(state, unjudged=tuple(name for name in state.unjudged if name != event.step))
    if event.outcome in ("replan", "escalate"):
        demand(state, event, is_met=not state.in_flight, why="a call is in flight")
    match event.outcome:
        case "replan" if state.change is not None and event.step == state.change.step:
            # The next plan is the approver's: no planner has failed, and this plan may be proposed again.
            return changed(judged, phase=P.PLAN, gates={}, approved={})
        case "replan":
            return changed(
                judged,
                phase=P.PLAN,
                gates={},
                approved={},
                used=more(state, replans=1),
                feedback=(event.reason,),
                setbacks=(*state.setbacks, (event.step,)),
                refused=(*state.refused, state.plan_hash),
                change=None,  # the call that it is about belongs to a plan that is given up
            )
        case "escalate":
            return escalated(judged, P.ACT, event.reason)
        case _:
            return judged


def loop_guard_tripped(state: State, event: e.LoopGuardTripped) -> State:
    return changed(state, trips=state.trips + 1, feedback=(event.reason,))
