"""Errors of commands: as a message, as JSON, and as an exit code.

A mistake of the user is reported with its remedy on stderr, or with `--json` on stdout as
`{"error": {"code", "message", "remedy", "problems"}}`. A bug of Tercet is reported in two lines; with
TERCET_TRACEBACK=1 its traceback is printed.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rich.text import Text

from tercet.cli import ExitCode
from tercet.cli.screen import Screen, let_go_of_stdout, print_json, show_problems
from tercet.contracts.errors import (
    GatewayError,
    InternalError,
    PackError,
    PlanError,
    ReplayError,
    TercetError,
)
from tercet.contracts.problem import Problem
from tercet.core.fold.base import IllegalEvent
from tercet.evidence.errors import BadFiles, StoreError
from tercet.journal.errors import JournalError, NewerJournal
from tercet.replay.bundle.signing import BundleDamaged
from tercet.view.terminal.text import printable

TRACEBACK = "TERCET_TRACEBACK"


@dataclass(frozen=True, kw_only=True)
class Failure:
    """The reason why a command failed."""

    code: str
    message: str
    remedy: str = ""
    problems: tuple[Problem, ...] = ()
    exit_code: ExitCode = ExitCode.WRONG_USE

    def as_json(self) -> dict[str, Any]:
        """Return the failure in the JSON shape of every error."""
        return {
            "error": {
                "code": self.code,
                "message": self.message,
                "remedy": self.remedy,
                "problems": [problem.model_dump(mode="json") for problem in self.problems],
            }
        }


def describe_failure(error: Exception, command: str = "", examples: str = "") -> Failure:
    """Return the failure that an exception stands for.

    `command` is the one that was called, such as `sessions list` or `logs`, with the examples of its help, one a line.
    """
    complaint = getattr(error, "format_message", None)
    if callable(complaint):
        # An exception of the parser. The classes differ between versions of typer; this method does not.
        message = _sentence(str(complaint()).partition(" (Possible options: ")[0])
        return Failure(code="usage", message=message, remedy=_help_for(error, command, examples))
    match error:
        case InternalError():
            return _bug(error.message)
        case TercetError():
            return Failure(
                code=error.code,
                message=error.message,
                remedy=error.remedy or "",
                problems=error.problems if isinstance(error, PlanError | PackError | BadFiles) else (),
                exit_code=_exit_code(error),
            )
        case OSError(filename=str() | bytes() | os.PathLike()):
            remedy = "check its permissions" if isinstance(error, PermissionError) else ""
            message = f"cannot read {os.fsdecode(error.filename)}: {error.strerror}"
            return Failure(code="unreadable", message=message, remedy=remedy)
        case OSError():
            let_go_of_stdout()
            return Failure(
                code="unwritable",
                message=f"cannot write: {error.strerror or error}",
                exit_code=ExitCode.BROKEN,
            )
        case _:
            return _bug(f"{type(error).__name__}: {error}")


def _exit_code(error: TercetError) -> ExitCode:
    match error:
        case NewerJournal():
            return ExitCode.WRONG_USE
        case BundleDamaged():
            return ExitCode.REFUSED  # like a replay that differs from what was recorded
        case JournalError() | StoreError() | ReplayError() | IllegalEvent() | GatewayError():
            return ExitCode.FAILED  # the command was right, but could not finish
        case _:
            return ExitCode.WRONG_USE


def report(failure: Failure, *, as_json: bool) -> None:
    """Print a failure."""
    if os.environ.get(TRACEBACK):
        traceback.print_exc(file=sys.stderr)
    if as_json:
        print_json(failure.as_json())
        return
    screen = Screen(stderr=True)
    headline = failure.message.partition(": ")[0] if failure.problems else failure.message
    screen.say(Text.assemble(("✗ ", "bold red"), printable(headline)))
    show_problems(screen, failure.problems)
    if failure.remedy:
        screen.put(printable(failure.remedy), first="  → ")


def wants_json(words: Sequence[str]) -> bool:
    """Return whether `--json` was passed; the command line is not parsed yet, since parsing may be what fails."""
    options = words[: words.index("--")] if "--" in words else words
    return "--json" in options


def _bug(what: str) -> Failure:
    return Failure(
        code=InternalError.default_code,
        message=f"this is a bug in Tercet, not in what you typed ({what})",
        remedy=f"run it again with {TRACEBACK}=1 to see where, and report that together with the command",
        exit_code=ExitCode.BROKEN,
    )


def _help_for(error: object, command: str, examples: str) -> str:
    # The parser knows the command only by its full name, and does not say where an option lacks its value.
    path = f"tercet {command}" if command else getattr(getattr(error, "ctx", None), "command_path", "tercet")
    remedy = f"{path} --help lists its arguments and options"
    near = getattr(error, "possibilities", None)
    if near:
        return f"did you mean {' or '.join(near)}? {remedy}"
    example = next((line.partition("  #")[0] for line in examples.splitlines() if line), "")
    return f"{remedy}; an example: {example}" if example else remedy


def _sentence(message: str) -> str:
    """Return a message of the parser on one line, without capital and full stop."""
    message = message.replace("Value error, ", "").replace("Input should be ", "it must be ")
    line = " ".join(message.split()).rstrip(".")
    return f"{line[:1].lower()}{line[1:]}"
