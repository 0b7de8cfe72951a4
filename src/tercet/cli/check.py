"""`tercet check`: every problem of a pack at once."""

from __future__ import annotations

from tercet.cli.documents import check_pack
from tercet.cli.exit_code import ExitCode
from tercet.cli.options import AsJson, PackFolder
from tercet.cli.problems import show_problems
from tercet.cli.screen import Screen, print_json
from tercet.cli.text import count, printable

EXAMPLES = """\
tercet check examples/refunds
tercet check examples/refunds --json
"""


def check(pack: PackFolder, *, as_json: AsJson = False) -> ExitCode:
    """Report every problem of a pack, each with its file, its place and what to do about it.

    Exits with 0 if there is no error (warnings are allowed) and with 2 if there is one.
    """
    problems = check_pack(pack)
    errors = [problem for problem in problems if problem.severity == "error"]
    warnings = [problem for problem in problems if problem.severity != "error"]
    if as_json:
        print_json(
            {"ok": not errors, "folder": str(pack), "problems": [p.model_dump(mode="json") for p in problems]}
        )
    else:
        screen = Screen()
        name = printable(str(pack), 120)
        show_problems(screen, [*errors, *warnings])
        told = (
            f"{count(len(errors), 'error')}, {count(len(warnings), 'warning')}" if problems else "no problems"
        )
        screen.say(f"{'✗' if errors else '✓'} {name}: {told}")
    return ExitCode.WRONG_USE if errors else ExitCode.ACCEPTED
