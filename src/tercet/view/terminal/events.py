"""Events as lines on a terminal; minor events have none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.text import Text

from tercet.core import events as e
from tercet.core.state import State
from tercet.view.events import EventLine, attempt_text, describe
from tercet.view.terminal.text import duration_text, printable
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
