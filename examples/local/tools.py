"""The loan desk of Fernhill Library, which is invented: two tools over one small SQLite database.

The database is the file that TERCET_LIBRARY_DB names, else `library.db` in the working folder. It is made at its first
use. Every change is written down under its key in the same transaction, so a call that is repeated changes nothing.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Generator
from contextlib import closing, contextmanager
from dataclasses import dataclass

from tercet import NotDone, ToolContext, tool

SCHEMA = """
    CREATE TABLE IF NOT EXISTS loans (loan_id TEXT PRIMARY KEY, title TEXT NOT NULL, days_left INTEGER NOT NULL);
    CREATE TABLE IF NOT EXISTS changes (key TEXT PRIMARY KEY, loan_id TEXT NOT NULL, days INTEGER NOT NULL);
    INSERT OR IGNORE INTO loans VALUES ('ln_7', 'The Tide Tables', 2), ('ln_8', 'Moss and Fern', 9);
"""


@dataclass(frozen=True, kw_only=True)
class Loan:
    """A book that a reader has taken home."""

    loan_id: str
    title: str
    days_left: int


@tool("loans.find", mode="read_only", trust="trusted")
def find(loan_id: str) -> Loan:
    """Look a loan up by its id."""
    with database() as db:
        return _loan(db, loan_id)


@tool(
    "loans.extend",
    mode="local_write",
    trust="trusted",
    reversibility="compensable",
    compensate={
        "tool": "loans.extend",
        "params": {"loan_id": {"$from": "params#/loan_id"}, "days": {"$cel": "-params.days"}},
    },
    authority=["loan_id", "days"],
    idempotent=True,
)
def extend(ctx: ToolContext, loan_id: str, days: int) -> Loan:
    """Extend a loan by some days; by a negative number to undo that."""
    with database() as db:
        _loan(db, loan_id)
        change = (ctx.idempotency_key, loan_id, days)
        added = db.execute("INSERT OR IGNORE INTO changes VALUES (?, ?, ?)", change).rowcount
        if added:
            db.execute("UPDATE loans SET days_left = days_left + ? WHERE loan_id = ?", (days, loan_id))
        return _loan(db, loan_id)


def _loan(db: sqlite3.Connection, loan_id: str) -> Loan:
    row = db.execute("SELECT * FROM loans WHERE loan_id = ?", (loan_id,)).fetchone()
    if row is None:
        raise NotDone(
            f"there is no loan {loan_id!r}", code="loan_unknown", remedy="name a loan of the library"
        )
    return Loan(**row)


@contextmanager
def database() -> Generator[sqlite3.Connection]:
    """The library's database, as one transaction."""
    path = os.environ.get("TERCET_LIBRARY_DB", "library.db")
    with closing(sqlite3.connect(path, timeout=10)) as db, db:
        db.row_factory = _as_dict
        db.executescript(SCHEMA)
        yield db


def _as_dict(cursor: sqlite3.Cursor, row: tuple[object, ...]) -> dict[str, object]:
    return {column[0]: value for column, value in zip(cursor.description, row, strict=True)}
