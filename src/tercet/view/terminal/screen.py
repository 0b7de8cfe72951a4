"""The console that commands print to.

Colour, width and the absence of a terminal are left to rich, which also honours NO_COLOR and FORCE_COLOR.
A reader that goes away (`tercet verify … | head -1`) changes nothing about the verdict, so the exit code stays.
"""

from __future__ import annotations

import os
import sys

from rich.console import Console
from rich.text import Text

from tercet.view.terminal.text import printable

MAX_WIDTH = 110


class Screen(Console):
    """A console that prints text unchanged: no markup, no emoji names, no highlighting."""

    def __init__(self, *, stderr: bool = False) -> None:
        super().__init__(stderr=stderr, markup=False, emoji=False, highlight=False)
        self.width = max(20, min(self.width, MAX_WIDTH))

    @property
    def is_ascii(self) -> bool:
        """Whether only ASCII can be shown."""
        return self.options.ascii_only

    def on_broken_pipe(self) -> None:
        """Continue without a reader."""
        self.quiet = True
        let_go_of_stdout()

    def say(self, text: Text | str = "") -> None:
        """Print one line, wrapped only on a terminal, so that a search in a log file finds it."""
        if self.is_terminal:
            self.put(text, rest="  ")
        else:
            self.print(self.escape_undecodable(text), soft_wrap=True)

    def put(self, text: Text | str, *, first: str = "", rest: str | None = None) -> None:
        """Print wrapped text behind a prefix: one for its first line, one for the others (by default, space)."""
        hanging = " " * len(first) if rest is None else rest
        lines = self.escape_undecodable(text).wrap(self, max(10, self.width - max(len(first), len(hanging))))
        for number, line in enumerate(lines):
            line.rstrip()
            prefix = self.escape_undecodable(hanging if number else first).plain
            self.print(Text.assemble((prefix, "dim"), line), soft_wrap=True)

    def show_command(self, line: str) -> None:
        """Print a command without wrapping, so that it can be copied."""
        self.print(self.escape_undecodable(f"    {printable(line, 4_000)}"), soft_wrap=True)

    def conclude(self, text: str, *, is_good: bool = True) -> None:
        """Print the result of a command after a mark."""
        self.say(Text.assemble(("✓ ", "bold green") if is_good else ("✗ ", "bold red"), text))

    def offer(self, text: str, *commands: str) -> None:
        """Print a sentence and the commands that it suggests."""
        self.say(Text(text, style="dim"))
        for line in commands:
            self.show_command(line)

    def escape_undecodable(self, text: Text | str) -> Text:
        """Return the text in characters that this terminal's encoding can show."""
        shown = Text(text) if isinstance(text, str) else text
        if not self.is_ascii or shown.plain.isascii():
            return shown
        plain = shown.plain.translate(_ASCII).encode("ascii", "replace").decode()
        return Text(plain, style=shown.style, spans=shown.spans)


# One character for one, so that styles keep their positions.
_ASCII = str.maketrans(
    {
        "✓": "+",
        "✗": "x",
        "·": "-",
        "→": ">",
        "←": "<",
        "…": "~",
        "├": "|",
        "└": "`",
        "─": "-",
        "│": "|",
        "—": "-",
        "↻": "@",
        "■": "#",
        "↶": "<",
        "○": "o",
        "▸": ">",
        "≥": ">",
    }
)


def let_go_of_stdout() -> None:
    """Redirect stdout to the null device, so that Python reports no error at exit."""
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, sys.stdout.fileno())
    os.close(devnull)
