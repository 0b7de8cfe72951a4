"""The journal in a SQLite file."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from tercet.contracts.errors import UsageError
from tercet.journal.database import DatabaseJournal
from tercet.journal.errors import JournalUnavailable
from tercet.journal.sqlite.connection import find_way
from tercet.journal.sqlite.faults import translate
from tercet.journal.sqlite.reader import Reader
from tercet.journal.sqlite.writer import NoWriter, Writer

OLDEST = (3, 37, 0)
"""The first SQLite with STRICT tables."""


class SqliteJournal(DatabaseJournal):
    """A durable journal in one file, for one machine. Open it with `open_journal("sqlite:///runs.db")`."""

    @classmethod
    async def open(
        cls, path: Path, *, patience_s: float = 5.0, may_be_read_only: bool = False
    ) -> SqliteJournal:
        """Open or create a file; `patience_s` is how long to wait for another process's lock.

        With `may_be_read_only` a file that is there and may not be written is opened too, and refuses every append.
        """
        if sqlite3.sqlite_version_info < OLDEST:
            raise UsageError(
                f"this Python has SQLite {sqlite3.sqlite_version}, and a journal needs 3.37 or newer",
                code="old_sqlite",
                remedy="use a Python that was built with a newer SQLite",
            )
        writer = Writer(path, patience_s=patience_s)
        journal = cls(writer, Reader(path, patience_s=patience_s))
        try:
            await writer.open()
        except JournalUnavailable:
            await journal.close()
            if not may_be_read_only:
                raise
            address = _way(path, patience_s)
            return cls(NoWriter(path), Reader(path, patience_s=patience_s, address=address))
        except BaseException:
            await journal.close()
            raise
        return journal


def _way(path: Path, patience_s: float) -> str:
    try:
        return find_way(path, patience_s=patience_s)
    except sqlite3.Error as error:
        raise translate(error, str(path)) from error
