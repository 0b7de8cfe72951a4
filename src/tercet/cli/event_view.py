"""One event of a session as one line for people; events that say nothing new to them have none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.text import Text

from tercet.cli.text import count, listed, printable, took
from tercet.cli.values import amount_text, value_text
from tercet.contracts.plan import compensated_step
from tercet.contracts.verdict import CriticReport
from tercet.core import events as e
from tercet.core.events.plan import TurnAction
from tercet.core.state import Answer, State

WIDEST_STEP = 20
WIDEST_TOOL = 34

SKIPPED = {
    "condition_false": "skipped: its condition is false",
    "optional_failed": "skipped: it failed, and it is optional",
}
ANSWERS = {
    "approve": "approved",
    "deny": "denied",
    "modify": "sent back",
    "withdraw": "withdrawn",
    "grant": "granted",
    "happened": "said to have happened",
    "did_not_happen": "said not to have happened",
    "extend": "extended",
    "replan": "sent back for another plan",
    "accept_partial": "accepted as partial",
    "abandon": "abandoned",
    "compensate": "answered with compensate",
    "keep": "answered with keep",
}
"""What an answer makes of its gate."""


@dataclass(frozen=True, kw_only=True)
class Columns:
    """The steps of a plan with their tools, and how wide both are printed."""

    tools: Mapping[str, str]
    step: int
    tool: int

    @classmethod
    def of(cls, plan: Mapping[str, Any], undo: Sequence[e.Undo] = ()) -> Columns:
        """The columns of a plan as it was recorded, and of the calls that take it back."""
        steps: list[dict[str, Any]] = plan.get("steps", [])
        tools = {step["id"]: printable(step.get("tool") or step.get("kind", "tool"), 80) for step in steps}
        tools |= {each.name: printable(each.tool, 80) for each in undo}
        return cls(
            tools=tools,
            step=min(WIDEST_STEP, max(map(len, tools), default=0)),
            tool=min(WIDEST_TOOL, max(map(len, tools.values()), default=0)),
        )

    def line(self, mark: str, style: str, step: str, text: str, *, is_quiet: bool = False) -> Text:
        """A line about a step: mark, name, tool, and what happened."""
        tool = self.tools.get(step, "")
        line = Text.assemble(
            (f"{mark} ", style),
            (f"{step_text(step):<{self.step}}  ", "bold"),
            f"{tool:<{self.tool}}  ",
            (text, "dim" if is_quiet else style),
        )
        line.rstrip()
        return line


def step_text(step: str) -> str:
    """A step's name; one that takes another back says so."""
    host = compensated_step(step)
    return printable(f"↶ {host}" if host else step)


def line_of(state: State, event: e.Event) -> Text | None:  # noqa: C901 - one case for each kind of event
    """What an event means; `state` is the session's state with the plan that the event is about.

    The phases of the quality loop have lines of their own: see `quality_view.Phases`.
    """
    columns = Columns.of(state.plan, state.undo)
    match event:
        case e.Intent() if event.tool:
            again = f"attempt {event.attempt}" if event.attempt > 1 else ""
            return columns.line("·", "dim", event.step, again, is_quiet=True)
        case e.Complete():
            return _completed(columns, event)
        case e.Abort(outcome="not_done"):
            return columns.line("✗", "red", event.step, f"not done: {_short(event.error)}")
        case e.Abort():
            return columns.line("?", "yellow", event.step, f"outcome unknown: {_short(event.error)}")
        case e.RetryScheduled():
            wait = took(max(0, event.not_before - event.at))
            return columns.line("↻", "yellow", event.step, f"tried again in {wait}")
        case e.Settled():
            return columns.line("↻", "yellow", event.step, _settled(event))
        case e.StepRefused():
            return columns.line("✗", "red", event.step, f"not called: {_short(event.reason)}")
        case e.RepeatsChecked() if event.found:
            text = f"repeats a call of {listed([each.session for each in event.found])}"
            return columns.line("!", "yellow", event.step, text)
        case e.StepSkipped():
            return columns.line("○", "dim", event.step, SKIPPED[event.reason], is_quiet=True)
        case e.StepJudged(outcome="replan") if state.change is not None and state.change.step == event.step:
            return columns.line("↻", "yellow", event.step, f"{_short(event.reason)}: reviewed again")
        case e.StepJudged(outcome="replan" | "escalate"):
            wish = "wants another plan" if event.outcome == "replan" else "escalates"
            return columns.line("✗", "red", event.step, f"the critic {wish}: {_short(event.reason)}")
        case e.LoopGuardTripped():
            return columns.line("✗", "red", event.step, f"loop guard: {_short(event.reason)}")
        case e.GateOpened() if event.step:
            return columns.line("?", "yellow", event.step, _asked(event))
        case e.GateAnswered():
            return _answered(event)
        case e.PlanningFailed():
            return _unplanned(state, event)
        case e.PlanReviewed():
            return _reviewed(event)
        case e.OutputsProduced() if event.missing:
            missing = [f"{name} ({reason})" for name, reason in event.missing.items()]
            return _line("✗", "red", f"outputs are missing: {listed(missing)}")
        case e.RunReported():
            return _reported(event)
        case e.SessionResumed():
            calls = f"; {listed(event.in_flight)} was under way" if event.in_flight else ""
            return _line("·", "dim", f"resumed{calls}")
        case e.GateOpened():
            return _line("?", "yellow", _asked(event))
        case e.OutputsAccepted():
            by = f" by {printable(listed(event.by), 120)}" if event.by else ""
            return _line("✓", "green", f"outputs accepted{by}: they are delivered as they are")
        case e.AcceptanceLapsed():
            return _line("?", "yellow", f"not committed, people are asked again: {_short(event.reason)}")
        case e.ApprovalGranted():
            how = f"granted by policy {printable(event.policy, 120)}"
            return _line("✓", "green", f"{printable(event.step, 120)}: {how}")
        case e.SessionPaused():
            return _line("·", "yellow", f"paused: {_short(event.reason)}")
        case e.GivenUp():
            return _line("✗", "red", f"given up: {_short(event.reason)}")
        case e.SessionEnded(status="completed"):
            return _line("✓", "bold green", "completed")
        case e.SessionEnded():
            return _line("✗", "bold red", f"{printable(event.status)}: {_short(event.reason)}")
        case e.ModelAsked():
            again = f", attempt {event.attempt}" if event.attempt > 1 else ""
            return _line("·", "dim", f"asked {printable(event.model, 80)}{again}")
        case e.ModelAnswered() if event.code:
            return _line("✗", "yellow", f"no answer: {_short(event.error)}")
        case e.ModelAnswered():
            tokens = count(event.tokens_in + event.tokens_out, "token")
            return _line("·", "dim", f"answered after {took(event.latency)}, {tokens}")
        case e.TurnJudged():
            return turn_line(event)
        case e.SessionCancelled():
            note = f": {_short(event.reason)}" if event.reason else ""
            who = f"{printable(event.by, 80)}{login_words('', event.simulated_by)}"
            return _line("✗", "red", f"cancelled by {who}{note}")
        case e.SessionExpired():
            return _line("✗", "red", _short(event.reason))
        case e.SessionMigrated():
            by = f" by {printable(event.by, 80)}" if event.by else " and the current rules"
            return _line("·", "yellow", f"moved to {printable(event.pack, 120)}{by}: reviewed again")
        case e.BudgetExtended():
            more = ", ".join(amount_text(name, amount) for name, amount in event.more.items())
            who = f"{printable(event.by, 80)}{login_words('', event.simulated_by)}"
            return _line("✓", "green", f"may use {more} more, by {who}")
        case e.MessageDropped():
            return _line("·", "yellow", f"not heard: {_short(event.reason)}")
        case e.CompensationBegun():
            steps = listed([each.step for each in event.undo])
            return _line("·", "yellow", f"taking back what was done: {steps or 'nothing'}")
        case e.EffectsKept() if event.by:
            return _line("·", "yellow", "what was done is kept")
        case _:
            return None


def _unplanned(state: State, event: e.PlanningFailed) -> Text:
    """Why there is no plan, without what the critic said, which stands in a line of its own above."""
    said = "; ".join(str(reason) for reason in state.verdict.get("reasons", ()))
    return _line("✗", "red", f"no plan: {_short(event.reason.removeprefix(f'{said}; '))}")


_TURNS: dict[TurnAction, tuple[str, str, str]] = {
    "continue": ("·", "dim", "goes on"),
    "retry": ("↻", "yellow", "is undone and decided again"),
    "replan": ("↻", "yellow", "stands, and the agent decides otherwise"),
    "stop": ("✗", "red", "is the last"),
    "escalate": ("✗", "red", "goes to a person"),
    "limit": ("✗", "red", "is the last"),
    "final": ("✓", "green", "answers"),
}


def turn_line(event: e.TurnJudged) -> Text:
    """The line of a turn of an agent."""
    mark, style, what = _TURNS[event.action]
    by = f" by {printable(event.critic, 80)}" if event.critic and event.reason else ""
    why = f"{by}: {_short(event.reason)}" if event.reason else ""
    return _line(mark, style, f"turn {event.turn} {what}{why}")


def _line(mark: str, style: str, text: str) -> Text:
    return Text.assemble((f"{mark} ", style), (text, "dim" if style == "dim" else ""))


def _completed(columns: Columns, event: e.Complete) -> Text:
    if event.error:
        return columns.line("✗", "red", event.step, f"done, but unusable: {_short(event.error)}")
    how = "had happened" if event.reconciled else took(event.latency)
    again = f", attempt {event.attempt}" if event.attempt > 1 else ""
    return columns.line("✓", "green", event.step, f"{how}{again}", is_quiet=True)


def _settled(event: e.Settled) -> str:
    match event.how:
        case "absent":
            return "it did not happen: called again"
        case "run_again" if event.by == "idempotent":
            return "called again under the same key"
        case "run_again":
            return "read again"
        case "ask_again":
            why = f": {_short(event.reason)}" if event.reason else ""
            return f"not settled{why}: asked again in {took(max(0, event.not_before - event.at))}"


def _asked(event: e.GateOpened) -> str:
    match event.kind:
        case "approval":
            return f"waits for {listed(event.names) or 'an approval'}"
        case "reconcile":
            return "waits for somebody to say whether it happened"
        case "escalation":
            return "handed to a person"
        case "compensation":
            return "somebody is asked whether what was done is taken back"
        case "output":
            return f"the outputs wait for {listed(event.names) or 'somebody'} to accept them"


def _answered(event: e.GateAnswered) -> Text:
    is_bad = event.answer in ("deny", "abandon", "withdraw")
    mark, style = ("✗", "red") if is_bad else ("✓", "green")
    note = f": {_short(event.note)}" if event.note else ""
    who = f"{printable(event.actor, 80)}{login_words(event.login, event.simulated_by)}"
    changes = f", who set {changes_text(event.changes)}" if event.changes else ""
    return _line(mark, style, f"{answer_word(event)} by {who}{changes}{note}")


def answer_word(answer: e.GateAnswered | Answer) -> str:
    """What an answer makes of its gate."""
    return "changed" if answer.changes else ANSWERS[answer.answer]


def login_words(login: str | None, simulated_by: str = "") -> str:
    """The login that a person answered from, or that acted as them, behind their name; nothing where none was recorded."""
    if simulated_by:
        return f" (simulated by login {printable(simulated_by, 80)})"
    return f" from login {printable(login, 80)}" if login else ""


def changes_text(changes: Mapping[str, Any]) -> str:
    """The values that an approver has set, in one line."""
    pairs = (f"{place.removeprefix('/')} = {value_text(value)}" for place, value in changes.items())
    return printable(", ".join(pairs), 300)


def _reviewed(event: e.PlanReviewed) -> Text:
    reasons = "; ".join(_short(reason) for reason in event.verdict.get("reasons", ()))
    if event.verdict.get("outcome") == "ok":
        return _line("✓", "green", f"plan verified: {reasons}")
    return _line("✗", "red", f"plan refused: {reasons}")


def _reported(event: e.RunReported) -> Text:
    if event.outcome == "accept":
        return _line("✓", "green", f"accepted by the critic: {scores(event.report)}")
    reasons = "; ".join(_short(reason) for reason in event.reasons)
    if event.outcome == "ask":
        return _line("?", "yellow", f"judged: {reasons}")
    return _line("✗", "red", f"the critic says {printable(event.outcome)}{f': {reasons}' if reasons else ''}")


def scores(report: Mapping[str, Any]) -> str:
    """The scorecard of a report in a few words."""
    score = CriticReport.model_validate(report).score
    if score is None:
        return "no score"
    return ", ".join(f"{name} {each.score:.2g}" for name, each in score.scorecard.scores.items())


def _short(text: str) -> str:
    return printable(text, 300)
