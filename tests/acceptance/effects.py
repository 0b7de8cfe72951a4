"""The world outside: a database of its own, in which every effect of a tool is one row.

It knows nothing of the journal. What it holds is what happened, so it is what a campaign counts, what a tool that can
look a key up asks, and what an honest operator answers from.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple

VARIABLE = "TERCET_EFFECTS_DB"

_TABLES = """
CREATE TABLE IF NOT EXISTS effects (key TEXT, step TEXT, tool TEXT, pid INTEGER, attempt INTEGER, token INTEGER,
    warrant TEXT);
CREATE TABLE IF NOT EXISTS honoured (key TEXT PRIMARY KEY);
CREATE TABLE IF NOT EXISTS fences (run TEXT PRIMARY KEY, token INTEGER);
"""


class Effect(NamedTuple):
    """One thing that happened."""

    key: str
    step: str
    tool: str
    pid: int
    attempt: int = 1
    token: int = 0
    warrant: str = ""
    """What the journal said at that moment about why it might happen; see `witness`."""


def create(path: Path) -> None:
    """Make the database before several processes open it at once."""
    with _open(path) as db:
        db.executescript(_TABLES)


def do(effect: Effect) -> None:
    """Let it happen, again and again if asked again and again."""
    with _open() as db:
        db.execute("INSERT INTO effects VALUES (?, ?, ?, ?, ?, ?, ?)", effect)


def do_once(effect: Effect) -> None:
    """Let it happen, unless its key has been honoured before."""
    with _open() as db:
        db.execute("BEGIN IMMEDIATE")
        if db.execute("INSERT OR IGNORE INTO honoured VALUES (?)", (effect.key,)).rowcount:
            db.execute("INSERT INTO effects VALUES (?, ?, ?, ?, ?, ?, ?)", effect)
        db.execute("COMMIT")


def do_fenced(effect: Effect, run: str) -> bool:
    """Let it happen, unless a later owner of the run has been here; whether it happened."""
    with _open() as db:
        db.execute("BEGIN IMMEDIATE")
        row = db.execute("SELECT token FROM fences WHERE run = ?", (run,)).fetchone()
        is_current = row is None or row[0] <= effect.token
        if is_current:
            db.execute("INSERT OR REPLACE INTO fences VALUES (?, ?)", (run, effect.token))
            db.execute("INSERT INTO effects VALUES (?, ?, ?, ?, ?, ?, ?)", effect)
        db.execute("COMMIT")
    return is_current


def has_happened(key: str, path: Path | None = None) -> bool:
    """Whether there is an effect under this key."""
    with _open(path) as db:
        return db.execute("SELECT 1 FROM effects WHERE key = ?", (key,)).fetchone() is not None


def read(path: Path) -> list[Effect]:
    """All that happened, in its order."""
    with _open(path) as db:
        return [Effect(*row) for row in db.execute("SELECT * FROM effects ORDER BY rowid")]


@contextmanager
def _open(path: Path | None = None) -> Generator[sqlite3.Connection]:
    # A killed process leaves what it wrote with the operating system: waiting for the disk would prove nothing here.
    with closing(sqlite3.connect(path or os.environ[VARIABLE], isolation_level=None, timeout=10)) as db:
        db.execute("PRAGMA synchronous = OFF")
        yield db
