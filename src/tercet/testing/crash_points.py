"""Named crash points, at which a worker process of a test dies or is stopped on command.

The runtime calls its `crash` argument at the points of the driver; a tool of a test calls it around its effect; `plant`
adds the points inside a commit, `doom` those of a process that only sends messages to a session. A plan names one point,
how often it may be passed before, and what happens then:

    TERCET_CRASH=after_effect:2         dies by SIGKILL when it reaches the point for the second time
    TERCET_CRASH=before_call:1:stop     is stopped there by SIGSTOP, and continues after SIGCONT

A process without a plan passes every point. Nothing here is imported by the runtime.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast, get_args

from tercet.contracts.errors import UsageError
from tercet.core.messages import inbox_of
from tercet.database.schema import Schema
from tercet.journal.protocol import Append, Journal, Position
from tercet.journal.sqlite import writer as sqlite_writer
from tercet.journal.sqlite.batch import QUERIES as SQLITE_QUERIES

VARIABLE = "TERCET_CRASH"
_POINT = 5
"""The index of the point among the parameters of `add_event`."""

StepPoint: TypeAlias = Literal[
    "before_append",
    "inside_checkpoint",
    "inside_commit",
    "after_commit",
    "after_append",
    "before_call",
    "before_effect",
    "after_effect",
    "after_answer",
]
SpokenPoint: TypeAlias = Literal["before_post", "after_post"]
Point: TypeAlias = StepPoint | SpokenPoint
POINTS: tuple[StepPoint, ...] = get_args(StepPoint)
"""In the order in which one step reaches them. `before_append` and `after_append` surround every append of the driver,
so an INTENT is durable at the second one and
its call has not begun; `before_call` is behind the last look at the lease; `before_effect` and `after_effect` are inside
the tool; `after_answer` is between the answer and COMPLETE. `inside_checkpoint` is in the transaction behind the
checkpoints, `inside_commit` in it before COMMIT (on PostgreSQL both: sent, and not answered), `after_commit` before the
caller hears of it.
"""
SPOKEN: tuple[SpokenPoint, ...] = get_args(SpokenPoint)
"""Around adding a message to the inbox of a session: at the second point it is durable, but not an event yet. A process
that then reads the inbox of a session without a driver passes `before_append` and `after_append` around its event.
"""

Way: TypeAlias = Literal["kill", "stop"]


class CrashPlan:
    """The point at which this process ends; calling it reports that a point has been reached."""

    def __init__(self, point: Point | None = None, nth: int = 1, way: Way = "kill") -> None:
        self.point = point
        self.nth = nth
        self.way: Way = way
        self._reached = Counter[str]()

    @classmethod
    def read(cls, environment: Mapping[str, str] = os.environ) -> CrashPlan:
        """Return the plan in the environment; raise `UsageError` for one that names no point."""
        text = environment.get(VARIABLE, "")
        if not text:
            return cls()
        point, _, rest = text.partition(":")
        nth, _, way = rest.partition(":")
        nth, way = nth or "1", way or "kill"
        known = (*POINTS, *SPOKEN)
        if point not in known or not nth.isdigit() or way not in get_args(Way):
            raise UsageError(
                f"{VARIABLE}={text} names no crash point",
                code="unknown_crash_point",
                remedy=f"write point:n or point:n:stop, with one of {', '.join(known)}",
            )
        return cls(point, int(nth), cast("Way", way))

    def __call__(self, point: str) -> None:
        """End here if this is the planned point."""
        if point != self.point:
            return
        self._reached[point] += 1
        if self._reached[point] == self.nth:
            self._end()

    def _end(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL if self.way == "kill" else signal.SIGSTOP)
        # The signal is for the whole process, and may reach this thread later than others.
        time.sleep(0.02)


def plant(plan: CrashPlan) -> None:
    """Install the points inside commits into this process, which should be a worker for one test."""
    _plant_in_sqlite(plan)
    try:
        _plant_in_postgres(plan)
    except ModuleNotFoundError as error:
        if error.name != "asyncpg":
            raise


def doom(journal: Journal, plan: CrashPlan) -> Journal:
    """Return a journal that passes points around every append, for a process that only sends messages to sessions."""
    return cast("Journal", _DoomedJournal(journal, plan))


def _plant_in_sqlite(plan: CrashPlan) -> None:
    connect = sqlite_writer.connect_writer

    def connect_doomed(path: Path, schema: Schema, *, patience_s: float) -> Any:
        return _DoomedSqlite(connect(path, schema, patience_s=patience_s), plan)

    sqlite_writer.connect_writer = connect_doomed


def _plant_in_postgres(plan: CrashPlan) -> None:
    # asyncpg is an optional dependency.
    from tercet.database import postgres  # noqa: PLC0415
    from tercet.journal.postgres.rows import QUERIES  # noqa: PLC0415

    connect = postgres.connect

    async def connect_doomed(url: str, *, settings: dict[str, str]) -> Any:
        connection = await connect(url, settings=settings)
        return _DoomedPostgres(connection, plan, QUERIES["store"])

    postgres.connect = connect_doomed


class _DoomedJournal:
    """A journal that passes points around every message added to an inbox, and around its event."""

    def __init__(self, inner: Journal, plan: CrashPlan) -> None:
        self._inner = inner
        self._plan = plan

    async def append(self, unit: Append) -> Position:
        what = "post" if unit.stream.startswith(inbox_of("")) else "append"
        self._plan(f"before_{what}")
        position = await self._inner.append(unit)
        self._plan(f"after_{what}")
        return position

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class _DoomedSqlite:
    """The writing connection, which passes the points inside a commit."""

    def __init__(self, inner: sqlite3.Connection, plan: CrashPlan) -> None:
        self._inner = inner
        self._plan = plan

    def execute(self, sql: str, *parameters: Any) -> sqlite3.Cursor:
        is_commit = sql == "COMMIT"
        if is_commit:
            self._plan("inside_commit")
        cursor = self._inner.execute(sql, *parameters)
        if is_commit:
            self._plan("after_commit")
        return cursor

    def executemany(self, sql: str, rows: Sequence[Any]) -> sqlite3.Cursor:
        cursor = self._inner.executemany(sql, rows)
        # A point is stored in the row of its append, and a fold in its own row.
        has_point = sql == SQLITE_QUERIES["add_event"] and any(row[_POINT] for row in rows)
        if has_point or sql == SQLITE_QUERIES["add_checkpoint"]:
            self._plan("inside_checkpoint")
        return cursor

    @property
    def in_transaction(self) -> bool:
        return self._inner.in_transaction

    def close(self) -> None:
        self._inner.close()


class _DoomedPostgres:
    """The writer's connection, which passes the points around its storing statement."""

    def __init__(self, inner: Any, plan: CrashPlan, store: str) -> None:
        self._inner = inner
        self._plan = plan
        self._store = store

    async def fetch(self, query: str, *args: Any) -> list[Any]:
        if not query.startswith(self._store):
            return await self._inner.fetch(query, *args)
        sending = asyncio.ensure_future(self._inner.fetch(query, *args))
        for _ in range(3):  # it is sent in the first ticks, and the answer needs a round trip
            await asyncio.sleep(0)
        self._plan("inside_checkpoint")
        self._plan("inside_commit")
        rows = await sending
        self._plan("after_commit")
        return rows

    async def execute(self, query: str, *args: Any) -> str:
        return await self._inner.execute(query, *args)

    async def fetchrow(self, query: str, *args: Any) -> Any:
        return await self._inner.fetchrow(query, *args)

    async def fetchval(self, query: str, *args: Any) -> Any:
        return await self._inner.fetchval(query, *args)

    def transaction(self) -> AbstractAsyncContextManager[Any]:
        return self._inner.transaction()

    def is_closed(self) -> bool:
        return self._inner.is_closed()

    async def close(self, *, timeout: float | None = None) -> None:  # noqa: ASYNC109 - asyncpg's own name
        await self._inner.close(timeout=timeout)

    def terminate(self) -> None:
        self._inner.terminate()
