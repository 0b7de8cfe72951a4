"""Evidence in a database: the shared part of the SQLite and PostgreSQL stores, written over their named queries.

The two differ in how words are indexed, and so in how a draft is filled, frozen and searched, and how facts are
removed.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, Generic, TypeVar

from tercet.contracts.evidence import parse_ref
from tercet.contracts.text.words import terms_of
from tercet.database.schema import Session, Transactions
from tercet.evidence import rows
from tercet.evidence.errors import (
    FactUnknown,
    SnapshotExists,
    SnapshotFrozen,
    SnapshotOpen,
    SnapshotPinned,
    SnapshotUnknown,
)
from tercet.evidence.rows import (
    OPEN,
    START,
    Census,
    Chain,
    Match,
    Row,
    SnapshotRow,
    Spool,
    Stop,
    check_name,
    check_names,
    check_snapshots,
    count_change,
    differences,
    fact_of,
    head_of,
    spooled,
)
from tercet.evidence.store import Added, Change, Difference, Fact, Hit, Progress, SnapshotHead, silent

S = TypeVar("S", bound=Session)


class DatabaseEvidence(ABC, Generic[S]):
    """A durable store of evidence."""

    def __init__(self, connections: Transactions[S]) -> None:
        self._connections = connections

    @abstractmethod
    async def _fill(self, session: S, draft: SnapshotRow, spool: Spool, stop: Stop) -> Added:
        """Write changes into a draft."""

    @abstractmethod
    async def _freeze(
        self, tenant: str, draft: str, name: str, now_ms: int, progress: Progress
    ) -> SnapshotHead:
        """Make a snapshot of a draft."""

    @abstractmethod
    async def _add_removals(self, session: S, draft: SnapshotRow, names: Sequence[tuple[str, str]]) -> None:
        """Let a draft remove facts, by class and key."""

    @abstractmethod
    async def _remove_facts(self, session: S, facts: list[int]) -> None:
        """Remove facts with their words."""

    @abstractmethod
    async def _find_matches(
        self, session: S, snapshot: SnapshotRow, terms: Sequence[str], classes: list[str] | None
    ) -> list[list[Match]]:
        """Return for each term the facts that have it."""

    async def create(self, tenant: str, draft: str, *, now_ms: int) -> SnapshotHead:
        """Begin a draft."""
        check_snapshots(tenant, draft)

        async def act(session: S) -> SnapshotHead:
            await session.execute("add_tenant", tenant)
            tenant_id = await session.fetch_value("find_tenant", tenant)
            if await session.fetch_value("add_snapshot", tenant_id, draft, now_ms) is None:
                raise SnapshotExists(draft)
            return await _head(session, await find_snapshot(session, tenant, draft))

        return await self._connections.write(act)

    async def put(
        self, tenant: str, draft: str, changes: Iterable[Change], *, progress: Progress = silent
    ) -> Added:
        """Add changes to a draft, all or none."""
        check_snapshots(tenant, draft)
        await self._connections.read(tenant, lambda session: find_draft(session, tenant, draft))
        stop = Stop()
        with spooled() as spool:

            async def act(session: S) -> Added:
                row = await find_draft(session, tenant, draft, is_locked=True)
                return await self._fill(session, row, spool, stop)

            try:
                await asyncio.to_thread(spool.fill, changes, progress, stop)
                return await self._connections.write(act)
            finally:
                stop.ask()

    async def freeze(
        self, tenant: str, draft: str, *, now_ms: int, name: str | None = None, progress: Progress = silent
    ) -> SnapshotHead:
        """Make a snapshot of a draft."""
        final = draft if name is None else name
        check_snapshots(tenant, draft, final)
        return await self._freeze(tenant, draft, final, now_ms, progress)

    async def _number_draft(
        self, session: S, tenant: str, row: SnapshotRow, name: str, now_ms: int
    ) -> SnapshotHead:
        """Apply the changes of a draft under the next number."""
        newest = await session.fetch_row("newest_snapshot", tenant)
        before = SnapshotRow(*newest) if newest else SnapshotRow(0, 0, "", 0, 0, 0, START, b"")
        number = (before.number or 0) + 1
        # Facts that a document no longer has are removed.
        await self._add_removals(session, row, await session.fetch("vanished", row.id, OPEN))
        await self._remove_facts(session, await _column(session, "idle", row.id, OPEN))
        chain, census = Chain(before.hash or START), Census(before.totals or b"")
        for change in await session.fetch("changes", row.id, OPEN):
            count_change(tuple(change), chain, census)
        await session.execute("end_replaced", row.id, OPEN, number)
        await self._remove_facts(session, await _column(session, "all_removals", row.id))
        await session.execute("begin_changes", row.id, number)
        await session.execute("remove_idle_documents", row.id)
        frozen = (name, number, now_ms, chain.digest(), census.encode(), row.id)
        if not await session.try_execute("number_snapshot", *frozen):
            raise SnapshotExists(name)
        return await _head(session, await find_snapshot(session, tenant, name))

    async def discard(self, tenant: str, draft: str) -> None:
        """Drop a draft."""
        check_snapshots(tenant, draft)

        async def act(session: S) -> None:
            row = await find_draft(session, tenant, draft, is_locked=True)
            await self._remove_facts(session, await _column(session, "all_changes", row.id))
            await session.execute("remove_documents", row.id)
            await session.execute("remove_snapshot", row.id)

        await self._connections.write(act)

    async def head(self, tenant: str, name: str) -> SnapshotHead:
        """Return one snapshot or draft."""
        check_snapshots(tenant, name)

        async def act(session: S) -> SnapshotHead:
            return await _head(session, await find_snapshot(session, tenant, name))

        return await self._connections.read(tenant, act)

    async def newest(self, tenant: str) -> SnapshotHead | None:
        """Return the frozen snapshot with the highest number."""
        found = await self._heads("newest_snapshot", tenant)
        return found[0] if found else None

    async def heads(self, tenant: str, *, limit: int = 100) -> list[SnapshotHead]:
        """Return drafts by name, then snapshots, newest first."""
        return await self._heads("list_snapshots", tenant, max(limit, 0))

    async def _heads(self, query: str, tenant: str, *parameters: int) -> list[SnapshotHead]:
        check_names(tenant)

        async def act(session: S) -> list[SnapshotHead]:
            rows = await session.fetch(query, tenant, *parameters)
            return [await _head(session, SnapshotRow(*row)) for row in rows]

        return await self._connections.read(tenant, act)

    async def diff(self, tenant: str, before: str, after: str) -> list[Difference]:
        """Return the facts in which two snapshots differ."""
        check_snapshots(tenant, before, after)

        async def act(session: S) -> list[Difference]:
            first = await find_frozen(session, tenant, before)
            last = await find_frozen(session, tenant, after)
            numbers = sorted((first.number or 0, last.number or 0))
            rows = await session.fetch("differences", first.tenant_id, *numbers)
            return differences(rows, is_backwards=(first.number or 0) > (last.number or 0))

        return await self._connections.read(tenant, act)

    async def fact(self, tenant: str, ref: str) -> Fact:
        """Return a fact by its id."""
        check_names(tenant)
        parts = parse_ref(ref)
        if parts is None:
            raise FactUnknown(ref)
        check_names(parts.classification, parts.key)
        check_name(parts.snapshot)

        async def act(session: S) -> Fact:
            chosen = await find_frozen(session, tenant, parts.snapshot)
            row = await session.fetch_row(
                "find_fact", chosen.tenant_id, parts.classification, parts.key, chosen.number
            )
            if row is None:
                raise FactUnknown(ref)
            return fact_of(Row(*row), chosen.name, chosen.hash or START)

        return await self._connections.read(tenant, act)

    async def facts(
        self,
        tenant: str,
        snapshot: str,
        *,
        classes: Sequence[str] | None = None,
        after: tuple[str, str] = ("", ""),
        limit: int = 1000,
    ) -> list[Fact]:
        """Return facts behind a class and key, in the order of class and key."""
        check_snapshots(tenant, snapshot)
        wanted = None if classes is None else [*classes]

        async def act(session: S) -> list[Fact]:
            chosen = await find_frozen(session, tenant, snapshot)
            rows = await session.fetch(
                "list_facts", chosen.tenant_id, *after, chosen.number, wanted, max(limit, 0)
            )
            return [fact_of(Row(*row), chosen.name, chosen.hash or START) for row in rows]

        return await self._connections.read(tenant, act)

    async def search(
        self, tenant: str, snapshot: str, query: str, *, classes: Sequence[str] | None = None, limit: int = 10
    ) -> list[Hit]:
        """Return the facts that share words with a query, best first."""
        check_snapshots(tenant, snapshot)
        wanted = None if classes is None else [*classes]

        async def act(session: S) -> list[Hit]:
            chosen = await find_frozen(session, tenant, snapshot)
            matches = await self._find_matches(session, chosen, terms_of(query), wanted)
            scores = rows.score(matches, Census(chosen.totals or b"").of(classes))
            found = list(await session.fetch("names_of", rows.best(scores, limit)))
            found.sort(key=lambda row: (-scores[row[0]], row[1], row[2]))
            best: list[int] = [row[0] for row in found[: max(limit, 0)]]
            facts = {row[0]: Row(*row[1:]) for row in await session.fetch("read_facts", best)}
            return [
                Hit(fact_of(facts[each], chosen.name, chosen.hash or START, query), scores[each])
                for each in best
            ]

        return await self._connections.read(tenant, act)

    async def pin(self, tenant: str, snapshot: str, session: str) -> None:
        """Keep a snapshot as long as a session needs it."""
        check_names(tenant, session)
        check_name(snapshot)

        async def act(connection: S) -> None:
            row = await find_frozen(connection, tenant, snapshot, is_locked=True)
            await connection.execute("add_pin", row.id, session)

        await self._connections.write(act, is_repeatable=True)

    async def unpin(self, tenant: str, snapshot: str, session: str) -> None:
        """Release a pin."""
        check_names(tenant, snapshot, session)

        async def act(connection: S) -> None:
            row = await connection.fetch_row("find_snapshot", tenant, snapshot)
            if row is not None:
                await connection.execute("remove_pin", row[0], session)

        await self._connections.write(act, is_repeatable=True)

    async def pins(self, tenant: str, snapshot: str) -> tuple[str, ...]:
        """Return the sessions that pin a snapshot."""
        check_snapshots(tenant, snapshot)

        async def act(session: S) -> tuple[str, ...]:
            row = await find_frozen(session, tenant, snapshot)
            return tuple(await _column(session, "list_pins", row.id))

        return await self._connections.read(tenant, act)

    async def forget(self, tenant: str, snapshot: str) -> None:
        """Remove a frozen snapshot, and the facts that no other snapshot has."""
        check_snapshots(tenant, snapshot)

        async def act(session: S) -> None:
            await session.fetch_value("lock_tenant", tenant)
            row = await find_frozen(session, tenant, snapshot, is_locked=True)
            pins = tuple(await _column(session, "list_pins", row.id))
            newest = SnapshotRow(*await session.fetch_row("newest_snapshot", tenant))
            if pins or newest.id == row.id:
                raise SnapshotPinned(row.name, pins or ("the next caller",))
            await session.execute("remove_snapshot", row.id)
            await self._remove_facts(session, await _column(session, "unseen", row.tenant_id, OPEN))
            await session.execute("remove_unused_documents", row.tenant_id)

        await self._connections.write(act)

    async def close(self) -> None:
        """Finish pending work and close the database."""
        await self._connections.close()


async def find_snapshot(session: Session, tenant: str, name: str, *, is_locked: bool = False) -> SnapshotRow:
    """Return a snapshot or draft; raises `SnapshotUnknown`."""
    row = await session.fetch_row("lock_snapshot" if is_locked else "find_snapshot", tenant, name)
    if row is None:
        raise SnapshotUnknown(name)
    return SnapshotRow(*row)


async def find_frozen(session: Session, tenant: str, name: str, *, is_locked: bool = False) -> SnapshotRow:
    """Return a snapshot; raises `SnapshotUnknown` or `SnapshotOpen`."""
    row = await find_snapshot(session, tenant, name, is_locked=is_locked)
    if row.number is None:
        raise SnapshotOpen(name)
    return row


async def find_draft(session: Session, tenant: str, name: str, *, is_locked: bool = False) -> SnapshotRow:
    """Return a draft; raises `SnapshotUnknown` or `SnapshotFrozen`."""
    row = await find_snapshot(session, tenant, name, is_locked=is_locked)
    if row.number is not None:
        raise SnapshotFrozen(name)
    return row


async def demand_free(session: Session, tenant: str, draft: str, name: str) -> None:
    """Raise `SnapshotExists` if a name other than the draft's own is taken."""
    if name != draft and await session.fetch_row("find_snapshot", tenant, name) is not None:
        raise SnapshotExists(name)


async def _head(session: Session, row: SnapshotRow) -> SnapshotHead:
    pins = await session.fetch_value("count_pins", row.id)
    if row.number is None:
        facts = await session.fetch_value("count_changes", row.id)
    else:
        facts = Census(row.totals or b"").of(None).facts
    return head_of(row, facts, pins)


async def _column(session: Session, query: str, *parameters: Any) -> list[Any]:
    """Return the first column of a query's rows."""
    return [row[0] for row in await session.fetch(query, *parameters)]
