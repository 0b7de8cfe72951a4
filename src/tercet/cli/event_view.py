"""One event of a session as one line for people; events that say nothing new to them have none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rich.text import Text

from tercet.cli.text import listed, printable, took
from tercet.contracts.verdict import CriticReport
from tercet.journal import events as e
from tercet.runtime.state import State

WIDEST_STEP = 20
WIDEST_TOOL = 34

SKIPPED = {
    "condition_false": "skipped: its condition is false",
    "optional_failed": "skipped: it failed, and it is optional",
    "not_reached": "skipped: what it needs was not reached",
}
ANSWERS = {
    "approve": "approved",
    "deny": "denied",
    "happened": "said to have happened",
    "did_not_happen": "said not to have happened",
}


@dataclass(frozen=True, kw_only=True)
class Columns:
    """The steps of a plan with their tools, and how wide both are printed."""

    tools: Mapping[str, str]
    step: int
    tool: int

    @classmethod
    def of(cls, plan: Mapping[str, Any]) -> Columns:
        """The columns of a plan as it was recorded."""
        steps: list[dict[str, Any]] = plan.get("steps", [])
        tools = {step["id"]: printable(step.get("tool") or step.get("kind", "tool"), 80) for step in steps}
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
            (f"{printable(step):<{self.step}}  ", "bold"),
            f"{tool:<{self.tool}}  ",
            (text, "dim" if is_quiet else style),
        )
        line.rstrip()
        return line


def line_of(state: State, event: e.Event) -> Text | None:  # noqa: C901 - one case for each kind of event
    """What an event means; `state` is the session's state with the plan that the event is about."""
    columns = Columns.of(state.plan)
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
        case e.StepSkipped():
            return columns.line("○", "dim", event.step, SKIPPED[event.reason], is_quiet=True)
        case e.StepJudged(outcome="replan" | "escalate"):
            wish = "wants another plan" if event.outcome == "replan" else "escalates"
            return columns.line("✗", "red", event.step, f"the critic {wish}: {_short(event.reason)}")
        case e.LoopGuardTripped():
            return columns.line("✗", "red", event.step, f"loop guard: {_short(event.reason)}")
        case e.GateOpened():
            return columns.line("?", "yellow", event.step, _asked(event))
        case e.GateAnswered():
            return _answered(event)
        case _:
            return _about_session(event)


def _about_session(event: e.Event) -> Text | None:
    """The line of an event that is about no single step."""
    match event:
        case e.PlanReviewed():
            return _reviewed(event)
        case e.PlanningFailed():
            return _line("✗", "red", f"no plan: {_short(event.reason)}")
        case e.OutputsProduced() if event.missing:
            missing = [f"{name} ({reason})" for name, reason in event.missing.items()]
            return _line("✗", "red", f"outputs are missing: {listed(missing)}")
        case e.RunReported():
            return _reported(event)
        case e.SessionResumed():
            calls = f"; {listed(event.in_flight)} was under way" if event.in_flight else ""
            return _line("·", "dim", f"resumed{calls}")
        case e.SessionPaused():
            return _line("·", "yellow", f"paused: {_short(event.reason)}")
        case e.SessionEnded(status="completed"):
            return _line("✓", "bold green", "completed")
        case e.SessionEnded():
            return _line("✗", "bold red", f"{printable(event.status)}: {_short(event.reason)}")
        case _:
            return None


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
            return f"not settled: asked again in {took(max(0, event.not_before - event.at))}"


def _asked(event: e.GateOpened) -> str:
    if event.kind == "approval":
        return f"waits for {listed(event.names) or 'an approval'}"
    return "waits for somebody to say whether it happened"


def _answered(event: e.GateAnswered) -> Text:
    mark, style = ("✗", "red") if event.answer == "deny" else ("✓", "green")
    note = f": {_short(event.note)}" if event.note else ""
    return _line(mark, style, f"{ANSWERS[event.answer]} by {printable(event.actor, 80)}{note}")


def _reviewed(event: e.PlanReviewed) -> Text:
    reasons = "; ".join(_short(reason) for reason in event.verdict.get("reasons", ()))
    if event.verdict.get("outcome") == "ok":
        return _line("✓", "green", f"plan verified: {reasons}")
    return _line("✗", "red", f"plan refused: {reasons}")


def _reported(event: e.RunReported) -> Text:
    if event.outcome == "accept":
        return _line("✓", "green", f"accepted by the critic: {scores(event.report)}")
    reasons = "; ".join(_short(reason) for reason in event.reasons)
    return _line("✗", "red", f"the critic says {printable(event.outcome)}: {reasons}")


def scores(report: Mapping[str, Any]) -> str:
    """The scorecard of a report in a few words."""
    score = CriticReport.model_validate(report).score
    if score is None:
        return "no score"
    return ", ".join(f"{name} {each.score:.2g}" for name, each in score.scorecard.scores.items())


def _short(text: str) -> str:
    return printable(text, 300)
