"""What an import is told, and what it tells: labels for the facts, and problems of the files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

from tercet.contracts.mode import Trust
from tercet.contracts.problem import Problem
from tercet.evidence.errors import BadFiles

MOST_PROBLEMS = 100
"""So many problems are listed; a file made by a script has all of them wrong in the same way."""


def _unheard(count: int) -> None:
    del count


@dataclass(frozen=True, kw_only=True)
class Labels:
    """What the facts of an import are labelled with, and which fields of a record say it instead."""

    classification: str
    trust: Trust = Trust.UNTRUSTED
    source: str = ""
    """Where the files came from; the name of the file if it is empty."""
    expires_at: datetime | None = None
    id_field: str = "id"
    class_field: str = ""
    trust_field: str = ""
    """A record may say that it is trusted less than its file, never more."""
    expires_field: str = ""


@dataclass(kw_only=True)
class Report:
    """What an import has met so far. `on_bytes` is told of bytes that were read, perhaps in another thread."""

    skips_bad: bool = False
    on_bytes: Callable[[int], None] = _unheard
    problems: list[Problem] = field(default_factory=list[Problem])
    files: int = 0
    ignored: list[str] = field(default_factory=list[str])
    """Files of a folder that are of no known kind, and links that are not followed."""
    ids: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])

    def note(self, code: str, message: str, remedy: str, *, file: str, row: int | None = None) -> None:
        """Keep a problem; raises `BadFiles` once there are too many to go on."""
        severity = "warning" if self.skips_bad else "error"
        self.problems.append(
            Problem(code=code, message=message, remedy=remedy, file=file, row=row, severity=severity)
        )
        if not self.skips_bad and len(self.problems) >= MOST_PROBLEMS:
            raise BadFiles(self.problems)

    def settle(self) -> None:
        """Raise `BadFiles` if anything was wrong and nobody said that it may be."""
        if self.problems and not self.skips_bad:
            raise BadFiles(self.problems)
