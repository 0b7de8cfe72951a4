"""The journal in a SQLite file."""

from __future__ import annotations

import sqlite3
from contextlib import suppress
from pathlib import Path

from tercet.contracts.errors import UsageError
from tercet.journal.database import DatabaseJournal
from tercet.journal.errors import JournalUnavailable
from tercet.journal.sqlite.connection import demand_whole, find_schema_faults, find_way
from tercet.journal.sqlite.faults import FAILURES, translate
from tercet.journal.sqlite.reader import Reader
from tercet.journal.sqlite.writer import NoWriter, Writer

OLDEST = (3, 37, 0)
"""The first SQLite with STRICT tables."""


class SqliteJournal(DatabaseJournal):
    """A durable journal in one file, for one machine. Open it with `open_journal("sqlite:///runs.db")`."""

    _reader: Reader

    @classmethod
    async def open(
        cls,
        path: Path,
        *,
        patience_s: float = 5.0,
        may_be_read_only: bool = False,
        accepts_loss: bool = False,
    ) -> SqliteJournal:
        """Open or create a file; `patience_s` is how long to wait for another process's lock.

        With `may_be_read_only` a file that is there and may not be written is opened too, and refuses every append.
        Raises `JournalDamaged` if durable commits are missing, unless `accepts_loss`; `Heads.clear` then forgets them.
        """
        _demand_version()
        writer = Writer(path, patience_s=patience_s, accepts_loss=accepts_loss)
        journal = cls(writer, Reader(path, patience_s=patience_s))
        try:
            await writer.open()
        except JournalUnavailable:
            await journal.close()
            if not may_be_read_only:
                raise
            address = _way(path, patience_s, is_whole=True)
            return cls(NoWriter(path), Reader(path, patience_s=patience_s, address=address))
        except BaseException:
            await journal.close()
            raise
        return journal

    async def store_faults(self) -> list[str]:
        """Return what SQLite's own check of the whole file finds, and how its schema differs from a journal's."""
        rows = await self._reader.rows("integrity_check")
        return [text for (text,) in rows if text != "ok"] + await self._reader.run(find_schema_faults)

    @classmethod
    def open_to_inspect(cls, path: Path, *, patience_s: float = 5.0) -> SqliteJournal:
        """Open a file for reading, whatever its commit log says. Nothing is written, not even a log written back."""
        _demand_version()
        return cls(NoWriter(path), Reader(path, patience_s=patience_s, address=_way(path, patience_s)))


def _demand_version() -> None:
    if sqlite3.sqlite_version_info < OLDEST:
        raise UsageError(
            f"this Python has SQLite {sqlite3.sqlite_version}, and a journal needs 3.37 or newer",
            code="old_sqlite",
            remedy="use a Python that was built with a newer SQLite",
        )


def _way(path: Path, patience_s: float, *, is_whole: bool = False) -> str:
    """The address by which a file is read; with `is_whole` one that lacks commits is refused."""
    try:
        address = find_way(path, patience_s=patience_s)
        if is_whole:
            # Where the commit log may not be read, looking is still allowed: nothing is called because of it.
            with suppress(JournalUnavailable):
                demand_whole(path, patience_s=patience_s, address=address)
    except FAILURES as error:
        raise translate(error, str(path)) from error
    return address
