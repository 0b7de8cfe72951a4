"""Records beside a run that this version cannot read, since a newer one wrote them: nobody is poisoned by them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tercet.contracts.gate import Gate
from tercet.core import events as e
from tercet.core.messages import inbox_of
from tercet.engine.streams.stops import STREAM, EmergencyStops, Stop
from tercet.journal.memory import MemoryJournal
from tercet.journal.protocol import Journal
from tercet.journal.side_stream import append_next

from .faults import Through
from .test_interruption import Hanging
from .test_limits import taking
from .workshop import ADA, ASK, BOB, Workshop, events, plan, step

ONE = plan(step("a"))
BOSS = Gate(name="BOSS", roles=("boss",))
LETTERS = [
    b'{"type":"snooze","session":"x","actor":"zoe"}',
    b"no JSON at all",
    b'{"type":"pause","actor":"\xff"}',
]
NEWER_STOP = b'{"kind":"model","name":"some:model","by":"op","at":1}'


async def put(journal: Journal, stream: str, data: bytes) -> None:
    """Write something that nobody here knows, and ring."""
    await append_next(journal, "default", stream, data, notify=True)


@pytest.mark.parametrize("letter", LETTERS)
async def test_a_letter_that_cannot_be_read_is_dropped_and_the_next_is_heard(
    workshop: Workshop, letter: bytes
) -> None:
    """What nobody understands is written down as such, and the session hears what is said after it."""
    workshop.tool("do.it", mode="network", gates=("BOSS",), authority=(), no_compensation="it only tells")

    async with workshop.runtime(workshop.pack(gates=(BOSS,))) as runtime:
        session = (await runtime.run(ASK, plan=ONE, actor=ADA)).session_id
        await put(runtime.journal, inbox_of(session), letter)
        [gate] = (await runtime.state(session)).gates
        await runtime.approve(gate, actor=BOB)
        assert (await runtime.resume(session)).status == "completed"
        found = await events(runtime.journal, session)
        assert [event.code for event in found if isinstance(event, e.MessageDropped)] == ["unreadable"]


async def test_a_letter_that_cannot_be_read_disturbs_nobody_who_thinks(workshop: Workshop) -> None:
    """While a planner thinks, a letter that nobody understands lets it think on, and a pause after it is heard."""

    async with workshop.runtime(workshop.pack()) as runtime:
        running = asyncio.ensure_future(runtime.run(ASK, planner=Hanging(workshop), actor=ADA))
        await workshop.clock.sleep(10)
        [row] = await runtime.sessions()
        await put(runtime.journal, inbox_of(row.session_id), LETTERS[0])
        await workshop.clock.sleep(1_000)
        assert not running.done()
        await runtime.pause(row.session_id, actor=BOB)
        assert (await running).status == "paused"


async def test_a_stop_that_cannot_be_read_stops_the_tenant_until_it_is_lifted(workshop: Workshop) -> None:
    """Nobody here knows what it stops, so nothing is called; an operator who lifts the tenant's stop is obeyed."""
    workshop.tool("do.it", taking(3_000))
    row = plan(step("a"), step("b", depends_on=("a",)))

    async with workshop.runtime(workshop.pack()) as runtime:
        running = asyncio.ensure_future(runtime.run(ASK, plan=row, actor=ADA))
        await workshop.clock.sleep(10)
        await put(runtime.journal, STREAM, NEWER_STOP)
        result = await running
        assert result.status == "paused"
        assert "cannot be read" in result.reason
        assert workshop.calls == [("a", 1)]
        assert (await runtime.run(ASK, plan=ONE, actor=ADA)).status == "paused"
        await runtime.lift("tenant", "default", actor=BOB)
        assert (await runtime.resume(result.session_id)).status == "completed"


class Failing(Through):
    """A journal whose bell raises what no journal should, a few times."""

    times = 0

    async def change_count(self, tenant: str) -> int:
        """The same, later."""
        if self.times:
            self.times -= 1
            raise ZeroDivisionError("a bug")
        return await self.inner.change_count(tenant)


async def test_whoever_tends_the_runs_survives_whatever_is_raised(workshop: Workshop) -> None:
    """A fault while runs are looked after is signalled, and their leases are renewed all the same."""
    workshop.tool("do.it", taking(40_000), timeout_ms=60_000)
    failed: list[dict[str, Any]] = []

    def signal(name: str, told: dict[str, Any]) -> None:
        if name == "tending_failed":
            failed.append(told)

    journal = Failing(MemoryJournal())
    async with workshop.runtime(workshop.pack(), journal.itself, signal=signal) as runtime:
        running = asyncio.ensure_future(runtime.run(ASK, plan=ONE, actor=ADA))
        await workshop.clock.sleep(10)
        journal.times = 3
        assert (await running).status == "completed"
    assert failed == [{"error": "ZeroDivisionError: a bug"}] * 3


class OldPage(Through):
    """A journal in which one reader of a stream gets its page later than those who asked after it."""

    def __init__(self) -> None:
        super().__init__(MemoryJournal())
        self.is_slow = False
        self.goes_on = asyncio.Event()

    async def read(self, tenant: str, stream: str, **named: Any) -> Any:
        """The page as it was when it was asked for."""
        page = await self.inner.read(tenant, stream, **named)
        if self.is_slow:
            self.is_slow = False
            await self.goes_on.wait()
        return page


async def test_an_older_page_of_stops_does_not_undo_a_newer_one(workshop: Workshop) -> None:
    """Where two look at once, what was lifted is not stopped again because an older page came later."""
    stop = Stop(kind="tool", name="do.it", by="bob", at=1)

    journal = OldPage()
    writer = EmergencyStops(journal.itself, "default", "workshop")
    reader = EmergencyStops(journal.itself, "default", "workshop")
    await writer.write(stop)
    journal.is_slow = True
    slow = asyncio.ensure_future(reader.refresh())
    await asyncio.sleep(0)
    await writer.write(Stop(kind="tool", name="do.it", by="bob", at=2, is_lifted=True))
    await reader.refresh()
    journal.goes_on.set()
    await slow
    assert reader.stopped("do.it") is None
