"""Time as an argument: the one place where the runtime learns what time it is, and waits."""

from __future__ import annotations

import asyncio
import time
from typing import Protocol


class Clock(Protocol):
    """Tells the time in milliseconds since 1970 in UTC, and waits. Never runs backwards within one process."""

    def now(self) -> int:
        """The time."""
        ...

    async def sleep(self, ms: int) -> None:
        """Wait; may be cancelled."""
        ...


class SystemClock:
    """The wall clock of this machine, which never runs backwards here.

    Not the monotonic clock: that one stands still while a machine is suspended, and a lease that ran out meanwhile
    would look as if it still ran.
    """

    def __init__(self) -> None:
        self._last = 0

    def now(self) -> int:
        """The time."""
        now = time.time_ns() // 1_000_000
        if now > self._last:
            self._last = now
        return self._last

    async def sleep(self, ms: int) -> None:
        """Wait."""
        await asyncio.sleep(max(0, ms) / 1000)
