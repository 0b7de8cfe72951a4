"""The transition table, and `evolve`: how an event changes a run.

    PLAN ──plan_proposed──▶ DECOMPOSE ──decomposed──▶ RETRIEVE ──evidence_retrieved──▶ REVIEW
    REVIEW ──plan_reviewed: ok──▶ ACT, replan ──▶ PLAN, reject ──▶ FAIL
    ACT ──outputs_produced──▶ VERIFY ──run_reported: accept──▶ COMMIT, replan ──▶ PLAN, escalate ──▶ HALT
    ACT ──step_judged: replan──▶ PLAN, escalate ──▶ HALT;  ACT, HALT ──gate_answered: deny──▶ FAIL
    more phases than allowed ──given_up──▶ FAIL
    any ──session_paused──▶ HALT ──session_resumed──▶ where it was;  COMMIT, FAIL ──session_ended──▶ over

`evolve` is pure and total: it either returns the next state or raises `IllegalEvent`, which names run, phase and event,
and the state that was handed in is as it was. Time comes from the events and from nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from tercet.contracts.loop import Phase
from tercet.journal import events as e
from tercet.runtime import gate_fold, plan_fold, session_fold, step_fold
from tercet.runtime.changes import IllegalEvent, illegal
from tercet.runtime.state import SessionState, State, Used

P = Phase

TABLE: dict[type[e.Event], frozenset[Phase]] = {
    e.SessionStarted: frozenset({P.PLAN}),
    e.SessionResumed: frozenset(P),
    e.SessionPaused: frozenset({P.PLAN, P.DECOMPOSE, P.RETRIEVE, P.REVIEW, P.ACT, P.VERIFY}),
    e.GivenUp: frozenset({P.PLAN, P.DECOMPOSE, P.RETRIEVE, P.REVIEW, P.ACT, P.VERIFY}),
    e.SessionEnded: frozenset({P.COMMIT, P.FAIL}),
    e.PlanProposed: frozenset({P.PLAN}),
    e.PlanningFailed: frozenset({P.PLAN}),
    e.Decomposed: frozenset({P.DECOMPOSE}),
    e.EvidenceRetrieved: frozenset({P.RETRIEVE}),
    e.PlanReviewed: frozenset({P.REVIEW}),
    e.Intent: frozenset({P.ACT}),
    e.Complete: frozenset({P.ACT, P.FAIL}),
    e.Abort: frozenset({P.ACT, P.FAIL}),
    e.RetryScheduled: frozenset({P.ACT}),
    e.Settled: frozenset({P.ACT, P.FAIL}),
    e.StepRefused: frozenset({P.ACT}),
    e.StepSkipped: frozenset({P.ACT}),
    e.StepJudged: frozenset({P.ACT}),
    e.LoopGuardTripped: frozenset({P.ACT}),
    e.GateOpened: frozenset({P.ACT, P.FAIL}),
    e.GateAnswered: frozenset({P.ACT, P.HALT, P.FAIL}),
    e.OutputsProduced: frozenset({P.ACT}),
    e.RunReported: frozenset({P.VERIFY}),
}
"""In which phases an event may happen. What it leads to is in the function of its name, in the fold of its family."""


def evolve(state: State, event: e.Event) -> State:
    """The state after an event."""
    if state.is_over or state.phase not in TABLE[type(event)]:
        raise illegal(state, event, "the phase does not allow it")
    moved = _HANDLERS[type(event)](state, event)
    now = max(state.at, event.at)
    status = _status(moved)
    return msgspec.structs.replace(
        moved,
        position=state.position + 1,
        at=now,
        status=status,
        used=_clocked(state, moved, event, now),
        active_since=now if status == "in_progress" and not _is_from_outside(event) else 0,
        iterations=state.iterations + _counts(state.phase, moved.phase),
    )


def _clocked(before: State, after: State, event: e.Event, now: int) -> Used:
    """The wall clock runs while the session is in progress, and stands still at gates and pauses."""
    if not before.active_since or isinstance(event, e.SessionResumed) or _is_from_outside(event):
        return after.used  # while no process had the session, no time was spent on it
    spent = now - before.active_since
    return (
        msgspec.structs.replace(after.used, wall_clock=before.used.wall_clock + spent)
        if spent
        else after.used
    )


def _is_from_outside(event: e.Event) -> bool:
    """Whether an event was appended by somebody who does not carry the session forward."""
    return isinstance(event, e.GateAnswered) and event.outside


def _counts(before: Phase, after: Phase) -> int:
    """A move to another phase is an iteration; pausing and resuming are none."""
    return int(after is not before and P.HALT not in (before, after))


def _status(state: State) -> SessionState:
    """A session waits at a gate while one is open and nothing else can go on."""
    if state.status not in ("in_progress", "awaiting_gate"):
        return state.status
    if not state.gates or state.phase not in (P.ACT, P.FAIL):
        return "in_progress"
    waiting = (state.steps[step] for step in state.frontier)
    is_blocked = all(step.gate or step.status == "failed" for step in waiting)
    return "awaiting_gate" if is_blocked else "in_progress"


_HANDLERS: dict[type[Any], Callable[[State, Any], State]] = {
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
}

__all__ = ["TABLE", "IllegalEvent", "evolve"]
