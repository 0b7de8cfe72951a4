"""A journal in a database: the `Journal` interface on top of a writer's acts and a reader's queries.

A digest is 32 bytes in a store, and `sha256:…` everywhere else.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from typing import Any, Literal, Protocol, TypeAlias

import orjson

from tercet.journal.append_rows import decompress, unpack_events
from tercet.journal.chain import START
from tercet.journal.errors import BlobMissing, JournalCorrupt, claim_without_stream
from tercet.journal.protocol import (
    Append,
    CheckpointKind,
    ClaimHolder,
    Lease,
    Position,
    Reminder,
    SessionFilter,
    SessionRow,
    StatusCount,
    Stored,
    StoredCheckpoint,
)
from tercet.journal.stream import Act, Forget, LeaseAct, LeaseActs, check_names, check_unit, unknown_session

_PREFIX = "sha256:"


def digest_bytes(digest: str) -> bytes:
    """Return the 32 bytes of a digest; what is not a digest becomes no bytes, under which nothing is stored."""
    try:
        return bytes.fromhex(digest.removeprefix(_PREFIX)) if digest.startswith(_PREFIX) else b""
    except ValueError:
        return b""


def digest_text(digest: bytes) -> str:
    """A digest as it is written everywhere but in a store."""
    return _PREFIX + digest.hex()


def check_blob(tenant: str, digest: str, rows: Sequence[Sequence[Any]]) -> bytes:
    """The bytes that a look-up found, if they are those that the digest names."""
    if not rows:
        raise BlobMissing(tenant=tenant, digest=digest)
    place = f"blob {digest} of tenant {tenant}"
    stored, size = rows[0]
    data = decompress(stored, size, place)
    if hashlib.sha256(data).digest() != digest_bytes(digest):
        raise JournalCorrupt(place, "its bytes have another digest")
    return data


def checkpoint_from(stream: str, row: Sequence[Any]) -> StoredCheckpoint:
    """A checkpoint from its row (seq, kind, hash, data), if its bytes are those that its hash names."""
    seq, kind, stored, data = row
    if hashlib.sha256(data).digest() != stored:
        raise JournalCorrupt(f"{kind} checkpoint {seq} of stream {stream}", "its bytes have another hash")
    return StoredCheckpoint(seq, kind, _PREFIX + stored.hex(), data)


def settle(futures: Sequence[asyncio.Future[Any]], outcomes: Sequence[object]) -> None:
    """Set the outcomes of futures; an outcome that is an error is raised in its waiter."""
    for future, outcome in zip(futures, outcomes, strict=True):
        if future.done():
            continue
        if isinstance(outcome, BaseException):
            future.set_exception(outcome)
        else:
            future.set_result(outcome)


CheckQuery: TypeAlias = Literal["check_streams", "check_claims", "check_blobs", "check_blob_uses"]


class Writing(Protocol):
    """Executes acts, one after the other."""

    def submit(self, act: Act) -> asyncio.Future[Any]:
        """Submit an act; the future holds its outcome once it is durable."""
        ...

    async def close(self) -> None:
        """Finish the acts in progress."""
        ...


class Reading(Protocol):
    """Runs the queries of `queries.sql` by name."""

    async def rows(self, query: str, *parameters: Any) -> list[Any]:
        """Return all rows that a named query finds."""
        ...

    async def close(self) -> None:
        """Close the connections."""
        ...


_LAST = "\U0010ffff"
"""No key has a character after this one."""
_AFTER_ALL = ("", 2**63 - 1)
_BEFORE_ALL = (-(2**63), "")
_FIRST_CHANGE = (-(2**63), "", "")


class DatabaseJournal(LeaseActs):
    """The common part of the journals in databases; `Journal` says what each method promises."""

    def __init__(self, writer: Writing, reader: Reading) -> None:
        self._writer = writer
        self._reader = reader

    async def append(self, unit: Append) -> Position:
        check_unit(unit)
        return await self._writer.submit(unit)

    async def _find(self, query: str, *names: str, more: tuple[Any, ...] = ()) -> list[Any]:
        """Return the rows that a query finds under these names, which are checked first."""
        check_names(*names)
        return await self._reader.rows(query, *names, *more)

    async def change_count(self, tenant: str) -> int:
        rows = await self._find("read_bell", tenant)
        return rows[0][0] if rows else 0

    async def read(self, tenant: str, stream: str, *, after: int = 0, limit: int = 1000) -> list[Stored]:
        rows = await self._find("read_events", tenant, stream, more=(after, max(limit, 0)))
        found = [
            each
            for seq, data, chain, sizes, size in rows
            for each in unpack_events(
                stream, seq, decompress(data, size, f"event {seq} of stream {stream}"), chain, sizes
            )
        ]
        # The first row may begin before the first event that is asked for, and the last one end behind the last.
        return [each for each in found if each.seq > after][: max(limit, 0)]

    async def head(self, tenant: str, stream: str) -> Position:
        rows = await self._find("read_head", tenant, stream)
        return Position(*rows[0]) if rows else START

    async def newest(self, tenant: str, stream: str, kind: CheckpointKind) -> StoredCheckpoint | None:
        rows = await self._find("newest_checkpoint", tenant, stream, more=(kind,))
        return checkpoint_from(stream, rows[0]) if rows else None

    async def checkpoints(
        self, tenant: str, stream: str, *, after: int = 0, limit: int = 100
    ) -> list[StoredCheckpoint]:
        rows = await self._find("read_checkpoints", tenant, stream, more=(after, max(limit, 0)))
        return [checkpoint_from(stream, row) for row in rows]

    async def blob(self, tenant: str, digest: str) -> bytes:
        rows = await self._find("read_blob", tenant, more=(digest_bytes(digest),))
        return check_blob(tenant, digest, rows)

    async def blob_digests(
        self, tenant: str, stream: str, *, after: str = "", limit: int = 1000
    ) -> list[str]:
        rows = await self._find("list_blobs", tenant, stream, more=(digest_bytes(after), max(limit, 0)))
        return [digest_text(row[0]) for row in rows]

    async def claim(self, tenant: str, key: str) -> ClaimHolder | None:
        rows = await self._find("read_claim", tenant, key)
        if rows and rows[0][0] is None:
            raise claim_without_stream(key)
        return ClaimHolder(*rows[0]) if rows else None

    async def claims(self, tenant: str, prefix: str, *, limit: int = 100) -> list[tuple[str, ClaimHolder]]:
        rows = await self._find("list_claims", tenant, prefix, more=(prefix + _LAST, max(limit, 0)))
        if lost := [row[0] for row in rows if row[1] is None]:
            raise claim_without_stream(lost[0])
        return [(key, ClaimHolder(stream, seq)) for key, stream, seq in rows]

    async def _act(self, act: LeaseAct) -> Lease:
        return await self._writer.submit(act)

    async def lease(self, tenant: str, stream: str) -> Lease | None:
        rows = await self._find("read_lease", tenant, stream)
        if not rows:
            return None
        owner, epoch, until = rows[0]
        return Lease(tenant=tenant, stream=stream, owner=owner, epoch=epoch, until=until)

    async def forget(self, lease: Lease) -> None:
        check_names(lease.tenant, lease.stream)
        await self._writer.submit(Forget(lease=lease))

    async def session(self, tenant: str, session_id: str) -> SessionRow | None:
        rows = await self._find("read_session", tenant, session_id)
        return _session(rows[0]) if rows else None

    async def sessions(
        self,
        tenant: str,
        *,
        status: str | None = None,
        limit: int = 50,
        before: str | None = None,
        skip: int = 0,
        where: SessionFilter | None = None,
    ) -> list[SessionRow]:
        check_names(tenant)
        wanted = where or SessionFilter(status=status)
        last = None if before is None else await self.session(tenant, before)
        if before is not None and last is None:
            raise unknown_session(tenant, before)
        query, intents = _list_query(wanted)
        # Without a place to begin or to end at, the first and the last possible: an index finds only bounds that are there.
        newest = _AFTER_ALL if last is None else (last.session_id, last.started_at)
        page = (tenant, wanted.status, *newest, max(limit, 0))
        filters = (intents, wanted.owner, wanted.text)
        rows = await self._reader.rows(query, *page, *filters, *(wanted.oldest or _BEFORE_ALL), max(skip, 0))
        return [_session(row) for row in rows]

    async def session_ids(self, tenant: str, prefix: str, *, limit: int = 100) -> list[str]:
        rows = await self._find("list_session_ids", tenant, prefix, more=(prefix + _LAST, max(limit, 0)))
        return [session for (session,) in rows]

    async def due(self, tenant: str, *, now_ms: int, limit: int = 100) -> list[SessionRow]:
        rows = await self._find("list_due", tenant, more=(now_ms, max(limit, 0)))
        return [_session(row) for row in rows]

    async def waiting(
        self, tenant: str, *, after: tuple[int, str] | None = None, limit: int = 100
    ) -> list[SessionRow]:
        rows = await self._find("list_waiting", tenant, more=(*(after or _BEFORE_ALL), max(limit, 0)))
        return [_session(row) for row in rows]

    async def resumable(
        self, *, now_ms: int, limit: int = 100, after: SessionRow | None = None
    ) -> list[SessionRow]:
        last = _FIRST_CHANGE if after is None else (after.updated_at, after.tenant, after.session_id)
        rows = await self._reader.rows("list_resumable", now_ms, max(limit, 0), *last)
        return [_session(row) for row in rows]

    async def unfinished(
        self, pack: str, *, pack_hash: str = "", statuses: tuple[str, ...], limit: int = 20
    ) -> list[StatusCount]:
        check_names(*statuses)
        rows = await self._reader.rows("list_unfinished", pack, pack_hash, list(statuses), max(limit, 1))
        found: dict[str, tuple[int, list[SessionRow]]] = {}
        for total, *row in rows:
            session = _session(tuple(row))
            found.setdefault(session.status, (total, []))[1].append(session)
        return [
            StatusCount(status=status, total=total, oldest=tuple(oldest[: max(limit, 0)]))
            for status, (total, oldest) in sorted(found.items())
        ]

    async def reminders(self, *, now_ms: int, tenant: str | None = None, limit: int = 100) -> list[Reminder]:
        if tenant is None:
            rows = await self._reader.rows("list_reminders", now_ms, max(limit, 0))
        else:
            rows = await self._find("list_reminders_of", tenant, more=(now_ms, max(limit, 0)))
        return [Reminder(*row) for row in rows]

    async def ended(
        self, tenant: str, *, before_ms: int, statuses: tuple[str, ...], limit: int = 100
    ) -> list[SessionRow]:
        check_names(tenant, *statuses)
        rows = await self._reader.rows("list_ended", tenant, before_ms, list(statuses), max(limit, 0))
        return [_session(row) for row in rows]

    async def inspect(self, query: CheckQuery, after: tuple[Any, Any], limit: int) -> list[Any]:
        """Return a page of rows of all tenants after a key: for checking a whole journal."""
        return await self._reader.rows(query, *after, limit)

    async def claims_of(self, tenant: str, stream: str) -> dict[str, int]:
        """Return the keys that a stream holds, each with the position that its claim names."""
        return dict(await self._reader.rows("claims_of_stream", tenant, stream))

    async def foreign_rows(self) -> list[tuple[str, int, int, str | None]]:
        """Return up to 100 events and checkpoints at impossible positions or without a stream.

        Each is its kind, the number of its stream, its position, and the name of the stream if there is one.
        """
        return [tuple(row) for row in await self._reader.rows("check_foreign_rows")]

    async def inspect_sessions(self, after: tuple[str, str], limit: int) -> list[SessionRow]:
        """Return a page of the session rows of all tenants after a tenant and a session."""
        return [_session(row) for row in await self._reader.rows("check_sessions", *after, limit)]

    async def store_faults(self) -> list[str]:
        """Return what the database itself finds damaged."""
        return []

    async def close(self) -> None:
        await self._writer.close()
        await self._reader.close()


def _list_query(wanted: SessionFilter) -> tuple[str, str | None]:
    """Return the query whose index finds the fewest rows, and the intents as it takes them."""
    intents = None if wanted.intents is None else orjson.dumps(wanted.intents).decode()
    if wanted.owner is not None:
        return "list_sessions_by_owner", intents
    if wanted.intents is not None and len(wanted.intents) == 1:
        return "list_sessions_by_intent", wanted.intents[0]
    return ("list_sessions" if wanted.status is None else "list_sessions_by_status"), intents


def _session(row: tuple[Any, ...]) -> SessionRow:
    return SessionRow(**dict(zip(SessionRow.__struct_fields__, row, strict=True)))
