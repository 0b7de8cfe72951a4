"""The clocks: one that tells the time, and one that makes it up."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from tercet.executor.clock import AnchoredClock, Clock, SystemClock
from tercet.testing.clock import EPOCH_MS, VirtualClock

HOUR_MS = 3_600_000


async def test_the_system_clock_tells_both_kinds_of_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wall time is the machine's, also when it is set back; monotonic time goes on regardless."""
    clock: Clock = SystemClock()
    wall = iter([1_000.0, 5_000.0, 400.0])
    monkeypatch.setattr(time, "time_ns", lambda: int(next(wall) * 1e9))
    assert [clock.now() for _ in range(3)] == [1_000_000, 5_000_000, 400_000]
    times = [clock.monotonic() for _ in range(1_000)]
    assert times == sorted(times)
    await clock.sleep(-5)


@pytest.mark.parametrize("shift_ms", [-HOUR_MS, HOUR_MS])
def test_an_anchored_clock_does_not_follow_a_jump(shift_ms: int) -> None:
    """It goes on from where it began, and begins no earlier than it is told."""
    source = VirtualClock()
    clock = AnchoredClock(source)
    source.advance(1_000)
    source.shift_wall(shift_ms)
    source.advance(1_000)
    assert clock.now() == EPOCH_MS + 2_000
    assert source.now() == EPOCH_MS + 2_000 + shift_ms
    later = AnchoredClock(source, earliest=EPOCH_MS + 2 * HOUR_MS)
    source.advance(5)
    assert (later.now(), later.monotonic()) == (EPOCH_MS + 2 * HOUR_MS + 5, 2_005)


def test_virtual_time_passes_only_while_everybody_sleeps() -> None:
    """An hour goes by in no time, in the order in which the sleepers wake."""
    clock = VirtualClock()
    woken: list[tuple[str, int]] = []

    async def sleeper(name: str, ms: int) -> None:
        await clock.sleep(ms)
        woken.append((name, clock.now() - EPOCH_MS))

    async def main() -> None:
        await asyncio.gather(sleeper("late", 3_600_000), sleeper("early", 5), sleeper("now", 0))

    clock.run(main())
    assert woken == [("now", 0), ("early", 5), ("late", 3_600_000)]


def test_work_takes_no_virtual_time() -> None:
    """However often tasks hand over to each other, the clock stands still."""
    clock = VirtualClock()

    async def main() -> None:
        sleeping = asyncio.ensure_future(clock.sleep(10))
        for _ in range(1_000):
            await asyncio.sleep(0)
        assert clock.now() == EPOCH_MS
        await sleeping
        assert clock.now() == EPOCH_MS + 10

    clock.run(main())


def test_asyncios_own_timers_follow_virtual_time() -> None:
    """Timeouts and `asyncio.sleep` of code that has never heard of this clock are sleepers too."""
    clock = VirtualClock()

    async def main() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(2.5):
                await clock.sleep(60_000)
        assert clock.now() - EPOCH_MS == 2_500
        await asyncio.sleep(0.25)
        assert clock.now() - EPOCH_MS == 2_750

    clock.run(main())


def test_a_cancelled_sleeper_holds_no_place() -> None:
    """Time goes on to the next one who still sleeps."""
    clock = VirtualClock()

    async def main() -> None:
        sleeping = asyncio.ensure_future(clock.sleep(10))
        await asyncio.sleep(0)
        sleeping.cancel()
        await clock.sleep(500)
        assert clock.now() - EPOCH_MS == 500

    clock.run(main())


def test_time_waits_for_threads_and_for_whoever_holds_it() -> None:
    """A job of the loop's threads is work, and so is whatever happens inside `hold`."""
    clock = VirtualClock()

    async def main() -> None:
        sleeping = asyncio.ensure_future(clock.sleep(10))
        await asyncio.to_thread(time.sleep, 0.05)
        assert clock.now() == EPOCH_MS
        done = asyncio.Event()
        loop = asyncio.get_running_loop()
        with clock.hold():
            threading.Timer(0.05, loop.call_soon_threadsafe, [done.set]).start()
            await done.wait()
            assert clock.now() == EPOCH_MS
        await sleeping

    clock.run(main())


def test_patience_with_a_thread_that_hangs_runs_out() -> None:
    """After that time goes on without it."""
    clock = VirtualClock(patience_s=0.05)
    release = threading.Event()

    async def main() -> None:
        hanging = asyncio.ensure_future(asyncio.to_thread(release.wait, 30))
        await clock.sleep(1_000)
        release.set()
        await hanging

    clock.run(main())
    assert clock.now() == EPOCH_MS + 1_000


async def test_on_another_loop_time_moves_when_it_is_told_to() -> None:
    """There nobody knows when everybody sleeps, so a test says it."""
    clock = VirtualClock(start_ms=5)

    sleeping = asyncio.ensure_future(clock.sleep(100))
    await asyncio.sleep(0)
    clock.advance(99)
    await asyncio.sleep(0)
    assert not sleeping.done()
    clock.advance(1)
    await sleeping
    assert clock.now() == 105
