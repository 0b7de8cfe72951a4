"""A list of problems on the screen: where, what, and what to do about it."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from tercet.cli.screen import Screen
from tercet.cli.text import count, printable
from tercet.contracts.problem import Problem

MOST = 30
_MARKS = {"error": ("✗ ", "red"), "note": ("· ", "dim")}


def show_problems(screen: Screen, problems: Sequence[Problem]) -> None:
    """Prints the first problems, and how many more there are."""
    for problem in problems[:MOST]:
        screen.put(_headline(problem), first="  ", rest="    ")
        if problem.remedy:
            screen.put(printable(problem.remedy), first="    → ")
    if len(problems) > MOST:
        screen.say(f"  … {count(len(problems) - MOST, 'more problem')}; --json lists them all")


def _headline(problem: Problem) -> Text:
    mark = _MARKS.get(problem.severity, ("! ", "yellow"))
    where = ":".join(str(part) for part in (problem.file, problem.row) if part is not None)
    place = " ".join(part for part in (where, problem.place) if part)
    return Text.assemble(mark, (f"{printable(place)}: " if place else "", "bold"), printable(problem.message))
