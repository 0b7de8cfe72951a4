"""The store in a SQLite file."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, TypeVar

from tercet.database.sqlite import Connections, SqliteSession, migrate, transaction
from tercet.evidence.database import DatabaseEvidence, demand_free, find_draft
from tercet.evidence.ranking import Match
from tercet.evidence.rows import SnapshotRow
from tercet.evidence.spool import Spool, Stop
from tercet.evidence.sqlite import drafts
from tercet.evidence.store import Added, Progress, SnapshotHead

T = TypeVar("T")


class SqliteEvidence(DatabaseEvidence[SqliteSession]):
    """A durable store in one file, for one machine. Open it with `open_evidence("sqlite:///evidence.db")`."""

    @classmethod
    async def open(cls, path: Path, *, patience_s: float = 5.0) -> SqliteEvidence:
        """Open or create a file; `patience_s` is how long to wait for another process's lock."""
        connections = Connections(path, drafts.SCHEMA, patience_s=patience_s)
        try:
            await connections.open()
        except BaseException:
            await connections.close()
            raise
        return cls(connections)

    @classmethod
    def in_memory(cls) -> SqliteEvidence:
        """Create a store in memory."""
        return cls(MemoryConnection())

    async def _fill(self, session: SqliteSession, draft: SnapshotRow, spool: Spool, stop: Stop) -> Added:
        return drafts.Filling(session.connection, draft).run(spool, stop)

    async def _freeze(
        self, tenant: str, draft: str, name: str, now_ms: int, progress: Progress
    ) -> SnapshotHead:
        """Index the words of a draft in batches, then make a snapshot of it."""

        async def check(session: SqliteSession) -> None:
            # Fail early, before the words are indexed.
            await find_draft(session, tenant, draft)
            await demand_free(session, tenant, draft, name)

        async def act(session: SqliteSession) -> SnapshotHead | None:
            row = await find_draft(session, tenant, draft)
            await demand_free(session, tenant, draft, name)
            if drafts.mark_unindexed(session.connection, row):
                return None
            return await self._number_draft(session, tenant, row, name, now_ms)

        await self._connections.read(check)
        done = 0
        while True:
            done = await self._index(tenant, draft, done, progress)
            # If another writer has added to the draft since its words were indexed, it is repeated.
            if (head := await self._connections.write(act)) is not None:
                return head

    async def _index(self, tenant: str, draft: str, done: int, progress: Progress) -> int:
        last, count = 0, 1

        async def act(session: SqliteSession) -> tuple[int, int]:
            return drafts.index_some(session.connection, await find_draft(session, tenant, draft), last)

        while count:
            count, last = await self._connections.write(act)
            done += count
            progress(done)
        return done

    async def _add_removals(
        self, session: SqliteSession, draft: SnapshotRow, names: Sequence[tuple[str, str]]
    ) -> None:
        drafts.add_removals(session.connection, draft, names)

    async def _remove_facts(self, session: SqliteSession, facts: list[int]) -> None:
        drafts.remove_facts(session.connection, facts)

    async def _find_matches(
        self, session: SqliteSession, snapshot: SnapshotRow, terms: Sequence[str], classes: list[str] | None
    ) -> list[list[Match]]:
        words = [f"{snapshot.tenant_id}x{term}" for term in terms]
        found = [await session.fetch("find_word", word, snapshot.number, classes) for word in words]
        return [[Match(*row) for row in rows] for rows in found]


class MemoryConnection:
    """One connection to a database in memory, used in the thread of the event loop. Transactions never wait, so each is
    atomic.
    """

    def __init__(self) -> None:
        # An unclosed store may be garbage-collected in another thread.
        self._connection: sqlite3.Connection | None = sqlite3.connect(
            ":memory:", isolation_level=None, check_same_thread=False
        )
        migrate(self._connection, drafts.SCHEMA, "memory:")

    async def write(
        self, act: Callable[[SqliteSession], Coroutine[Any, Any, T]], *, is_repeatable: bool = False
    ) -> T:
        """Run a function in one transaction."""
        del is_repeatable
        if self._connection is None:
            raise drafts.SCHEMA.kind.closed()
        with transaction(self._connection):
            return await act(SqliteSession(self._connection, drafts.SCHEMA))

    async def read(self, act: Callable[[SqliteSession], Coroutine[Any, Any, T]]) -> T:
        """Run queries."""
        return await self.write(act)

    async def close(self) -> None:
        """Close the connection."""
        self._close()

    def __del__(self) -> None:
        self._close()  # an unclosed store in memory loses nothing, so no warning is needed

    def _close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
