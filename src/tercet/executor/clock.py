"""Clocks: the only source of time and delays in the runtime, always injected.

There are two kinds of time. *Wall time* says when something happened, and is recorded; it may jump, because a person or a
time server sets the machine's clock. *Monotonic time* measures how long something takes, and never jumps. Every duration
(a delay, a deadline, a lease, a budget of time) is measured on the monotonic clock.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from functools import partial
from typing import Protocol


class Clock(Protocol):
    """Tells both kinds of time in milliseconds, and waits."""

    def now(self) -> int:
        """Return the wall time since 1970 in UTC. It may jump in both directions."""
        ...

    def monotonic(self) -> int:
        """Return the time since some moment in the past. It never jumps, and counts the time of a suspended machine."""
        ...

    async def sleep(self, ms: int) -> None:
        """Wait on the monotonic clock; may be cancelled."""
        ...


_COUNTS_SUSPENSION = getattr(time, "CLOCK_BOOTTIME", getattr(time, "CLOCK_MONOTONIC", None))
"""Linux stops CLOCK_MONOTONIC while the machine is suspended, others do not; a lease must run out meanwhile."""
_monotonic_ns: Callable[[], int] = (
    time.monotonic_ns if _COUNTS_SUSPENSION is None else partial(time.clock_gettime_ns, _COUNTS_SUSPENSION)
)


class SystemClock:
    """The clocks of this machine."""

    def now(self) -> int:
        """Return the wall time."""
        return time.time_ns() // 1_000_000

    def monotonic(self) -> int:
        """Return the time since the machine was started."""
        return _monotonic_ns() // 1_000_000

    async def sleep(self, ms: int) -> None:
        """Wait."""
        await asyncio.sleep(max(0, ms) / 1000)


class AnchoredClock:
    """A clock whose wall time is read once and then follows the monotonic clock, so that it never jumps.

    Each process that continues a session has one for it. `earliest` is the time of the session's last event: where the
    wall clock is behind it, because it was set back or another machine's was ahead, time goes on from there.
    """

    def __init__(self, clock: Clock, *, earliest: int = 0) -> None:
        self._clock = clock
        self.monotonic: Callable[[], int] = clock.monotonic
        """Returns the monotonic time."""
        self._offset = max(clock.now(), earliest) - clock.monotonic()

    def now(self) -> int:
        """Return the wall time at the anchor and the time that has passed since."""
        return self.monotonic() + self._offset

    async def sleep(self, ms: int) -> None:
        """Wait."""
        await self._clock.sleep(ms)
