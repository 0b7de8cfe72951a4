"""Answers of commands: on the screen for people, as JSON for programs."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from tercet.cli.exit_code import ExitCode
from tercet.cli.text import json_text
from tercet.view.terminal.screen import Screen, let_go_of_stdout

__all__ = ("Screen", "let_go_of_stdout", "print_json", "respond")


def respond(
    document: Callable[[], Any],
    show: Callable[[Screen], object],
    *,
    as_json: bool,
    code: ExitCode = ExitCode.ACCEPTED,
) -> ExitCode:
    """Answer a program with one JSON document, or a person on the screen, and return the exit code."""
    if as_json:
        print_json(document())
    else:
        show(Screen())
    return code


def print_json(value: Any, *, is_line: bool = False) -> None:
    """Prints one JSON value on stdout, in UTF-8 whatever the terminal's encoding is; indented, or on one line."""
    try:
        sys.stdout.buffer.write(f"{json_text(value, indent=None if is_line else 2)}\n".encode())
        sys.stdout.flush()
    except BrokenPipeError:
        let_go_of_stdout()
