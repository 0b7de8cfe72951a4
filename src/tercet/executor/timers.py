"""Time-outs of calls: one timer of the event loop for all calls that were given about the same time."""

from __future__ import annotations

import asyncio
from typing import Protocol, TypeAlias


class Expiring(Protocol):
    """Something that has to end in time."""

    def expire(self) -> None:
        """End, since the time has run out."""
        ...


class _Queue:
    """Calls with similar timeouts, with their deadlines; the timer ends at the first of them, or before."""

    __slots__ = ("timer", "waiting")

    def __init__(self, timer: asyncio.TimerHandle) -> None:
        self.timer = timer
        self.waiting: dict[Expiring, float] = {}


TimerKey: TypeAlias = tuple[asyncio.AbstractEventLoop, int]
"""The event loop, and how many seconds were given, rounded: of a time-out in seconds, some milliseconds are over when the
call begins."""


class SharedTimers:
    """Expires each call in time, with a timer for the first of those that were given about the same time."""

    def __init__(self) -> None:
        self._queues: dict[TimerKey, _Queue] = {}
        self._idle: TimerKey | None = None
        """The queue that was emptied last. Its timer stays, since the next call often gets the same time."""

    def start(self, timeout_ms: int, expiring: Expiring) -> TimerKey:
        """Expire this after so many milliseconds; returns the key to stop it by."""
        loop = asyncio.get_running_loop()
        key, due = (loop, (timeout_ms + 500) // 1000), loop.time() + timeout_ms / 1000
        if (queue := self._queues.get(key)) is None:
            queue = self._queues[key] = _Queue(loop.call_at(due, self._expire_due, key))
        elif due < queue.timer.when():
            queue.timer.cancel()
            queue.timer = loop.call_at(due, self._expire_due, key)
        queue.waiting[expiring] = due
        return key

    def stop(self, key: TimerKey, expiring: Expiring) -> None:
        """Cancel the expiry."""
        queue = self._queues.get(key)
        if queue is None or queue.waiting.pop(expiring, None) is None or queue.waiting:
            return
        idle, self._idle = self._idle, key
        if idle is not None and idle != key and (other := self._queues.get(idle)) and not other.waiting:
            del self._queues[idle]
            other.timer.cancel()

    def _expire_due(self, key: TimerKey) -> None:
        queue, loop = self._queues[key], key[0]
        now = max(loop.time(), queue.timer.when())  # a loop may be early by the resolution of its clock
        over = [each for each, due in queue.waiting.items() if due <= now]
        for each in over:
            del queue.waiting[each]
        if queue.waiting:
            queue.timer = loop.call_at(min(queue.waiting.values()), self._expire_due, key)
        else:
            del self._queues[key]
        for each in over:
            each.expire()
