"""An invented bakery. Every call, and every loaf that came of one, is a row in the database that BAKERY_DB names."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path

from tercet import NotDone, ToolContext, tool


@tool("bakery.look", mode="read_only")
def look(bread: str) -> str:
    """Look a recipe up."""
    print(f"looking up {bread}")  # noqa: T201 - a chatty tool must not spoil what the command line prints
    return f"recipe of {bread}"


@tool("bakery.bake", mode="local_write", idempotent=True, no_compensation="bread cannot be unbaked")
def bake(ctx: ToolContext, bread: str, seconds: float) -> str:
    """Bake one loaf for each action; the effect is there long before the call returns."""
    with _database() as db:
        db.execute("INSERT INTO calls VALUES (?, ?)", ("bake", ctx.idempotency_key))
        db.execute("INSERT INTO loaves VALUES (?, ?) ON CONFLICT DO NOTHING", (ctx.idempotency_key, bread))
    end = time.monotonic() + (seconds if ctx.attempt == 1 else 0)
    while time.monotonic() < end and not _is_oven_open():
        time.sleep(0.02)
    return f"a loaf of {bread}"


@tool("bakery.order", mode="local_write", no_compensation="flour that was ordered comes")
def order(ctx: ToolContext, flour: str) -> str:
    """Order flour over a line that breaks after the first order went through."""
    with _database() as db:
        db.execute("INSERT INTO calls VALUES (?, ?)", ("order", ctx.idempotency_key))
    if ctx.attempt == 1:
        raise ConnectionError("the line broke")
    return f"order of {flour}"


@tool("bakery.knead", mode="local_write", idempotent=True, no_compensation="dough stays kneaded")
def knead(ctx: ToolContext, fails: int) -> str:
    """Knead dough in a machine that does not start at first."""
    if ctx.attempt <= fails:
        raise NotDone("the machine did not start\x1b[31m")
    return "dough"


def _is_oven_open() -> bool:
    return Path(os.environ["BAKERY_DB"]).with_name("oven_is_open").exists()


@contextmanager
def _database() -> Generator[sqlite3.Connection]:
    with closing(sqlite3.connect(os.environ["BAKERY_DB"], isolation_level=None, timeout=10)) as db:
        db.execute("CREATE TABLE IF NOT EXISTS calls (tool TEXT, key TEXT)")
        db.execute("CREATE TABLE IF NOT EXISTS loaves (key TEXT PRIMARY KEY, bread TEXT)")
        yield db
