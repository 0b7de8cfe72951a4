"""What is written: changes into a draft, a draft into a snapshot, and what is removed. Each runs in one transaction."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable
from typing import Any

import orjson

from tercet.database.postgres import CONTENTION, Connection
from tercet.database.schema import read_schema
from tercet.evidence.errors import (
    EVIDENCE,
    SnapshotExists,
    SnapshotFrozen,
    SnapshotOpen,
    SnapshotPinned,
    SnapshotUnknown,
)
from tercet.evidence.rows import OPEN, START, Census, Chain, Row, SnapshotRow, count_change
from tercet.evidence.spool import Prepared, Spool
from tercet.evidence.store import Added, NewDocument
from tercet.evidence.words import indexed

SCHEMA = read_schema("tercet.evidence.postgres", EVIDENCE)
QUERIES = SCHEMA.queries
_PAGE = 10_000


async def find_snapshot(
    connection: Connection, tenant: str, name: str, *, is_locked: bool = False
) -> SnapshotRow:
    """A snapshot or draft; raises `SnapshotUnknown`."""
    row = await connection.fetchrow(QUERIES["lock_snapshot" if is_locked else "find_snapshot"], tenant, name)
    if row is None:
        raise SnapshotUnknown(name)
    return SnapshotRow(*row)


async def find_frozen(
    connection: Connection, tenant: str, name: str, *, is_locked: bool = False
) -> SnapshotRow:
    """A snapshot; raises `SnapshotUnknown` or `SnapshotOpen`."""
    row = await find_snapshot(connection, tenant, name, is_locked=is_locked)
    if row.number is None:
        raise SnapshotOpen(name)
    return row


async def find_draft(
    connection: Connection, tenant: str, name: str, *, is_locked: bool = False
) -> SnapshotRow:
    """A draft; raises `SnapshotUnknown` or `SnapshotFrozen`."""
    row = await find_snapshot(connection, tenant, name, is_locked=is_locked)
    if row.number is not None:
        raise SnapshotFrozen(name)
    return row


async def create(connection: Connection, tenant: str, draft: str, now_ms: int) -> SnapshotRow:
    """Begin a draft."""
    await connection.execute(QUERIES["add_tenant"], tenant)
    tenant_id = await connection.fetchval(QUERIES["find_tenant"], tenant)
    if await connection.fetchval(QUERIES["add_snapshot"], tenant_id, draft, now_ms) is None:
        raise SnapshotExists(draft)
    return await find_snapshot(connection, tenant, draft)


class Filling:
    """One `put`: changes on their way into a draft, which is locked meanwhile."""

    def __init__(self, connection: Connection, draft: SnapshotRow) -> None:
        self._connection = connection
        self._draft = draft
        self._is_fresh = True
        self._known: set[str] = set()
        self._documents: dict[str, int] = {}
        self._rows: dict[tuple[str, str], Row] = {}
        self._written: set[tuple[str, str]] = set()
        self._count = {"facts": 0, "documents": 0, "removals": 0}

    async def run(self, spool: Spool) -> Added:
        """Write everything."""
        self._is_fresh = not await self._connection.fetchval(QUERIES["count_changes"], self._draft.id)
        names = await self._connection.fetch(QUERIES["draft_documents"], self._draft.id)
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
            earlier = await self._connection.fetch(
                QUERIES["changes_of_document"], self._draft.id, document.name
            )
            await remove_facts(self._connection, [fact for (fact,) in earlier])
        self._known.add(document.name)
        self._documents[document.name] = await self._connection.fetchval(
            QUERIES["add_document"], self._draft.tenant_id, self._draft.id, document.name, document.hash,
            document.media_type, document.size,
        )  # fmt: skip

    async def _flush(self) -> None:
        rows, self._rows = list(self._rows.values()), {}
        if not rows:
            return
        await self._drop_earlier(rows)
        numbers = await self._connection.fetch(QUERIES["reserve_facts"], len(rows))
        ids = [number for (number,) in numbers]
        words, repeats, lengths = await asyncio.to_thread(_words, rows, self._draft.tenant_id)
        _, _, contents, hashes, trusts, sources, expiries, _, _, chunks, starts, ends = zip(
            *rows, strict=True
        )
        facts = (ids, contents, hashes, trusts, sources, expiries, chunks, starts, ends, words, repeats)
        await self._connection.execute(QUERIES["add_facts"], *map(list, facts))
        await self._connection.execute(
            QUERIES["add_versions"], ids, [row.classification for row in rows], [row.key for row in rows],
            [self._documents.get(row.document) for row in rows], [row.content is None for row in rows],
            self._draft.tenant_id, self._draft.id, OPEN, lengths,
        )  # fmt: skip

    async def _drop_earlier(self, rows: list[Row]) -> None:
        names = [(row.classification, row.key) for row in rows]
        repeated = names if not self._is_fresh else [name for name in names if name in self._written]
        self._written.update(names)
        if repeated:
            classes, keys = (list(each) for each in zip(*repeated, strict=True))
            found = await self._connection.fetch(
                QUERIES["find_changes"], classes, keys, self._draft.tenant_id, OPEN, self._draft.id
            )
            await remove_facts(self._connection, [fact for (fact,) in found])


def _words(rows: Iterable[Row], tenant_id: int) -> tuple[list[str], list[str | None], list[int]]:
    """The words of facts as the server's type has them, how often some are repeated, and how many there are."""
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


async def freeze(connection: Connection, tenant: str, draft: str, name: str, now_ms: int) -> SnapshotRow:
    """Let the facts of a draft stand. Drafts of one tenant are frozen one after the other."""
    await connection.fetchval(QUERIES["lock_tenant"], tenant)
    row = await find_draft(connection, tenant, draft, is_locked=True)
    if name != draft and await connection.fetchrow(QUERIES["find_snapshot"], tenant, name) is not None:
        raise SnapshotExists(name)
    newest = await connection.fetchrow(QUERIES["newest_snapshot"], tenant)
    before = SnapshotRow(*newest) if newest else SnapshotRow(0, 0, "", 0, 0, 0, START, b"")
    number = (before.number or 0) + 1
    await _remove_vanished(connection, row)
    idle = await connection.fetch(QUERIES["idle"], row.id, OPEN)
    await remove_facts(connection, [fact for (fact,) in idle])
    chain, census = Chain(before.hash or START), Census(before.totals or b"")
    changes = await connection.fetch(QUERIES["changes"], row.id, OPEN)
    for change in changes:
        count_change(tuple(change), chain, census)
    await connection.execute(QUERIES["end_replaced"], row.id, OPEN, number)
    removals = await connection.fetch(QUERIES["all_removals"], row.id)
    await remove_facts(connection, [fact for (fact,) in removals])
    await connection.execute(QUERIES["begin_changes"], row.id, number)
    await connection.execute(QUERIES["remove_idle_documents"], row.id)
    frozen = (name, number, now_ms, chain.digest(), census.encode(), row.id)
    try:
        await connection.execute(QUERIES["number_snapshot"], *frozen)
    except CONTENTION as error:  # somebody has just begun a draft of this name
        raise SnapshotExists(name) from error
    return await find_snapshot(connection, tenant, name)


async def discard(connection: Connection, tenant: str, draft: str) -> None:
    """Drop a draft."""
    row = await find_draft(connection, tenant, draft, is_locked=True)
    found = await connection.fetch(QUERIES["all_changes"], row.id)
    await remove_facts(connection, [fact for (fact,) in found])
    await connection.execute(QUERIES["remove_documents"], row.id)
    await connection.execute(QUERIES["remove_snapshot"], row.id)


async def forget(connection: Connection, tenant: str, name: str) -> None:
    """Remove a snapshot, and the facts that stand in no other."""
    await connection.fetchval(QUERIES["lock_tenant"], tenant)
    row = await find_frozen(connection, tenant, name, is_locked=True)
    pins = tuple(session for (session,) in await connection.fetch(QUERIES["list_pins"], row.id))
    newest = SnapshotRow(*await connection.fetchrow(QUERIES["newest_snapshot"], tenant))
    if pins or newest.id == row.id:
        raise SnapshotPinned(row.name, pins or ("whoever comes next",))
    await connection.execute(QUERIES["remove_snapshot"], row.id)
    unseen = await connection.fetch(QUERIES["unseen"], row.tenant_id, OPEN)
    await remove_facts(connection, [fact for (fact,) in unseen])
    await connection.execute(QUERIES["remove_unused_documents"], row.tenant_id)


async def remove_facts(connection: Connection, facts: list[int]) -> None:
    """Remove facts with their words."""
    for start in range(0, len(facts), _PAGE):
        page = facts[start : start + _PAGE]
        await connection.execute(QUERIES["remove_facts"], page)
        await connection.execute(QUERIES["remove_versions"], page)


async def _remove_vanished(connection: Connection, draft: SnapshotRow) -> None:
    """What a document had before and has no more is removed."""
    gone: list[Any] = await connection.fetch(QUERIES["vanished"], draft.id, OPEN)
    if not gone:
        return
    numbers = await connection.fetch(QUERIES["reserve_facts"], len(gone))
    ids, nothing = [number for (number,) in numbers], [None] * len(gone)
    texts = [""] * len(gone)
    await connection.execute(
        QUERIES["add_facts"], ids, nothing, [b""] * len(gone), texts, texts, nothing, nothing, nothing, nothing, texts, nothing
    )  # fmt: skip
    await connection.execute(
        QUERIES["add_versions"], ids, [row[0] for row in gone], [row[1] for row in gone], nothing,
        [True] * len(gone), draft.tenant_id, draft.id, OPEN, [0] * len(gone),
    )  # fmt: skip
