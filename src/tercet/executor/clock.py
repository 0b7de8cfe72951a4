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
    """The clock of this machine: wall time at the start, and the monotonic clock from there."""

    def __init__(self) -> None:
        self._offset = time.time() - time.monotonic()

    def now(self) -> int:
        """The time."""
        return int((time.monotonic() + self._offset) * 1000)

    async def sleep(self, ms: int) -> None:
        """Wait."""
        await asyncio.sleep(max(0, ms) / 1000)
