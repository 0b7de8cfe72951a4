"""A journal that fails once, at every place where it is asked: whoever asks again comes to the same end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, TypeVar

import pytest

from tercet.contracts.errors import UsageError
from tercet.contracts.gate import Gate
from tercet.core import codec
from tercet.core import events as e
from tercet.core.messages import Extend, inbox_of
from tercet.engine import inbox
from tercet.executor.clock import Clock
from tercet.journal.errors import JournalUnavailable
from tercet.journal.memory import MemoryJournal
from tercet.journal.protocol import Append, Journal, Lease, Position
from tercet.runtime import Runtime

from .faults import FAULTS, Fault, Faulty, Through
from .test_interview import GOOD, Scripted, Thinker
from .test_limits import taking
from .workshop import ADA, ASK, BOB, Workshop, plan, step

_T = TypeVar("_T")
ROW = plan(step("a"), step("b", depends_on=("a",)))
GATED = plan(step("a"), step("g", "net.it", depends_on=("a",)))


async def insist(act: Callable[[], Awaitable[_T]]) -> _T:
    """What somebody does whose journal did not answer: the same once more."""
    try:
        return await act()
    except JournalUnavailable:
        return await act()


async def carry(runtime: Runtime, **start: Any) -> str:
    """Run something, or go on with it where it is there already."""

    async def act() -> str:
        [row] = await runtime.sessions(limit=1) or [None]
        if row is None:
            return (await runtime.run(ASK, actor=ADA, **start)).status
        planner = {"planner": start["planner"]} if "planner" in start else {}
        return (await runtime.resume(row.session_id, **planner)).status

    return await insist(act)


async def in_a_row(runtime: Runtime) -> str:
    """Two calls."""
    return await carry(runtime, plan=ROW)


async def at_a_gate(runtime: Runtime) -> str:
    """A call that somebody has to approve."""
    assert await carry(runtime, plan=GATED) == "awaiting_gate"
    [row] = await insist(runtime.sessions)

    async def approve() -> None:
        for gate in (await runtime.state(row.session_id)).gates:
            with suppress(UsageError):  # it was heard the first time
                await runtime.approve(gate, actor=BOB)

    await insist(approve)
    return await carry(runtime)


async def with_a_model(runtime: Runtime) -> str:
    """A plan that a language model makes."""
    return await carry(runtime, planner=Thinker(Scripted(GOOD, GOOD)))


async def called_off(runtime: Runtime) -> str:
    """A run that somebody cancels while its first call is under way."""
    running = asyncio.ensure_future(carry(runtime, plan=ROW))
    await asyncio.sleep(0.005)  # of virtual time
    [row] = await insist(runtime.sessions)

    async def cancel() -> None:
        with suppress(UsageError):  # it was heard the first time
            await runtime.cancel(row.session_id, actor=BOB)

    await insist(cancel)
    await running
    # Where nobody knows what became of the call, a person is asked before it is over.
    return (await insist(lambda: runtime.state(row.session_id))).ending


SCENES = {
    "in a row": in_a_row,
    "at a gate": at_a_gate,
    "with a model": with_a_model,
    "called off": called_off,
}


def furnish(workshop: Workshop) -> Any:
    """Tools whose effects happen once for each key."""
    workshop.tool("do.it", taking(10), idempotent=True)
    workshop.tool(
        "net.it", mode="network", gates=("BOSS",), authority=(), idempotent=True, no_compensation="it tells"
    )
    return workshop.pack(gates=(Gate(name="BOSS", roles=("boss",)),))


def played(scene: str, nth: int, fault: Fault = "unavailable") -> tuple[str, int, int]:
    """How a scene ends on a journal that fails at the nth question: its status, its effects, how much was asked."""
    workshop = Workshop()
    pack = furnish(workshop)

    async def main() -> tuple[str, int, int]:
        journal = Faulty(MemoryJournal(), nth, fault)
        async with workshop.runtime(pack, journal.itself) as runtime:
            status, asked = await SCENES[scene](runtime), journal.asked
            [row] = await journal.inner.sessions("default")
            assert status in (row.status, (await runtime.state(row.session_id)).ending)
            stored = await journal.inner.read("default", row.session_id)
            events = [codec.decode(each.data) for each in stored]
            assert {*workshop.keys} <= {event.key for event in events if isinstance(event, e.Intent)}
            return status, len(set(workshop.keys)), asked

    return workshop.run(main())


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("scene", SCENES)
def test_a_journal_that_fails_once_changes_no_end(scene: str, fault: Fault) -> None:
    """At whichever question it fails, the run raises that or goes on; asked again, it ends as it would have, each effect once.

    No call is made without its INTENT, and no end is reported that the journal does not hold.
    """
    status, effects, asked = played(scene, 0)
    assert status == ("cancelled" if scene == "called off" else "completed")
    assert asked > 5
    for nth in range(1, asked + 1):
        ended, happened, _ = played(scene, nth, fault)
        assert ended == status, f"it failed at question {nth}"
        # A run that raises before its first call may be called off before it makes one.
        is_called_off = scene == "called off" and fault != "unavailable"
        assert happened in (effects, 0 if is_called_off else effects), f"it failed at question {nth}"


class Late(Through):
    """A journal that answers the nth append only after half a minute."""

    def __init__(self, journal: Journal, nth: int, clock: Clock) -> None:
        super().__init__(journal)
        self.appends = 0
        self._nth = nth
        self._clock = clock

    async def append(self, unit: Append) -> Position:
        """Append, and wait if it is the one that is late."""
        self.appends += 1
        if self.appends == self._nth:
            await self._clock.sleep(30_000)
        return await self.inner.append(unit)


def late(nth: int) -> tuple[str, list[str], int]:
    """How two calls in a row end where the nth append takes half a minute: status, keys of the calls, appends."""
    workshop = Workshop()
    workshop.tool("do.it", timeout_ms=1_000, mode="local_write", no_compensation="it is counted")
    pack = workshop.pack()

    async def main() -> tuple[str, list[str], int]:
        journal = Late(MemoryJournal(), nth, workshop.clock)
        async with workshop.runtime(pack, journal.itself) as runtime:
            status = (await runtime.run(ASK, actor=ADA, plan=ROW)).status
            return status, list(workshop.keys), journal.appends

    return workshop.run(main())


def test_a_run_goes_on_after_its_journal_was_away_for_half_a_minute() -> None:
    """Also where the INTENT of a call becomes durable after the call's deadline: the call is made with another INTENT."""
    status, keys, appends = late(0)
    assert (status, len(keys)) == ("completed", 2)
    for nth in range(1, appends + 1):
        status, keys, _ = late(nth)
        assert (status, len(keys)) == ("completed", 2), f"append {nth} was late"


async def test_two_equal_messages_have_different_bytes_in_the_inbox() -> None:
    """The inbox has no lease, so that after a lost connection only its bytes tell whose message was stored."""

    journal, said = MemoryJournal(), Extend(session="ses_1", actor="ada", more={"tool_calls": 1})
    for _ in range(2):
        await inbox.post(journal, "default", said)
    first, second = await journal.read("default", inbox_of("ses_1"))
    assert first.data != second.data


class Gone(Through):
    """A journal that is away from the first append on; it counts what it is asked after that."""

    asked = 0
    is_gone = False

    async def append(self, unit: Append) -> Position:
        """Go away."""
        self.is_gone = True
        raise JournalUnavailable("memory", f"{unit.stream} cannot be written")

    async def release(self, lease: Lease) -> None:
        """Count, and let nobody through."""
        self.asked += self.is_gone
        raise JournalUnavailable("memory", f"{lease.stream} cannot be released")


def test_a_run_whose_journal_is_away_does_not_wait_for_it_twice() -> None:
    """It raises after the first wait; its lease runs out by itself."""
    workshop = Workshop()
    pack = furnish(workshop)

    async def main() -> int:
        journal = Gone(MemoryJournal())
        async with workshop.runtime(pack, journal.itself) as runtime:
            with pytest.raises(JournalUnavailable):
                await runtime.run(ASK, actor=ADA, plan=ROW)
        return journal.asked

    assert workshop.run(main()) == 0
