"""The sweep: wakes the sessions that could go on and that no process has.

A wake-up can be lost: Temporal is down while a person approves, or the approval comes from a command that does not know
of Temporal. The journal knows such sessions by one query. One process of a cluster sweeps at a time, whichever holds the
sweep's lease; it needs no pack, since a session's row names its queue.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from tercet.cluster.dispatch import Dispatcher
from tercet.contracts.errors import TercetError
from tercet.executor.clock import Clock
from tercet.journal.errors import LeaseHeld
from tercet.journal.protocol import Journal, Lease, SessionRow

_log = logging.getLogger("tercet.cluster")

SWEEP_MS = 1_000
"""How often the sweep looks."""
SWEEP_TENANT = "_service"
SWEEP_STREAM = "cluster-sweep"
_LEASE_MS = 10_000
_PAGE = 1_000
"""How many sessions of each tenant a look shows: the oldest and, if there are more, as many of the others in turn."""
_BATCH = 32
_FIRST_MS = 2_000
"""How long a session may wait before the sweep wakes it: its own wake-up is usually on its way."""
_AGAIN_MS, _MOST_MS = 20_000, 300_000
"""The time after which it wakes a session again that Temporal knows of, at first and at most: it may only have to queue."""
_MOST_KNOWN = 100_000
"""How many sessions it remembers; among more, each is woken whenever a look comes to it, which is seldom then."""


@dataclass(kw_only=True)
class _Known:
    """A session that was found: the change that it waits after, when it is woken next, and the time between."""

    at: int
    due: int
    gap: int = _AGAIN_MS
    lap: int = 0
    """When a look last found it."""


def _key(row: SessionRow) -> tuple[str, str]:
    return row.tenant, row.session_id


class Sweep:
    """Looks for sessions whose wake-up was lost, while it holds the sweep's lease."""

    def __init__(
        self,
        journal: Journal,
        dispatcher: Dispatcher,
        clock: Clock,
        *,
        period_ms: int = SWEEP_MS,
        page: int = _PAGE,
        most_known: int = _MOST_KNOWN,
    ) -> None:
        self._journal = journal
        self._dispatcher = dispatcher
        self._clock = clock
        self._period_ms = period_ms
        self._owner = f"{socket.gethostname()}:{os.getpid()}:{os.urandom(4).hex()}"
        self._lease: Lease | None = None
        self._page = page
        self._most_known = most_known
        self._after: SessionRow | None = None
        """The session up to which the looks have come that go through tenants with more than a page."""
        self._lap = 0
        """How often the looks have begun with the oldest sessions."""
        self._known: dict[tuple[str, str], _Known] = {}
        self.woken = 0
        """How many wake-ups the sweep has sent."""

    async def run(self) -> None:
        """Look once every period until cancelled."""
        try:
            while True:
                await self._clock.sleep(self._period_ms)
                try:
                    if await self._is_elected():
                        await self.look()
                except TercetError as error:
                    _log.warning("the sweep failed, and is tried again: %s", error)
        finally:
            if self._lease is not None:
                await self._release(self._lease)

    async def look(self) -> None:
        """Wake what could go on."""
        now = self._clock.monotonic()
        found = [(row, self._remember(row, now)) for row in await self._next_rows()]
        due = [(row, known) for row, known in found if known.due <= now]
        for first in range(0, len(due), _BATCH):
            batch = due[first : first + _BATCH]
            delivered = await asyncio.gather(*(self._dispatcher.wake(row) for row, _ in batch))
            for (_, known), is_delivered in zip(batch, delivered, strict=True):
                if is_delivered:
                    self.woken += 1
                    known.due, known.gap = now + known.gap, min(2 * known.gap, _MOST_MS)
            if not any(delivered):
                return  # Temporal is away: these are tried again at the next look

    async def _next_rows(self) -> list[SessionRow]:
        """Return the oldest sessions of each tenant and, of tenants that have more, the next ones, from the oldest again
        once there are no more: sessions that no worker takes must not hide later ones."""
        if self._after is None:
            self._known = {key: known for key, known in self._known.items() if known.lap == self._lap}
            self._lap += 1
        now = self._clock.now()
        rows = await self._journal.resumable(now_ms=now, limit=self._page)
        end = self._end_of(rows)
        if end is None:
            self._after = None
            return rows
        behind = await self._journal.resumable(now_ms=now, limit=self._page, after=self._after or end)
        self._after = self._end_of(behind)
        return list({_key(row): row for row in (*rows, *behind)}.values())

    def _end_of(self, rows: Sequence[SessionRow]) -> SessionRow | None:
        """Return the first row at which a tenant has a whole page, and may have more behind it; None if no tenant has."""
        counts: Counter[str] = Counter()
        for row in rows:
            counts[row.tenant] += 1
            if counts[row.tenant] == self._page:
                return row
        return None

    def _remember(self, row: SessionRow, now: int) -> _Known:
        """Return what is known of a session that a look has found."""
        known = self._known.pop(_key(row), None)
        if known is None and len(self._known) >= self._most_known:
            del self._known[next(iter(self._known))]  # the one that was found longest ago
            known = _Known(at=row.updated_at, due=now)  # it may be forgotten before a look comes to it again
        if known is None or known.at != row.updated_at:
            known = _Known(at=row.updated_at, due=now + _FIRST_MS)
        self._known[_key(row)] = known
        known.lap = self._lap
        return known

    async def _is_elected(self) -> bool:
        """Whether this process sweeps: it holds the lease, or has got it."""
        now = self._clock.now()
        try:
            if self._lease is not None:
                self._lease = await self._journal.renew(self._lease, now_ms=now, ttl_ms=_LEASE_MS)
            else:
                self._lease = await self._journal.acquire(
                    SWEEP_TENANT, SWEEP_STREAM, owner=self._owner, now_ms=now, ttl_ms=_LEASE_MS
                )
                self._known.clear()
                self._after = None
        except LeaseHeld:
            return False
        except TercetError:
            self._lease = None
            raise
        return True

    async def _release(self, lease: Lease) -> None:
        try:
            await self._journal.release(lease)
        except TercetError as error:
            _log.warning("the lease of the sweep runs out by itself: %s", error)
