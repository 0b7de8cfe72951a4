"""The store in a SQLite file, under the interface of every store."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from tercet.contracts.evidence import parse_ref
from tercet.contracts.search_words import terms_of
from tercet.database.sqlite import Connections
from tercet.evidence import ranking
from tercet.evidence.errors import FactUnknown, SnapshotOpen
from tercet.evidence.ranking import Match
from tercet.evidence.rows import (
    START,
    Census,
    Row,
    SnapshotRow,
    check_name,
    check_names,
    differences,
    fact_of,
    head_of,
)
from tercet.evidence.spool import Stop, spooled
from tercet.evidence.sqlite import drafts
from tercet.evidence.sqlite.drafts import QUERIES, SCHEMA, find_snapshot
from tercet.evidence.store import (
    Added,
    Change,
    Difference,
    Fact,
    Hit,
    Progress,
    SnapshotHead,
    silent,
)


class SqliteEvidence:
    """A durable store in one file, for one machine. Open it with `open_evidence("sqlite:///evidence.db")`."""

    def __init__(self, path: Path, *, patience_s: float = 5.0) -> None:
        self._connections = Connections(path, SCHEMA, patience_s=patience_s)

    @classmethod
    async def open(cls, path: Path, *, patience_s: float = 5.0) -> SqliteEvidence:
        """Open or create a file; `patience_s` is how long to wait for another process's lock."""
        store = cls(path, patience_s=patience_s)
        try:
            await store._connections.open()
        except BaseException:
            await store.close()
            raise
        return store

    async def create(self, tenant: str, draft: str, *, now_ms: int) -> SnapshotHead:
        """Begin a draft."""
        check_names(tenant)
        check_name(draft)
        return await self._connections.write(
            lambda connection: _head(connection, drafts.create(connection, tenant, draft, now_ms))
        )

    async def put(
        self, tenant: str, draft: str, changes: Iterable[Change], *, progress: Progress = silent
    ) -> Added:
        """Add changes to a draft, all or none."""
        check_names(tenant)
        check_name(draft)
        await self._connections.read(lambda connection: drafts.find_draft(connection, tenant, draft))
        stop = Stop()
        with spooled() as spool:
            try:
                await self._connections.run_aside(lambda: spool.fill(changes, progress, stop))
                return await self._connections.write(
                    lambda connection: drafts.Filling(connection, tenant, draft).run(spool, stop)
                )
            except asyncio.CancelledError:
                stop.ask()
                raise

    async def freeze(
        self, tenant: str, draft: str, *, now_ms: int, name: str | None = None, progress: Progress = silent
    ) -> SnapshotHead:
        """Make a snapshot of a draft."""
        final = draft if name is None else name
        check_names(tenant)
        check_name(draft)
        check_name(final)
        await self._demand_free(tenant, draft, final)
        done = 0
        while True:
            done = await self._index(tenant, draft, done, progress)

            def act(connection: sqlite3.Connection) -> SnapshotHead | None:
                row = drafts.freeze(connection, tenant, draft, final, now_ms)
                return None if row is None else _head(connection, row)

            # Somebody may have added to the draft since its words were indexed; then it is done again.
            if (head := await self._connections.write(act)) is not None:
                return head

    async def _demand_free(self, tenant: str, draft: str, final: str) -> None:
        """Say at once what would be said in the end, when the words are indexed."""

        def act(connection: sqlite3.Connection) -> None:
            drafts.find_draft(connection, tenant, draft)
            if final != draft:
                drafts.demand_free(connection, tenant, final)

        await self._connections.read(act)

    async def _index(self, tenant: str, draft: str, done: int, progress: Progress) -> int:
        after, count = 0, 1
        while count:
            count, after = await self._connections.write(
                lambda connection, behind=after: drafts.index_some(connection, tenant, draft, behind)
            )
            done += count
            progress(done)
        return done

    async def discard(self, tenant: str, draft: str) -> None:
        """Drop a draft."""
        check_names(tenant)
        check_name(draft)
        await self._connections.write(lambda connection: drafts.discard(connection, tenant, draft))

    async def head(self, tenant: str, name: str) -> SnapshotHead:
        """One snapshot or draft."""
        check_names(tenant)
        check_name(name)
        return await self._connections.read(
            lambda connection: _head(connection, find_snapshot(connection, tenant, name))
        )

    async def newest(self, tenant: str) -> SnapshotHead | None:
        """The frozen snapshot with the highest number."""
        check_names(tenant)
        found = await self._heads("newest_snapshot", tenant)
        return found[0] if found else None

    async def heads(self, tenant: str, *, limit: int = 100) -> list[SnapshotHead]:
        """Drafts by name, then snapshots, newest first."""
        check_names(tenant)
        return await self._heads("list_snapshots", tenant, max(limit, 0))

    async def _heads(self, query: str, *parameters: Any) -> list[SnapshotHead]:
        def act(connection: sqlite3.Connection) -> list[SnapshotHead]:
            rows = connection.execute(QUERIES[query], parameters).fetchall()
            return [_head(connection, SnapshotRow(*row)) for row in rows]

        return await self._connections.read(act)

    async def diff(self, tenant: str, before: str, after: str) -> list[Difference]:
        """In which facts two snapshots differ."""
        check_names(tenant)
        check_name(before)
        check_name(after)

        def act(connection: sqlite3.Connection) -> list[Difference]:
            first, last = _frozen(connection, tenant, before), _frozen(connection, tenant, after)
            numbers = sorted((first.number or 0, last.number or 0))
            bound = {"tenant": first.tenant_id, "before": numbers[0], "after": numbers[1]}
            rows = connection.execute(QUERIES["differences"], bound).fetchall()
            return differences(rows, is_backwards=(first.number or 0) > (last.number or 0))

        return await self._connections.read(act)

    async def fact(self, tenant: str, ref: str) -> Fact:
        """A fact by its id."""
        check_names(tenant)
        parts = parse_ref(ref)
        if parts is None:
            raise FactUnknown(ref)

        def act(connection: sqlite3.Connection) -> Fact:
            check_name(parts.snapshot)
            snapshot = _frozen(connection, tenant, parts.snapshot)
            bound = {"tenant": snapshot.tenant_id, "number": snapshot.number, **parts._asdict()}
            row = connection.execute(QUERIES["find_fact"], bound).fetchone()
            if row is None:
                raise FactUnknown(ref)
            return fact_of(Row(*row), snapshot.name, snapshot.hash or START)

        return await self._connections.read(act)

    async def facts(
        self,
        tenant: str,
        snapshot: str,
        *,
        classes: Sequence[str] | None = None,
        after: tuple[str, str] = ("", ""),
        limit: int = 1000,
    ) -> list[Fact]:
        """Facts behind a class and key, in the order of class and key."""
        check_names(tenant)
        check_name(snapshot)

        def act(connection: sqlite3.Connection) -> list[Fact]:
            chosen = _frozen(connection, tenant, snapshot)
            bound = {
                "tenant": chosen.tenant_id, "number": chosen.number, "classes": _listed(classes),
                "after_class": after[0], "after_key": after[1], "limit": max(limit, 0),
            }  # fmt: skip
            rows = connection.execute(QUERIES["list_facts"], bound).fetchall()
            return [fact_of(Row(*row), chosen.name, chosen.hash or START) for row in rows]

        return await self._connections.read(act)

    async def search(
        self,
        tenant: str,
        snapshot: str,
        query: str,
        *,
        classes: Sequence[str] | None = None,
        limit: int = 10,
    ) -> list[Hit]:
        """The facts that share words with a query, best first."""
        check_names(tenant)
        check_name(snapshot)
        return await self._connections.read(
            lambda connection: _search(
                connection, _frozen(connection, tenant, snapshot), query, classes, limit
            )
        )

    async def pin(self, tenant: str, snapshot: str, session: str) -> None:
        """Keep a snapshot as long as a session needs it."""
        check_names(tenant, session)
        check_name(snapshot)

        def act(connection: sqlite3.Connection) -> None:
            connection.execute(QUERIES["add_pin"], (_frozen(connection, tenant, snapshot).id, session))

        await self._connections.write(act)

    async def unpin(self, tenant: str, snapshot: str, session: str) -> None:
        """Give a pin up."""
        check_names(tenant, snapshot, session)

        def act(connection: sqlite3.Connection) -> None:
            row = connection.execute(QUERIES["find_snapshot"], (tenant, snapshot)).fetchone()
            if row is not None:
                connection.execute(QUERIES["remove_pin"], (row[0], session))

        await self._connections.write(act)

    async def pins(self, tenant: str, snapshot: str) -> tuple[str, ...]:
        """Who pins a snapshot."""
        check_names(tenant)
        check_name(snapshot)

        def act(connection: sqlite3.Connection) -> tuple[str, ...]:
            found = connection.execute(QUERIES["list_pins"], (_frozen(connection, tenant, snapshot).id,))
            return tuple(session for (session,) in found)

        return await self._connections.read(act)

    async def forget(self, tenant: str, snapshot: str) -> None:
        """Remove a frozen snapshot, and the facts that stand in no other."""
        check_names(tenant)
        check_name(snapshot)
        await self._connections.write(
            lambda connection: drafts.forget(connection, _frozen(connection, tenant, snapshot), tenant)
        )

    async def close(self) -> None:
        """Finish what is under way and close the file."""
        await self._connections.close()


def _frozen(connection: sqlite3.Connection, tenant: str, name: str) -> SnapshotRow:
    row = find_snapshot(connection, tenant, name)
    if row.number is None:
        raise SnapshotOpen(name)
    return row


def _head(connection: sqlite3.Connection, row: SnapshotRow) -> SnapshotHead:
    (pins,) = connection.execute(QUERIES["count_pins"], (row.id,)).fetchone()
    if row.number is None:
        (facts,) = connection.execute(QUERIES["count_changes"], (row.id,)).fetchone()
    else:
        facts = Census(row.totals or b"").of(None).facts
    return head_of(row, facts, pins)


def _search(
    connection: sqlite3.Connection,
    snapshot: SnapshotRow,
    query: str,
    classes: Sequence[str] | None,
    limit: int,
) -> list[Hit]:
    bound = {"number": snapshot.number, "classes": _listed(classes)}
    matches = [
        [
            Match(*row)
            for row in connection.execute(
                QUERIES["find_word"], {**bound, "word": f"{snapshot.tenant_id}x{word}"}
            )
        ]
        for word in terms_of(query)
    ]
    scores = ranking.score(matches, Census(snapshot.totals or b"").of(classes))
    candidates = msgspec.json.encode(ranking.best(scores, limit)).decode()
    found = connection.execute(QUERIES["names_of"], (candidates,)).fetchall()
    found.sort(key=lambda row: (-scores[row[0]], row[1], row[2]))
    hits: list[Hit] = []
    for fact, _, _ in found[: max(limit, 0)]:
        row = connection.execute(QUERIES["read_fact"], (fact,)).fetchone()
        hits.append(Hit(fact_of(Row(*row), snapshot.name, snapshot.hash or START, query), scores[fact]))
    return hits


def _listed(classes: Sequence[str] | None) -> str | None:
    return None if classes is None else msgspec.json.encode([*classes]).decode()
