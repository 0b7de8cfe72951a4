"""What happens at the same moment: a run ends while somebody speaks to it, or somebody else takes it over."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tercet.contracts.errors import UsageError
from tercet.journal.errors import JournalUnavailable, LeaseLost
from tercet.journal.memory import MemoryJournal
from tercet.journal.protocol import Append, Lease, Position

from .faults import Through
from .test_limits import taking
from .workshop import ADA, ASK, BOB, Workshop, plan, step

ONE = plan(step("a"))


class SlowPost(Through):
    """A journal in which a letter takes longer than the run that it is for."""

    def __init__(self) -> None:
        super().__init__(MemoryJournal())
        self.is_posted = asyncio.Event()
        self.is_over = asyncio.Event()

    async def append(self, unit: Append) -> Position:
        """The same, once the run is over."""
        if unit.stream.startswith("inbox:"):
            self.is_posted.set()
            await self.is_over.wait()
        return await self.inner.append(unit)


async def test_whoever_speaks_to_a_run_that_ends_meanwhile_is_answered(workshop: Workshop) -> None:
    """A letter that arrives when the run has just ended is answered with how it ended, and nobody waits for ever."""

    journal = SlowPost()

    async def until_posted(_: Any, params: dict[str, Any]) -> Any:
        await journal.is_posted.wait()
        return params

    workshop.tool("do.it", until_posted)
    async with workshop.runtime(workshop.pack(), journal.itself) as runtime:
        running = asyncio.ensure_future(runtime.run(ASK, plan=ONE, actor=ADA))
        await workshop.clock.sleep(1)
        [row] = await runtime.sessions()
        pausing = asyncio.ensure_future(runtime.pause(row.session_id, actor=BOB))
        assert (await running).status == "completed"
        journal.is_over.set()
        async with asyncio.timeout(600):
            with pytest.raises(UsageError) as caught:
                await pausing
        assert caught.value.code == "session_over"


class Broken(Through):
    """A journal that refuses one append of a session once a test says so."""

    is_broken = False

    async def append(self, unit: Append) -> Position:
        """The same, but for one."""
        if self.is_broken and unit.stream.startswith("ses_"):
            self.is_broken = False
            raise JournalUnavailable("memory", "the disk is gone")
        return await self.inner.append(unit)


async def test_whoever_waits_for_a_run_that_breaks_is_not_forgotten(workshop: Workshop) -> None:
    """A run whose journal fails answers nobody; who spoke to it hears from the journal itself."""
    workshop.tool("do.it", taking(1_000))

    journal = Broken(MemoryJournal())
    async with workshop.runtime(workshop.pack(), journal.itself) as runtime:
        running = asyncio.ensure_future(runtime.run(ASK, plan=ONE, actor=ADA))
        await workshop.clock.sleep(1)
        [row] = await runtime.sessions()
        journal.is_broken = True
        cancelling = asyncio.ensure_future(runtime.cancel(row.session_id, actor=BOB))
        with pytest.raises(JournalUnavailable):
            await running
        async with asyncio.timeout(600):
            await cancelling
        assert (await runtime.state(row.session_id)).ending == "cancelled"


class Unreadable(Through):
    """A journal whose board cannot be read while a test looks at who waits meanwhile."""

    def __init__(self) -> None:
        super().__init__(MemoryJournal())
        self.goes_on = asyncio.Event()
        self.is_asked = asyncio.Event()

    async def change_count(self, tenant: str) -> int:
        """Nothing, once the test says so."""
        self.is_asked.set()
        await self.goes_on.wait()
        raise JournalUnavailable("memory", f"the bell of {tenant} is gone")


async def test_whoever_waits_for_a_run_that_never_begins_is_not_forgotten(workshop: Workshop) -> None:
    """A run that fails before its first turn lets go of those who spoke to it."""
    workshop.tool("do.it", taking(8_000), idempotent=True)

    inner = MemoryJournal()
    async with workshop.runtime(workshop.pack(), inner) as first:
        running = asyncio.ensure_future(first.run(ASK, plan=ONE, actor=ADA))
        await workshop.clock.sleep(1)
        first.stop()
        session = (await running).session_id
    journal = Unreadable()
    journal.inner = inner
    async with workshop.runtime(workshop.pack(), journal.itself) as runtime:
        resuming = asyncio.ensure_future(runtime.resume(session))
        await journal.is_asked.wait()
        cancelling = asyncio.ensure_future(runtime.cancel(session, actor=BOB))
        await workshop.clock.sleep(1)
        journal.goes_on.set()
        with pytest.raises(JournalUnavailable):
            await resuming
        async with asyncio.timeout(600):
            await cancelling
        assert (await runtime.state(session)).ending == "cancelled"


class TakenOver(Through):
    """A journal in which somebody else has every lease by the time that it would be renewed."""

    async def renew(self, lease: Lease, *, now_ms: int, ttl_ms: int) -> Lease:
        """Never."""
        raise LeaseLost(stream=lease.stream, epoch=lease.epoch, current=lease.epoch + 1)


async def test_a_driver_whose_lease_is_lost_begins_nothing_more(workshop: Workshop) -> None:
    """When a lease turns out to be lost while a call is under way, its session is let go of and nothing more is called."""
    workshop.tool("do.it", taking(8_000), idempotent=True)
    row = plan(step("a"), step("b", depends_on=("a",)))

    journal = TakenOver(MemoryJournal())
    async with workshop.runtime(workshop.pack(), journal.itself) as runtime:
        assert (await runtime.run(ASK, plan=row, actor=ADA)).status == "paused"
    assert workshop.calls == [("a", 1)]


class Unrenewed(Through):
    """A journal in which the first lease that somebody wants to renew can never be renewed."""

    first: Lease | None = None

    async def renew(self, lease: Lease, *, now_ms: int, ttl_ms: int) -> Lease:
        """The same for everybody else."""
        self.first = self.first or lease
        if lease.epoch == self.first.epoch:
            raise JournalUnavailable("memory", "it does not answer")
        return await self.inner.renew(lease, now_ms=now_ms, ttl_ms=ttl_ms)

    async def head(self, tenant: str, stream: str) -> Position:
        """The same, after everybody else."""
        await asyncio.sleep(0)
        return await self.inner.head(tenant, stream)


async def test_a_driver_that_was_taken_over_does_not_dismiss_the_one_that_took_over(
    workshop: Workshop,
) -> None:
    """Two resume one session here: when the one whose lease ran out ends, the other is still the one that carries it."""
    workshop.tool("do.it", taking(25_000), idempotent=True, timeout_ms=60_000)

    journal = Unrenewed(MemoryJournal())
    async with workshop.runtime(workshop.pack(), journal.itself) as runtime:
        running = asyncio.ensure_future(runtime.run(ASK, plan=ONE, actor=ADA))
        await workshop.clock.sleep(1)
        runtime.stop()
        session = (await running).session_id
        both = [asyncio.ensure_future(runtime.resume(session)) for _ in range(2)]
        done, [carrying] = await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        assert [type(each.exception()) for each in done] == [LeaseLost]
        with pytest.raises(UsageError) as caught:
            await runtime.resume(session)
        assert caught.value.code == "session_busy"
        assert (await carrying).status == "completed"
