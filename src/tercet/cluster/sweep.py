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
_PAGE, _WIDEST = 500, 16_000
"""How many sessions of each tenant a look shows: more and more, while there are as many."""
_BATCH = 32
_FIRST_MS = 2_000
"""How long a session may wait before the sweep wakes it: its own wake-up is usually on its way."""
_AGAIN_MS, _MOST_MS = 20_000, 300_000
"""The time after which it wakes a session again that Temporal knows of, at first and at most: it may only have to queue."""
_MOST_KNOWN = 100_000


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
    ) -> None:
        self._journal = journal
        self._dispatcher = dispatcher
        self._clock = clock
        self._period_ms = period_ms
        self._owner = f"{socket.gethostname()}:{os.getpid()}:{os.urandom(4).hex()}"
        self._lease: Lease | None = None
        self._limit = _PAGE
        self._known: dict[tuple[str, str], tuple[int, int, int]] = {}
        """Sessions that were found: the change they wait after, when they are woken next, and the time between."""
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
        rows = await self._journal.resumable(now_ms=self._clock.now(), limit=self._limit)
        is_full = max(Counter(row.tenant for row in rows).values(), default=0) >= self._limit
        is_widest = self._limit >= _WIDEST
        if not is_full or is_widest:
            waiting = {_key(row) for row in rows}
            self._known = {key: each for key, each in self._known.items() if key in waiting}
        # Sessions that no worker takes must not hide later ones of their tenant: each look shows more of them.
        self._limit = _PAGE if not is_full or is_widest else 2 * self._limit
        due = [row for row in rows if self._is_due(row, now)]
        for first in range(0, len(due), _BATCH):
            batch = due[first : first + _BATCH]
            delivered = await asyncio.gather(*(self._dispatcher.wake(row) for row in batch))
            for row, is_delivered in zip(batch, delivered, strict=True):
                if is_delivered:
                    self.woken += 1
                    at, _, gap = self._known[_key(row)]
                    self._known[_key(row)] = (at, now + gap, min(2 * gap, _MOST_MS))
            if not any(delivered):
                return  # Temporal is away: these are tried again at the next look

    def _is_due(self, row: SessionRow, now: int) -> bool:
        """Whether to wake a session now: a while after it was first seen, then less and less often."""
        at, due, _ = self._known.get(_key(row), (-1, 0, 0))
        if at == row.updated_at:
            return now >= due
        if len(self._known) < _MOST_KNOWN:
            self._known[_key(row)] = (row.updated_at, now + _FIRST_MS, _AGAIN_MS)
        return False

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
