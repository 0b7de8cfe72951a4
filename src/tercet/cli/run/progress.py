"""The live progress of a session: a line for each event, and below them the calls in flight.

On a terminal the calls in flight are redrawn in place, a few times a second. Elsewhere each event is one plain line.
An output that cannot be written never stops a run.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import datetime
from typing import Self

import msgspec
from rich.console import Group
from rich.live import Live
from rich.text import Text

from tercet.cli.screen import Screen
from tercet.cli.sessions.session_view import show_resumed, show_start
from tercet.core import events as e
from tercet.core.messages import TEMPLATE
from tercet.core.state import State
from tercet.executor.clock import Clock
from tercet.view.phases import PhaseEvent
from tercet.view.terminal.outputs import Columns, Phases, details, line_of
from tercet.view.terminal.text import duration_text, printable
from tercet.view.vocabulary import step_text

TICK_S = 0.25
MOST_RUNNING = 8


class Progress:
    """Prints events as they happen; with `is_followed`, another process runs the session, and event times are shown."""

    def __init__(self, screen: Screen, clock: Clock, *, is_followed: bool = False) -> None:
        self.screen = screen
        self._clock = clock
        self._is_followed = is_followed
        self._columns = Columns.of({})
        self._phases = Phases()
        self._running: dict[str, tuple[int, str]] = {}
        self._live: Live | None = None
        self._stack = ExitStack()
        self.has_shown = False
        """Whether any event was shown."""

    def __enter__(self) -> Self:
        self.screen.file = sys.stdout  # keep this stdout while tools print to another one
        if self.screen.is_terminal:
            # Lines that tools print appear above the live area.
            self._live = self._stack.enter_context(
                Live(console=self.screen, auto_refresh=False, transient=True)
            )
        return self

    def __exit__(self, *_: object) -> None:
        self._running.clear()
        with _ignore_write_errors(self.screen):
            self._stack.close()
        self.screen.quiet = False  # the result that is printed next reports a write error

    @property
    def is_live(self) -> bool:
        """Whether there is a live area, above which the output of tools appears."""
        return self._live is not None

    @property
    def under_way(self) -> tuple[str, ...]:
        """The names of the steps with calls in flight."""
        return tuple(printable(step_text(step)) for step in list(self._running))

    def tell(self, state: State, event: e.Event) -> None:
        """Show an event."""
        with _ignore_write_errors(self.screen):
            self._columns = Columns.of(state.plan, state.undo)
            self._follow(event)
            self._head(state, event)
            if not self._is_shown_elsewhere(state, event):
                self._show(state, event)
            self.refresh()

    def say(self, text: Text | str) -> None:
        """Show a line that does not belong to an event."""
        with _ignore_write_errors(self.screen):
            self.screen.say(text)

    async def redraw_until_cancelled(self) -> None:
        """Redraw the calls in flight until cancelled."""
        while self._live is not None:
            await asyncio.sleep(TICK_S)
            if self._running:
                with _ignore_write_errors(self.screen):
                    self.refresh()

    def refresh(self) -> None:
        """Redraw the calls in flight."""
        if self._live is not None:
            now = self._clock.now()
            self._live.update(Group(*self._lines(now)), refresh=True)

    def _show(self, state: State, event: e.Event) -> None:
        if isinstance(event, PhaseEvent):
            line, *below = self._phases.tell(event)
        else:
            line, below = line_of(state, self._shortened(state, event)), details(event)
        if line is not None:
            self._print(line, event.at)
            self._print_below(below)

    def _shortened(self, state: State, event: e.Event) -> e.Event:
        """Return an event without the reasons that the result repeats."""
        if isinstance(event, e.RunReported) and not self._is_followed:
            # A template has one plan: that it cannot be re-planned is the result, with these reasons.
            is_final = event.outcome == "escalate" or (event.outcome, state.start.planner) == (
                "replan",
                TEMPLATE,
            )
            return msgspec.structs.replace(event, reasons=()) if is_final else event
        return event

    def _is_shown_elsewhere(self, state: State, event: e.Event) -> bool:
        """Return whether an event needs no line: the live area or the result shows it."""
        match event:
            case e.Intent():
                return self._live is not None
            case e.SessionPaused():
                return not self._is_followed
            case e.PlanningFailed(outcome="fail") if state.verdict.get("outcome") == "ok":
                return not self._is_followed
            case e.SessionEnded():
                return True
            case _:
                return False

    def _head(self, state: State, event: e.Event) -> None:
        """Print the heading with the session, before its first event."""
        if isinstance(event, e.SessionStarted):
            show_start(self.screen, event)
        elif not self.has_shown:
            show_resumed(self.screen, state)
        if not self.has_shown:
            self.screen.say()
        self.has_shown = True

    def _print(self, line: Text, at: int) -> None:
        if self._is_followed:
            utc_time = datetime.fromtimestamp(at / 1000).astimezone()
            line = Text.assemble((f"{utc_time:%H:%M:%S}  ", "dim"), line)
        if self.screen.is_terminal:
            self.screen.put(line, rest=" " * (12 if self._is_followed else 2))
        else:
            self.screen.say(line)

    def _print_below(self, lines: Sequence[Text]) -> None:
        """Print the details below the line of an event."""
        indent = " " * (14 if self._is_followed else 4)
        for line in lines:
            if self.screen.is_terminal:
                self.screen.put(line, first=indent, rest=f"{indent}  ")
            else:
                self.screen.say(Text(indent) + line)

    def _follow(self, event: e.Event) -> None:
        match event:
            case e.Intent() if event.tool:
                self._running[event.step] = (
                    event.at,
                    f", attempt {event.attempt}" if event.attempt > 1 else "",
                )
            case e.Complete() | e.Abort():
                self._running.pop(event.step, None)
            case e.SessionResumed() | e.SessionPaused() | e.SessionEnded():
                self._running.clear()
            case _:
                pass

    def _lines(self, now: int) -> list[Text]:
        lines = [
            self._columns.line(
                "▸", "cyan", step, f"{duration_text(max(0, now - began))}{again}", is_quiet=True
            )
            for step, (began, again) in list(self._running.items())[:MOST_RUNNING]
        ]
        more = len(self._running) - MOST_RUNNING
        shown = [*lines, Text(f"  … {more} more", style="dim")] if more > 0 else lines
        for line in shown:
            line.truncate(self.screen.width - 1, overflow="ellipsis")
        return [self.screen.escape_undecodable(line) for line in shown]


class NoProgress:
    """Shows nothing, for `--json`."""

    is_live = False
    has_shown = False
    under_way = ()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return

    def tell(self, state: State, event: e.Event) -> None:
        """Ignore an event."""

    def say(self, text: Text | str) -> None:
        """Ignore a line."""

    async def redraw_until_cancelled(self) -> None:
        """Return immediately."""


@contextmanager
def _ignore_write_errors(screen: Screen) -> Generator[None]:
    """Stop printing when the output cannot be written, so that the run continues."""
    try:
        yield
    except OSError:
        screen.quiet = True


def show_cursor() -> None:
    """Show the cursor again before the process is ended immediately."""
    terminal = sys.__stdout__
    if terminal is not None and not terminal.closed and terminal.isatty():
        os.write(terminal.fileno(), b"\x1b[?25h\n")
