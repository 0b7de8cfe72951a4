"""What a further part of the campaign hands back: a table to print, and what breaks a promise."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.table import Table


@dataclass(frozen=True, kw_only=True)
class Report:
    """What one part found."""

    table: Table
    violations: Sequence[str]


@dataclass(frozen=True, kw_only=True)
class Part:
    """A part of the campaign: its name for `--only`, and what runs it in a folder with so many workers at once."""

    name: str
    run: Callable[[Path, int], Awaitable[Report]]
