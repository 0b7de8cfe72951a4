"""Commands that are imported when they are called: `tercet --version` and `tercet check` need little of the house.

A small command would otherwise spend most of its time on importing the modules of the others.
"""

from __future__ import annotations

from functools import cached_property
from importlib import import_module
from typing import Any, NamedTuple

import typer
from typer.core import TyperCommand
from typer.main import get_command


class Entry(NamedTuple):
    """Where a command is: the module in this room, and in it the function and its examples."""

    module: str
    function: str
    examples: str
    summary: str = ""
    """The first sentence of its help, for the list of commands; of those in groups it is read from the function."""

    def load(self) -> tuple[Any, str]:
        """The function and its examples."""
        module = import_module(f"tercet.cli.{self.module}")
        return getattr(module, self.function), getattr(module, self.examples)


class Late(TyperCommand):
    """Stands in for a command until somebody calls it."""

    def __init__(self, words: str, entry: Entry) -> None:
        super().__init__(name=words.rpartition(" ")[2])
        self._entry = entry

    @cached_property
    def real(self) -> Any:
        """The command itself, with its options."""
        function, examples = self._entry.load()
        home = typer.Typer(rich_markup_mode=None, add_completion=False, pretty_exceptions_enable=False)
        home.command(self.name, epilog=f"Examples:\n\n\b\n{examples}")(function)
        return get_command(home)

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """The command's own context, so that the command itself is invoked."""
        return self.real.make_context(info_name, args, parent, **extra)

    def get_short_help_str(self, limit: int = 45) -> str:
        """The line in the list of commands."""
        return self._entry.summary or self.real.get_short_help_str(limit)
