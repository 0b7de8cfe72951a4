"""What SQLite's error codes mean to the user of a journal."""

from __future__ import annotations

import sqlite3

from tercet.journal.errors import JournalBusy, JournalCorrupt, JournalError, JournalFull, JournalUnavailable

_BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
_CORRUPT = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
_TAKEN = {sqlite3.SQLITE_CONSTRAINT_UNIQUE, sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY}
_UNWRITABLE = {sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH}


FAILURES = (sqlite3.Error, UnicodeDecodeError)
"""What the module raises: the second one for an error message that quotes damaged text."""


def primary_code(error: Exception) -> int | None:
    """SQLite's primary result code; errors of the Python module itself have none."""
    code: int | None = getattr(error, "sqlite_errorcode", None)
    return None if code is None else code & 0xFF


def is_busy(error: Exception) -> bool:
    """Whether somebody else holds the lock."""
    return primary_code(error) in _BUSY


def translate(error: sqlite3.Error | UnicodeDecodeError, place: str) -> JournalError:
    """The journal's error for one of SQLite's."""
    if isinstance(error, UnicodeDecodeError):
        return JournalCorrupt(place, "it holds text that is not UTF-8")
    code = primary_code(error)
    if code in _BUSY:
        return JournalBusy(place, str(error))
    if code == sqlite3.SQLITE_FULL:
        return JournalFull(place, str(error))
    if code in _CORRUPT or str(error).startswith("no such "):  # a table or a column that every journal has
        return JournalCorrupt(place, str(error))
    if getattr(error, "sqlite_errorcode", 0) in _TAKEN:
        # Every position and claim was checked under the lock: the row in the way belongs to no stream.
        return JournalCorrupt(place, f"it holds a row that no stream knows of ({error})")
    if code in _UNWRITABLE:
        return JournalUnavailable(
            place,
            str(error),
            remedy="give the user of this process the right to write the file and its folder",
        )
    return JournalUnavailable(place, str(error))
