"""The judging and repairing of outputs on a terminal: one line for each phase, and details below it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import msgspec
from rich.text import Text

from tercet.core import events as e
from tercet.core.outputs.rounds import told_round
from tercet.core.state import State
from tercet.view.events import EventLine, attempt_text, describe
from tercet.view.phases import DefectView, Finding, Grade, PhaseEvent, PhaseView, RepairView, phase_view
from tercet.view.quality import ExitView, acceptance_text, exit_view
from tercet.view.terminal.screen import Screen
from tercet.view.terminal.text import count, duration_text, printable
from tercet.view.text import join_parts, score
from tercet.view.vocabulary import Tone, step_text

WIDEST_STEP = 20
WIDEST_TOOL = 34
STYLES: dict[Tone, str] = {"good": "green", "bad": "red", "wait": "yellow", "busy": "cyan", "quiet": "dim"}


@dataclass(frozen=True, kw_only=True)
class Columns:
    """The steps of a plan with their tools, and the widths of both columns."""

    tools: Mapping[str, str]
    step: int
    tool: int

    @classmethod
    def of(cls, plan: Mapping[str, Any], undo: Sequence[e.Undo] = ()) -> Columns:
        """Return the columns of a plan as it was recorded, and of its compensating calls."""
        steps: list[dict[str, Any]] = plan.get("steps", [])
        tools = {step["id"]: printable(step.get("tool") or step.get("kind", "tool"), 80) for step in steps}
        tools |= {each.name: printable(each.tool, 80) for each in undo}
        return cls(
            tools=tools,
            step=min(WIDEST_STEP, max(map(len, tools), default=0)),
            tool=min(WIDEST_TOOL, max(map(len, tools.values()), default=0)),
        )

    def line(self, mark: str, style: str, step: str, text: str, *, is_quiet: bool = False) -> Text:
        """Return a line about a step: mark, name, tool and text."""
        tool = self.tools.get(step, "")
        line = Text.assemble(
            (f"{mark} ", style),
            (f"{printable(step_text(step)):<{self.step}}  ", "bold"),
            f"{tool:<{self.tool}}  ",
            (text, "dim" if is_quiet else style),
        )
        line.rstrip()
        return line


def line_of(state: State, event: e.Event) -> Text | None:
    """Return the line of an event; `state` is the session's state with the plan that the event is about.

    The phases of the quality loop have lines of their own: see `outputs.Phases`.
    """
    line = describe(event, state)
    if line.is_minor:
        return None
    if not line.step:
        return line_text(line)
    columns, attempt = (
        Columns.of(state.plan, state.undo),
        attempt_text(getattr(event, "attempt", 0)).removeprefix(", "),
    )
    match event:
        case e.Intent():
            return columns.line("·", "dim", event.step, attempt, is_quiet=True)
        case e.Complete(error="", reconciled=False):
            time = duration_text(event.latency)
            return columns.line("✓", "green", event.step, f"{time}, {attempt}".rstrip(", "), is_quiet=True)
        case _:
            is_quiet = line.tone in ("good", "quiet")
            text = printable(line.text, 400)
            return columns.line(line.mark, STYLES[line.tone], line.step, text, is_quiet=is_quiet)


def line_text(line: EventLine) -> Text:
    """Return the text of a line without a step."""
    style = STYLES[line.tone]
    return Text.assemble(
        (f"{line.mark} ", style), (printable(line.text, 600), "dim" if style == "dim" else "")
    )


# --- outputs ---


MOST = 12
"""The number of defects, attempts or failed tests that are shown of a phase; `--json` has all of them."""


def show_quality(screen: Screen, events: Sequence[e.Event], state: State | None = None) -> None:
    """Print how outputs were judged, phase by phase, and who accepted them; nothing if they were not judged."""
    judged = [event for event in events if isinstance(event, PhaseEvent)]
    if not judged:
        return
    screen.say()
    phases = Phases()
    for event in judged:
        first, *below = phases.tell(event)
        screen.put(first, rest="  ")
        _show_below(screen, below)
    reported = [event for event in events if isinstance(event, e.RunReported) and event.exit]
    if reported:
        found = exit_view(reported[-1].exit)
        screen.put(exit_text(found), rest="  ")
        restored = told_round(reported[-1].restored)
        _show_below(screen, [*([Text(restored)] if restored else []), *exit_lines(found)])
    if state is not None and (accepted := acceptance_text(state, events)):
        screen.put(Text.assemble(("✓ ", "green"), printable(accepted)), rest="  ")


def _show_below(screen: Screen, lines: Iterable[Text]) -> None:
    for line in lines:
        screen.put(line, first="    ", rest="      ")


class Phases:
    """Renders phases one after the other, without repeating details of the previous phase of the same kind."""

    def __init__(self) -> None:
        self._before: dict[type[e.Event], list[list[Text]]] = {}

    def tell(self, event: PhaseEvent) -> list[Text]:
        """Return the lines of a phase: its sentence, and the details that are new since the previous phase of its kind."""
        line = headline(event)
        untimed = msgspec.structs.replace(event, latency=0) if isinstance(event, e.TestsRun) else event
        parts = [[headline(untimed)], *_parts(phase_view(event))]
        before = self._before.get(type(event), [])
        self._before[type(event)] = parts
        if parts == before and any(parts[1:]):
            return [line + Text(", as before", style="dim")]
        known: list[list[Text]] = before[1:] or [[]] * len(parts)
        return [line, *chain.from_iterable(map(_news, parts[1:], known))]


def _news(part: list[Text], was: list[Text]) -> list[Text]:
    return [Text("the same as before", style="dim")] if len(part) > 1 and part == was else part


def headline(event: PhaseEvent) -> Text:
    """Return the sentence of a phase."""
    phase = phase_view(event)
    return line_text(EventLine(phase.mark, phase.tone, phase.text))


def details(event: e.Event) -> list[Text]:
    """Return the lines below that: defects, attempts, failed tests and limits."""
    if isinstance(event, e.RunReported):
        return exit_lines(exit_view(event.exit)) if event.exit else []
    return phase_lines(phase_view(event)) if isinstance(event, PhaseEvent) else []


def phase_lines(phase: PhaseView) -> list[Text]:
    """Return the details of a phase."""
    return [line for part in _parts(phase) for line in part]


def _parts(phase: PhaseView) -> list[list[Text]]:
    """Return the details of a phase, those of a kind together."""
    left = (_item("✗", "red", f"left: {_known_by(one.defect)} ({one.reason})") for one in phase.left)
    reasons = dict.fromkeys(why for _, why in phase.unanswered)
    return [
        [Text(printable(ref, 200), style="dim") for ref in phase.refs[:MOST]],
        _some(map(_finding, phase.findings)),
        _some(map(defect_line, phase.defects)),
        list(_steered(phase)),
        _some(map(repair_line, phase.repairs)),
        _some(left),
        _some(_item("✗", "yellow", f"no answer: {why}") for why in reasons),
    ]


def _some(lines: Iterable[Text]) -> list[Text]:
    """Return the first lines, and the number of the others."""
    known = list(lines)
    more = len(known) - MOST
    return [*known[:MOST], Text(f"… {more:,} more; --json has them", style="dim")] if more > 0 else known


def _finding(found: Finding) -> Text:
    is_labelled = found.label not in ("schema", "edge case", "unjudged", "called again")
    text = join_parts((found.label if is_labelled else "", found.text), ": ")
    return _item(found.mark, STYLES[found.tone], text, found.location)


def defect_line(defect: DefectView) -> Text:
    """Return a defect: severity, dimension, description and location."""
    return Text.assemble(
        (f"{defect.severity} ", "red" if defect.tone == "bad" else "yellow"),
        (f"{printable(defect.dimension, 40)}: ", "bold"),
        printable(defect.description, 300),
        _place(defect.location),
    )


def _place(location: str) -> tuple[str, str]:
    return (f"  {printable(location, 120)}" if location else "", "dim")


def _item(mark: str, style: str, text: str, location: str = "") -> Text:
    return Text.assemble(
        (f"{mark} ", style), printable(text, 300), _place("" if location == "/" else location)
    )


def _steered(phase: PhaseView) -> Iterator[Text]:
    """Yield the line of the controller, if there is one."""
    if (found := phase.steering) is not None:
        expected = f"{count(found.repairs, 'repair')} predicted for {score(found.cost)}"
        text = printable(found.text) or "no repair needed"
        yield Text(f"controller: quality {score(found.quality)}, {expected}; {text}", style="dim")


def repair_line(repair: RepairView) -> Text:
    """Return an attempt: strategy, means, cause, defect, and whether it helped."""
    mark, style = {True: ("✓", "green"), False: ("✗", "red"), None: ("·", "dim")}[repair.success]
    tokens = f", {count(repair.tokens, 'token')}" if repair.tokens else ""
    return Text.assemble(
        (f"{mark} ", style),
        f"{repair.strategy} by {repair.means}, {repair.cause}{tokens}: ",
        printable(f"{repair.defect.dimension}: {repair.defect.description}", 200),
        (f"  {printable(repair.note, 200)}" if repair.note else "", "dim"),
    )


def _known_by(defect: DefectView) -> str:
    """Return a defect that the critique above describes by its place in a text; by its description where it has none."""
    if "#char=" in defect.location:
        return f"{defect.dimension} at {defect.location}"
    return f"{defect.dimension}: {defect.description}"


# --- exit ---


def exit_text(found: ExitView) -> Text:
    """Return the exit of the loop, and its reason."""
    style = STYLES["wait" if found.mark == "?" else found.tone]
    return Text.assemble((f"{found.mark} ", style), f"exit {found.outcome}: {printable(found.reason)}")


def exit_lines(found: ExitView) -> list[Text]:
    """Return every threshold with its score and limit on one line, then confidence and why a person is asked."""
    lines = [Text(", ").join(map(threshold_text, found.thresholds))] if found.thresholds else []
    if found.confidence is not None:
        lines.append(Text(confidence_text(found)))
    return [*lines, *(Text(f"? {trigger}", style="yellow") for trigger in found.triggers)]


def threshold_text(grade: Grade) -> Text:
    """Return a threshold with its score and its limit."""
    mark, style, sign = ("✓", "green", "≥") if grade.tone == "good" else ("✗", "red", "<")
    if grade.value is None:
        return Text.assemble((f"{mark} ", style), f"{grade.name} was not measured")
    # Enough digits to see on which side of the limit it is.
    return Text.assemble((f"{mark} ", style), f"{grade.name} {grade.value:g} {sign} {grade.limit:g}")


def confidence_text(found: ExitView) -> str:
    """Return confidence, and what it leads to."""
    return f"confidence {score(found.confidence)}{f': {found.disposition}' if found.disposition else ''}"
