"""The store on a PostgreSQL server, under the interface of every store."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import suppress

from tercet.contracts.evidence import parse_ref
from tercet.contracts.search_words import terms_of
from tercet.database.postgres import CONNECTIONS, Connection, Pool, Server
from tercet.evidence import ranking
from tercet.evidence.errors import FactUnknown, StoreError
from tercet.evidence.postgres import drafts
from tercet.evidence.postgres.drafts import QUERIES, SCHEMA, find_frozen, find_snapshot
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


class PostgresEvidence:
    """A durable store on a server, for many machines. Open it with `open_evidence("postgresql://host/database")`."""

    def __init__(self, server: Server) -> None:
        self._connections = Pool(server, most=CONNECTIONS)

    @classmethod
    async def open(cls, url: str, *, patience_s: float | None = None) -> PostgresEvidence:
        """Connect to a database; `patience_s` is how long to wait for locks and for a server that restarts."""
        server = Server(url, SCHEMA, patience_s=patience_s)
        await (await server.open()).close()
        store = cls(server)
        await store._connections.open()
        return store

    async def create(self, tenant: str, draft: str, *, now_ms: int) -> SnapshotHead:
        """Begin a draft."""
        check_names(tenant)
        check_name(draft)

        async def act(connection: Connection) -> SnapshotHead:
            return await _head(connection, await drafts.create(connection, tenant, draft, now_ms))

        return await self._connections.write(act)

    async def put(
        self, tenant: str, draft: str, changes: Iterable[Change], *, progress: Progress = silent
    ) -> Added:
        """Add changes to a draft, all or none."""
        check_names(tenant)
        check_name(draft)
        await self._connections.read(lambda connection: drafts.find_draft(connection, tenant, draft))
        stop = Stop()
        with spooled() as spool:

            async def act(connection: Connection) -> Added:
                row = await drafts.find_draft(connection, tenant, draft, is_locked=True)
                return await drafts.Filling(connection, row).run(spool)

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
        check_names(tenant)
        check_name(draft)
        check_name(final)

        async def act(connection: Connection) -> SnapshotHead:
            return await _head(connection, await drafts.freeze(connection, tenant, draft, final, now_ms))

        head = await self._connections.write(act)
        with suppress(StoreError):  # only the owner of the index may; the server does it by itself some time
            await self._connections.write(lambda connection: connection.execute(QUERIES["sort_words"]))
        progress(head.facts)
        return head

    async def discard(self, tenant: str, draft: str) -> None:
        """Drop a draft."""
        check_names(tenant)
        check_name(draft)
        await self._connections.write(lambda connection: drafts.discard(connection, tenant, draft))

    async def head(self, tenant: str, name: str) -> SnapshotHead:
        """One snapshot or draft."""
        check_names(tenant)
        check_name(name)

        async def act(connection: Connection) -> SnapshotHead:
            return await _head(connection, await find_snapshot(connection, tenant, name))

        return await self._connections.read(act)

    async def newest(self, tenant: str) -> SnapshotHead | None:
        """The frozen snapshot with the highest number."""
        check_names(tenant)
        found = await self._heads("newest_snapshot", tenant)
        return found[0] if found else None

    async def heads(self, tenant: str, *, limit: int = 100) -> list[SnapshotHead]:
        """Drafts by name, then snapshots, newest first."""
        check_names(tenant)
        return await self._heads("list_snapshots", tenant, max(limit, 0))

    async def _heads(self, query: str, *parameters: object) -> list[SnapshotHead]:
        async def act(connection: Connection) -> list[SnapshotHead]:
            rows = await connection.fetch(QUERIES[query], *parameters)
            return [await _head(connection, SnapshotRow(*row)) for row in rows]

        return await self._connections.read(act)

    async def diff(self, tenant: str, before: str, after: str) -> list[Difference]:
        """In which facts two snapshots differ."""
        check_names(tenant)
        check_name(before)
        check_name(after)

        async def act(connection: Connection) -> list[Difference]:
            first = await find_frozen(connection, tenant, before)
            last = await find_frozen(connection, tenant, after)
            numbers = sorted((first.number or 0, last.number or 0))
            rows = await connection.fetch(QUERIES["differences"], first.tenant_id, *numbers)
            return differences(rows, is_backwards=(first.number or 0) > (last.number or 0))

        return await self._connections.read(act)

    async def fact(self, tenant: str, ref: str) -> Fact:
        """A fact by its id."""
        check_names(tenant)
        parts = parse_ref(ref)
        if parts is None:
            raise FactUnknown(ref)
        check_names(parts.classification, parts.key)
        check_name(parts.snapshot)

        async def act(connection: Connection) -> Fact:
            chosen = await find_frozen(connection, tenant, parts.snapshot)
            row = await connection.fetchrow(
                QUERIES["find_fact"], chosen.tenant_id, parts.classification, parts.key, chosen.number
            )
            if row is None:
                raise FactUnknown(ref)
            return fact_of(Row(*row), chosen.name, chosen.hash or START)

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

        async def act(connection: Connection) -> list[Fact]:
            chosen = await find_frozen(connection, tenant, snapshot)
            rows = await connection.fetch(
                QUERIES["list_facts"],
                chosen.tenant_id,
                *after,
                chosen.number,
                _listed(classes),
                max(limit, 0),
            )
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

        async def act(connection: Connection) -> list[Hit]:
            chosen = await find_frozen(connection, tenant, snapshot)
            return await _search(connection, chosen, query, classes, limit)

        return await self._connections.read(act)

    async def pin(self, tenant: str, snapshot: str, session: str) -> None:
        """Keep a snapshot as long as a session needs it."""
        check_names(tenant, session)
        check_name(snapshot)

        async def act(connection: Connection) -> None:
            row = await find_frozen(connection, tenant, snapshot, is_locked=True)
            await connection.execute(QUERIES["add_pin"], row.id, session)

        await self._connections.write(act, is_repeatable=True)

    async def unpin(self, tenant: str, snapshot: str, session: str) -> None:
        """Give a pin up."""
        check_names(tenant, snapshot, session)

        async def act(connection: Connection) -> None:
            row = await connection.fetchrow(QUERIES["find_snapshot"], tenant, snapshot)
            if row is not None:
                await connection.execute(QUERIES["remove_pin"], row[0], session)

        await self._connections.write(act, is_repeatable=True)

    async def pins(self, tenant: str, snapshot: str) -> tuple[str, ...]:
        """Who pins a snapshot."""
        check_names(tenant)
        check_name(snapshot)

        async def act(connection: Connection) -> tuple[str, ...]:
            row = await find_frozen(connection, tenant, snapshot)
            return tuple(session for (session,) in await connection.fetch(QUERIES["list_pins"], row.id))

        return await self._connections.read(act)

    async def forget(self, tenant: str, snapshot: str) -> None:
        """Remove a frozen snapshot, and the facts that stand in no other."""
        check_names(tenant)
        check_name(snapshot)
        await self._connections.write(lambda connection: drafts.forget(connection, tenant, snapshot))

    async def close(self) -> None:
        """Finish what is under way and disconnect."""
        await self._connections.close()


async def _head(connection: Connection, row: SnapshotRow) -> SnapshotHead:
    pins = await connection.fetchval(QUERIES["count_pins"], row.id)
    if row.number is None:
        facts = await connection.fetchval(QUERIES["count_changes"], row.id)
    else:
        facts = Census(row.totals or b"").of(None).facts
    return head_of(row, facts, pins)


async def _search(
    connection: Connection, snapshot: SnapshotRow, query: str, classes: Sequence[str] | None, limit: int
) -> list[Hit]:
    terms = terms_of(query)
    # Words are letters and digits, so none of them can be an operator.
    words = [f"{snapshot.tenant_id}x{word}" for word in terms]
    rows = await connection.fetch(QUERIES["find_words"], words, [*terms], snapshot.number, _listed(classes))
    matches = [list[Match]() for _ in words]
    for place, number, times, length in rows:
        matches[int(place) - 1].append(Match(number, times, length))
    scores = ranking.score(matches, Census(snapshot.totals or b"").of(classes))
    found = list(await connection.fetch(QUERIES["names_of"], ranking.best(scores, limit)))
    found.sort(key=lambda row: (-scores[row[0]], row[1], row[2]))
    chosen = [row[0] for row in found[: max(limit, 0)]]
    facts = {row[0]: Row(*row[1:]) for row in await connection.fetch(QUERIES["read_facts"], chosen)}
    return [
        Hit(fact_of(facts[each], snapshot.name, snapshot.hash or START, query), scores[each])
        for each in chosen
    ]


def _listed(classes: Sequence[str] | None) -> list[str] | None:
    return None if classes is None else [*classes]
