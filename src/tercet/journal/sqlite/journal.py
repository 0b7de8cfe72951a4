"""The journal in a SQLite file: the writer's acts and the reader's queries under the journal's interface."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import msgspec

from tercet.contracts.errors import UsageError
from tercet.journal.chain import START
from tercet.journal.content import check_blob, checkpoint_from, digest_bytes, digest_text
from tercet.journal.errors import JournalUnavailable
from tercet.journal.protocol import (
    Append,
    CheckpointKind,
    ClaimHolder,
    Lease,
    Position,
    SessionRow,
    Stored,
    StoredCheckpoint,
)
from tercet.journal.sqlite.connection import QUERIES, find_way
from tercet.journal.sqlite.faults import translate
from tercet.journal.sqlite.reader import Reader
from tercet.journal.sqlite.writer import NoWriter, Writer
from tercet.journal.stream import Acquire, Forget, Release, Renew, check_names, check_unit, unknown_session

OLDEST = (3, 37, 0)
"""The first SQLite with STRICT tables."""


class SqliteJournal:
    """A durable journal in one file, for one machine. Open it with `open_journal("sqlite:///runs.db")`."""

    def __init__(self, path: Path, *, patience_s: float = 5.0, address: str = "") -> None:
        self._path = path
        self._writer = NoWriter(path) if address else Writer(path, patience_s=patience_s)
        self._reader = Reader(path, patience_s=patience_s, address=address)

    @classmethod
    async def open(
        cls, path: Path, *, patience_s: float = 5.0, may_be_read_only: bool = False
    ) -> SqliteJournal:
        """Open or create a file; `patience_s` is how long to wait for another process's lock.

        With `may_be_read_only` a file that is there and may not be written is opened too, and refuses every append.
        """
        if sqlite3.sqlite_version_info < OLDEST:
            raise UsageError(
                f"this Python has SQLite {sqlite3.sqlite_version}, and a journal needs 3.37 or newer",
                code="old_sqlite",
                remedy="use a Python that was built with a newer SQLite",
            )
        journal = cls(path, patience_s=patience_s)
        try:
            await journal._writer.open()
        except JournalUnavailable:
            await journal.close()
            if not may_be_read_only:
                raise
            return cls(path, patience_s=patience_s, address=_way(path, patience_s))
        except BaseException:
            await journal.close()
            raise
        return journal

    async def append(self, unit: Append) -> Position:
        """Write a unit; it is on the disk when this returns."""
        check_unit(unit)
        return await self._writer.submit(unit)

    async def bell(self, tenant: str) -> int:
        """How often the tenant's bell was rung."""
        check_names(tenant)
        rows = await self._rows("read_bell", tenant)
        return rows[0][0] if rows else 0

    async def read(self, tenant: str, stream: str, *, after: int = 0, limit: int = 1000) -> list[Stored]:
        """At most `limit` events behind position `after`."""
        check_names(tenant, stream)
        rows = await self._rows("read_events", tenant, stream, after, max(limit, 0))
        return [Stored(*row) for row in rows]

    async def head(self, tenant: str, stream: str) -> Position:
        """Where a stream ends."""
        check_names(tenant, stream)
        rows = await self._rows("read_head", tenant, stream)
        return Position(*rows[0]) if rows else START

    async def newest(self, tenant: str, stream: str, kind: CheckpointKind) -> StoredCheckpoint | None:
        """The checkpoint of this kind with the highest position."""
        check_names(tenant, stream)
        rows = await self._rows("newest_checkpoint", tenant, stream, kind)
        return checkpoint_from(stream, rows[0]) if rows else None

    async def checkpoints(
        self, tenant: str, stream: str, *, after: int = 0, limit: int = 100
    ) -> list[StoredCheckpoint]:
        """The checkpoints behind position `after`, in order."""
        check_names(tenant, stream)
        rows = await self._rows("read_checkpoints", tenant, stream, after, max(limit, 0))
        return [checkpoint_from(stream, row) for row in rows]

    async def blob(self, tenant: str, digest: str) -> bytes:
        """The bytes with this digest."""
        check_names(tenant)
        rows = await self._rows("read_blob", tenant, digest_bytes(digest))
        return check_blob(tenant, digest, rows)

    async def blob_digests(
        self, tenant: str, stream: str, *, after: str = "", limit: int = 1000
    ) -> list[str]:
        """The digests of the blobs that a stream brought, in order."""
        check_names(tenant, stream)
        rows = await self._rows("list_blobs", tenant, stream, digest_bytes(after), max(limit, 0))
        return [digest_text(row[0]) for row in rows]

    async def claim(self, tenant: str, key: str) -> ClaimHolder | None:
        """Who holds an idempotency key."""
        check_names(tenant, key)
        rows = await self._rows("read_claim", tenant, key)
        return ClaimHolder(*rows[0]) if rows else None

    async def acquire(
        self, tenant: str, stream: str, *, owner: str, now_ms: int, ttl_ms: int, grace_ms: int = 0
    ) -> Lease:
        """Begin a new epoch."""
        check_names(tenant, stream, owner)
        return await self._writer.submit(
            Acquire(
                tenant=tenant, stream=stream, owner=owner, now_ms=now_ms, ttl_ms=ttl_ms, grace_ms=grace_ms
            )
        )

    async def renew(self, lease: Lease, *, now_ms: int, ttl_ms: int) -> Lease:
        """The same epoch with a later end."""
        return await self._writer.submit(
            Renew(tenant=lease.tenant, stream=lease.stream, lease=lease, now_ms=now_ms, ttl_ms=ttl_ms)
        )

    async def release(self, lease: Lease) -> None:
        """Give a lease up."""
        await self._writer.submit(Release(tenant=lease.tenant, stream=lease.stream, lease=lease))

    async def lease(self, tenant: str, stream: str) -> Lease | None:
        """Who holds a stream."""
        check_names(tenant, stream)
        rows = await self._rows("read_lease", tenant, stream)
        if not rows:
            return None
        owner, epoch, until = rows[0]
        return Lease(tenant=tenant, stream=stream, owner=owner, epoch=epoch, until=until)

    async def forget(self, lease: Lease) -> None:
        """Remove a stream."""
        check_names(lease.tenant, lease.stream)
        await self._writer.submit(Forget(tenant=lease.tenant, stream=lease.stream, lease=lease))

    async def session(self, tenant: str, session_id: str) -> SessionRow | None:
        """The row of one session."""
        check_names(tenant, session_id)
        rows = await self._rows("read_session", tenant, session_id)
        return _session(rows[0]) if rows else None

    async def sessions(
        self, tenant: str, *, status: str | None = None, limit: int = 50, before: str | None = None
    ) -> list[SessionRow]:
        """Rows by start, newest first."""
        check_names(tenant)
        last = None if before is None else await self.session(tenant, before)
        if before is not None and last is None:
            raise unknown_session(tenant, before)
        wanted = {
            "tenant": tenant, "status": status, "limit": max(limit, 0),
            "before": before, "started_at": last and last.started_at,
        }  # fmt: skip
        return [_session(row) for row in await self._reader.rows(QUERIES["list_sessions"], wanted)]

    async def due(self, tenant: str, *, now_ms: int, limit: int = 100) -> list[SessionRow]:
        """Rows whose time has come, the earliest first."""
        check_names(tenant)
        rows = await self._rows("list_due", tenant, now_ms, max(limit, 0))
        return [_session(row) for row in rows]

    async def ended(
        self, tenant: str, *, before_ms: int, statuses: tuple[str, ...], limit: int = 100
    ) -> list[SessionRow]:
        """Rows with one of these statuses that were last changed before a time, the oldest first."""
        check_names(tenant, *statuses)
        wanted = msgspec.json.encode(statuses).decode()
        rows = await self._rows("list_ended", tenant, before_ms, wanted, max(limit, 0))
        return [_session(row) for row in rows]

    async def close(self) -> None:
        """Finish the appends under way and close the file."""
        await self._writer.close()
        await self._reader.close()

    async def _rows(self, query: str, *parameters: Any) -> list[Any]:
        return await self._reader.rows(QUERIES[query], parameters)


def _way(path: Path, patience_s: float) -> str:
    try:
        return find_way(path, patience_s=patience_s)
    except sqlite3.Error as error:
        raise translate(error, str(path)) from error


def _session(row: tuple[Any, ...]) -> SessionRow:
    return SessionRow(**dict(zip(SessionRow.__struct_fields__, row, strict=True)))
