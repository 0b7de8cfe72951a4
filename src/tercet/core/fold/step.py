"""Folds of steps: intended, completed, aborted, refused, retried, settled, skipped, judged.

Each function folds the event of its name.
"""

from __future__ import annotations

from hashlib import sha256

import msgspec

from tercet.contracts.loop import Phase
from tercet.contracts.shape import as_object
from tercet.contracts.values.canonical import hash_bytes
from tercet.core import events as e
from tercet.core.budget import NO_HOLD, add, count_call, reserve, reserved_for, settle
from tercet.core.fold.base import (
    CUT_OFF,
    NOT_MADE,
    ROLE_LOST,
    STOPPED,
    WITHHELD,
    Changes,
    changed,
    demand,
    illegal,
    step_of,
    with_step,
)
from tercet.core.fold.session import escalated
from tercet.core.state import State, StepState

P = Phase
_encode = msgspec.json.Encoder().encode


def repeats_checked(state: State, event: e.RepeatsChecked) -> State:
    step = step_of(state, event.step, event)
    is_due = step.status == "pending" and not step.unmet and not step.is_unsettled
    demand(state, event, is_met=is_due, why=f"step {event.step} is {step.status}")
    steps = with_step(state, event.step, checked=event.key, earlier_calls=event.found)
    return changed(state, steps=steps)


def intent(state: State, event: e.Intent) -> Changes:
    step = step_of(state, event.step, event)
    if step.status != "pending" or step.unmet:
        raise illegal(state, event, f"step {event.step} is {step.status}")
    if event.attempt != step.attempt + 1:
        raise illegal(state, event, f"attempt {step.attempt + 1} is due")
    begun = msgspec.structs.replace(
        step,
        status="in_flight",
        attempt=event.attempt,
        key=event.key,
        occurrence=event.occurrence,
        calls=1 if event.tool and not event.lane_calls else 0,
        error="",
        code="",
        call=event.call,
        began=event.at,
        deadline=event.deadline,
        params=event.params,
    )
    if reserved := reserved_for(step, event):
        begun = msgspec.structs.replace(begun, **reserved)
    if event.lane_calls:
        begun = msgspec.structs.replace(begun, is_lane=True, lane_calls=event.lane_calls)
    return {"steps": {**state.steps, event.step: begun}, "used": reserve(state.used, step, event)}


def _in_flight(state: State, name: str, attempt: int, event: e.Event) -> StepState:
    step = step_of(state, name, event)
    if step.attempt != attempt:
        raise illegal(state, event, f"step {name} is at attempt {step.attempt}")
    if step.status not in ("in_flight", "unknown"):
        raise illegal(state, event, f"step {name} is {step.status}")
    return step


def complete(state: State, event: e.Complete) -> Changes:
    name = event.step
    step = _in_flight(state, name, event.attempt, event)
    same = _same(step, event)
    repeated = 0 if event.error or not step.call else state.repeats.get(same, 0) + 1
    ended = msgspec.structs.replace(
        step,
        status="failed" if event.error else "done",
        outcome="done",
        value=event.value if name in state.needed else None,
        blob=event.blob,
        error=event.error,
        gate="",
        call="",
        repeated=repeated,
        same=same if repeated and state.start.stepwise else "",
    )
    if step.is_lane:
        ended = msgspec.structs.replace(
            ended, lane=event.lane, lane_calls=event.lane_calls, tokens=event.tokens, cost=event.cost
        )
    steps = {**state.steps, name: ended}
    changes: Changes = {
        "steps": steps,
        "used": settle(state.used, step, event),
        "keys": {**state.keys, step.key: name},
        "unjudged": (*state.unjudged, name),
    }
    if event.error:
        return changes
    if event.proposals:
        changes["lane_proposals"] = {**state.lane_proposals, name: event.proposals}
    if repeated:
        changes["repeats"] = {**state.repeats, same: repeated}
    if not step.compensates:
        changes["done"] = (*state.done, name)
    changes["head"] = hash_bytes(f"{state.head}{name}{same}".encode())
    changes["frontier"] = freed(state, name, steps)
    if state.plan.get("declared_outputs"):
        changes |= _named(state, event)
    return changes


def _same(step: StepState, event: e.Complete) -> str:
    """Return the hash of a call with its result, which the loop guard counts. It is half as long as usual, since folds
    hold one for every step. The session ids in the results of lanes do not count, since they always differ."""
    value = event.value
    if step.is_lane and (envelope := as_object(value)) is not None:
        value = [envelope.get("status"), envelope.get("outputs")]
    return sha256(_encode([step.call, value, event.blob])).hexdigest()[:32]


def _named(state: State, event: e.Complete) -> Changes:
    """Return what changes in the outputs by name: each comes from the last completed result that carries it."""
    result = as_object(event.value) or {}
    carried = {name: result[name] for name in state.plan["declared_outputs"] if name in result}
    kept = {name: value for name, value in state.named.items() if name not in event.carries}
    kept_in = {name: blob for name, blob in state.named_in.items() if name not in carried}
    return {"named": {**kept, **carried}, "named_in": {**kept_in, **dict.fromkeys(event.carries, event.blob)}}


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
        # A call that its process left behind may still take effect until its deadline.
        not_before=step.deadline if event.code == STOPPED else step.not_before,
        since=step.deadline if event.code == STOPPED else event.at,
        lane=event.lane,
        **(NO_HOLD if is_known else {}),
    )
    unjudged = (*state.unjudged, event.step) if is_known else state.unjudged
    used = settle(state.used, step, None) if is_known else count_call(state.used, step)
    return changed(state, steps=steps, used=used, unjudged=unjudged)


def step_refused(state: State, event: e.StepRefused) -> State:
    step = step_of(state, event.step, event)
    demand(state, event, is_met=step.status == "pending", why=f"step {event.step} is {step.status}")
    is_open = step.attempt > 0 and step.outcome == "unknown"
    demand(state, event, is_met=not is_open, why=f"the outcome of step {event.step} is unknown")
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
    """Return whether this is the compensation of that name, and the approval of its step covers it."""
    return name == undo.name and undo.bound is not None and undo.bound.approved is not None


def _uncovered(undo: e.Undo, name: str) -> e.Undo:
    """Return a compensation that the approval of its step covers no longer, so that its own gate opens."""
    if undo.bound is None or not _is_covered(undo, name):
        return undo
    return msgspec.structs.replace(undo, bound=msgspec.structs.replace(undo.bound, approved=None))


def _unapproved(state: State, name: str) -> State:
    """Return the state without the approvals of a call: when it is due again, people are asked again."""
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
    return changed(state, steps=steps, used=add(state.used, retries=retries))


def settled(state: State, event: e.Settled) -> State:
    step = step_of(state, event.step, event)
    is_open = step.status == "unknown" and not step.gate
    demand(state, event, is_met=is_open, why=f"step {event.step} is {step.status}, or a person was asked")
    if event.how == "ask_again":
        later = {"not_before": event.not_before, "look_up_error": event.reason}
        return changed(state, steps=with_step(state, event.step, asked=step.asked + 1, **later))
    # A stopped process is not the tool's fault, so repeating the interrupted call does not count as a retry.
    retries = 0 if step.code in (*CUT_OFF, *WITHHELD) else 1
    again = {"retries": step.retries + retries, "not_before": event.not_before}
    steps = with_step(state, event.step, status="pending", asked=0, **again)
    retried = changed(state, steps=steps, used=add(state.used, retries=retries))
    return did_not_happen(retried, event.step) if event.how == "absent" else retried


def did_not_happen(state: State, name: str) -> State:
    """Return a step whose call of unknown outcome did not happen: its reservation is released."""
    used = settle(state.used, state.steps[name], None)
    steps = with_step(state, name, outcome="not_done", **NO_HOLD)
    return changed(state, steps=steps, used=used)


def step_skipped(state: State, event: e.StepSkipped) -> State:
    step = step_of(state, event.step, event)
    is_open = step.status in ("pending", "failed")
    demand(state, event, is_met=is_open, why=f"step {event.step} is {step.status}")
    # The outcome of a compensation is in its error; for other steps it is in the transcript.
    why = step.error if step.compensates else event.reason
    steps = with_step(state, event.step, status="skipped", error=why)
    return changed(state, steps=steps, frontier=freed(state, event.step, steps))


def freed(state: State, name: str, steps: dict[str, StepState]) -> tuple[str, ...]:
    """Return the frontier without a step that has ended, and with those that only waited for it. `steps` is a new copy,
    in which what waits for the step comes nearer."""
    ready: list[str] = []
    for after in state.after.get(name, ()):
        waiting = msgspec.structs.replace(steps[after], unmet=steps[after].unmet - 1)
        steps[after] = waiting
        if not waiting.unmet and waiting.status in ("pending", "gated"):
            ready.append(after)
    return (*_without(state.frontier, name), *ready)


def _without(names: tuple[str, ...], name: str) -> tuple[str, ...]:
    """Return names without one that occurs at most once."""
    if names == (name,):
        return ()
    try:
        at = names.index(name)
    except ValueError:
        return names
    return names[:at] + names[at + 1 :]


def step_judged(state: State, event: e.StepJudged) -> State | Changes:
    step = step_of(state, event.step, event)
    if step.status not in ("done", "failed", "unknown"):
        raise illegal(state, event, f"step {event.step} is {step.status}")
    unjudged = _without(state.unjudged, event.step)
    if event.outcome not in ("replan", "escalate"):
        return {"unjudged": unjudged}
    demand(state, event, is_met=not state.in_flight, why="a call is in flight")
    judged = changed(state, unjudged=unjudged)
    if event.outcome == "escalate":
        return escalated(judged, P.ACT, event.reason)
    given_up = changed(judged, phase=P.PLAN, gates={}, approved={})
    if state.change is not None and event.step == state.change.step:
        # The next plan is the approver's: no planner has failed, and this plan may be proposed again.
        return given_up
    return changed(
        given_up,
        used=add(state.used, replans=1),
        feedback=(event.reason,),
        setbacks=(*state.setbacks, (event.step,)),
        refused=(*state.refused, state.plan_hash),
        change=None,  # the call that it is about belongs to a plan that is abandoned
    )


def decision_taken(state: State, event: e.DecisionTaken) -> Changes:
    step_of(state, event.step, event)
    return {}


def loop_guard_tripped(state: State, event: e.LoopGuardTripped) -> State:
    return changed(state, trips=state.trips + 1, feedback=(event.reason,))
