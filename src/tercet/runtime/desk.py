"""The desk at which a process takes sessions over: in which journal, by which clock, for how long, and in whose name."""

from __future__ import annotations

import os
import socket
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from typing import TypeAlias

from tercet.executor.clock import Clock
from tercet.journal.errors import LeaseHeld, LeaseLost
from tercet.journal.protocol import Journal, Lease

LEASE_MS = 10_000
"""How long a lease runs where nobody says otherwise."""
POLL_MS = 100
"""How often somebody who waits for a lease asks for it again."""

Held: TypeAlias = Callable[[LeaseHeld], None]
"""Told each time a lease turns out to be held by somebody else; may raise, to wait no longer."""


def _name() -> str:
    return f"{socket.gethostname()}:{os.getpid()}:{os.urandom(4).hex()}"


@dataclass(frozen=True, kw_only=True)
class Desk:
    """What it takes to hold a session for a while."""

    journal: Journal
    tenant: str
    clock: Clock
    lease_ms: int = LEASE_MS
    _name: str = field(default_factory=_name)
    _leases: Iterator[int] = field(default_factory=lambda: count(1))

    async def acquire(self, stream: str) -> Lease:
        """The lease on a stream, in a name of its own: two tasks of one process contend like any two processes.

        Raises `LeaseHeld` if somebody has it.
        """
        owner = f"{self._name}:{next(self._leases)}"
        return await self.journal.acquire(
            self.tenant, stream, owner=owner, now_ms=self.clock.now(), ttl_ms=self.lease_ms
        )

    async def wait_for(self, session: str, held: Held) -> Lease:
        """The lease on a session, as soon as its owner has let go of it or it has run out."""
        while True:
            try:
                return await self.acquire(session)
            except LeaseHeld as found:
                held(found)
                # Its owner may let go of it earlier.
                await self.clock.sleep(min(POLL_MS, max(1, found.until - self.clock.now() + 1)))

    @asynccontextmanager
    async def holding(self, session: str) -> AsyncGenerator[Lease]:
        """Hold a session for a moment; raises `LeaseHeld` if somebody has it."""
        lease = await self.acquire(session)
        try:
            yield lease
        finally:
            with suppress(LeaseLost):
                await self.journal.release(lease)
