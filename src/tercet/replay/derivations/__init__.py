"""How each type of event is derived again: one entry for each.

`DERIVED` holds a function "this event, from what was recorded before it"; it returns None where nothing of the kind was
due. `FACTS` holds, for each type that only the world can tell, the reason. A type is in exactly one of them: a test says
so, and a new type of event that is in neither cannot be replayed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tercet.core import events as e
from tercet.replay.derivations import gate, model, people, plan, quality, run, session, step
from tercet.replay.derivations.derived import Derived, at_its_time
from tercet.replay.scene import ReplayState

Derive = Callable[[ReplayState, Any], Derived | None]


def _skipped(scene: ReplayState, event: e.StepSkipped) -> Derived | None:
    return step.step_skipped(scene, event) or step.judged(scene, event)


DERIVED: dict[type[e.Event], Derive] = {
    e.SessionStarted: session.session_started,
    e.SessionMigrated: session.session_migrated,
    e.SessionResumed: session.session_resumed,
    e.SessionExpired: session.session_expired,
    e.GivenUp: session.given_up,
    e.SessionEnded: session.session_ended,
    e.PlanProposed: plan.plan_proposed,
    e.PlanningFailed: plan.planning_failed,
    e.Decomposed: plan.decomposed,
    e.EvidenceRetrieved: plan.evidence_retrieved,
    e.PlanReviewed: plan.plan_reviewed,
    e.OutputsProduced: plan.outputs_produced,
    e.RepeatsChecked: step.repeats_checked,
    e.Intent: step.intent,
    e.Complete: step.complete,
    e.StepRefused: step.step_refused,
    e.StepSkipped: _skipped,
    e.StepJudged: step.judged,
    e.LoopGuardTripped: step.judged,
    e.RetryScheduled: step.judged,
    e.Settled: step.settled,
    e.GateOpened: gate.gate_opened,
    e.GateAnswered: people.gate_answered,
    e.SessionCancelled: people.session_cancelled,
    e.BudgetExtended: people.budget_extended,
    e.AcceptanceLapsed: gate.acceptance_lapsed,
    e.ApprovalGranted: gate.approval_granted,
    e.CompensationBegun: gate.taken_back,
    e.EffectsKept: gate.taken_back,
    e.RunReported: run.run_reported,
    e.TurnJudged: run.turn_judged,
    e.ModelAsked: model.model_asked,
    e.SamplesDrawn: quality.samples_drawn,
    e.OutputsVerified: quality.outputs_judged,
    e.OutputsCritiqued: quality.outputs_judged,
    e.OutputsRepaired: quality.outputs_judged,
}

FACTS: dict[type[e.Event], str] = {
    e.Abort: "what became of a call",
    e.MessageDropped: "what a person said too late",
    e.SessionPaused: "that somebody, or a process, let go of it",
    e.ModelAnswered: "what a model answered",
    e.ExperienceDrawn: "what earlier runs have taught",
    e.TestsRun: "what a test command said",
    e.OutputsAttacked: "what came of edge cases",
    e.EvidenceFetched: "what was found in a library",
}

VERDICTS: frozenset[type[e.Event]] = frozenset(
    {
        e.PlanReviewed,
        e.StepRefused,
        e.StepJudged,
        e.LoopGuardTripped,
        e.GateOpened,
        e.ApprovalGranted,
        e.RunReported,
        e.TurnJudged,
        e.OutputsVerified,
        e.OutputsCritiqued,
        e.OutputsRepaired,
        e.SessionEnded,
    }
)
"""The events that say what was judged: those that a report counts as verdicts."""


def derive(scene: ReplayState, event: e.Event) -> Derived | None:
    """An event as it must have been; None where nothing of its kind was due."""
    if not scene.state.is_started and not isinstance(event, e.SessionStarted):
        return None
    if scene.owed:
        return Derived(event=_owed(scene, event))
    if type(event) in FACTS:
        return Derived(event=event, fact=FACTS[type(event)])
    found = DERIVED[type(event)](scene, event)
    if found is None or found.event.at == event.at:
        return found
    return Derived(event=at_its_time(found.event, event), fact=found.fact)


def _owed(scene: ReplayState, event: e.Event) -> e.Event:
    """What was derived together with the event before."""
    owed = scene.owed.popleft()
    if isinstance(owed, e.RetryScheduled) and isinstance(event, e.RetryScheduled):
        owed = step.retry_within(event, owed, scene.state.steps[owed.step])
    return at_its_time(owed, event)
