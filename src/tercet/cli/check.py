"""`tercet check`: every problem of a pack at once."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from tercet.cli.documents import check_pack
from tercet.cli.exit_code import ExitCode
from tercet.cli.options import AsJson, PackFolder
from tercet.cli.problems import show_problems
from tercet.cli.screen import Screen, respond
from tercet.cli.text import count, printable
from tercet.contracts.problem import Problem

EXAMPLES = """\
tercet check examples/refunds
tercet check examples/refunds --json
"""


def check(pack: PackFolder, *, as_json: AsJson = False) -> ExitCode:
    """Report every problem of a pack, with a remedy for each. File and place stand with it.

    Exits with 0 if there is no error (warnings and notes are allowed) and with 2 if there is one.
    """
    problems = check_pack(pack)
    is_ok = all(problem.severity != "error" for problem in problems)
    listed = [problem.model_dump(mode="json") for problem in problems]
    return respond(
        lambda: {"ok": is_ok, "folder": str(pack), "problems": listed},
        lambda screen: _show(screen, str(pack), problems),
        as_json=as_json,
        code=ExitCode.ACCEPTED if is_ok else ExitCode.WRONG_USE,
    )


def _show(screen: Screen, name: str, problems: Sequence[Problem]) -> None:
    errors = [problem for problem in problems if problem.severity == "error"]
    notes = [problem for problem in problems if problem.severity == "note"]
    warnings = [problem for problem in problems if problem not in errors and problem not in notes]
    show_problems(screen, [*errors, *warnings, *notes])
    counted = f"{count(len(errors), 'error')}, {count(len(warnings), 'warning')}"
    told = counted if errors or warnings else "no problems"
    told += f", {count(len(notes), 'note')}" if notes else ""
    mark = ("✗ ", "bold red") if errors else ("✓ ", "bold green")
    screen.say(Text.assemble(mark, f"{printable(name, 120)}: {told}"))
