"""One event of a session as one sentence, with a mark and a tone: what the terminal prints and the report lists.

The phases of the quality loop have sentences of their own.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tercet.contracts.verdict import CriticReport
from tercet.core import events as e
from tercet.core.events.gate import GateKind
from tercet.core.events.plan import TurnAction
from tercet.core.state import State, StepState
from tercet.view.text import amount_text, count, took
from tercet.view.words import SKIPPED, Tone, answer_tone, answer_word, login_words, settlement

MOST_NAMES = 4


class EventView(NamedTuple):
    """An event for people."""

    mark: str
    tone: Tone
    text: str
    step: str = ""
    """The step that it is about; its name is not in the text."""
    is_minor: bool = False
    """Whether it says little to somebody who follows a run."""


def describe(event: e.Event, state: State | None = None) -> EventView | None:
    """Return what an event says; None for those of the quality loop, and for those that need no sentence.

    `state` is the session's state after it, where that is known: some sentences can then leave out what was said before.
    """
    return _of_step(event, state or State()) or _of_session(event, state or State())


def _of_step(event: e.Event, state: State) -> EventView | None:  # noqa: C901 - one case for each kind of event
    def view(mark: str, tone: Tone, text: str, *, is_minor: bool = False) -> EventView:
        return EventView(mark, tone, text, getattr(event, "step", ""), is_minor)

    match event:
        case e.Intent():
            call = f"{event.tool or 'a note'}{_attempt(event.attempt)} is about to be called"
            return view("·", "busy", call, is_minor=not event.tool)
        case e.Complete() if event.error:
            return view("✗", "bad", f"done, but unusable: {event.error}")
        case e.Complete() if event.lane:
            return view(
                "✓", "good", f"lane {event.lane} ended after {took(event.latency)}: {lane_use(event)}"
            )
        case e.Complete():
            how = "had happened" if event.reconciled else f"done after {took(event.latency)}"
            return view("✓", "good", f"{how}{_attempt(event.attempt)}")
        case e.Abort(outcome="not_done"):
            return view("✗", "bad", f"not done: {event.error}")
        case e.Abort():
            return view("?", "wait", f"outcome unknown: {event.error}")
        case e.RetryScheduled():
            return view("↻", "wait", f"tried again in {took(max(0, event.not_before - event.at))}")
        case e.Settled():
            return view("↻", "wait", settlement(event))
        case e.StepRefused():
            return view("✗", "bad", f"not called: {event.reason}")
        case e.RepeatsChecked() if event.found:
            return view("!", "wait", f"repeats a call of {some([each.session for each in event.found])}")
        case e.RepeatsChecked():
            return view("·", "quiet", "repeats no call of another run", is_minor=True)
        case e.StepProposed():
            tool = event.proposal.get("tool", "")
            return view("○", "quiet", f"proposed to the run that started the lane: {tool}")
        case e.ProposalsReviewed():
            is_ok, why = event.verdict.get("outcome") == "ok", "; ".join(event.verdict.get("reasons", ()))
            words = "accepted what its lane proposes" if is_ok else "rejected what its lane proposes"
            return view(*(("✓", "good") if is_ok else ("✗", "bad")), f"the critic {words}: {why}")
        case e.StepSkipped():
            return view("○", "quiet", f"skipped: {SKIPPED[event.reason]}")
        case e.StepJudged(outcome="replan") if state.change is not None and state.change.step == event.step:
            return view("↻", "wait", f"{event.reason}: reviewed again")
        case e.StepJudged():
            mark, tone, words = _JUDGED.get(event.outcome, ("·", "quiet", f"the critic says {event.outcome}"))
            why = f": {event.reason}" if event.reason else ""
            return view(mark, tone, f"{words}{why}", is_minor=event.outcome in ("accept", "retry"))
        case e.LoopGuardTripped():
            return view("✗", "bad", f"loop guard: {event.reason}")
        case e.GateOpened():
            return view("?", "wait", _asked(event.kind, event.names))
        case _:
            return None


def lane_use(used: e.Complete | StepState) -> str:
    """Return what a lane used up."""
    tokens = f", {count(used.tokens, 'token')}" if used.tokens else ""
    return f"{count(used.lane_calls, 'call')}{tokens}"


def _of_session(event: e.Event, state: State) -> EventView | None:  # noqa: C901 - one case for each kind of event
    match event:
        case e.GateAnswered():
            tone = answer_tone(event)
            return EventView(
                "✗" if tone == "bad" else "✓", "bad" if tone == "bad" else "good", _answered(event)
            )
        case e.OutputsAccepted():
            by = f" by {some(event.by)}" if event.by else ""
            return EventView("✓", "good", f"outputs accepted{by}: they are delivered as they are")
        case e.AcceptanceLapsed():
            return EventView("?", "wait", f"not committed, people are asked again: {event.reason}")
        case e.ApprovalGranted():
            return EventView("✓", "good", f"{event.step}: granted by policy {event.policy}")
        case e.PlanProposed():
            steps, by = count(len(event.plan.get("steps", ())), "step"), event.planner or event.origin
            return EventView("·", "busy", f"a plan of {steps}, by {by}", is_minor=True)
        case e.PlanningFailed():
            # What the critic said is in a line of its own above.
            said = "; ".join(map(str, state.verdict.get("reasons", ())))
            return EventView("✗", "bad", f"no plan: {event.reason.removeprefix(f'{said}; ')}")
        case e.PlanReviewed():
            is_ok, reasons = event.verdict.get("outcome") == "ok", "; ".join(event.verdict.get("reasons", ()))
            return EventView(
                *(("✓", "good") if is_ok else ("✗", "bad")),
                f"plan {'verified' if is_ok else 'refused'}: {reasons}",
            )
        case e.Decomposed():
            return EventView("·", "quiet", f"split into {count(event.steps, 'sub-task')}", is_minor=True)
        case e.EvidenceRetrieved():
            return EventView("·", "quiet", f"{count(len(event.evidence), 'fact')} pinned", is_minor=True)
        case e.ModelAsked():
            return EventView("·", "quiet", f"asked {event.model}{_attempt(event.attempt)}")
        case e.ModelAnswered() if event.code:
            return EventView("✗", "wait", f"no answer: {event.error}")
        case e.ModelAnswered():
            return EventView("·", "quiet", answered_text(event))
        case e.TurnJudged():
            return describe_turn(event)
        case e.OutputsProduced() if event.missing:
            missing = [f"{name} ({reason})" for name, reason in event.missing.items()]
            return EventView("✗", "bad", f"outputs are missing: {some(missing)}")
        case e.OutputsProduced():
            return EventView("✓", "good", f"outputs: {some(list(event.outputs)) or 'none'}", is_minor=True)
        case e.RunReported():
            return _reported(event)
        case e.CompensationBegun():
            steps = some([each.step for each in event.undo]) or "nothing"
            return EventView("·", "wait", f"taking back what was done: {steps}")
        case e.EffectsKept():
            return EventView("·", "wait", "what was done is kept", is_minor=not event.by)
        case _:
            return _of_lifecycle(event)


def _of_lifecycle(event: e.Event) -> EventView | None:
    match event:
        case e.SessionStarted():
            who = f"session {event.session} starts, for {event.actor.get('id')}, with {event.pack}"
            return EventView("·", "busy", who, is_minor=True)
        case e.SessionResumed():
            calls = f"; {some(event.in_flight)} was under way" if event.in_flight else ""
            return EventView("·", "quiet", f"resumed{calls}")
        case e.SessionPaused():
            return EventView("·", "wait", f"paused: {event.reason}")
        case e.SessionMigrated():
            by = f" by {event.by}" if event.by else " and the current rules"
            return EventView("·", "wait", f"moved to {event.pack}{by}: reviewed again")
        case e.SessionCancelled():
            who, why = _by(event.by, event.simulated_by), f": {event.reason}" if event.reason else ""
            return EventView("✗", "bad", f"cancelled by {who}{why}")
        case e.SessionExpired():
            return EventView("✗", "bad", event.reason)
        case e.GivenUp():
            return EventView("✗", "bad", f"given up: {event.reason}")
        case e.SessionEnded(status="completed"):
            return EventView("✓", "good", "completed")
        case e.SessionEnded():
            return EventView("✗", "bad", f"{event.status}: {event.reason}")
        case e.BudgetExtended():
            more = ", ".join(amount_text(name, amount) for name, amount in event.more.items())
            return EventView("✓", "good", f"may use {more} more, by {_by(event.by, event.simulated_by)}")
        case e.MessageDropped():
            return EventView("·", "wait", f"message dropped: {event.reason}")
        case _:
            return None


_JUDGED: dict[str, tuple[str, Tone, str]] = {
    "accept": ("✓", "good", "accepted by the critic"),
    "retry": ("↻", "wait", "the critic wants another try"),
    "replan": ("✗", "bad", "the critic wants another plan"),
    "escalate": ("✗", "bad", "the critic hands it to a person"),
}
_TURNS: dict[TurnAction, tuple[str, Tone, str]] = {
    "continue": ("·", "quiet", "goes on"),
    "retry": ("↻", "wait", "is undone and decided again"),
    "replan": ("↻", "wait", "stands, and the agent decides otherwise"),
    "stop": ("✗", "bad", "is the last"),
    "escalate": ("✗", "bad", "goes to a person"),
    "limit": ("✗", "bad", "is the last"),
    "final": ("✓", "good", "answers"),
}


def describe_turn(event: e.TurnJudged) -> EventView:
    """Return what became of a turn of an agent."""
    mark, tone, what = _TURNS[event.action]
    by = f" by {event.critic}" if event.critic and event.reason else ""
    return EventView(mark, tone, f"turn {event.turn} {what}{by}{f': {event.reason}' if event.reason else ''}")


def _reported(event: e.RunReported) -> EventView:
    reasons = "; ".join(event.reasons)
    match event.outcome:
        case "accept":
            return EventView("✓", "good", f"accepted by the critic: {scores(event.report)}")
        case "ask":
            return EventView("?", "wait", f"the outputs hold, and a person is asked: {reasons}")
        case _:
            return EventView(
                "✗", "bad", f"the critic says {event.outcome}{f': {reasons}' if reasons else ''}"
            )


def answered_text(event: e.ModelAnswered) -> str:
    """Return how long an answer of a model took, and how many tokens."""
    tokens = count(event.tokens_in + event.tokens_out, "token")
    return f"answered after {took(event.latency)}, {tokens}"


def scores(report: Mapping[str, Any]) -> str:
    """Return the scorecard of a report in a few words."""
    score = CriticReport.model_validate(report).score
    if score is None:
        return "no score"
    return ", ".join(f"{name} {each.score:.2g}" for name, each in score.scorecard.scores.items())


def _asked(kind: GateKind, names: Sequence[str]) -> str:
    match kind:
        case "approval":
            return f"waits for {some(names) or 'an approval'}"
        case "reconcile":
            return "waits for a person to say whether it happened"
        case "escalation":
            return "handed to a person"
        case "compensation":
            return "a person is asked whether what was done is taken back"
        case "output":
            return f"the outputs wait for {some(names) or 'a person'} to accept them"


def _answered(event: e.GateAnswered) -> str:
    changes = f", who set {changes_text(event.changes)}" if event.changes else ""
    note = f": {event.note}" if event.note else ""
    return (
        f"{answer_word(event)} by {event.actor}{login_words(event.login, event.simulated_by)}{changes}{note}"
    )


def changes_text(changes: Mapping[str, Any]) -> str:
    """Return the values that an approver has set, in one line."""
    return ", ".join(
        f"{place.removeprefix('/')} = {json.dumps(value, ensure_ascii=False)}"
        for place, value in changes.items()
    )


def some(names: Sequence[str]) -> str:
    """Return the first names of a list, and how many more there are."""
    more = len(names) - MOST_NAMES
    return ", ".join([*names[:MOST_NAMES], *([f"… {more} more"] if more > 0 else [])])


def _by(name: str, simulated_by: str) -> str:
    return f"{name}{login_words('', simulated_by)}"


def _attempt(number: int) -> str:
    return f", attempt {number}" if number > 1 else ""
