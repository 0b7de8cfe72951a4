"""The journal's interface: what is submitted, what is returned, and what is promised.

A *stream* is named by tenant and stream id and holds events at positions 1, 2, 3 and so on. The journal stores bytes;
it knows neither plans nor steps. Times are milliseconds since 1970 in UTC and come from the caller: no backend looks
at a clock to decide anything.

None of these values can contain itself, so the garbage collector need not track them (`gc=False`).
"""

from __future__ import annotations

from typing import Literal, Protocol, TypeAlias, runtime_checkable

import msgspec

CheckpointKind: TypeAlias = Literal["point", "fold"]
"""`point` is small and written at every verdict; `fold` holds the whole folded state."""


class NewCheckpoint(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A checkpoint to be written with an append, at a position that exists once the append is done."""

    kind: CheckpointKind
    seq: int
    data: bytes


class SessionRow(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The row of a session in lists: a view of its events, written together with them."""

    session_id: str
    tenant: str
    status: str
    pack: str
    pack_hash: str
    snapshot: str
    intent: str
    owner: str
    started_at: int
    updated_at: int
    next_step: str | None = None
    details: bytes = b""
    """Anything else a list should show without reading the stream, encoded by the caller."""
    due_at: int | None = None
    """When the watchdog has to check the session: a time to live ends, or a heartbeat is due."""
    waits_since: int | None = None
    """When the oldest gate was opened that waits for an answer to this session; None without such a gate."""


class StatusCount(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """How many sessions have a status, and the oldest of them."""

    status: str
    total: int
    oldest: tuple[SessionRow, ...]


class SessionFilter(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Which sessions a list holds; what is left out allows all."""

    status: str | None = None
    intents: tuple[str, ...] | None = None
    """One of these; an empty tuple allows none."""
    owner: str | None = None
    text: str | None = None
    """What the id, the intent, the owner or the pack contains, in letters of either case (of ASCII)."""
    oldest: tuple[int, str] | None = None
    """The start and the id of a session: only this one and newer ones are looked at."""

    def admits(self, row: SessionRow) -> bool:
        """Return whether a list with this filter holds a row."""
        wanted = None if self.text is None else _lower(self.text)
        return (
            self.status in (None, row.status)
            and (self.intents is None or row.intent in self.intents)
            and self.owner in (None, row.owner)
            and (self.oldest is None or (row.started_at, row.session_id) >= self.oldest)
            and (
                wanted is None
                or any(wanted in _lower(each) for each in (row.session_id, row.intent, row.owner, row.pack))
            )
        )


def _lower(text: str) -> str:
    return "".join(letter.lower() if letter.isascii() else letter for letter in text)


class FirstLease(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The first lease on a stream, acquired in the same commit as an append. Its epoch is 1."""

    owner: str
    until: int


class Append(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One atomic unit: all of it becomes durable, or nothing."""

    tenant: str
    stream: str
    expected: int
    """The position at which the stream ends now."""
    epoch: int | None = None
    """The epoch of the caller's lease; None only for a stream that was never leased."""
    lease: FirstLease | None = None
    """A lease to acquire with this unit; only for a stream that was never leased."""
    events: tuple[bytes, ...] = ()
    checkpoints: tuple[NewCheckpoint, ...] = ()
    blobs: tuple[bytes, ...] = ()
    claims: tuple[str, ...] = ()
    """Idempotency keys that this stream claims; it may claim a key that it holds already."""
    row: SessionRow | None = None
    reminders: tuple[tuple[str, int | None], ...] = ()
    """Names of reminders of the tenant with the time at which each is due from now on; None removes it."""
    notify: bool = False
    """Whether to raise the tenant's change counter, so that other writers of the tenant read this unit."""


class Position(msgspec.Struct, frozen=True, gc=False):
    """Where a stream ends: the last position, and the chain over all bytes up to it."""

    seq: int
    chain: bytes
    change_count: int = 0
    """The tenant's change counter after the commit that led here; 0 unless an append returned it."""


class Stored(msgspec.Struct, frozen=True, gc=False):
    """One event as it is stored."""

    seq: int
    data: bytes
    chain: bytes


class StoredCheckpoint(msgspec.Struct, frozen=True, gc=False):
    """One checkpoint as it is stored; `hash` is `sha256:` and the digest of its bytes."""

    seq: int
    kind: CheckpointKind
    hash: str
    data: bytes


class ClaimHolder(msgspec.Struct, frozen=True, gc=False):
    """Who holds an idempotency key: the stream, and where it ended after the append that claimed it."""

    stream: str
    seq: int


class Lease(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The right to write to a stream, until another epoch begins."""

    tenant: str
    stream: str
    owner: str
    epoch: int
    until: int


class Reminder(msgspec.Struct, frozen=True, gc=False):
    """A name that a process has to look at once its time has come; that process sets it again or removes it."""

    tenant: str
    name: str
    due_at: int


@runtime_checkable
class Journal(Protocol):
    """An append-only store of streams, with checkpoints, blobs, claims, leases and a table of sessions.

    Promised: an append is atomic, and durable when it returns; appends to one stream are totally ordered; a unit whose
    position, lease or claim does not hold is refused with a typed error and leaves no trace; tenants see nothing of
    each other, and share no bytes. Any number of tasks may use one journal, and any number of journals, also in
    different processes, one store.

    Not promised: that a cancelled append left nothing behind. A unit whose caller is cancelled while it waits becomes
    durable whole or not at all; read the head to learn which. A lease that has run out still fences until another
    owner acquires the stream, since the journal has no clock. A journal object belongs to the event loop (asyncio)
    that opened it.

    Every method may raise `JournalBusy`, `JournalUnavailable`, `JournalCorrupt` and `JournalClosed`. Names are 1 to 512
    bytes of UTF-8 without NUL; others raise `UsageError`.
    """

    async def append(self, unit: Append) -> Position:
        """Write a unit. Raises `LeaseLost`, `PositionConflict`, `ClaimHeld`, `CheckpointExists`, in this order,
        or `JournalFull`, or `AppendUnknown`.

        The position holds the tenant's change counter after the whole commit, including notifications in this unit and in
        others of the same commit. So a writer whose known counter is returned has seen every change."""
        ...

    async def change_count(self, tenant: str) -> int:
        """Return the tenant's change counter, which starts at 0 and never goes down."""
        ...

    async def read(self, tenant: str, stream: str, *, after: int = 0, limit: int = 1000) -> list[Stored]:
        """Return at most `limit` events behind position `after`, in order. Their chain is not checked here."""
        ...

    async def head(self, tenant: str, stream: str) -> Position:
        """Return where a stream ends; position 0 and 32 zero bytes if there is nothing in it. Its change count is always 0."""
        ...

    async def newest(self, tenant: str, stream: str, kind: CheckpointKind) -> StoredCheckpoint | None:
        """Return the checkpoint of this kind with the highest position, its bytes checked against its hash."""
        ...

    async def checkpoints(
        self, tenant: str, stream: str, *, after: int = 0, limit: int = 100
    ) -> list[StoredCheckpoint]:
        """Return the checkpoints behind position `after`, in order. A page never splits a position, so it may hold one more."""
        ...

    async def blob(self, tenant: str, digest: str) -> bytes:
        """Return the bytes with this digest (`sha256:…`), checked against it. Raises `BlobMissing`."""
        ...

    async def blob_digests(
        self, tenant: str, stream: str, *, after: str = "", limit: int = 1000
    ) -> list[str]:
        """Return the digests of the blobs that a stream brought, in order, behind `after`; not those that were stored before
        uses were recorded."""
        ...

    async def claim(self, tenant: str, key: str) -> ClaimHolder | None:
        """Return the holder of an idempotency key; None if it is free."""
        ...

    async def claims(self, tenant: str, prefix: str, *, limit: int = 100) -> list[tuple[str, ClaimHolder]]:
        """Return at most `limit` keys that begin with a prefix, in the order of their UTF-8 bytes, each with its holder.

        A durable journal reads only these, however many claims there are."""
        ...

    async def acquire(
        self,
        tenant: str,
        stream: str,
        *,
        owner: str,
        now_ms: int,
        ttl_ms: int,
        grace_ms: int = 0,
        replacing: Lease | None = None,
    ) -> Lease:
        """Begin a new epoch. Raises `LeaseHeld` while another owner's lease and the grace after it run, unless that lease
        is exactly the one to be replaced: same owner, epoch and end. The caller knows that it is not renewed any more."""
        ...

    async def renew(self, lease: Lease, *, now_ms: int, ttl_ms: int) -> Lease:
        """Return the same epoch with a later end. Raises `LeaseLost`."""
        ...

    async def release(self, lease: Lease) -> None:
        """Release a lease; its epoch can no longer write. A lost lease is left unchanged."""
        ...

    async def lease(self, tenant: str, stream: str) -> Lease | None:
        """Return the lease on a stream, even if it has expired; None if it is free or was released."""
        ...

    async def forget(self, lease: Lease) -> None:
        """Remove a stream: events, checkpoints, claims, row and lease, and the blobs that no other stream brought.

        All of it or nothing. Raises `LeaseLost`, or `AppendUnknown`. Afterwards the stream is as if it had never been,
        so its epochs begin at 1 again: do not reuse its name while an old owner may still exist. The change counter
        is not reset. Blobs that were stored before their uses were recorded stay."""
        ...

    async def session(self, tenant: str, session_id: str) -> SessionRow | None:
        """Return the row of one session."""
        ...

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
        """Rows by start, newest first; `before` is the last session id of the page before, and the first `skip` rows
        behind it are left out. An unknown `before` raises `UsageError`. `where` says more than `status`, and is used
        instead of it. A durable journal finds the rows of one status, intent or owner by an index; for a text, or for
        several of these, it looks at rows until it has enough or comes to the `oldest`."""
        ...

    async def session_ids(self, tenant: str, prefix: str, *, limit: int = 100) -> list[str]:
        """Return at most `limit` ids of sessions that begin with a prefix, in order. A durable journal reads only these."""
        ...

    async def due(self, tenant: str, *, now_ms: int, limit: int = 100) -> list[SessionRow]:
        """Rows whose time has come (`due_at <= now_ms`), the earliest first. However many wait, it reads only these."""
        ...

    async def waiting(
        self, tenant: str, *, after: tuple[int, str] | None = None, limit: int = 100
    ) -> list[SessionRow]:
        """Rows with `waits_since`, those that have waited longest first, and by id where that is the same; behind a time and
        an id, if they are given. However many wait, it reads only these."""
        ...

    async def resumable(
        self, *, now_ms: int, limit: int = 100, after: SessionRow | None = None
    ) -> list[SessionRow]:
        """Rows with the status `in_progress`, and others whose time has come (`due_at <= now_ms`), that no process holds:
        their lease was released, or ended by `now_ms`. At most `limit` of each tenant, those that were changed longest ago
        first; with `after`, only those behind that row in this order. However many other sessions wait, it reads none of
        them."""
        ...

    async def unfinished(
        self, pack: str, *, pack_hash: str = "", statuses: tuple[str, ...], limit: int = 20
    ) -> list[StatusCount]:
        """How many sessions of a pack version, `name@version`, have each of these statuses, of every tenant, and the
        oldest `limit` of each; a status that none has is left out. `pack_hash` may be the beginning of one. However many
        sessions have other statuses, it reads none of them."""
        ...

    async def reminders(self, *, now_ms: int, tenant: str | None = None, limit: int = 100) -> list[Reminder]:
        """Return the reminders whose time has come (`due_at <= now_ms`), the earliest first; without a tenant, those of
        all tenants. However many are due later, it reads none of them."""
        ...

    async def ended(
        self, tenant: str, *, before_ms: int, statuses: tuple[str, ...], limit: int = 100
    ) -> list[SessionRow]:
        """Rows with one of these statuses that were last changed before a time, the oldest first. It looks at every
        row of the tenant: for clearing up now and then."""
        ...

    async def close(self) -> None:
        """Finish the appends in progress, refuse new ones, and close the store. May be called again."""
        ...
