"""Sessions that a list cannot show, on the screen, as JSON and as an exit code."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from rich.text import Text

from tercet.cli.exit_code import ExitCode
from tercet.cli.screen import Screen
from tercet.cli.standing import Commands
from tercet.cli.text import printable
from tercet.engine.checks.damage import DamagedSession


def damage_exit(unreadable: Sequence[DamagedSession]) -> ExitCode:
    """Return the exit code of a list: 5 if something in it could not be read."""
    return ExitCode.FAILED if unreadable else ExitCode.ACCEPTED


def damage_json(unreadable: Sequence[DamagedSession]) -> list[dict[str, str]]:
    """Return the sessions that could not be read as JSON."""
    return [msgspec.to_builtins(each) for each in unreadable]


def show_damage(screen: Screen, unreadable: Sequence[DamagedSession], url: str) -> None:
    """Print the sessions that could not be read, and the command that says more."""
    for each in unreadable:
        line = Text.assemble(("✗ ", "red"), (printable(each.session_id, 80), "bold"), ("  damaged", "red"))
        screen.put(Text.assemble(line, f": {printable(each.reason, 300)}"), rest="  ")
    if unreadable:
        screen.say(Text("What is damaged, and what to do about it:", style="dim"))
        screen.show_command(Commands(journal=url).check_journal())
