"""Folds of sessions: start, pause, resume, compensation, end, the report of a run, and the cost of model calls.

Each function folds the event of its name. A compensation is a step of its own, which says what step it `compensates`: so
INTENT, COMPLETE, unknown outcomes, retries and gates work for it as they do for any call.
"""

from __future__ import annotations

from itertools import pairwise

import msgspec

from tercet.contracts.loop import Phase
from tercet.contracts.runs.behaviour import is_outdated
from tercet.contracts.runs.session import SessionStatus
from tercet.core import events as e
from tercet.core.budget import (
    add,
    count_interrupted,
    is_extension,
    release_holds,
    reserve_for_model,
    settle_model,
)
from tercet.core.fold.base import INTERRUPTED, MODIFIED, changed, copy_fields, demand
from tercet.core.fold.quality import afresh, awaits_delivery, with_quality
from tercet.core.outputs.rounds import restored
from tercet.core.state import Asked, Ending, Replied, State, StepState


def model_asked(state: State, event: e.ModelAsked) -> State:
    demand(state, event, is_met=state.asking is None, why="a model is being asked already")
    demand(state, event, is_met=event.call == state.asked + 1, why=f"call {state.asked + 1} is due")
    return changed(
        state, asked=event.call, asking=copy_fields(Asked, event), used=reserve_for_model(state.used, event)
    )


def model_answered(state: State, event: e.ModelAnswered) -> State:
    asked = state.asking
    if asked is None or asked.call != event.call:
        demand(state, event, is_met=False, why=f"call {event.call} is not under way")
        raise AssertionError  # demand has raised
    booked = spent(state, asked, event.tokens_in + event.tokens_out, event.cost)
    if event.code:
        return booked
    reply = copy_fields(Replied, event, prompt=asked.prompt)
    return changed(booked, replies=(*state.replies, reply))


def spent(state: State, asked: Asked, tokens: int, cost: int) -> State:
    """Return the state with the reservation of a call released, and its actual amounts booked."""
    is_judging = state.phase is not Phase.PLAN and state.halted_from is not Phase.PLAN
    used = settle_model(state.used, asked, tokens, cost, "critic" if is_judging else "planner")
    return changed(state, asking=None, used=used)


def cut_off(state: State) -> State:
    """Return the state with the whole reservation of a call booked whose process is gone: it may have been charged."""
    asked = state.asking
    return state if asked is None else spent(state, asked, asked.tokens, asked.cost)


P = Phase


def session_started(state: State, event: e.SessionStarted) -> State:
    demand(state, event, is_met=not state.is_started, why="it has started already")
    # By way of JSON, so that it is the same whether it was folded here or read from a fold: lists, and no tuples.
    return changed(state, start=msgspec.json.decode(msgspec.json.encode(event), type=e.SessionStarted))


def session_resumed(state: State, event: e.SessionResumed) -> State:
    if event.people is not None:
        state = changed(state, start=msgspec.structs.replace(state.start, people=event.people))
    steps = {name: _mark_interrupted(state.steps[name]) for name in state.frontier}
    state = cut_off(state)
    of_lanes = sum(step.lane_calls for step in state.steps.values() if step.is_lane and step.is_reserving)
    used = count_interrupted(state.used, of_lanes)
    return revived(changed(state, steps={**state.steps, **steps}, used=used))


def _mark_interrupted(step: StepState) -> StepState:
    """Return a step after its process has stopped: whether its call took effect is unknown, and it may do so until its
    deadline."""
    if step.status != "in_flight":
        return step
    return msgspec.structs.replace(
        step,
        status="unknown",
        outcome="unknown",
        error="its process stopped",
        code=INTERRUPTED,
        not_before=step.deadline,
        since=step.deadline,
        asked=0,
    )


def revived(state: State) -> State:
    """Return a run that continues where it stopped. Calls that were escalated to a person and did not happen may be
    tried again."""
    steps = dict(state.steps)
    unjudged = list(state.unjudged)
    for name, step in state.steps.items() if state.phase is not P.FAIL else ():
        if step.code == MODIFIED and name in unjudged:
            continue  # a person wants it changed, and no one has heard that yet
        if step.status == "failed" and (state.halted_from or name not in unjudged):
            unjudged = [other for other in unjudged if other != name]
            if step.outcome == "done":
                unjudged.append(name)
            else:
                steps[name] = msgspec.structs.replace(step, status="pending", retries=0, not_before=0)
    return changed(
        state,
        phase=state.halted_from or state.phase,
        halted_from=None,
        status=_unchanged(state, state.ending) or "in_progress",
        steps=steps,
        unjudged=tuple(unjudged),
        reason="" if state.halted_from else state.reason,
        escalation=None,
        paused_by="",
        paused_for="",
        # Outputs that went to a person are judged and repaired afresh, with what there is now to do it with.
        quality=afresh(state.quality) if _is_outputs_matter(state) else state.quality,
        # Resuming an escalated session counts as an answer: it is tried again without changes.
        gates={name: gate for name, gate in state.gates.items() if gate.kind != "escalation"},
    )


def _is_outputs_matter(state: State) -> bool:
    """Return whether a run was escalated to a person for its outputs; a mere pause keeps all judgements of them."""
    return state.halted_from is P.VERIFY and state.escalation is not None


def session_paused(state: State, event: e.SessionPaused) -> State:
    # A pause by the watchdog finds calls in flight whose process is gone: the next one to resume settles them.
    is_quiet = event.outside or not state.in_flight
    demand(state, event, is_met=is_quiet, why="a call is in flight")
    return changed(
        cut_off(state),
        phase=P.HALT,
        halted_from=state.phase,
        status="paused",
        reason=event.reason,
        paused_by=event.by,
        paused_for=event.code,
        inbox=max(state.inbox, event.inbox),
    )


def given_up(state: State, event: e.GivenUp) -> State:
    demand(state, event, is_met=not state.in_flight, why="a call is in flight")
    is_asking = state.phase is P.HALT and not state.start.lane
    demand(state, event, is_met=not is_asking, why="only a lane ends where a person would be asked")
    return ending(restored(state, event.restored), "failed", event.reason)


def session_cancelled(state: State, event: e.SessionCancelled) -> State:
    demand(state, event, is_met=not state.ending, why=f"it is ending {state.ending}")
    reason = f"{event.by} cancelled it: {event.reason}".rstrip(": ")
    return changed(ending(state, "cancelled", reason), inbox=max(state.inbox, event.inbox))


def session_expired(state: State, event: e.SessionExpired) -> State:
    demand(state, event, is_met=not state.ending, why=f"it is ending {state.ending}")
    return ending(state, "expired", event.reason)


def ending(state: State, how: Ending, reason: str) -> State:
    """Return the state of a run that will not succeed: no step begins any more, and its effects are settled and compensated.

    Questions about calls that may have happened stay open. A call that was to be repeated to find out becomes such a
    question, since no tool is called any more.
    """
    asked = {name: gate for name, gate in state.gates.items() if gate.kind == "reconcile"}
    steps = {name: _close_step(step) for name, step in state.steps.items()}
    return changed(
        cut_off(state),
        phase=P.FAIL,
        halted_from=None,
        status=_unchanged(state, how) or "in_progress",
        steps=steps,
        ending=how,
        reason=reason,
        escalation=None,
        gates=asked,
        approved={},
    )


def is_untouched(state: State) -> bool:
    """Return whether a run has done nothing that is to be settled or compensated."""
    return not state.done and not any(step.is_reserving for step in state.steps.values())


def _unchanged(state: State, how: Ending) -> SessionStatus | None:
    """Return the status that a session keeps until it is over; None if something has to be done before."""
    keeps = ("paused", "awaiting_gate") if how == "expired" else ("paused",) if how == "cancelled" else ()
    return state.status if state.status in keeps and is_untouched(state) else None


def _close_step(step: StepState) -> StepState:
    """Return a step after its plan has stopped: a pending one does not begin any more."""
    if step.is_unsettled and step.status != "unknown":
        return msgspec.structs.replace(step, status="unknown", gate="", approved="", not_before=0)
    if step.status == "gated":
        return msgspec.structs.replace(step, status="pending", gate="", approved="")
    return step


_PINS = ("pack", "pack_hash", "snapshot", "context", "evidence", "library", "library_hash", "left_out")


def session_migrated(state: State, event: e.SessionMigrated) -> State:
    demand(state, event, is_met=not state.in_flight, why="a call is in flight")
    demand(state, event, is_met=state.asking is None, why="a model is being asked")
    pins = {name: getattr(event, name) for name in _PINS}
    if event.behaviour:
        pins["behaviour"] = event.behaviour
    start = msgspec.structs.replace(state.start, **pins)
    if state.phase in (P.COMMIT, P.FAIL) and not awaits_delivery(state):
        # Whether to compensate is asked again, since the calls may be others. Those that have begun stay as they are.
        is_allowed = state.saga != "undoing" or is_outdated(state.start.behaviour)
        demand(state, event, is_met=is_allowed, why="its effects are being compensated")
        asked = {name: gate for name, gate in state.gates.items() if gate.kind == "reconcile"}
        has_agreed = state.saga == "agreed" and bool(event.behaviour)
        saga = "" if has_agreed else state.saga
        return changed(state, start=start, gates=asked, saga=saga)
    demand(state, event, is_met=state.accepted is None, why="its outputs are being delivered")
    # A run that is being re-planned has refused the plan that it had.
    is_planned = bool(state.plan) and P.PLAN not in (state.phase, state.halted_from)
    steps = {name: _unapproved(step) for name, step in state.steps.items()}
    # What failed and happened all the same is not called again, but escalated to a person again.
    failed = [name for name, step in steps.items() if step.status == "failed" and name not in state.unjudged]
    return changed(
        state,
        start=start,
        phase=P.REVIEW if is_planned else P.PLAN,
        halted_from=None,
        status="in_progress",
        reason="",
        escalation=None,
        gates={},
        approved={},
        steps=steps,
        unjudged=(*(name for name in state.unjudged if steps[name].status != "pending"), *failed),
        change=None if is_planned else state.change,
        verdict={},
        # Another pack may have other rules, and another kind of task to learn from.
        quality=msgspec.structs.replace(afresh(state.quality), drawn={}, control={}, passed_tests={}),
    )


def _unapproved(step: StepState) -> StepState:
    """Return a step under another pack: approvals and failures under the previous one no longer count."""
    if step.status == "unknown":
        return msgspec.structs.replace(step, gate="")  # it is asked about again
    has_happened = step.status == "failed" and step.outcome == "done"
    if has_happened or step.status not in ("gated", "failed", "pending"):
        return step
    return msgspec.structs.replace(step, status="pending", gate="", approved="", retries=0, not_before=0)


def budget_extended(state: State, event: e.BudgetExtended) -> State:
    return changed(extended(state, event, event.more), inbox=max(state.inbox, event.inbox))


def extended(state: State, event: e.Event, amounts: dict[str, int]) -> State:
    """Return the state with more to use up."""
    demand(state, event, is_met=is_extension(amounts), why="an extension adds to a budget")
    before = state.extended
    return changed(
        state, extended=before | {name: before.get(name, 0) + amount for name, amount in amounts.items()}
    )


def session_ended(state: State, event: e.SessionEnded) -> State:
    demand(state, event, is_met=not state.in_flight, why="a call is in flight")
    wanted = "completed" if state.phase is P.COMMIT else state.ending or "failed"
    demand(state, event, is_met=event.status == wanted, why=f"it can only end {wanted}")
    demand(state, event, is_met=not awaits_delivery(state), why="its outputs are not delivered yet")
    return changed(
        state, status=wanted, reason=event.reason, record=event.record, kept=event.kept, gates={}, approved={}
    )


def outputs_produced(state: State, event: e.OutputsProduced) -> State:
    demand(state, event, is_met=not state.in_flight, why="a call is in flight")
    demand(state, event, is_met=state.accepted is None, why="its outputs are accepted already")
    return changed(
        state,
        phase=P.VERIFY,
        outputs=event.outputs,
        missing=event.missing,
        memory=event.memory,
        quality=msgspec.structs.replace(
            afresh(state.quality), vote={}, drafts={}, fetched=(), retried=(), called_again=()
        ),
    )


def run_reported(state: State, event: e.RunReported) -> State:
    demand(state, event, is_met=state.asking is None, why="a model is being asked")
    demand(state, event, is_met=not state.gates, why="a person is asked about the outputs")
    is_delivered = state.accepted is not None and not state.frontier and not state.unjudged
    is_due = state.phase is P.VERIFY or (is_delivered and event.outcome in ("accept", "escalate"))
    demand(state, event, is_met=is_due, why="it has outputs to judge, or to deliver")
    reported = changed(restored(state, event.restored), report=event.report, envelope=event.envelope)
    if event.exit:
        reported = changed(reported, quality=with_quality(reported, exit=event.exit))
    match event.outcome:
        case "accept":
            return changed(reported, phase=P.COMMIT)
        case "ask":
            return changed(reported, quality=with_quality(reported, stage="asking"))
        case "fail":
            return ending(reported, "failed", "; ".join(event.reasons))
        case "replan":
            return changed(
                reported,
                phase=P.PLAN,
                used=add(state.used, replans=1),
                feedback=event.reasons,
                setbacks=(*state.setbacks, ()),
                refused=(*state.refused, state.plan_hash),
            )
        case _:
            return escalated(reported, state.phase, "; ".join(event.reasons))


ESCALATED = "escalated: "
"""The prefix of the reason of an escalated session."""


def escalated(state: State, phase: Phase, reason: str) -> State:
    """Return a run that needs a person to continue."""
    return changed(
        state,
        phase=P.HALT,
        halted_from=phase,
        status="paused",
        reason=f"{ESCALATED}{reason}",
        escalation=reason,
    )


def compensation_begun(state: State, event: e.CompensationBegun) -> State:
    demand(state, event, is_met=state.phase is Phase.FAIL, why="the run may still succeed")
    is_open = state.saga in ("", "agreed")
    demand(state, event, is_met=is_open, why=f"its effects are {state.saga} already")
    made = [undo for undo in event.undo if undo.tool]
    calls = [undo.name for undo in made]
    steps = {undo.name: StepState(unmet=int(at > 0), compensates=undo.step) for at, undo in enumerate(made)}
    return changed(
        state,
        saga="undoing",
        undo=event.undo,
        steps={**state.steps, **steps},
        after={**state.after, **{name: (after,) for name, after in pairwise(calls)}},
        frontier=tuple(calls[:1]),
        unjudged=(),
        used=release_holds(state.used),
    )


def effects_kept(state: State, event: e.EffectsKept) -> State:
    demand(state, event, is_met=not state.saga, why=f"its effects are {state.saga} already")
    return changed(state, saga="kept")
