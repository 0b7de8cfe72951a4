"""The drivers of one process, and the task that maintains them all.

The task renews their leases, and checks for messages and expiry of runs that write nothing at the moment. There is one
task instead of one for each run, since most runs end before their lease has to be renewed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress

from tercet.core.resolve.sessions import find_expired
from tercet.core.state import State
from tercet.engine.driver import Driver
from tercet.engine.leases import tick_ms
from tercet.engine.streams.stops import EmergencyStops
from tercet.engine.subscription import Signal
from tercet.executor import collector
from tercet.executor.clock import Clock
from tercet.journal.errors import JournalError, JournalUnavailable, LeaseLost
from tercet.journal.protocol import Journal


class DriverPool:
    """Runs drivers and maintains their leases and inboxes."""

    def __init__(
        self,
        journal: Journal,
        tenant: str,
        clock: Clock,
        stops: EmergencyStops,
        *,
        lease_ms: int,
        signal: Signal,
    ) -> None:
        self._journal = journal
        self._tenant = tenant
        self._clock = clock
        self._stops = stops
        self._lease_ms = lease_ms
        self._signal = signal
        self._drivers: dict[str, Driver] = {}
        self._maintenance: asyncio.Task[None] | None = None
        self._last_count = -1

    def __contains__(self, session: object) -> bool:
        return session in self._drivers

    def __iter__(self) -> Iterator[Driver]:
        return iter(tuple(self._drivers.values()))

    def get(self, session: str) -> Driver | None:
        """Return the driver that runs a session in this process; None if there is none."""
        return self._drivers.get(session)

    async def drive(self, driver: Driver) -> State:
        """Run a session as far as it goes, and release it."""
        session = driver.lease.stream
        self._drivers[session] = driver
        is_reachable = True
        try:
            # The first append reports a new stop, but while a stop is active nothing is appended, so its end is read here.
            await self._stops.refresh(None if self._stops.active() else 0)
            if self._maintenance is None or self._maintenance.done():
                self._maintenance = asyncio.create_task(self._maintain())
            return await driver.advance()
        except JournalUnavailable:
            is_reachable = False  # let the lease expire
            raise
        finally:
            driver.control.readers.close()
            if self._drivers.get(session) is driver:  # and not a driver that has taken the session over
                del self._drivers[session]
            # No process needs the lease on a session that is over. Any other lease expires by itself, so an error must
            # not keep the result of the run from being returned.
            if is_reachable and not driver.state.is_over:
                with suppress(JournalError):
                    await self._journal.release(driver.lease)

    def close(self) -> None:
        """Stop the maintenance task."""
        if self._maintenance is not None:
            self._maintenance.cancel()

    async def _maintain(self) -> None:
        with collector.eased:
            while self._drivers:
                await self._clock.sleep(tick_ms(self._lease_ms))
                await self._maintain_all()

    async def _maintain_all(self) -> None:
        tasks = (*(self._renew(driver) for driver in self), self._check_messages())
        for fault in await asyncio.gather(*tasks, return_exceptions=True):
            # A failure for one driver must not keep the others from renewing their leases.
            if isinstance(fault, Exception):
                self._signal("tending_failed", {"error": f"{type(fault).__name__}: {fault}"})

    async def _renew(self, driver: Driver) -> None:
        """Renew a driver's lease if that is due."""
        if not driver.held_lease.is_due:
            return
        try:
            await driver.held_lease.renew()
        except LeaseLost:
            driver.control.stop()
        except JournalError:
            return  # retried soon; while the lease is expired no call starts, and the next append raises the error

    async def _check_messages(self) -> None:
        try:
            change_count = await self._journal.change_count(self._tenant)
            await self._stops.refresh(change_count)
        except JournalError:
            return  # the next append raises the error
        for driver in self:
            if change_count != self._last_count or find_expired(driver.state, driver.now()) is not None:
                driver.control.check_inbox()
        self._last_count = change_count
