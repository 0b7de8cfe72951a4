"""Calls that were given the same time share a timer, and each expires in its own time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

import pytest

from tercet.executor.timers import SharedTimers


class Call:
    """Something that has to end in time, and notes when it did not."""

    def __init__(self, note: Callable[[], object]) -> None:
        self._note = note

    def expire(self) -> None:
        """Note it."""
        self._note()


class Loop(asyncio.SelectorEventLoop):
    """An event loop whose clock is set by hand, and which counts the timers that it was asked for."""

    now = 100.0
    timers = 0

    def time(self) -> float:
        """Return the time that was set."""
        return self.now

    def call_at(self, *args: object, **kwargs: object) -> asyncio.TimerHandle:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Count the timer."""
        self.timers += 1
        return super().call_at(*args, **kwargs)  # pyright: ignore[reportArgumentType, reportCallIssue]


@pytest.fixture
def loop() -> Iterator[Loop]:
    """A loop of our own, closed at the end."""
    made = Loop()
    yield made
    made.close()


async def at(loop: Loop, now: float) -> None:
    """Set the clock, and let the loop look at its timers."""
    loop.now = now
    for _ in range(3):
        await asyncio.sleep(0)


def test_each_call_expires_in_its_own_time(loop: Loop) -> None:
    """With one timer for two calls, the second still has all of its time; one that has ended does not expire."""

    async def run() -> list[str]:
        timers, expired = SharedTimers(), list[str]()
        calls = {name: Call(lambda name=name: expired.append(f"{name} at {loop.now:g}")) for name in "abcd"}
        timers.start(1_000, calls["a"])
        loop.now = 100.5
        ended = timers.start(1_000, calls["b"])
        timers.start(1_000, calls["c"])
        timers.start(200, calls["d"])
        assert loop.timers == 2
        await at(loop, 100.7)
        timers.stop(ended, calls["b"])
        await at(loop, 101.0)
        await at(loop, 101.4)
        await at(loop, 101.5)
        return expired

    assert loop.run_until_complete(run()) == ["d at 100.7", "a at 101", "c at 101.5"]


def test_no_timer_is_left_when_all_calls_have_ended(loop: Loop) -> None:
    """The last call that ends takes the timer with it, and the next one has a new one."""

    async def run() -> int:
        timers, call = SharedTimers(), Call(lambda: pytest.fail("it has ended"))
        for _ in range(2):
            key = timers.start(1_000, call)
            timers.stop(key, call)
            timers.stop(key, call)
        await at(loop, 200.0)
        return loop.timers

    assert loop.run_until_complete(run()) == 2


def test_a_call_may_begin_another_when_it_expires(loop: Loop) -> None:
    """What is begun while calls expire has all of its time."""

    async def run() -> list[float]:
        timers, expired = SharedTimers(), list[float]()
        second = Call(lambda: expired.append(loop.now))
        timers.start(1_000, Call(lambda: timers.start(1_000, second)))
        await at(loop, 101.0)
        assert not expired
        await at(loop, 102.0)
        return expired

    assert loop.run_until_complete(run()) == [102.0]
