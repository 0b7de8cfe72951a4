"""Tercet as a candidate, and the floor beneath it: the same journal's append in a bare loop."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any, cast

from tercet.database.sqlite import connect_writer
from tercet.journal.opening import open_journal
from tercet.journal.protocol import Append
from tercet.journal.sqlite.batch import SCHEMA
from tercet.runtime import Runtime

from . import workload
from .workload import Facts, Run

INTENT = b"x" * 400
COMPLETE = b"x" * 120
"""As many bytes as Tercet's own two events of such a step have."""


@asynccontextmanager
async def tercet(url: str, *, is_varied: bool = False) -> AsyncGenerator[Run]:
    """Whole runs with default settings: review, INTENT, call, COMPLETE, verdict, checkpoint, score, record.

    All of them with the same plan, or each with a plan and an input of its own, which are made within the run.
    """
    pack, plan, request = workload.pack_of(), workload.plan_of(), workload.request()
    numbers = count(1)
    async with Runtime(pack, url) as runtime:

        async def run() -> None:
            if is_varied:
                number = next(numbers)
                own = workload.plan_of(first=number * workload.STEPS)
                result = await runtime.run(workload.request(number), plan=own)
            else:
                result = await runtime.run(request, plan=plan)
            assert (result.status, result.steps_done) == ("completed", workload.STEPS), result

        yield run


@asynccontextmanager
async def floor(url: str, *, is_joined: bool = False) -> AsyncGenerator[Run]:
    """Two durable events a step and nothing else, the second after the first; or both in one append."""
    numbers = count()
    async with open_journal(url) as journal:

        async def run() -> None:
            stream = f"floor_{next(numbers)}"
            parts = [(INTENT, COMPLETE)] if is_joined else [(INTENT,), (COMPLETE,)]
            end = 0
            for _ in range(workload.STEPS):
                for events in parts:
                    workload.touch() if COMPLETE in events else None
                    await journal.append(Append(tenant="bench", stream=stream, expected=end, events=events))
                    end += len(events)

        yield run


def own_pragmas(path: Path) -> Facts:
    """The settings of a connection as the journal's writer opens it."""
    with contextlib.closing(connect_writer(path, SCHEMA, patience_s=5)) as connection:
        (level,) = connection.execute("PRAGMA synchronous").fetchone()
    return {"synchronous": level}


def sqlite_facts(path: Path) -> Facts:
    """What a SQLite file says of itself once its writer has gone."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        (mode,) = connection.execute("PRAGMA journal_mode").fetchone()
        names = [
            name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        ]
        rows = {
            name: connection.execute(f'SELECT count(*) FROM "{name}"').fetchone()[0]  # noqa: S608 - our own names
            for name in names
            if not name.startswith("sqlite_")
        }
    return {"journal_mode": mode, "rows": {name: n for name, n in rows.items() if n}}


async def postgres_facts(url: str, settings: tuple[str, ...] = ("fsync", "synchronous_commit")) -> Facts:
    """What a database on a server says of itself."""
    import asyncpg  # noqa: PLC0415  # pyright: ignore[reportMissingTypeStubs] - an optional dependency

    connection = await cast("Any", asyncpg).connect(url)
    try:
        found: dict[str, Any] = {name: await connection.fetchval(f"SHOW {name}") for name in settings}
        tables = await connection.fetch(
            "SELECT schemaname, relname FROM pg_stat_user_tables ORDER BY schemaname, relname"
        )
        rows: dict[str, int] = {}
        for schema, name in tables:
            n = await connection.fetchval(f'SELECT count(*) FROM "{schema}"."{name}"')  # noqa: S608 - our own names
            if n:
                rows[name] = n
    finally:
        await connection.close()
    return {**found, "rows": rows}
