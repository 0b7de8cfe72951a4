"""The clock of a worker process, which its environment says to be wrong: `TERCET_CLOCK=offset:jump:reads`.

Its wall clock is `offset` milliseconds ahead of the machine's, and jumps by `jump` more when it has been read so often.
Its monotonic clock is the machine's, as it is on a machine whose wall clock is set.
"""

from __future__ import annotations

import os

from tercet.executor.clock import SystemClock

VARIABLE = "TERCET_CLOCK"


class WrongClock(SystemClock):
    """A wall clock that is wrong, and is set while it is used."""

    def __init__(self, offset_ms: int, jump_ms: int, reads: int) -> None:
        self._offset_ms = offset_ms
        self._jump_ms = jump_ms
        self._left = reads

    def now(self) -> int:
        """Return the wall time."""
        self._left -= 1
        if self._left == 0:
            self._offset_ms += self._jump_ms
        return super().now() + self._offset_ms


def worker_clock() -> SystemClock:
    """Return the clock that the environment asks for."""
    asked = os.environ.get(VARIABLE, "")
    return WrongClock(*map(int, asked.split(":"))) if asked else SystemClock()
