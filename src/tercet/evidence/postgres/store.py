"""The store on a PostgreSQL server."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from tercet.database.postgres import CONNECTIONS, Pool, PostgresSession, Server
from tercet.evidence.database import DatabaseEvidence, demand_free, find_draft
from tercet.evidence.errors import StoreError
from tercet.evidence.postgres import drafts
from tercet.evidence.ranking import Match
from tercet.evidence.rows import SnapshotRow
from tercet.evidence.spool import Spool, Stop
from tercet.evidence.store import Added, Progress, SnapshotHead


class PostgresEvidence(DatabaseEvidence[PostgresSession]):
    """A durable store on a server, for many machines. Open it with `open_evidence("postgresql://host/database")`."""

    @classmethod
    async def open(cls, url: str, *, patience_s: float | None = None) -> PostgresEvidence:
        """Connect to a database; `patience_s` is how long to wait for locks and for a server that restarts."""
        server = Server(url, drafts.SCHEMA, patience_s=patience_s)
        await (await server.open()).close()
        pool = Pool(server, most=CONNECTIONS)
        await pool.open()
        return cls(pool)

    async def _fill(self, session: PostgresSession, draft: SnapshotRow, spool: Spool, stop: Stop) -> Added:
        del stop  # a cancelled transaction is rolled back
        return await drafts.Filling(session, draft).run(spool)

    async def _freeze(
        self, tenant: str, draft: str, name: str, now_ms: int, progress: Progress
    ) -> SnapshotHead:
        """Make a snapshot of a draft. Drafts of one tenant are frozen one at a time."""

        async def act(session: PostgresSession) -> SnapshotHead:
            await session.fetch_value("lock_tenant", tenant)
            row = await find_draft(session, tenant, draft, is_locked=True)
            await demand_free(session, tenant, draft, name)
            return await self._number_draft(session, tenant, row, name, now_ms)

        head = await self._connections.write(act)
        with suppress(StoreError):  # only the owner of the index may; otherwise the server does it later
            await self._connections.write(lambda session: session.execute("sort_words"))
        progress(head.facts)
        return head

    async def _add_removals(
        self, session: PostgresSession, draft: SnapshotRow, names: Sequence[tuple[str, str]]
    ) -> None:
        await drafts.add_removals(session, draft, names)

    async def _remove_facts(self, session: PostgresSession, facts: list[int]) -> None:
        await drafts.remove_facts(session, facts)

    async def _find_matches(
        self, session: PostgresSession, snapshot: SnapshotRow, terms: Sequence[str], classes: list[str] | None
    ) -> list[list[Match]]:
        # Words are letters and digits, so none of them can be an operator.
        words = [f"{snapshot.tenant_id}x{term}" for term in terms]
        matches = [list[Match]() for _ in words]
        for place, number, times, length in await session.fetch(
            "find_words", words, [*terms], snapshot.number, classes
        ):
            matches[int(place) - 1].append(Match(number, times, length))
        return matches
