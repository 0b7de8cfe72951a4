"""A clock for tests: time stops while there is work, and jumps ahead when every task sleeps.

    clock = VirtualClock()
    clock.run(main())            # a run that backs off for an hour takes no time

`run` drives its own event loop. Whenever that loop has nothing left to do but wait, the clock moves to the moment at
which the first sleeper wakes; timers of asyncio itself (`asyncio.sleep`, `asyncio.wait(timeout=…)`) count as sleepers.
Work outside the loop is waited for: jobs in the loop's threads automatically, anything else inside `hold`. On any other
loop time moves only with `advance`.
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
"""The start of virtual time: 1 January 2026, in UTC."""
STUCK_S = 60.0
"""How many real seconds may pass without any event before `run` gives up."""


class VirtualClock:
    """A `Clock` with virtual time. `patience_s` is how long, in real seconds, work outside the loop may take before
    time continues without it: a thread that hangs must not block the timeout that ends it.
    """

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
        """Return the elapsed virtual time in milliseconds; `shift_wall` does not change it."""
        return self._now - self._start

    def shift_wall(self, ms: int) -> None:
        """Set the wall clock forward or back, as a time server does: no sleeper wakes up, and no time passes."""
        self._shift += ms

    async def sleep(self, ms: int) -> None:
        """Wait until this much virtual time has passed; sleeping for zero lets other tasks run once."""
        if ms <= 0:
            await asyncio.sleep(0)
            return
        waking: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._now + ms, next(self._numbers), waking))
        await waking

    def advance(self, ms: int) -> None:
        """Let time pass, and wake all sleepers that are due."""
        self._now += ms
        while self._sleepers and self._sleepers[0][0] <= self._now:
            waking = heapq.heappop(self._sleepers)[2]
            if not waking.done():
                waking.set_result(None)

    @contextmanager
    def hold(self) -> Generator[None, None, None]:
        """Stop time while something that the loop cannot see is at work."""
        self._held += 1
        try:
            yield
        finally:
            self._held -= 1

    def run(self, main: Coroutine[Any, Any, _T]) -> _T:
        """Run a coroutine to its end, as `asyncio.run` does, in virtual time."""
        with asyncio.Runner(loop_factory=lambda: _VirtualLoop(self)) as runner:
            return runner.run(main)

    # --- used by the loop ---

    @property
    def elapsed_s(self) -> float:
        """The elapsed time in seconds; small enough for a float to be exact."""
        return (self._now - self._start) / 1000

    @property
    def is_held(self) -> bool:
        """Whether work outside the loop is in progress."""
        return self._held > 0

    @property
    def patience_s(self) -> float:
        """How long to wait for work outside the loop."""
        return self._patience_s

    def jump(self, timer_s: float | None) -> bool:
        """Move to the first sleeper, or to the loop's next timer if that is earlier; False if there is no sleeper."""
        while self._sleepers and self._sleepers[0][2].done():
            heapq.heappop(self._sleepers)  # cancelled
        waits = [self._sleepers[0][0] - self._now] if self._sleepers else []
        if timer_s is not None:
            waits.append(math.ceil(round(timer_s * 1000, 3)))
        if waits:
            self.advance(max(1, min(waits)))
        return bool(waits)


class _VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop in virtual time, which counts the jobs of its threads as work that time waits for."""

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock
        super().__init__(_JumpingSelector(clock))

    def time(self) -> float:
        """Return the virtual time in seconds since its start."""
        return self._clock.elapsed_s

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:
        """Run a job with the clock held until it has ended."""
        holding = self._clock.hold()
        holding.__enter__()
        job = super().run_in_executor(executor, func, *args)
        job.add_done_callback(lambda _: holding.__exit__(None, None, None))
        return job

    async def shutdown_default_executor(self, *args: Any) -> None:
        """Shut down the executor with the clock held until the threads have ended."""
        with self._clock.hold():
            await super().shutdown_default_executor(*args)


class _JumpingSelector(selectors.DefaultSelector):
    """The selector of a loop: if nothing is ready, time jumps instead of waiting."""

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__()
        self._clock = clock

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Return what is ready now, or after work outside has ended, or nothing at a later time."""
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
            raise RuntimeError("deadlock: every task waits, no task sleeps, and nothing happens")
        return ready

    def _wait(self, seconds: float) -> list[tuple[selectors.SelectorKey, int]]:
        """Wait in real time."""
        end = monotonic() + seconds
        while not (ready := super().select(max(0.0, end - monotonic()))) and monotonic() < end:
            pass
        return ready
