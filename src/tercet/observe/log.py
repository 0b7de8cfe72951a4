"""To a file, or to stderr: one line of JSON for each event of interest."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from tercet.contracts.errors import UsageError
from tercet.core import events as e
from tercet.journal.protocol import NewCheckpoint
from tercet.observe import instruments as i
from tercet.observe.lines import lines
from tercet.observe.settings import STDERR
from tercet.observe.tally import Tally


@dataclass(frozen=True, kw_only=True)
class Entry:
    """Events that were written together."""

    start: e.SessionStarted
    first: int
    events: Sequence[e.Event]
    checkpoints: Sequence[NewCheckpoint] = ()


class Log:
    """Where lines go."""

    def __init__(self, path: Path, own: Tally) -> None:
        self._own = own
        self._lines: list[bytes] = []
        """What was taken and is not written yet."""
        self._is_ours = str(path) != STDERR
        try:
            self._file: TextIO = path.open("a", encoding="utf-8") if self._is_ours else sys.stderr
        except OSError as error:
            raise UsageError(
                f"the log cannot be written to {path}: {error.strerror or error}",
                code="log_unwritable",
                remedy="name a file in a folder that is there and that you may write to",
            ) from error

    def take(self, item: Entry) -> None:
        """Make the lines of an entry, to be written with those of the entries that wait behind it."""
        self._lines += lines(item.start, item.first, item.events, item.checkpoints)

    def due(self) -> float | None:
        """Lines are written as soon as no more entries wait."""
        return 0 if self._lines else None

    def send(self, *, is_last: bool) -> None:
        """Write the lines, and close the file in the end."""
        told, self._lines = self._lines, []
        try:
            if told:
                self._file.write(b"\n".join((*told, b"")).decode())
                self._file.flush()
        except (OSError, ValueError):  # the disk is full, or whoever read it has gone
            self._own.count(i.DROPPED, "log lines", by=len(told))
        if is_last:
            self.abort()

    def abort(self) -> None:
        """Let go of the file, and of the lines that nobody will write."""
        if self._lines:
            self._own.count(i.DROPPED, "log lines", by=len(self._lines))
        if self._is_ours:
            try:
                self._file.close()
            except OSError:
                self._own.count(i.DROPPED, "log lines")
