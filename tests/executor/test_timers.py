"""Calls that were given about the same time share a timer, and each expires in its own time."""

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

    def __init__(self) -> None:
        super().__init__()
        self.handles: list[asyncio.TimerHandle] = []

    def left(self) -> int:
        """Return how many timers have still to end."""
        return sum(not each.cancelled() and each.when() > self.now for each in self.handles)

    def time(self) -> float:
        """Return the time that was set."""
        return self.now

    def call_at(self, *args: object, **kwargs: object) -> asyncio.TimerHandle:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Count the timer."""
        self.timers += 1
        self.handles.append(super().call_at(*args, **kwargs))  # pyright: ignore[reportArgumentType, reportCallIssue]
        return self.handles[-1]


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


def test_a_call_that_is_given_less_time_expires_first(loop: Loop) -> None:
    """Two calls that share a timer, of which the second has less time left, expire in the order of their ends."""

    async def run() -> list[str]:
        timers, expired = SharedTimers(), list[str]()
        calls = {name: Call(lambda name=name: expired.append(f"{name} at {loop.now:g}")) for name in "ab"}
        timers.start(1_400, calls["a"])
        timers.start(1_100, calls["b"])
        for now in (101.0, 101.1, 101.3, 101.4):
            await at(loop, now)
        return expired

    assert loop.run_until_complete(run()) == ["b at 101.1", "a at 101.4"]


def test_calls_one_after_the_other_share_a_timer(loop: Loop) -> None:
    """The timer of the last call that ended serves the next one, which has all of its time."""

    async def run() -> list[float]:
        timers, expired = SharedTimers(), list[float]()
        ended = Call(lambda: pytest.fail("it has ended"))
        for _ in range(2):
            key = timers.start(1_000, ended)
            timers.stop(key, ended)
            timers.stop(key, ended)
        loop.now = 100.5
        timers.start(1_000, Call(lambda: expired.append(loop.now)))
        assert loop.timers == 1
        await at(loop, 101.0)
        assert not expired
        await at(loop, 101.5)
        return expired

    assert loop.run_until_complete(run()) == [101.5]


def test_one_timer_at_most_is_left_when_all_calls_have_ended(loop: Loop) -> None:
    """Calls that were given other times leave none behind, and the last one ends by itself."""

    async def run() -> tuple[int, int]:
        timers, call = SharedTimers(), Call(lambda: pytest.fail("it has ended"))
        for timeout_ms in range(1_000, 6_000, 1_000):
            timers.stop(timers.start(timeout_ms, call), call)
        left = loop.left()
        await at(loop, 200.0)
        return left, loop.left()

    assert loop.run_until_complete(run()) == (1, 0)


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
