"""The output of commands: text on the screen for people, JSON for programs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

from rich.text import Text

from tercet.cli import ExitCode
from tercet.contracts.problem import Problem
from tercet.view.terminal.screen import Screen, let_go_of_stdout
from tercet.view.terminal.text import count, json_text, printable

__all__ = ("Screen", "let_go_of_stdout", "print_json", "respond", "show_problems")

MOST_PROBLEMS = 30
"""The number of problems that are listed."""
_PROBLEM_MARKS = {"error": ("✗ ", "red"), "note": ("· ", "dim")}


def respond(
    document: Callable[[], Any],
    show: Callable[[Screen], object],
    *,
    as_json: bool,
    code: ExitCode = ExitCode.ACCEPTED,
) -> ExitCode:
    """Print one JSON document, or text on the screen, and return the exit code."""
    if as_json:
        print_json(document())
    else:
        show(Screen())
    return code


def print_json(value: Any, *, is_line: bool = False) -> None:
    """Print one JSON value on stdout, indented or on one line; always in UTF-8, whatever the terminal's encoding."""
    try:
        sys.stdout.buffer.write(f"{json_text(value, indent=None if is_line else 2)}\n".encode())
        sys.stdout.flush()
    except BrokenPipeError:
        let_go_of_stdout()


def show_problems(screen: Screen, problems: Sequence[Problem]) -> None:
    """Print the first problems, and the number of the others."""
    for problem in problems[:MOST_PROBLEMS]:
        screen.put(_problem_line(problem), first="  ", rest="    ")
        if problem.remedy:
            screen.put(printable(problem.remedy), first="    → ")
    if len(problems) > MOST_PROBLEMS:
        screen.say(f"  … {count(len(problems) - MOST_PROBLEMS, 'more problem')}; --json lists them all")


def _problem_line(problem: Problem) -> Text:
    mark = _PROBLEM_MARKS.get(problem.severity, ("! ", "yellow"))
    where = ":".join(str(part) for part in (problem.file, problem.row) if part is not None)
    place = " ".join(part for part in (where, problem.place) if part)
    return Text.assemble(mark, (f"{printable(place)}: " if place else "", "bold"), printable(problem.message))
