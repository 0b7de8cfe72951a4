"""Events as lines: one sentence with a mark and a tone, which terminal, report and console show alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tercet.contracts.evidence import Citation, Evidence
from tercet.contracts.plan import compensated_step
from tercet.contracts.policy import Policy
from tercet.contracts.runs.saga import RollbackResult
from tercet.contracts.values import references
from tercet.contracts.values.references import Reference
from tercet.contracts.verdict import CriticReport
from tercet.core import events as e
from tercet.core.events.gate import GateKind
from tercet.core.state import State, StepState
from tercet.view.phases import PhaseEvent, phase_view
from tercet.view.text import (
    amount_text,
    as_words,
    changes_text,
    count,
    duration_text,
    first_names,
    join_names,
    reasons_text,
    without_step,
)
from tercet.view.vocabulary import (
    CALL_OUTCOMES,
    JUDGED,
    TURNS,
    Tone,
    answer_tone,
    answer_word,
    login_words,
    settlement,
    skip_text,
    step_text,
)

TITLES: dict[type[e.Event], tuple[str, str]] = {
    e.SessionStarted: ("loop_started", "a run began"),
    e.SessionResumed: ("loop_resumed", "another process resumed the run"),
    e.SessionPaused: ("loop_paused", "the run was paused"),
    e.SessionEnded: ("loop_ended", "the run ended"),
    e.SessionCancelled: ("session_cancelled", "the run was cancelled"),
    e.SessionExpired: ("session_expired", "the run or its gate expired"),
    e.SessionMigrated: ("session_migrated", "the run was moved to another pack or snapshot"),
    e.BudgetExtended: ("budget_extended", "an operator added to the budget"),
    e.GivenUp: ("given_up", "the run exceeded its number of phases"),
    e.PlanProposed: ("plan_proposed", "a plan was proposed"),
    e.PlanningFailed: ("planning_failed", "the planner has no plan"),
    e.PlanReviewed: ("plan_reviewed", "the critic reviewed the plan"),
    e.Intent: ("action_dispatched", "a call begins"),
    e.Complete: ("action_completed", "a call completed"),
    e.Abort: ("action_aborted", "a call did not happen, or its outcome is unknown"),
    e.StepRefused: ("step_refused", "a step is not called"),
    e.RepeatsChecked: ("repeats_checked", "earlier calls with the same identity were looked up"),
    e.RetryScheduled: ("retry_scheduled", "a step will be retried"),
    e.LoopGuardTripped: ("loop_guard_tripped", "the loop guard stopped a repetition"),
    e.DecisionTaken: ("decision_taken", "a decision of the plan was taken after a step"),
    e.GateOpened: ("gate_opened", "the run waits for a person"),
    e.GateAnswered: ("gate_answered", "a person answered"),
    e.OutputsAccepted: ("outputs_accepted", "the outputs are accepted, and the steps that take them begin"),
    e.AcceptanceLapsed: ("acceptance_lapsed", "people are asked again about outputs that were accepted"),
    e.ApprovalGranted: ("approval_granted", "a policy gave an approval"),
    e.CompensationBegun: ("compensation_begun", "effects are compensated"),
    e.ModelAsked: ("model_asked", "a model is asked"),
    e.ModelAnswered: ("model_answered", "a model answered or failed"),
    e.RunReported: ("run_reported", "the critic judged the run"),
    e.StepProposed: ("step_proposed", "a lane proposes a step to its parent"),
    e.ProposalsReviewed: ("proposals_reviewed", "the critic reviewed the proposals of a lane"),
}
"""The events that a log lists, each with its action and a sentence without values of the run."""


class EventLine(NamedTuple):
    """An event as one sentence."""

    mark: str
    tone: Tone
    text: str
    step: str = ""
    """The step of the event; its name is not in the text."""
    is_minor: bool = False
    """Whether it is left out for a person who watches a run."""

    @property
    def sentence(self) -> str:
        """The text with the name of the step before it."""
        return f"{f'{step_text(self.step)}: ' if self.step else ''}{self.text}"


def describe(event: e.Event, state: State | None = None) -> EventLine:
    """Return the line of an event; with `state`, the state after it, sentences do not repeat earlier lines."""
    if isinstance(event, PhaseEvent):
        phase = phase_view(event)
        return EventLine(phase.mark, phase.tone, phase.text)
    found = _of_step(event, state or State()) or _of_session(event, state or State())
    return found or EventLine("·", "quiet", as_words(str(type(event).__struct_config__.tag)))


def _of_step(event: e.Event, state: State) -> EventLine | None:  # noqa: C901 - one case for each kind of event
    def view(mark: str, tone: Tone, text: str, *, is_minor: bool = False) -> EventLine:
        return EventLine(mark, tone, text, getattr(event, "step", ""), is_minor)

    match event:
        case e.Intent():
            call = f"{event.tool or 'a note'}{attempt_text(event.attempt)} is about to be called"
            return view("·", "busy", call, is_minor=not event.tool)
        case e.Complete() if event.error:
            return view("✗", "bad", f"{CALL_OUTCOMES['unusable'].word}: {event.error}")
        case e.Complete() if event.lane:
            text = f"lane {event.lane} ended after {duration_text(event.latency)}: {lane_use(event)}"
            return view("✓", "good", text)
        case e.Complete():
            how = "had happened" if event.reconciled else f"done after {duration_text(event.latency)}"
            return view("✓", "good", f"{how}{attempt_text(event.attempt)}")
        case e.Abort() if event.lane:
            return view("?", "wait", event.error)
        case e.Abort():
            mark, tone, word = CALL_OUTCOMES[event.outcome]
            return view(mark, tone, f"{word}: {event.error}")
        case e.RetryScheduled():
            return view("↻", "wait", f"tried again in {duration_text(max(0, event.not_before - event.at))}")
        case e.Settled():
            return view("↻", "wait", settlement(event))
        case e.StepRefused():
            return view("✗", "bad", f"not called: {event.reason}")
        case e.RepeatsChecked() if event.found:
            return view(
                "!", "wait", f"repeats a call of {first_names([each.session for each in event.found])}"
            )
        case e.RepeatsChecked():
            return view("·", "quiet", "repeats no call of another run", is_minor=True)
        case e.StepProposed():
            tool = event.proposal.get("tool", "")
            return view("○", "quiet", f"proposed to the run that started the lane: {tool}")
        case e.ProposalsReviewed():
            is_ok, why = event.verdict.get("outcome") == "ok", reasons_text(event.verdict.get("reasons", ()))
            words = f"{'accepted' if is_ok else 'rejected'} the proposals of its lane"
            return view(*(("✓", "good") if is_ok else ("✗", "bad")), f"the critic {words}: {why}")
        case e.StepSkipped() if compensated_step(event.step):
            return view("✗", "bad", _compensation_failure(state.steps.get(event.step)))
        case e.StepSkipped():
            return view("○", "quiet", f"skipped: {skip_text(event.reason, _condition(state, event.step))}")
        case e.StepJudged(outcome="replan") if state.change is not None and state.change.step == event.step:
            return view("↻", "wait", f"{event.reason}: reviewed again")
        case e.StepJudged():
            mark, tone, words = JUDGED.get(event.outcome, ("·", "quiet", f"the critic says {event.outcome}"))
            is_repeated = _is_refused(state, event.step)  # the line above has the reason
            reason = without_step(event.reason, event.step)
            why = f": {reason}" if reason and not is_repeated else ""
            return view(mark, tone, f"{words}{why}", is_minor=event.outcome in ("accept", "retry"))
        case e.LoopGuardTripped():
            return view("✗", "bad", f"loop guard: {event.reason}")
        case e.DecisionTaken(outcome="accept"):
            return view("✓", "good", f"decision {event.decision} is taken")
        case e.DecisionTaken():
            return view("✗", "bad", f"decision {event.decision} cannot be taken: {event.reason}")
        case e.GateOpened():
            return view("?", "wait", _asked(event.kind, event.names))
        case _:
            return None


def _compensation_failure(step: StepState | None) -> str:
    """Return how a compensation failed, and whether the effect that it should have undone is still there."""
    if step is None:
        return "failed: its effect may still be there"
    # A call that answered something unusable may have undone the effect.
    is_certain = not step.attempt or step.outcome in ("not_done", "refused")
    effect = "its effect is still there" if is_certain else "its effect may still be there"
    return f"{failure_text(step.attempt)}: {effect}"


def failure_text(attempts: int) -> str:
    """Return `failed after N attempts`; `failed` for the first one."""
    return f"failed after {attempts} attempts" if attempts > 1 else "failed"


def lane_use(used: e.Complete | StepState) -> str:
    """Return what a lane used."""
    tokens = f", {count(used.tokens, 'token')}" if used.tokens else ""
    return f"{count(used.lane_calls, 'call')}{tokens}"


def _is_refused(state: State, name: str) -> bool:
    """Return whether the critic or a limit refused the call of a step."""
    step = state.steps.get(name)
    return step is not None and step.outcome == "refused"


def _of_session(event: e.Event, state: State) -> EventLine | None:  # noqa: C901 - one case for each kind of event
    match event:
        case e.GateAnswered():
            tone = answer_tone(event)
            return EventLine(
                "✗" if tone == "bad" else "✓", "bad" if tone == "bad" else "good", _answered(event)
            )
        case e.OutputsAccepted():
            by = f"by {join_names(event.by)}" if event.by else "by the rules of the decision"
            return EventLine("✓", "good", f"outputs accepted {by}: they are delivered as they are")
        case e.AcceptanceLapsed():
            return EventLine("?", "wait", f"not committed, people are asked again: {event.reason}")
        case e.ApprovalGranted():
            return EventLine("✓", "good", f"{event.step}: granted by policy {event.policy}")
        case e.PlanProposed():
            steps, by = count(len(event.plan.get("steps", ())), "step"), event.planner or event.origin
            return EventLine("·", "busy", f"a plan of {steps}, by {by}", is_minor=True)
        case e.PlanningFailed(by_pack=True) if any(_is_refused(state, step) for step in state.steps):
            return EventLine("✗", "bad", "no plan: there is no other one to propose")
        case e.PlanningFailed():
            # The line of the review, above, has the critic's reasons.
            said = "; ".join(map(str, state.verdict.get("reasons", ())))
            return EventLine("✗", "bad", f"no plan: {event.reason.removeprefix(f'{said}; ')}")
        case e.PlanReviewed():
            is_ok, reasons = (
                event.verdict.get("outcome") == "ok",
                reasons_text(event.verdict.get("reasons", ())),
            )
            return EventLine(
                *(("✓", "good") if is_ok else ("✗", "bad")),
                f"plan {'verified' if is_ok else 'refused'}: {reasons}",
            )
        case e.Decomposed():
            return EventLine("·", "quiet", f"split into {count(event.steps, 'sub-task')}", is_minor=True)
        case e.EvidenceRetrieved():
            return EventLine("·", "quiet", f"{count(len(event.evidence), 'fact')} pinned", is_minor=True)
        case e.ModelAsked():
            return EventLine("·", "quiet", f"asked {event.model}{attempt_text(event.attempt)}")
        case e.ModelAnswered() if event.code:
            return EventLine("✗", "wait", f"no answer: {event.error}")
        case e.ModelAnswered():
            return EventLine("·", "quiet", answered_text(event))
        case e.TurnJudged():
            return describe_turn(event)
        case e.OutputsProduced() if event.missing:
            return EventLine("✗", "bad", f"outputs are missing: {_missing(event, state)}")
        case e.OutputsProduced():
            return EventLine(
                "✓", "good", f"outputs: {first_names(list(event.outputs)) or 'none'}", is_minor=True
            )
        case e.RunReported():
            return _reported(event)
        case e.CompensationBegun():
            steps = first_names([each.step for each in event.undo]) or "nothing"
            return EventLine("·", "wait", f"compensating what was done: {steps}")
        case e.EffectsKept():
            return EventLine("·", "wait", "what was done is kept", is_minor=not event.by)
        case _:
            return _of_lifecycle(event)


def _condition(state: State, step: str) -> str | None:
    """Return the condition of a step of the plan, if it has one."""
    return next((each.get("when") for each in state.plan.get("steps", ()) if each.get("id") == step), None)


def _missing(event: e.OutputsProduced, state: State) -> str:
    """Return the missing outputs with the reasons; those that a skipped step would have returned, with its name."""
    skipped = {name for name, step in state.steps.items() if step.status == "skipped"}
    by_step = {
        str(found.place[0]): step
        for found in references.scan(state.plan.get("outputs", {}))
        if isinstance(found, Reference)
        for step in skipped.intersection(found.names)
    }
    by_reason: dict[str, list[str]] = {}
    for name, reason in event.missing.items():
        why = f"step {by_step[name]} was skipped" if name in by_step else reason
        by_reason.setdefault(why, []).append(name)
    return first_names([f"{join_names(names)} ({why})" for why, names in by_reason.items()])


def _of_lifecycle(event: e.Event) -> EventLine | None:
    match event:
        case e.SessionStarted():
            who = f"session {event.session} starts, for {event.actor.get('id')}, with {event.pack}"
            return EventLine("·", "busy", who, is_minor=True)
        case e.SessionResumed():
            calls = f"; {first_names(event.in_flight)} was in flight" if event.in_flight else ""
            return EventLine("·", "quiet", f"resumed{calls}")
        case e.SessionPaused():
            return EventLine("·", "wait", f"paused: {event.reason}")
        case e.SessionMigrated():
            by = f" by {event.by}" if event.by else " and the current rules"
            return EventLine("·", "wait", f"moved to {event.pack}{by}: reviewed again")
        case e.SessionCancelled():
            who, why = _by(event.by, event.simulated_by), f": {event.reason}" if event.reason else ""
            return EventLine("✗", "bad", f"cancelled by {who}{why}")
        case e.SessionExpired():
            return EventLine("✗", "bad", event.reason)
        case e.GivenUp():
            return EventLine("✗", "bad", f"given up: {event.reason}")
        case e.SessionEnded(status="completed"):
            return EventLine("✓", "good", "completed")
        case e.SessionEnded():
            return EventLine("✗", "bad", f"{event.status}: {event.reason}")
        case e.BudgetExtended():
            more = ", ".join(amount_text(name, amount) for name, amount in event.more.items())
            return EventLine("✓", "good", f"may use {more} more, by {_by(event.by, event.simulated_by)}")
        case e.MessageDropped():
            return EventLine("·", "wait", f"message dropped: {event.reason}")
        case _:
            return None


def describe_turn(event: e.TurnJudged) -> EventLine:
    """Return the line of a judged turn of an agent."""
    mark, tone, what = TURNS[event.action]
    by = f" by {event.critic}" if event.critic and event.reason else ""
    return EventLine(mark, tone, f"turn {event.turn} {what}{by}{f': {event.reason}' if event.reason else ''}")


def _reported(event: e.RunReported) -> EventLine:
    reasons = reasons_text(event.reasons)
    match event.outcome:
        case "accept":
            return EventLine("✓", "good", f"accepted by the critic: {scores(event.report)}")
        case "ask":
            return EventLine("?", "wait", f"the outputs hold, and a person is asked: {reasons}")
        case _:
            return EventLine(
                "✗", "bad", f"the critic says {event.outcome}{f': {reasons}' if reasons else ''}"
            )


def answered_text(event: e.ModelAnswered) -> str:
    """Return the duration and the tokens of a model's answer."""
    tokens = count(event.tokens_in + event.tokens_out, "token")
    return f"answered after {duration_text(event.latency)}, {tokens}"


def scores(report: Mapping[str, Any]) -> str:
    """Return the scorecard of a report in a few words."""
    score = CriticReport.model_validate(report).score
    if score is None:
        return "no score"
    return ", ".join(f"{name} {each.score:.2g}" for name, each in score.scorecard.scores.items())


def _asked(kind: GateKind, names: Sequence[str]) -> str:
    match kind:
        case "approval":
            return f"waits for {first_names(names) or 'an approval'}"
        case "reconcile":
            return "waits for a person to say whether it happened"
        case "escalation":
            return "escalated to a person"
        case "compensation":
            return "a person is asked whether what was done is compensated"
        case "output":
            return f"the outputs wait for {first_names(names) or 'a person'} to accept them"


def _answered(event: e.GateAnswered) -> str:
    changes = f", who set {changes_text(event.changes)}" if event.changes else ""
    note = f": {event.note}" if event.note else ""
    return (
        f"{answer_word(event)} by {event.actor}{login_words(event.login, event.simulated_by)}{changes}{note}"
    )


def _by(name: str, simulated_by: str) -> str:
    return f"{name}{login_words('', simulated_by)}"


def attempt_text(number: int) -> str:
    """Return `, attempt N`; empty for the first attempt."""
    return f", attempt {number}" if number > 1 else ""


# --- the events of a run ---


@dataclass(frozen=True, kw_only=True)
class RunEvent:
    """One event of a run: its position from 1, its time, the time since the start, and its line."""

    number: int
    at: int
    after_ms: int
    text: str
    mark: str
    tone: Tone


def run_events(events: Sequence[e.Event], first: int = 0, last: int | None = None) -> tuple[RunEvent, ...]:
    """Return the events of a run as lines, or those at some positions from 0."""
    shown = events[first:last]
    lines = (describe(event) for event in shown)
    return tuple(
        RunEvent(
            number=number,
            at=event.at,
            after_ms=event.at - events[0].at,
            text=line.sentence,
            mark=line.mark,
            tone=line.tone,
        )
        for number, (event, line) in enumerate(zip(shown, lines, strict=True), start=first + 1)
    )


# --- source ---


@dataclass(frozen=True, kw_only=True)
class StoredFact:
    """A fact that a session has stored, and its source if it was looked up."""

    evidence: Evidence
    citation: Citation | None = None


@dataclass(frozen=True, kw_only=True)
class RunData:
    """A run: its state, the events that led to it, and what is stored beside the events."""

    state: State
    events: tuple[e.Event, ...]
    chain: str = ""
    """The last link of the verified hash chain."""
    facts: tuple[StoredFact, ...] = ()
    texts: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Prompts and long answers by their digests, as far as they are still stored."""
    record: Mapping[str, Any] | None = None
    """The decision record, verified against its hash."""
    rollback: RollbackResult | None = None
    policies: tuple[Policy, ...] = ()
    """The policies of the pack, where one of them may have refused a call; empty if the pack is not stored."""
    minimums: Mapping[str, float] = field(default_factory=dict[str, float])
    """The minimum of each dimension of the rubric; empty if the pack is not stored."""
