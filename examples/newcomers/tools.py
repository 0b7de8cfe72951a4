"""The front office of Marigold Outfitters, an invented shop: six tools over one small SQLite database.

The database is the file that TERCET_NEWCOMERS_DB names, else `newcomers.db` in the working folder. Every change is
written down under its key in the same transaction, so a call that is repeated changes nothing.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Generator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tercet import NotDone, ToolContext, tool

HERE = Path(__file__).resolve().parent
DESKS = 4
"""How many desks a floor has."""


@dataclass(frozen=True, kw_only=True)
class Person:
    """A colleague as the front office knows them."""

    person: int
    name: str
    account: str
    desk: str


@tool(
    "people.register",
    mode="local_write",
    authority=["name", "team"],
    trust="trusted",
    reversibility="compensable",
    no_compensation="the file of a person who did not come is kept",
    establishes=["on_file"],
    idempotent=True,
    estimated_ms=40,
)
def register(ctx: ToolContext, name: str, team: str) -> Person:
    """Begin a file for a new colleague."""
    with database() as db:
        db.execute("BEGIN IMMEDIATE")
        number = db.execute("SELECT coalesce(max(person), 0) + 1 FROM people").fetchone()[0]
        if _is_first(db, ctx, "register", number):
            db.execute("INSERT INTO people (person, name, team) VALUES (?, ?, ?)", (number, name, team))
        done = "SELECT person FROM actions WHERE idempotency_key = ?"
        (person,) = db.execute(done, (ctx.idempotency_key,)).fetchone()
        db.execute("COMMIT")
        return _person(db, person)


@tool(
    "accounts.open",
    mode="local_write",
    authority=["person", "groups"],
    trust="trusted",
    reversibility="compensable",
    compensate={"tool": "accounts.close", "params": {"person": {"$from": "params#/person"}}},
    preconditions=["on_file"],
    idempotent=True,
    estimated_ms=300,
)
def open_account(ctx: ToolContext, person: int, groups: list[str]) -> Person:
    """Open an account in the groups of a team."""
    change = "UPDATE people SET account = lower(replace(name, ' ', '.')), groups = ? WHERE person = ?"
    return _change(ctx, "open_account", person, change, ", ".join(groups))


@tool(
    "accounts.close",
    mode="local_write",
    authority=["person"],
    trust="trusted",
    reversibility="compensable",
    no_compensation="an account that was closed is opened again if it is missed",
    preconditions=["on_file"],
    idempotent=True,
    estimated_ms=100,
)
def close_account(ctx: ToolContext, person: int) -> Person:
    """Close the account of a colleague; its name stays taken."""
    return _change(ctx, "close_account", person, "UPDATE people SET groups = NULL WHERE person = ?")


@tool(
    "desks.assign",
    mode="local_write",
    authority=["person", "floor"],
    trust="trusted",
    reversibility="compensable",
    compensate={"tool": "desks.free", "params": {"person": {"$from": "params#/person"}}},
    preconditions=["on_file"],
    idempotent=True,
    estimated_ms=60,
)
def assign_desk(ctx: ToolContext, person: int, floor: int) -> Person:
    """Give a colleague the first free desk of a floor."""
    with database() as db:
        db.execute("BEGIN IMMEDIATE")
        _person(db, person)
        if _is_first(db, ctx, "assign_desk", person):
            db.execute("UPDATE people SET desk = ? WHERE person = ?", (_free_desk(db, floor), person))
        db.execute("COMMIT")
        return _person(db, person)


@tool(
    "desks.free",
    mode="local_write",
    authority=["person"],
    trust="trusted",
    reversibility="compensable",
    no_compensation="a free desk can be assigned again",
    idempotent=True,
    estimated_ms=60,
)
def free_desk(ctx: ToolContext, person: int) -> Person:
    """Take a desk back."""
    return _change(ctx, "free_desk", person, "UPDATE people SET desk = NULL WHERE person = ?")


@tool(
    "people.greet",
    mode="local_write",
    authority=["person"],
    trust="trusted",
    reversibility="compensable",
    no_compensation="kind words need no undoing",
    idempotent=True,
    estimated_ms=10,
)
def greet(ctx: ToolContext, person: int, text: str) -> Person:
    """Leave a greeting on a person's desk."""
    return _change(ctx, "greet", person, "UPDATE people SET greeting = ? WHERE person = ?", text)


def _free_desk(db: sqlite3.Connection, floor: int) -> str:
    taken = {row["desk"] for row in db.execute("SELECT desk FROM people")}
    for number in range(DESKS):
        if (desk := f"{floor}-{number + 1}") not in taken:
            return desk
    raise NotDone(f"floor {floor} has no free desk", code="floor_full", remedy="name another floor")


def _change(ctx: ToolContext, what: str, person: int, statement: str, *values: object) -> Person:
    """Changes a file once for each key, and says what is in it afterwards; what is not committed is rolled back."""
    with database() as db:
        db.execute("BEGIN IMMEDIATE")
        _person(db, person)
        if _is_first(db, ctx, what, person):
            db.execute(statement, (*values, person))
        db.execute("COMMIT")
        return _person(db, person)


def _is_first(db: sqlite3.Connection, ctx: ToolContext, what: str, person: int) -> bool:
    line = "INSERT INTO actions VALUES (?, ?, ?) ON CONFLICT DO NOTHING"
    return bool(db.execute(line, (ctx.idempotency_key, what, person)).rowcount)


def _person(db: sqlite3.Connection, person: int) -> Person:
    row = db.execute("SELECT person, name, account, desk FROM people WHERE person = ?", (person,)).fetchone()
    if row is None:
        raise NotDone(f"there is no file {person}", code="person_unknown", remedy="name a file")
    return Person(
        person=row["person"], name=row["name"], account=row["account"] or "", desk=row["desk"] or ""
    )


@contextmanager
def database() -> Generator[sqlite3.Connection]:
    """The files of the front office for the time of one call."""
    path = os.environ.get("TERCET_NEWCOMERS_DB") or "newcomers.db"
    with closing(sqlite3.connect(path, isolation_level=None, timeout=5)) as db:
        db.row_factory = sqlite3.Row
        db.executescript((HERE / "schema.sql").read_text(encoding="utf-8"))
        yield db
