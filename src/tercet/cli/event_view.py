"""One event of a session as one line on the screen; events that say little to those who follow a run have none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.text import Text

from tercet.cli.text import printable, took
from tercet.core import events as e
from tercet.core.state import State
from tercet.view.events import EventView, describe
from tercet.view.words import Tone, step_text

WIDEST_STEP = 20
WIDEST_TOOL = 34
STYLES: dict[Tone, str] = {"good": "green", "bad": "red", "wait": "yellow", "busy": "cyan", "quiet": "dim"}


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
            (f"{printable(step_text(step)):<{self.step}}  ", "bold"),
            f"{tool:<{self.tool}}  ",
            (text, "dim" if is_quiet else style),
        )
        line.rstrip()
        return line


def line_of(state: State, event: e.Event) -> Text | None:
    """Return the line of an event; `state` is the session's state with the plan that the event is about.

    The phases of the quality loop have lines of their own: see `quality_view.Phases`.
    """
    view = describe(event, state)
    if view is None or view.is_minor:
        return None
    if not view.step:
        return view_line(view)
    columns, again = Columns.of(state.plan, state.undo), getattr(event, "attempt", 0)
    attempt = f"attempt {again}" if again > 1 else ""
    match event:
        case e.Intent():
            return columns.line("·", "dim", event.step, attempt, is_quiet=True)
        case e.Complete(error="", reconciled=False):
            time = took(event.latency)
            return columns.line("✓", "green", event.step, f"{time}, {attempt}".rstrip(", "), is_quiet=True)
        case _:
            is_quiet = view.tone in ("good", "quiet")
            text = printable(view.text, 400)
            return columns.line(view.mark, STYLES[view.tone], view.step, text, is_quiet=is_quiet)


def view_line(view: EventView) -> Text:
    """Return a line that is about no step."""
    style = STYLES[view.tone]
    return Text.assemble(
        (f"{view.mark} ", style), (printable(view.text, 600), "dim" if style == "dim" else "")
    )
