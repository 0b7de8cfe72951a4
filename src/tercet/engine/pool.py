"""The drivers of one process, and the one task that tends them all.

It renews their leases, hears what is said to runs that write nothing at the moment, and notices when their time is over.
One task and not one for each run: most runs are over before their lease would have to be renewed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress

from tercet.core.expiry import find_expired
from tercet.core.state import State
from tercet.engine.driver import Driver
from tercet.engine.leases import tick_ms
from tercet.engine.streams.stops import EmergencyStops
from tercet.engine.subscription import Signal
from tercet.executor.clock import Clock
from tercet.journal.errors import JournalError, JournalUnavailable, LeaseLost
from tercet.journal.protocol import Journal


class DriverPool:
    """Carries drivers forward and looks after them meanwhile."""

    def __init__(
        self,
        journal: Journal,
        tenant: str,
        clock: Clock,
        board: EmergencyStops,
        *,
        lease_ms: int,
        signal: Signal,
    ) -> None:
        self._journal = journal
        self._tenant = tenant
        self._clock = clock
        self._board = board
        self._lease_ms = lease_ms
        self._signal = signal
        self._drivers: dict[str, Driver] = {}
        self._tending: asyncio.Task[None] | None = None
        self._heard = -1

    def __contains__(self, session: object) -> bool:
        return session in self._drivers

    def __iter__(self) -> Iterator[Driver]:
        return iter(tuple(self._drivers.values()))

    def get(self, session: str) -> Driver | None:
        """The driver that carries a session in this process."""
        return self._drivers.get(session)

    async def drive(self, driver: Driver) -> State:
        """Carry a session as far as it goes, and let go of it."""
        session = driver.lease.stream
        self._drivers[session] = driver
        is_reachable = True
        try:
            # A stop is heard at the first append, its end is not: nothing would be appended.
            await self._board.refresh(None if self._board.active() else 0)
            if self._tending is None or self._tending.done():
                self._tending = asyncio.create_task(self._tend())
            return await driver.advance()
        except JournalUnavailable:
            is_reachable = False  # patience has ended: let the lease run out
            raise
        finally:
            driver.control.readers.close()
            if self._drivers.get(session) is driver:  # and not the one that has taken it over
                del self._drivers[session]
            if (
                is_reachable and not driver.state.is_over
            ):  # no process needs the lease on a session that is over
                with suppress(JournalError):  # it runs out by itself; the result of the run must be reported
                    await self._journal.release(driver.lease)

    def close(self) -> None:
        """Stop tending drivers."""
        if self._tending is not None:
            self._tending.cancel()

    async def _tend(self) -> None:
        while self._drivers:
            await self._clock.sleep(tick_ms(self._lease_ms))
            tended = (*(self._renew(driver) for driver in self), self._listen())
            for fault in await asyncio.gather(*tended, return_exceptions=True):
                # Whatever goes wrong for one of them, or here, the others need their leases.
                if isinstance(fault, Exception):
                    self._signal("tending_failed", {"error": f"{type(fault).__name__}: {fault}"})

    async def _renew(self, driver: Driver) -> None:
        """Renew a lease when it is time to."""
        if not driver.held_lease.is_due:
            return
        try:
            await driver.held_lease.renew()
        except LeaseLost:
            driver.control.stop()
        except JournalError:
            return  # asked again soon; a lease that runs out meanwhile holds every call back, and an append says more

    async def _listen(self) -> None:
        try:
            bell = await self._journal.bell(self._tenant)
            await self._board.refresh(bell)
        except JournalError:
            return  # the next append will report more
        for driver in self:
            if bell != self._heard or find_expired(driver.state, driver.now()) is not None:
                driver.control.check_inbox()
        self._heard = bell
