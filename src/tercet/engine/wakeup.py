"""How a driver waits: until somebody nudges it, or for a while."""

from __future__ import annotations

import asyncio


class Wakeup:
    """One waiter and any number of nudges; one that comes while nobody waits is not lost."""

    def __init__(self) -> None:
        self._waiting: asyncio.Future[None] | None = None
        self._is_nudged = False

    def wake(self, _: object = None) -> None:
        """There is something to do: wake the waiter, or keep it from going to rest."""
        self._is_nudged = True
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    async def wait(self, seconds: float | None = None) -> None:
        """Until a nudge, or so many seconds have passed. A bare future: this happens at every step."""
        if not self._is_nudged:
            loop = asyncio.get_running_loop()
            self._waiting = loop.create_future()
            alarm = None if seconds is None else loop.call_later(seconds, self.wake)
            try:
                await self._waiting
            finally:
                self._waiting = None
                if alarm is not None:
                    alarm.cancel()
        self._is_nudged = False
