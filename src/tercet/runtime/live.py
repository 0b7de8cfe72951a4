"""A run that a process has recorded and keeps in memory until its worker has a place for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from hashlib import sha256
from typing import Any, TypeAlias

from tercet.contracts.runs.session import BackgroundSession
from tercet.core.state import State
from tercet.engine.driver import Driver
from tercet.engine.progress import make_session_row
from tercet.engine.result import RunResult
from tercet.journal.protocol import StoredCheckpoint


class LiveRun:
    """A recorded run whose lease this process holds; it begins nothing before `proceed`."""

    def __init__(self, driver: Driver, running: asyncio.Task[RunResult]) -> None:
        self._driver = driver
        self.running = running
        """The run; its result says how it has ended, or where it waits."""

    @property
    def key(self) -> tuple[str, str]:
        """The tenant and the session."""
        return self._driver.lease.tenant, self._driver.lease.stream

    @property
    def state(self) -> State:
        """The state of the run, as far as it was written."""
        return self._driver.state

    @property
    def is_current(self) -> bool:
        """Whether this process knows every event of the session: it has written them all, and no other goes on with it."""
        state = self.state
        is_left = self.running.done() and state.status == "in_progress"
        return not is_left and len(self._driver.ledger.log) == state.position

    def proceed(self) -> None:
        """Let the run begin."""
        self._driver.control.proceed()

    def hand_over(self) -> None:
        """Leave the run to any worker."""
        self._driver.control.hand_over()

    def session_row(self) -> BackgroundSession:
        """Return the session in its published shape."""
        ledger = self._driver.ledger
        points = [
            StoredCheckpoint(each.seq, each.kind, f"sha256:{sha256(each.data).hexdigest()}", each.data)
            for each in ledger.points
        ]
        return make_session_row(self.state, ledger.log, points)


Keep: TypeAlias = Callable[[LiveRun], bool]
"""Takes a run into the care of a worker of this process; returns False if that has too many."""


async def record(driver: Driver, carrying: Coroutine[Any, Any, RunResult], keep: Keep) -> RunResult | None:
    """Record a new run. Return None if it is kept in this process; else its result, once it is left to any worker."""
    held = driver.control.hold()
    running = asyncio.create_task(carrying)
    try:
        await asyncio.wait((running, held), return_when=asyncio.FIRST_COMPLETED)
        if not running.done():
            if keep(LiveRun(driver, running)):
                return None
            driver.control.hand_over()
        return await running
    except asyncio.CancelledError:
        running.cancel()
        raise
