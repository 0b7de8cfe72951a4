"""A clock for tests: time stands still while anybody works, and jumps when everybody sleeps.

    clock = VirtualClock()
    clock.run(main())            # a run that backs off for an hour takes no time

`run` drives an event loop of its own. Whenever that loop has nothing left to do but wait, the clock moves to the moment
at which the first sleeper wakes; timers of asyncio itself (`asyncio.sleep`, `asyncio.wait(timeout=…)`) count as sleepers.
Work outside of the loop is waited for: jobs in the loop's threads by themselves, anything else while `hold` says so.
On any other loop time moves only when `advance` is told to move it.
"""

from __future__ import annotations

import asyncio
import heapq
import math
import selectors
from collections.abc import Callable, Coroutine, Generator
from contextlib import contextmanager
from itertools import count
from time import monotonic
from typing import Any, TypeVar

_T = TypeVar("_T")

EPOCH_MS = 1_767_225_600_000
"""Where virtual time begins: 1 January 2026, in UTC."""
STUCK_S = 60.0
"""How long nothing may happen at all, in real seconds, before `run` gives up."""


class VirtualClock:
    """A `Clock` whose time is made up. `patience_s` is how long, in real seconds, work outside of the loop may take
    before time goes on without it: a thread that hangs must not hold up the timeout that is there to give up on it."""

    def __init__(self, start_ms: int = EPOCH_MS, *, patience_s: float = 5.0) -> None:
        self._start = self._now = start_ms
        self._shift = 0
        self._patience_s = patience_s
        self._sleepers: list[tuple[int, int, asyncio.Future[None]]] = []
        self._numbers = count()
        self._held = 0

    def now(self) -> int:
        """Return the wall time in milliseconds since 1970."""
        return self._now + self._shift

    def monotonic(self) -> int:
        """Return the time that was made to pass, in milliseconds; `shift_wall` does not change it."""
        return self._now - self._start

    def shift_wall(self, ms: int) -> None:
        """Set the wall clock ahead, or back, as a time server does: no sleeper wakes up, and no time passes."""
        self._shift += ms

    async def sleep(self, ms: int) -> None:
        """Wait until this much time was made to pass; sleeping for nothing lets others run once."""
        if ms <= 0:
            await asyncio.sleep(0)
            return
        waking: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._now + ms, next(self._numbers), waking))
        await waking

    def advance(self, ms: int) -> None:
        """Let time pass, and wake everybody whose time has come."""
        self._now += ms
        while self._sleepers and self._sleepers[0][0] <= self._now:
            waking = heapq.heappop(self._sleepers)[2]
            if not waking.done():
                waking.set_result(None)

    @contextmanager
    def hold(self) -> Generator[None, None, None]:
        """Let no time pass by itself in here: something that the loop cannot see is at work."""
        self._held += 1
        try:
            yield
        finally:
            self._held -= 1

    def run(self, main: Coroutine[Any, Any, _T]) -> _T:
        """Run a coroutine to its end, as `asyncio.run` does, in virtual time."""
        with asyncio.Runner(loop_factory=lambda: _VirtualLoop(self)) as runner:
            return runner.run(main)

    # --- what the loop asks ---

    @property
    def elapsed_s(self) -> float:
        """How much time has passed; small, so that a float tells it exactly enough."""
        return (self._now - self._start) / 1000

    @property
    def is_held(self) -> bool:
        """Whether somebody outside of the loop is at work."""
        return self._held > 0

    @property
    def patience_s(self) -> float:
        """How long work outside of the loop is waited for."""
        return self._patience_s

    def jump(self, timer_s: float | None) -> bool:
        """Move to the first sleeper, or to the loop's next timer if that is earlier; False if nobody sleeps."""
        while self._sleepers and self._sleepers[0][2].done():
            heapq.heappop(self._sleepers)  # it was cancelled
        waits = [self._sleepers[0][0] - self._now] if self._sleepers else []
        if timer_s is not None:
            waits.append(math.ceil(round(timer_s * 1000, 3)))
        if waits:
            self.advance(max(1, min(waits)))
        return bool(waits)


class _VirtualLoop(asyncio.SelectorEventLoop):
    """A loop that tells virtual time, and counts the jobs of its threads as work that time waits for."""

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock
        super().__init__(_JumpingSelector(clock))

    def time(self) -> float:
        """The virtual time in seconds since it began."""
        return self._clock.elapsed_s

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:
        """The same, with the clock held until the job has ended."""
        holding = self._clock.hold()
        holding.__enter__()
        job = super().run_in_executor(executor, func, *args)
        job.add_done_callback(lambda _: holding.__exit__(None, None, None))
        return job

    async def shutdown_default_executor(self, *args: Any) -> None:
        """The same, with the clock held until the threads have ended."""
        with self._clock.hold():
            await super().shutdown_default_executor(*args)


class _JumpingSelector(selectors.DefaultSelector):
    """Where a loop waits: nothing is ready, so time may jump instead."""

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__()
        self._clock = clock

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """What is ready now, or after work outside has ended, or nothing and a later time."""
        ready = super().select(0)
        if ready or timeout == 0:
            return ready
        if self._clock.is_held:
            ready = self._wait(self._clock.patience_s)
            if ready or not self._clock.is_held:
                return ready
        if self._clock.jump(timeout):
            return []
        ready = self._wait(STUCK_S)
        if not ready:
            raise RuntimeError("everybody waits, nobody sleeps, and nothing happens: this would never end")
        return ready

    def _wait(self, seconds: float) -> list[tuple[selectors.SelectorKey, int]]:
        """Wait in real time."""
        end = monotonic() + seconds
        while not (ready := super().select(max(0.0, end - monotonic()))) and monotonic() < end:
            pass
        return ready
