"""The store on a PostgreSQL server, and its drafts."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress

import orjson

from tercet.database.postgres import CONNECTIONS, Pool, PostgresSession, Server
from tercet.database.schema import read_schema
from tercet.evidence.database import DatabaseEvidence, demand_free, find_draft
from tercet.evidence.errors import EVIDENCE, StoreError
from tercet.evidence.rows import OPEN, Match, Prepared, Row, SnapshotRow, Spool, Stop, indexed
from tercet.evidence.store import Added, NewDocument, Progress, SnapshotHead

SCHEMA = read_schema("tercet.evidence.postgres", EVIDENCE)
_PAGE = 10_000


class Filling:
    """One `put`: writes changes into a draft, which is locked meanwhile."""

    def __init__(self, session: PostgresSession, draft: SnapshotRow) -> None:
        self._session = session
        self._draft = draft
        self._is_fresh = True
        self._known: set[str] = set()
        self._documents: dict[str, int] = {}
        self._rows: dict[tuple[str, str], Row] = {}
        self._written: set[tuple[str, str]] = set()
        self._count = {"facts": 0, "documents": 0, "removals": 0}

    async def run(self, spool: Spool) -> Added:
        """Write everything."""
        self._is_fresh = not await self._session.fetch_value("count_changes", self._draft.id)
        names = await self._session.fetch("draft_documents", self._draft.id)
        self._known = {name for (name,) in names}
        for batch in spool.batches():
            for each in batch:
                await self._take(each)
            await self._flush()
        return Added(**self._count)

    async def _take(self, change: Prepared) -> None:
        if isinstance(change, NewDocument):
            await self._take_document(change)
            return
        self._count["removals" if change.content is None else "facts"] += 1
        self._rows[change.classification, change.key] = change

    async def _take_document(self, document: NewDocument) -> None:
        self._count["documents"] += 1
        if document.name in self._known:
            await self._flush()
            earlier = await self._session.fetch("changes_of_document", self._draft.id, document.name)
            await remove_facts(self._session, [fact for (fact,) in earlier])
        self._known.add(document.name)
        self._documents[document.name] = await self._session.fetch_value("add_document", self._draft.tenant_id, self._draft.id, document.name, document.hash,
            document.media_type, document.size,
        )  # fmt: skip

    async def _flush(self) -> None:
        rows, self._rows = list(self._rows.values()), {}
        if not rows:
            return
        await self._drop_earlier(rows)
        numbers = await self._session.fetch("reserve_facts", len(rows))
        ids = [number for (number,) in numbers]
        words, repeats, lengths = await asyncio.to_thread(_words, rows, self._draft.tenant_id)
        _, _, contents, hashes, trusts, sources, expiries, _, _, chunks, starts, ends = zip(
            *rows, strict=True
        )
        facts = (ids, contents, hashes, trusts, sources, expiries, chunks, starts, ends, words, repeats)
        await self._session.execute("add_facts", *map(list, facts))
        await self._session.execute("add_versions", ids, [row.classification for row in rows], [row.key for row in rows],
            [self._documents.get(row.document) for row in rows], [row.content is None for row in rows],
            self._draft.tenant_id, self._draft.id, OPEN, lengths,
        )  # fmt: skip

    async def _drop_earlier(self, rows: list[Row]) -> None:
        names = [(row.classification, row.key) for row in rows]
        repeated = names if not self._is_fresh else [name for name in names if name in self._written]
        self._written.update(names)
        if repeated:
            classes, keys = (list(each) for each in zip(*repeated, strict=True))
            found = await self._session.fetch(
                "find_changes", classes, keys, self._draft.tenant_id, OPEN, self._draft.id
            )
            await remove_facts(self._session, [fact for (fact,) in found])


def _words(rows: Iterable[Row], tenant_id: int) -> tuple[list[str], list[str | None], list[int]]:
    """Return the words of facts in the server's type, how often some are repeated, and their number."""
    texts: list[str] = []
    repeats: list[str | None] = []
    lengths: list[int] = []
    for row in rows:
        words = [] if row.content is None else indexed(orjson.loads(row.content))
        counted = Counter(words)
        texts.append(" ".join([f"{tenant_id}x{word}" for word in counted]))
        repeated = {word: times for word, times in counted.items() if times > 1}
        repeats.append(orjson.dumps(repeated).decode() if repeated else None)
        lengths.append(len(words))
    return texts, repeats, lengths


async def remove_facts(session: PostgresSession, facts: list[int]) -> None:
    """Remove facts with their words."""
    for start in range(0, len(facts), _PAGE):
        page = facts[start : start + _PAGE]
        await session.execute("remove_facts", page)
        await session.execute("remove_versions", page)


# --- store ---


class PostgresEvidence(DatabaseEvidence[PostgresSession]):
    """A durable store on a server, for many machines. Open it with `open_evidence("postgresql://host/database")`."""

    @classmethod
    async def open(cls, url: str, *, patience_s: float | None = None) -> PostgresEvidence:
        """Connect to a database; `patience_s` is how long to wait for locks and for a server that restarts."""
        server = Server(url, SCHEMA, patience_s=patience_s)
        await (await server.open()).close()
        pool = Pool(server, most=CONNECTIONS)
        await pool.open()
        return cls(pool)

    async def _fill(self, session: PostgresSession, draft: SnapshotRow, spool: Spool, stop: Stop) -> Added:
        del stop  # a cancelled transaction is rolled back
        return await Filling(session, draft).run(spool)

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
        count = len(names)
        if not count:
            return
        numbers = await session.fetch("reserve_facts", count)
        ids, nothing, texts = [number for (number,) in numbers], [None] * count, [""] * count
        facts = (
            ids,
            nothing,
            [b""] * count,
            texts,
            texts,
            nothing,
            nothing,
            nothing,
            nothing,
            texts,
            nothing,
        )
        await session.execute("add_facts", *facts)
        await session.execute(
            "add_versions", ids, [row[0] for row in names], [row[1] for row in names], nothing, [True] * count,
            draft.tenant_id, draft.id, OPEN, [0] * count,
        )  # fmt: skip

    async def _remove_facts(self, session: PostgresSession, facts: list[int]) -> None:
        await remove_facts(session, facts)

    async def _find_matches(
        self, session: PostgresSession, snapshot: SnapshotRow, terms: Sequence[str], classes: list[str] | None
    ) -> list[list[Match]]:
        # Words are letters and digits, so none of them can be an operator.
        matches = [list[Match]() for _ in terms]
        for place, number, times, length in await session.fetch(
            "find_words", [*terms], snapshot.number, classes
        ):
            matches[int(place) - 1].append(Match(number, times, length))
        return matches
