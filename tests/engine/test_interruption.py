"""Somebody else's code hangs: whoever wants the run to stop is heard all the same, and a broken journal is no such wish."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from tercet.contracts.plan import Plan
from tercet.core.config import RunConfig
from tercet.engine.control import Control, Interrupted, unless_interrupted
from tercet.journal.errors import JournalUnavailable
from tercet.journal.memory import MemoryJournal

from .faults import Through
from .test_interview import GOOD, Scripted, Thinker
from .workshop import ADA, ASK, BOB, Workshop, names, plan, step
from .workshop import events as events_of

HOUR_MS = 3_600_000


class Hanging:
    """A planner that does not come back from its first try."""

    name = "hanging"

    def __init__(self, workshop: Workshop) -> None:
        self._clock = workshop.clock
        self.tries = 0

    async def propose(self, config: RunConfig, feedback: tuple[str, ...]) -> Plan:
        """A plan of one step, the second time."""
        del config, feedback
        self.tries += 1
        if self.tries == 1:
            await self._clock.sleep(HOUR_MS)
        return plan(step("a"))


@pytest.mark.parametrize("how", ["stop", "pause"])
async def test_a_planner_that_hangs_can_be_let_go_of(workshop: Workshop, how: str) -> None:
    """The run is paused at once and not failed when the planner's time is over; resumed, it is planned anew."""
    workshop.tool("do.it")

    planner = Hanging(workshop)
    async with workshop.runtime(workshop.pack()) as runtime:
        running = asyncio.ensure_future(runtime.run(ASK, planner=planner, actor=ADA))
        await workshop.clock.sleep(10)
        [row] = await runtime.sessions()
        if how == "stop":
            runtime.stop()
        else:
            await runtime.pause(row.session_id, actor=BOB)
        assert (await running).status == "paused"
        assert "planning_failed" not in names(await events_of(runtime.journal, row.session_id))
        assert (await runtime.resume(row.session_id, planner=planner)).status == "completed"


async def test_a_planner_that_hangs_can_be_cancelled(workshop: Workshop) -> None:
    """The run ends as cancelled while its planner still thinks."""

    async with workshop.runtime(workshop.pack()) as runtime:
        running = asyncio.ensure_future(runtime.run(ASK, planner=Hanging(workshop), actor=ADA))
        await workshop.clock.sleep(10)
        [row] = await runtime.sessions()
        await runtime.cancel(row.session_id, actor=BOB)
        assert (await running).status == "cancelled"


class DeafInbox(Through):
    """A journal that fails to read an inbox once."""

    is_failing = False

    async def read(self, tenant: str, stream: str, **named: Any) -> Any:
        """The same, but for once."""
        if self.is_failing and stream.startswith("inbox:"):
            self.is_failing = False
            raise JournalUnavailable("memory", "the disk hiccups")
        return await self.inner.read(tenant, stream, **named)


async def test_a_broken_journal_is_told_while_a_model_is_asked(workshop: Workshop) -> None:
    """That the inbox cannot be read is raised, and not taken for a wish to stop; the session can be resumed."""
    workshop.tool("do.it", mode="read_only")

    journal = DeafInbox(MemoryJournal())

    async def slow(_: Any) -> str:
        await workshop.clock.sleep(2_000)
        return GOOD

    planner = Thinker(Scripted(slow, GOOD))
    async with workshop.runtime(workshop.pack(), journal.itself) as runtime:
        running = asyncio.ensure_future(runtime.run(ASK, planner=planner, actor=ADA))
        await workshop.clock.sleep(10)
        [row] = await runtime.sessions()
        journal.is_failing = True
        await runtime.halt("tool", "other.it", actor=BOB)  # rings for every run of the tenant
        with pytest.raises(JournalUnavailable):
            await running
        assert (await runtime.resume(row.session_id, planner=planner)).status == "completed"


class Session:
    """Somebody who is never let go of, or always."""

    def __init__(self, *, is_let_go: bool) -> None:
        self._is_let_go = is_let_go

    async def interrupted(self) -> None:
        """At once, or never."""
        if not self._is_let_go:
            await asyncio.Event().wait()


async def test_work_that_cancels_itself_is_told_as_its_own_fault(workshop: Workshop) -> None:
    """A task that was cancelled by its own code does not look as if whoever waits for it had been cancelled."""

    async def work() -> None:
        raise asyncio.CancelledError

    with pytest.raises(RuntimeError, match="cancelled by its own code"):
        await unless_interrupted(cast("Control", Session(is_let_go=False)), work())


async def test_what_is_given_up_and_fails_later_is_taken_note_of(workshop: Workshop) -> None:
    """Work that holds on and then fails leaves no unread exception behind when nobody waits for it any more."""
    unread: list[dict[str, Any]] = []

    async def stubborn() -> None:
        try:
            await workshop.clock.sleep(HOUR_MS)
        except asyncio.CancelledError:
            await workshop.clock.sleep(60_000)
            raise OSError("too late") from None

    asyncio.get_running_loop().set_exception_handler(lambda _, told: unread.append(told))
    with pytest.raises(Interrupted):
        await unless_interrupted(cast("Control", Session(is_let_go=True)), stubborn())
    await workshop.clock.sleep(120_000)
    assert unread == []
