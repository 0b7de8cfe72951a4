"""The store in a SQLite file, and its drafts."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Coroutine, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import orjson

from tercet.database.schema import read_schema
from tercet.database.sqlite import Connections, SqliteSession, migrate, transaction
from tercet.evidence.database import DatabaseEvidence, demand_free, find_draft
from tercet.evidence.errors import EVIDENCE
from tercet.evidence.rows import OPEN, Match, Prepared, Row, SnapshotRow, Spool, Stop, indexed
from tercet.evidence.store import Added, NewDocument, Progress, SnapshotHead

SCHEMA = read_schema("tercet.evidence.sqlite", EVIDENCE, pragmas=("PRAGMA cache_size = -32000",))
QUERIES = SCHEMA.queries
INDEX_BATCH = 2_000
"""The batch size of indexing: a fraction of a second, so that others need not wait long."""
IDLE = -1
"""Replaces the length: the change had no effect when the index was made, so its words are not in it."""


class Filling:
    """One `put`: writes changes into a draft."""

    def __init__(self, connection: sqlite3.Connection, draft: SnapshotRow) -> None:
        self._connection = connection
        self._draft = draft
        (self._last,) = connection.execute(QUERIES["last_fact"]).fetchone()
        (already,) = connection.execute(QUERIES["count_changes"], (self._draft.id,)).fetchone()
        self._names: set[tuple[str, str]] | None = None if already else set()
        """The cached facts of the draft; None if the table has to be queried."""
        self._documents: dict[str, int] = {}
        self._facts: list[tuple[object, ...]] = []
        self._versions: list[tuple[object, ...]] = []
        self._count = {"facts": 0, "documents": 0, "removals": 0}

    def run(self, spool: Spool, stop: Stop) -> Added:
        """Write everything."""
        for batch in spool.batches():
            stop.check()
            for each in batch:
                self._take(each)
            self._flush()
        return Added(**self._count)

    def _take(self, change: Prepared) -> None:
        if isinstance(change, NewDocument):
            self._take_document(change)
            return
        self._count["removals" if change.content is None else "facts"] += 1
        self._drop_earlier(change)
        self._last += 1
        document = self._documents[change.document] if change.document else None
        self._facts.append(
            (
                self._last, change.content, change.hash, change.trust, change.source, change.expires_at,
                change.chunk, change.start, change.end,
            )
        )  # fmt: skip
        self._versions.append(
            (
                self._last, self._draft.tenant_id, change.classification, change.key, self._draft.id, document,
                OPEN, change.content is None,
            )
        )  # fmt: skip

    def _take_document(self, document: NewDocument) -> None:
        self._count["documents"] += 1
        self._flush()
        earlier = self._connection.execute(
            QUERIES["changes_of_document"], (self._draft.id, document.name)
        ).fetchall()
        if earlier:
            remove_facts(self._connection, (fact for (fact,) in earlier))
            self._names = None
        row = (
            self._draft.tenant_id, self._draft.id, document.name, document.hash, document.media_type, document.size,
        )  # fmt: skip
        added = self._connection.execute(QUERIES["add_document"], row).lastrowid
        self._documents[document.name] = added or 0

    def _drop_earlier(self, row: Row) -> None:
        name = (row.classification, row.key)
        if self._names is not None and name not in self._names:
            self._names.add(name)
            return
        self._flush()
        wanted = (self._draft.tenant_id, *name, OPEN, self._draft.id)
        found = self._connection.execute(QUERIES["find_change"], wanted).fetchall()
        remove_facts(self._connection, (fact for (fact,) in found))

    def _flush(self) -> None:
        self._connection.executemany(QUERIES["add_fact"], self._facts)
        self._connection.executemany(QUERIES["add_version"], self._versions)
        self._facts.clear()
        self._versions.clear()


def index_some(connection: sqlite3.Connection, draft: SnapshotRow, after: int) -> tuple[int, int]:
    """Index the words of some facts of a draft; return their number, and the last of them."""
    if not after:
        connection.executemany(QUERIES["set_length"], ((IDLE, fact) for fact in _idle(connection, draft)))
    found = connection.execute(QUERIES["unindexed"], (draft.id, after, INDEX_BATCH)).fetchall()
    words = [(fact, indexed(orjson.loads(content))) for fact, content in found]
    connection.executemany(
        QUERIES["index_words"], ((fact, _marked(draft.tenant_id, each)) for fact, each in words)
    )
    connection.executemany(QUERIES["set_length"], ((len(each), fact) for fact, each in words))
    return len(found), words[-1][0] if words else after


def mark_unindexed(connection: sqlite3.Connection, draft: SnapshotRow) -> bool:
    """Mark the changes of a draft whose words must be indexed after all; return whether there are any."""
    changeless = msgspec.json.encode(_idle(connection, draft)).decode()
    connection.execute(QUERIES["wake"], (draft.id, IDLE, changeless))
    return connection.execute(QUERIES["unindexed"], (draft.id, 0, 1)).fetchone() is not None


def remove_facts(connection: sqlite3.Connection, facts: Iterable[int]) -> None:
    """Remove facts, and their words from the index. A contentless table needs the removed words."""
    for fact in facts:
        tenant_id, content, length = connection.execute(QUERIES["read_words"], (fact,)).fetchone()
        if length is not None and length != IDLE:
            words = _marked(tenant_id, indexed(orjson.loads(content)))
            connection.execute(QUERIES["unindex_words"], (fact, words))
        connection.execute(QUERIES["remove_fact"], (fact,))
        connection.execute(QUERIES["remove_version"], (fact,))


def _idle(connection: sqlite3.Connection, draft: SnapshotRow) -> list[int]:
    """Return the changes of a draft that have no effect."""
    return [fact for (fact,) in connection.execute(QUERIES["idle"], (draft.id, OPEN))]


def _marked(tenant_id: int, words: list[str]) -> str:
    """Return the words as they are indexed: with the number of their tenant."""
    mark = f"{tenant_id}x"
    return " ".join([f"{mark}{word}" for word in words])


# --- store ---


T = TypeVar("T")


class SqliteEvidence(DatabaseEvidence[SqliteSession]):
    """A durable store in one file, for one machine. Open it with `open_evidence("sqlite:///evidence.db")`."""

    @classmethod
    async def open(cls, path: Path, *, patience_s: float = 5.0) -> SqliteEvidence:
        """Open or create a file; `patience_s` is how long to wait for another process's lock."""
        connections = Connections(path, SCHEMA, patience_s=patience_s)
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
        return Filling(session.connection, draft).run(spool, stop)

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
            if mark_unindexed(session.connection, row):
                return None
            return await self._number_draft(session, tenant, row, name, now_ms)

        await self._connections.read(tenant, check)
        done = 0
        while True:
            done = await self._index(tenant, draft, done, progress)
            # If another writer has added to the draft since its words were indexed, it is repeated.
            if (head := await self._connections.write(act)) is not None:
                return head

    async def _index(self, tenant: str, draft: str, done: int, progress: Progress) -> int:
        last, count = 0, 1

        async def act(session: SqliteSession) -> tuple[int, int]:
            return index_some(session.connection, await find_draft(session, tenant, draft), last)

        while count:
            count, last = await self._connections.write(act)
            done += count
            progress(done)
        return done

    async def _add_removals(
        self, session: SqliteSession, draft: SnapshotRow, names: Sequence[tuple[str, str]]
    ) -> None:
        connection = session.connection
        (last,) = connection.execute(QUERIES["last_fact"]).fetchone()
        for fact, (classification, key) in enumerate(names, start=last + 1):
            connection.execute(QUERIES["add_fact"], (fact, None, b"", "", "", None, None, None, None))
            version = (fact, draft.tenant_id, classification, key, draft.id, None, OPEN, True)
            connection.execute(QUERIES["add_version"], version)

    async def _remove_facts(self, session: SqliteSession, facts: list[int]) -> None:
        remove_facts(session.connection, facts)

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
        migrate(self._connection, SCHEMA, "memory:")

    async def write(
        self, act: Callable[[SqliteSession], Coroutine[Any, Any, T]], *, is_repeatable: bool = False
    ) -> T:
        """Run a function in one transaction."""
        del is_repeatable
        if self._connection is None:
            raise SCHEMA.kind.closed()
        with transaction(self._connection):
            return await act(SqliteSession(self._connection, SCHEMA))

    async def read(self, tenant: str, act: Callable[[SqliteSession], Coroutine[Any, Any, T]]) -> T:
        """Run queries, each of which names the tenant itself."""
        del tenant
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
