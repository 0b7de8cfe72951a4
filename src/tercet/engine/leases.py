"""Leases on sessions: how a process acquires and renews them, and when it may take over that of another process.

A lease says when it ends, as a time of its holder's wall clock. Clocks differ and jump, so another process does not compare
that time with its own clock alone. It watches the lease: a holder that is alive renews it, which changes it, well before
half of its length has passed. A lease that stays the same counts as ended

- after half of its length on the watcher's monotonic clock, if its end has passed on the watcher's wall clock, or
- after its whole length, whatever the wall clock says.

The journal grants the lease only if the current one is still the one that was watched.
"""

from __future__ import annotations

import os
import socket
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from typing import TypeAlias

from msgspec.structs import replace

from tercet.core.state import TERMINAL
from tercet.engine.subscription import Signal
from tercet.executor.clock import Clock
from tercet.journal.errors import LeaseHeld, LeaseLost
from tercet.journal.protocol import FirstLease, Journal, Lease

LEASE_MS = 10_000
"""The default length of a lease."""
POLL_MS = 100
"""The interval at which a process that waits for a lease asks for it again."""
TICK_MS = 500
"""The longest time between two checks whether leases have to be renewed."""
_FOREVER_MS = 2**50
_MOST_SIGHTINGS = 10_000

Held: TypeAlias = Callable[[LeaseHeld], None]
"""Called each time another process turns out to hold the lease; may raise, to wait no longer."""


def _name() -> str:
    return f"{socket.gethostname()}:{os.getpid()}:{os.urandom(4).hex()}"


def tick_ms(lease_ms: int) -> int:
    """Return the interval for checking leases of this length, so that each is renewed before half of it has passed."""
    return max(1, min(TICK_MS, lease_ms // 8))


def _length_of(owner: str) -> int | None:
    """Return the length of a lease, which its owner's name ends with; None if another program wrote that name."""
    length = owner.rpartition(":")[2].removesuffix("ms")
    return int(length) if owner.endswith("ms") and length.isdecimal() else None


@dataclass(frozen=True)
class _Sighting:
    """A lease of another process, and since when it has been the same."""

    lease: Lease
    since: int


class HeldLease:
    """A lease that this process holds, timed on the monotonic clock from before the journal was asked for it.

    The lease on a new session is held once the session's first append has acquired it.
    """

    def __init__(
        self,
        journal: Journal,
        clock: Clock,
        lease: Lease,
        *,
        began: int,
        length_ms: int,
        is_held: bool = True,
    ) -> None:
        self.lease = lease
        self._is_held = is_held
        self._journal = journal
        self._clock = clock
        self._began = began
        self._length_ms = length_ms

    @property
    def has_ended(self) -> bool:
        """Whether another process may hold the stream by now."""
        return self._clock.monotonic() - self._began >= self._length_ms

    @property
    def is_due(self) -> bool:
        """Whether it is time to renew the lease: more than a quarter of it has passed."""
        return self._is_held and self._clock.monotonic() - self._began > self._length_ms // 4

    def request(self) -> FirstLease | None:
        """Return the lease for the first append of a new session to acquire, its length begun now; None if it is held."""
        if self._is_held:
            return None
        self._began = self._clock.monotonic()
        self.lease = replace(self.lease, until=self._clock.now() + self._length_ms)
        return FirstLease(owner=self.lease.owner, until=self.lease.until)

    def confirm(self) -> None:
        """Count the lease as held: the first append is durable."""
        self._is_held = True

    async def renew(self) -> None:
        """Begin the lease's length again. Raises `LeaseLost` if another process has the stream, or `JournalError`."""
        began = self._clock.monotonic()
        now = self._clock.now()
        self.lease = await self._journal.renew(self.lease, now_ms=now, ttl_ms=self._length_ms)
        self._began = began


@dataclass(frozen=True, kw_only=True)
class LeaseClient:
    """Acquires leases on the sessions of one tenant, and watches those of other processes."""

    journal: Journal
    tenant: str
    clock: Clock
    lease_ms: int = LEASE_MS
    signal: Signal = lambda _name, _fields: None
    """Given `lease_wait` when another process turns out to hold a lease, and each time that it has renewed it."""
    _name: str = field(default_factory=_name)
    _leases: Iterator[int] = field(default_factory=lambda: count(1))
    _sightings: dict[str, _Sighting] = field(default_factory=dict[str, _Sighting])

    async def acquire(self, stream: str) -> HeldLease:
        """Acquire the lease on a stream under a new owner name, so that two tasks of one process contend like two processes.

        Raises `LeaseHeld` if another process may be alive that has it; its `wait_ms` says when to ask again.
        """
        sighting = self._sightings.get(stream)
        has_ended = sighting is not None and self._left_ms(sighting) <= 0
        replaced = sighting.lease if sighting is not None and has_ended else None
        try:
            # No lease of another process ends by the clock alone.
            held_lease = await self._acquire(stream, grace_ms=_FOREVER_MS, replacing=replaced)
        except LeaseHeld as found:
            found.wait_ms = self.watch(found.lease)
            raise
        self._sightings.pop(stream, None)
        return held_lease

    def begin(self, stream: str) -> HeldLease:
        """Return the first lease on the stream of a new session, which the session's first append acquires."""
        lease = Lease(tenant=self.tenant, stream=stream, owner=self._new_owner(), epoch=1, until=0)
        return HeldLease(self.journal, self.clock, lease, began=0, length_ms=self.lease_ms, is_held=False)

    async def acquire_ended(self, stream: str) -> HeldLease:
        """Return the lease on a stream of a session that is over: by the wall clock, without watching the old lease."""
        return await self._acquire(stream)

    async def _acquire(self, stream: str, *, grace_ms: int = 0, replacing: Lease | None = None) -> HeldLease:
        began = self.clock.monotonic()
        lease = await self.journal.acquire(
            self.tenant,
            stream,
            owner=self._new_owner(),
            now_ms=self.clock.now(),
            ttl_ms=self.lease_ms,
            grace_ms=grace_ms,
            replacing=replacing,
        )
        return HeldLease(self.journal, self.clock, lease, began=began, length_ms=self.lease_ms)

    def _new_owner(self) -> str:
        return f"{self._name}:{next(self._leases)}:{self.lease_ms}ms"

    def watch(self, lease: Lease) -> int:
        """Watch a lease of another process; return after how long it counts as ended if it stays the same."""
        known = self._sightings.get(lease.stream)
        if known is not None and known.lease == lease:
            return max(0, self._left_ms(known))
        if len(self._sightings) >= _MOST_SIGHTINGS:
            del self._sightings[next(iter(self._sightings))]
        known = self._sightings[lease.stream] = _Sighting(lease, self.clock.monotonic())
        left = max(0, self._left_ms(known))
        self.signal("lease_wait", {"session_id": lease.stream, "owner": lease.owner, "wait_ms": left})
        return left

    def _left_ms(self, sighting: _Sighting) -> int:
        """After how long a lease counts as ended if it stays the same."""
        lease = sighting.lease
        watched = self.clock.monotonic() - sighting.since
        length = _length_of(lease.owner) or self.lease_ms
        to_its_end = lease.until - self.clock.now()
        return min(length - watched, max(length // 2 - watched, to_its_end))

    async def wait_for(self, session: str, held: Held) -> HeldLease | None:
        """Return the lease on a session once its holder has released it or stopped renewing it.

        None if the session is over by then: its last holder does not release that lease.
        """
        while True:
            try:
                return await self.acquire(session)
            except LeaseHeld as found:
                held(found)
                row = await self.journal.session(self.tenant, session)
                if row is not None and row.status in TERMINAL:
                    return None
                await self.clock.sleep(min(POLL_MS, max(1, found.wait_ms)))

    @asynccontextmanager
    async def holding(self, session: str) -> AsyncGenerator[Lease]:
        """Hold a session for a moment; raises `LeaseHeld` if another process has it."""
        held_lease = await self.acquire(session)
        try:
            yield held_lease.lease
        finally:
            with suppress(LeaseLost):
                await self.journal.release(held_lease.lease)
