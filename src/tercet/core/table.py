"""The transition table, and `fold_event`: how an event changes a run.

    PLAN ──plan_proposed──▶ DECOMPOSE ──decomposed──▶ RETRIEVE ──evidence_retrieved──▶ REVIEW
    REVIEW ──plan_reviewed: ok──▶ ACT, replan ──▶ PLAN, reject ──▶ FAIL
    ACT ──outputs_produced──▶ VERIFY ──run_reported: accept──▶ COMMIT, replan ──▶ PLAN, escalate ──▶ HALT
    ACT ──step_judged: replan──▶ PLAN, escalate ──▶ HALT;  ACT ──gate_answered: deny──▶ FAIL
    HALT ──gate_answered: extend──▶ where it was, replan ──▶ PLAN, accept_partial ──▶ COMMIT, abandon ──▶ FAIL
    VERIFY ──outputs_verified──▶ CRITIQUE ──outputs_critiqued──▶ REPAIR ──outputs_repaired──▶ VERIFY
    VERIFY ──gate_answered: approve──▶ COMMIT, modify ──▶ REPAIR, deny ──▶ FAIL;  COMMIT ──acceptance_lapsed──▶ VERIFY
    PLAN ──planning_failed: fail──▶ FAIL, replan ──▶ PLAN, escalate ──▶ HALT
    ACT, PLAN ──turn_judged: continue, retry, replan──▶ PLAN, stop, escalate ──▶ HALT, limit ──▶ FAIL
    any ──session_cancelled, session_expired, given_up──▶ FAIL, where effects are taken back before the end
    any ──session_paused──▶ HALT ──session_resumed──▶ where it was;  COMMIT, FAIL ──session_ended──▶ over

`fold_event` is pure and total: it either returns the next state or raises `IllegalEvent`, which names run, phase and event,
and the state that was handed in is as it was. Time comes from the events and from nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from tercet.contracts.loop import Phase
from tercet.contracts.session import SessionStatus
from tercet.core import events as e
from tercet.core.fold import compensation as saga_fold
from tercet.core.fold import gate as gate_fold
from tercet.core.fold import model as model_fold
from tercet.core.fold import plan as plan_fold
from tercet.core.fold import quality as quality_fold
from tercet.core.fold import session as session_fold
from tercet.core.fold import step as step_fold
from tercet.core.fold import turn as turn_fold
from tercet.core.fold.base import Changes, IllegalEvent, illegal
from tercet.core.state import State, Used

P = Phase

_BEFORE_THE_END = frozenset(P) - {P.COMMIT, P.FAIL}
_AT_WORK = _BEFORE_THE_END - {P.HALT}
_THINKING = frozenset({P.PLAN, P.VERIFY, P.CRITIQUE, P.REPAIR})
"""Where language models are asked."""

TABLE: dict[type[e.Event], frozenset[Phase]] = {
    e.SessionStarted: frozenset({P.PLAN}),
    e.SessionResumed: frozenset(P),
    e.SessionPaused: _AT_WORK,
    e.GivenUp: _AT_WORK,
    e.SessionEnded: frozenset({P.COMMIT, P.FAIL}),
    e.PlanProposed: frozenset({P.PLAN}),
    e.PlanningFailed: frozenset({P.PLAN}),
    e.Decomposed: frozenset({P.DECOMPOSE}),
    e.EvidenceRetrieved: frozenset({P.RETRIEVE}),
    e.PlanReviewed: frozenset({P.REVIEW}),
    e.Intent: frozenset({P.ACT, P.FAIL}),
    e.Complete: frozenset({P.ACT, P.FAIL}),
    e.Abort: frozenset({P.ACT, P.FAIL}),
    e.RetryScheduled: frozenset({P.ACT, P.FAIL}),
    e.Settled: frozenset({P.ACT, P.FAIL}),
    e.StepRefused: frozenset({P.ACT, P.FAIL}),
    e.StepSkipped: frozenset({P.ACT, P.FAIL}),
    e.StepJudged: frozenset({P.ACT, P.FAIL}),
    e.LoopGuardTripped: frozenset({P.ACT}),
    e.GateOpened: frozenset({P.ACT, P.VERIFY, P.HALT, P.FAIL}),
    e.GateAnswered: frozenset({P.ACT, P.VERIFY, P.HALT, P.FAIL}),
    e.OutputsProduced: frozenset({P.ACT}),
    e.RunReported: frozenset({P.VERIFY}),
    e.ApprovalGranted: frozenset({P.ACT}),
    e.MessageDropped: frozenset(P),
    e.SessionCancelled: _BEFORE_THE_END,
    e.SessionExpired: _BEFORE_THE_END,
    e.SessionMigrated: frozenset(P),
    e.BudgetExtended: _BEFORE_THE_END,
    e.CompensationBegun: frozenset({P.FAIL}),
    e.EffectsKept: frozenset({P.FAIL}),
    e.ModelAsked: _THINKING,
    e.ModelAnswered: _THINKING,
    e.TurnJudged: frozenset({P.PLAN, P.ACT}),
    e.ExperienceDrawn: frozenset({P.VERIFY}),
    e.SamplesDrawn: frozenset({P.VERIFY}),
    e.TestsRun: frozenset({P.VERIFY}),
    e.OutputsVerified: frozenset({P.VERIFY}),
    e.OutputsAttacked: frozenset({P.CRITIQUE}),
    e.OutputsCritiqued: frozenset({P.CRITIQUE}),
    e.OutputsRepaired: frozenset({P.REPAIR}),
    e.EvidenceFetched: frozenset({P.REPAIR}),
    e.AcceptanceLapsed: frozenset({P.COMMIT}),
    e.RepeatsChecked: frozenset({P.ACT, P.FAIL}),
}
"""In which phases an event may happen. What it leads to is in the function of its name, in the fold of its family."""

_ONLY_BACK = (e.Intent, e.RepeatsChecked, e.RetryScheduled, e.StepRefused, e.StepSkipped, e.StepJudged)
"""What may happen in FAIL to the steps that take others back, and to no other."""

TRANSITIONS: dict[SessionStatus, frozenset[SessionStatus]] = {
    "in_progress": frozenset({"awaiting_gate", "paused", "completed", "failed", "expired", "cancelled"}),
    "awaiting_gate": frozenset({"in_progress", "rejected", "expired"}),
    "paused": frozenset({"in_progress", "cancelled", "expired"}),
    "completed": frozenset(),
    "failed": frozenset(),
    "expired": frozenset(),
    "rejected": frozenset(),
    "cancelled": frozenset(),
}
"""How the state of a session may change, and how not. A denial is carried out under awaiting_gate; a session that expires,
or is cancelled while it is paused, stays what it was where it has done nothing."""


def fold_event(state: State, event: e.Event) -> State:
    """The state after an event."""
    if state.is_over or state.phase not in TABLE[type(event)]:
        raise illegal(state, event, "the phase does not allow it")
    if state.phase is P.FAIL and isinstance(event, _ONLY_BACK) and _is_planned(state, event.step):
        raise illegal(state, event, "the run has failed")
    moved = _HANDLERS[type(event)](state, event)
    now = max(state.at, event.at)
    if isinstance(moved, dict):
        if state.phase is P.ACT and state.status == "in_progress" and not state.gates:
            return _advanced(state, moved, now)
        moved = msgspec.structs.replace(state, **moved)
    is_outside = isinstance(event, _SAID) and event.outside
    status = _status(state, moved)
    if status != state.status and status not in TRANSITIONS[state.status]:
        raise illegal(state, event, f"a session that is {state.status} cannot become {status}")
    return msgspec.structs.replace(
        moved,
        position=state.position + 1,
        at=now,
        status=status,
        used=moved.used if is_outside else _clocked(state, moved, event, now),
        active_since=0 if is_outside else _active_since(state, status, event, now),
        iterations=state.iterations + _counts(state, moved.phase),
    )


def _advanced(state: State, changes: Changes, now: int) -> State:
    """Return the state after an event that leaves phase and status as they are: what happens for every step."""
    used: Used = changes.pop("used", state.used)
    if state.active_since and now > state.active_since:
        wall_clock = state.used.wall_clock + now - state.active_since
        used = msgspec.structs.replace(used, wall_clock=wall_clock)
    return msgspec.structs.replace(
        state, position=state.position + 1, at=now, used=used, active_since=now, **changes
    )


def _is_planned(state: State, name: str) -> bool:
    """Return whether this is a step of the plan, and no compensation."""
    return name in state.steps and not state.steps[name].compensates


def _clocked(before: State, after: State, event: e.Event, now: int) -> Used:
    """The wall clock runs while the session is in progress, and stands still at gates and pauses."""
    if not before.active_since or type(event) in _TIMELESS:
        return after.used  # while no process had the session, no time was spent on it
    spent = now - before.active_since
    return (
        msgspec.structs.replace(after.used, wall_clock=before.used.wall_clock + spent)
        if spent
        else after.used
    )


def _active_since(before: State, status: SessionStatus, event: e.Event, now: int) -> int:
    """When the wall clock was last started."""
    if type(event) is e.MessageDropped:
        return before.active_since if status == before.status else 0
    return now if status == "in_progress" else 0


_TIMELESS = (e.SessionResumed, e.MessageDropped)
"""Events that do not tell whether anybody was at work before them."""
_SAID = (e.GateAnswered, e.SessionPaused, e.SessionCancelled, e.SessionExpired, e.BudgetExtended)
"""What may be appended by somebody who does not carry the session forward."""


def _counts(before: State, after: Phase) -> int:
    """A move to another phase is an iteration; pausing and resuming are none. Of an agent, each turn is one."""
    if before.is_stepwise:
        return int(before.phase is P.PLAN and after is P.DECOMPOSE)
    return int(after is not before.phase and P.HALT not in (before.phase, after))


def _status(before: State, state: State) -> SessionStatus:
    """A session waits at a gate while one is open and nothing else can go on, and while a denial is carried out."""
    if state.status not in ("in_progress", "awaiting_gate"):
        return state.status
    if before.status == "paused":
        return (
            "in_progress"  # what it waits for shows with the next event: no pause turns into a wait at once
        )
    if state.phase is P.FAIL and state.ending == "rejected":
        return "awaiting_gate"
    if state.ending == "expired" and before.status == "awaiting_gate" and session_fold.is_untouched(state):
        return "awaiting_gate"
    if not state.gates or state.phase not in (P.ACT, P.VERIFY, P.FAIL):
        return "in_progress"
    if state.phase is P.VERIFY:
        return "awaiting_gate"
    waiting = [state.steps[step] for step in state.frontier]
    is_blocked = all(step.gate or step.status == "failed" for step in waiting)
    # A failure is judged as soon as it is known of every call whether it happened: that is no waiting.
    is_due = bool(state.unjudged) and not any(step.is_reserving for step in waiting)
    return "awaiting_gate" if is_blocked and not is_due else "in_progress"


_HANDLERS: dict[type[Any], Callable[[State, Any], State | Changes]] = {
    e.SessionStarted: session_fold.session_started,
    e.SessionResumed: session_fold.session_resumed,
    e.SessionPaused: session_fold.session_paused,
    e.GivenUp: session_fold.given_up,
    e.SessionEnded: session_fold.session_ended,
    e.PlanProposed: plan_fold.plan_proposed,
    e.PlanningFailed: plan_fold.planning_failed,
    e.Decomposed: plan_fold.decomposed,
    e.EvidenceRetrieved: plan_fold.evidence_retrieved,
    e.PlanReviewed: plan_fold.plan_reviewed,
    e.Intent: step_fold.intent,
    e.Complete: step_fold.complete,
    e.Abort: step_fold.abort,
    e.RetryScheduled: step_fold.retry_scheduled,
    e.Settled: step_fold.settled,
    e.StepRefused: step_fold.step_refused,
    e.StepSkipped: step_fold.step_skipped,
    e.StepJudged: step_fold.step_judged,
    e.LoopGuardTripped: step_fold.loop_guard_tripped,
    e.GateOpened: gate_fold.gate_opened,
    e.GateAnswered: gate_fold.gate_answered,
    e.OutputsProduced: session_fold.outputs_produced,
    e.RunReported: session_fold.run_reported,
    e.ApprovalGranted: gate_fold.approval_granted,
    e.MessageDropped: gate_fold.message_dropped,
    e.SessionCancelled: session_fold.session_cancelled,
    e.SessionExpired: session_fold.session_expired,
    e.SessionMigrated: session_fold.session_migrated,
    e.BudgetExtended: session_fold.budget_extended,
    e.CompensationBegun: saga_fold.compensation_begun,
    e.EffectsKept: saga_fold.effects_kept,
    e.ModelAsked: model_fold.model_asked,
    e.ModelAnswered: model_fold.model_answered,
    e.TurnJudged: turn_fold.turn_judged,
    e.ExperienceDrawn: quality_fold.experience_drawn,
    e.SamplesDrawn: quality_fold.samples_drawn,
    e.TestsRun: quality_fold.tests_run,
    e.OutputsVerified: quality_fold.outputs_verified,
    e.OutputsAttacked: quality_fold.outputs_attacked,
    e.OutputsCritiqued: quality_fold.outputs_critiqued,
    e.OutputsRepaired: quality_fold.outputs_repaired,
    e.EvidenceFetched: quality_fold.evidence_fetched,
    e.AcceptanceLapsed: gate_fold.acceptance_lapsed,
    e.RepeatsChecked: step_fold.repeats_checked,
}

__all__ = ["TABLE", "TRANSITIONS", "IllegalEvent", "fold_event"]
