"""A bundle as a read-only journal: a run is read from it as from its journal.

It holds one session. `newest` never returns a fold: a replay folds the events, and a fold in a file from elsewhere is
compressed data that should not be trusted. Claims and leases are not part of a bundle.
"""

from __future__ import annotations

from bisect import bisect_right
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, NoReturn

from tercet.contracts.errors import UsageError
from tercet.core import codec
from tercet.core.fold.apply import fold_event
from tercet.core.state import State
from tercet.engine.rows import row_of
from tercet.journal.chain import START
from tercet.journal.errors import BlobMissing, JournalClosed
from tercet.journal.protocol import (
    CheckpointKind,
    ClaimHolder,
    Lease,
    Position,
    SessionRow,
    Stored,
    StoredCheckpoint,
)

if TYPE_CHECKING:
    from tercet.replay.bundle.reading import Bundle


class BundleJournal:
    """The journal of the one run that a bundle holds. Every attempt to write raises `UsageError`."""

    def __init__(self, bundle: Bundle) -> None:
        self._bundle = bundle
        self._read: dict[str, list[Stored]] = {}
        self._points: dict[str, list[StoredCheckpoint]] = {}
        self._closed = False

    @cached_property
    def _row(self) -> SessionRow:
        state = State()
        for stored in self._bundle.events():
            state = fold_event(state, codec.decode(stored.data))
        return row_of(state)

    def _events(self, tenant: str, stream: str) -> list[Stored]:
        self._demand_open()
        if tenant != self._bundle.manifest.tenant:
            return []
        if stream not in self._read:
            self._read[stream] = list(self._bundle.events(stream))
        return self._read[stream]

    def _rows(self, tenant: str) -> list[SessionRow]:
        self._demand_open()
        return [self._row] if tenant == self._bundle.manifest.tenant else []

    def _demand_open(self) -> None:
        if self._closed:
            raise JournalClosed

    async def read(self, tenant: str, stream: str, *, after: int = 0, limit: int = 1000) -> list[Stored]:
        """Return at most `limit` events behind position `after`."""
        start = max(after, 0)
        return self._events(tenant, stream)[start : start + max(limit, 0)]

    async def head(self, tenant: str, stream: str) -> Position:
        """Return where a stream ends."""
        events = self._events(tenant, stream)
        return Position(events[-1].seq, events[-1].chain) if events else START

    async def newest(self, tenant: str, stream: str, kind: CheckpointKind) -> StoredCheckpoint | None:
        """Return the point with the highest position; never a fold."""
        points = [each for each in self._of(tenant, stream) if each.kind == kind == "point"]
        return points[-1] if points else None

    async def checkpoints(
        self, tenant: str, stream: str, *, after: int = 0, limit: int = 100
    ) -> list[StoredCheckpoint]:
        """Return the checkpoints behind position `after`, in order."""
        found = self._of(
            tenant, stream
        )  # a bundle has them in order, so a page is not looked for in all of them
        first = bisect_right(found, after, key=_position)
        if limit <= 0 or first == len(found):
            return []
        last = found[min(first + limit, len(found)) - 1].seq
        return found[first : bisect_right(found, last, key=_position)]

    def _of(self, tenant: str, stream: str) -> list[StoredCheckpoint]:
        self._demand_open()
        if tenant != self._bundle.manifest.tenant:
            return []
        if stream not in self._points:
            self._points[stream] = list(self._bundle.checkpoints(stream))
        return self._points[stream]

    async def blob(self, tenant: str, digest: str) -> bytes:
        """Return the bytes with this digest."""
        self._demand_open()
        if tenant != self._bundle.manifest.tenant:
            raise BlobMissing(tenant=tenant, digest=digest)
        return self._bundle.blob(digest)

    async def blob_digests(
        self, tenant: str, stream: str, *, after: str = "", limit: int = 1000
    ) -> list[str]:
        """Return the digests of the blobs that the session brought, in order."""
        self._demand_open()
        is_ours = (tenant, stream) == (self._bundle.manifest.tenant, self._bundle.manifest.session)
        found = (digest for digest in self._bundle.blobs if digest > after) if is_ours else ()
        return list(islice(found, max(limit, 0)))

    async def change_count(self, tenant: str) -> int:
        """Return 0: nothing changes here."""
        del tenant
        return 0

    async def claim(self, tenant: str, key: str) -> ClaimHolder | None:
        """Always None: a bundle holds no claims."""
        del tenant, key
        return None

    async def claims(self, tenant: str, prefix: str, *, limit: int = 100) -> list[tuple[str, ClaimHolder]]:
        """Always empty: a bundle holds no claims."""
        del tenant, prefix, limit
        return []

    async def lease(self, tenant: str, stream: str) -> Lease | None:
        """Return None: there is no writer."""
        del tenant, stream
        return None

    async def session(self, tenant: str, session_id: str) -> SessionRow | None:
        """Return the row of the session, derived from its events."""
        return next((row for row in self._rows(tenant) if row.session_id == session_id), None)

    async def sessions(
        self, tenant: str, *, status: str | None = None, limit: int = 50, before: str | None = None
    ) -> list[SessionRow]:
        """The one session that there is."""
        rows = [] if before is not None else self._rows(tenant)
        return [row for row in rows if status in (None, row.status)][: max(limit, 0)]

    async def session_ids(self, tenant: str, prefix: str, *, limit: int = 100) -> list[str]:
        """The one session that there is, if it begins with the prefix."""
        found = (row.session_id for row in self._rows(tenant))
        return [name for name in found if name.startswith(prefix)][: max(limit, 0)]

    async def due(self, tenant: str, *, now_ms: int, limit: int = 100) -> list[SessionRow]:
        """Return nothing: a bundle has no sessions to look after."""
        del tenant, now_ms, limit
        return []

    async def resumable(self, *, now_ms: int, limit: int = 100) -> list[SessionRow]:
        """Return nothing: a bundle has no sessions to carry."""
        del now_ms, limit
        return []

    async def ended(
        self, tenant: str, *, before_ms: int, statuses: tuple[str, ...], limit: int = 100
    ) -> list[SessionRow]:
        """Never anything: nothing is cleared up here."""
        del tenant, before_ms, statuses, limit
        return []

    async def _refuse(self, *_: object, **__: object) -> NoReturn:
        """Raise `UsageError`: nothing is written here."""
        raise UsageError(
            "a bundle can only be read",
            code="read_only",
            remedy="go on with the session in the journal that it was exported from",
        )

    append = acquire = renew = release = forget = _refuse

    async def close(self) -> None:
        """Refuse everything from now on, and close the bundle."""
        self._closed = True
        self._bundle.close()


def _position(stored: StoredCheckpoint) -> int:
    return stored.seq
