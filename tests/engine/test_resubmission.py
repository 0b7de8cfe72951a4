"""Asking again: whoever is not sure whether a request arrived sends it again, and gets the session that it began."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tercet.contracts.errors import UsageError
from tercet.contracts.request import Request
from tercet.engine import sessions
from tercet.evidence.sqlite import SqliteEvidence
from tercet.journal.errors import AppendUnknown, JournalError, JournalFull
from tercet.journal.memory import MemoryJournal
from tercet.journal.protocol import Append, Position

from .faults import Through
from .test_limits import taking
from .test_sagas import WAITS, saga_pack, world
from .test_sessions import ROW, pair
from .workshop import ADA, BOB, Workshop, plan, step

KEYED = Request(intent="work", input={"order": "o1"}, request_key="order o1")


@pytest.mark.req("R213")
async def test_the_same_request_is_the_same_session(workshop: Workshop, file: str) -> None:
    """Sent again after it has completed, from another process, it brings the committed result and calls nothing."""
    workshop.tool("do.it")

    async with pair(workshop, workshop.pack(), file) as (one, two):
        first = await one.run(KEYED, plan=ROW, actor=ADA)
        again = await two.run(KEYED, plan=ROW, actor=ADA)
        assert first.status == "completed"
        assert again == first
        assert len(await one.sessions()) == 1
    assert len(workshop.calls) == 3


@pytest.mark.req("R213")
async def test_a_session_that_waits_is_found_as_it_stands(workshop: Workshop, url: str) -> None:
    """A request whose session waits at a gate, or was denied, brings that session and begins no other."""
    world(workshop)

    async with (
        workshop.journal(url) as journal,
        workshop.runtime(saga_pack(workshop), journal) as runtime,
    ):
        first = await runtime.run(KEYED, plan=WAITS, actor=ADA)
        again = await runtime.run(KEYED, plan=WAITS, actor=ADA)
        assert (again.session_id, again.status, again.gate) == (
            first.session_id,
            "awaiting_gate",
            first.gate,
        )
        assert first.gate is not None
        await runtime.deny(first.gate.id, actor=BOB)
        await runtime.resume(first.session_id)
        assert (await runtime.run(KEYED, plan=WAITS, actor=ADA)).status == "rejected"
        assert len(await runtime.sessions()) == 1


@pytest.mark.req("R213")
async def test_another_request_under_the_same_key_is_refused(workshop: Workshop, url: str) -> None:
    """Another input, another plan or none at all under a key that was used is wrong use, and names the session."""
    workshop.tool("do.it")
    other = KEYED.model_copy(update={"input": {"order": "o2"}})

    async with workshop.journal(url) as journal, workshop.runtime(workshop.pack(), journal) as runtime:
        first = await runtime.run(KEYED, plan=ROW, actor=ADA)
        for request, course in ((other, ROW), (KEYED, plan(step("z"))), (KEYED, None)):
            with pytest.raises(UsageError) as caught:
                await runtime.run(request, plan=course, actor=ADA)
            assert caught.value.code == "request_key_reused"
            assert first.session_id in caught.value.message
        fresh = await runtime.run(KEYED.model_copy(update={"request_key": "another"}), plan=ROW, actor=ADA)
        assert fresh.session_id != first.session_id


@pytest.mark.req("R213")
async def test_two_at_once_are_one_session(workshop: Workshop, file: str) -> None:
    """Two processes that get the same request in the same moment begin one session, and both name it."""
    workshop.tool("do.it", taking(1_000))

    async with pair(workshop, workshop.pack(), file) as (one, two):
        results = await asyncio.gather(
            one.run(KEYED, plan=ROW, actor=ADA), two.run(KEYED, plan=ROW, actor=ADA)
        )
        assert results[0].session_id == results[1].session_id
        assert "completed" in {result.status for result in results}
        [row] = await one.sessions()
        assert row.session_id == results[0].session_id
    assert len(workshop.calls) == 3


async def test_keys_of_tenants_are_their_own(workshop: Workshop, url: str) -> None:
    """The same key in two tenants is two requests."""
    workshop.tool("do.it")

    async with (
        workshop.journal(url) as journal,
        workshop.runtime(workshop.pack(), journal) as one,
        workshop.runtime(workshop.pack(), journal, tenant="elsewhere") as two,
    ):
        first = await one.run(KEYED, plan=ROW, actor=ADA)
        second = await two.run(KEYED, plan=ROW, actor=ADA)
        assert first.session_id != second.session_id
    assert len(workshop.calls) == 6


async def test_a_key_belongs_to_its_owner_and_its_pack(workshop: Workshop, file: str) -> None:
    """Another actor, or another pack, gets a session of its own and never the outputs of the first; a new version of
    the same pack gets the first one."""
    workshop.tool("do.it")
    course = plan(step("a"))

    packs = [
        workshop.pack(),
        workshop.pack(name="elsewhere"),
        workshop.pack(version="1.0.1"),
    ]
    async with (
        workshop.journal(file) as journal,
        workshop.runtime(packs[0], journal) as one,
        workshop.runtime(packs[1], journal) as other,
        workshop.runtime(packs[2], journal) as newer,
    ):
        first = await one.run(KEYED, plan=course, actor=ADA)
        bobs = await one.run(KEYED, plan=course, actor=BOB)
        elsewhere = await other.run(KEYED, plan=course, actor=ADA)
        assert len({first.session_id, bobs.session_id, elsewhere.session_id}) == 3
        assert (await one.run(KEYED, plan=course, actor=BOB)).session_id == bobs.session_id
        assert (await newer.run(KEYED, plan=course, actor=ADA)).session_id == first.session_id
    assert len(workshop.calls) == 3


async def test_a_key_that_older_code_claimed_is_found_by_its_owner_alone(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An upgrade runs no request twice, and hands no session to another actor or pack."""
    workshop.tool("do.it")
    course = plan(step("a"))

    def claims_of(request: Request, *_: object) -> tuple[str, ...]:
        return (f"request:{request.request_key}",)

    journal = MemoryJournal()
    async with (
        workshop.runtime(workshop.pack(), journal) as runtime,
        workshop.runtime(workshop.pack(name="elsewhere"), journal) as other,
    ):
        with monkeypatch.context() as older:
            older.setattr(sessions, "claims_of", claims_of)
            first = await runtime.run(KEYED, plan=course, actor=ADA)
        assert (await runtime.run(KEYED, plan=course, actor=ADA)).session_id == first.session_id
        assert (await runtime.run(KEYED, plan=course, actor=BOB)).session_id != first.session_id
        assert (await other.run(KEYED, plan=course, actor=ADA)).session_id != first.session_id
    assert len(workshop.calls) == 3


async def test_a_request_that_is_sent_again_continues_its_session(workshop: Workshop, file: str) -> None:
    """Once its gate is answered, and after its process has died."""
    world(workshop)

    async with pair(workshop, saga_pack(workshop), file) as (one, two):
        first = await one.run(KEYED, plan=WAITS, actor=ADA)
        assert (await two.run(KEYED, plan=WAITS, actor=ADA)).status == "awaiting_gate"
        assert first.gate is not None
        await one.approve(first.gate.id, actor=BOB)
        again = await two.run(KEYED, plan=WAITS, actor=ADA)
        assert (again.session_id, again.status) == (first.session_id, "completed")
        assert len(await one.sessions()) == 1


async def test_a_session_that_a_person_paused_is_not_continued_by_its_request(
    workshop: Workshop, file: str
) -> None:
    """Sending it again reports that it is paused; resuming it is somebody's decision."""
    workshop.tool("do.it", taking(1_000))

    async with pair(workshop, workshop.pack(), file) as (one, two):
        running = asyncio.ensure_future(one.run(KEYED, plan=ROW, actor=ADA))
        await workshop.clock.sleep(500)
        [row] = await two.sessions()
        assert (await two.run(KEYED, plan=ROW, actor=ADA)).status == "in_progress"
        await two.pause(row.session_id, actor=BOB)
        assert (await running).status == "paused"
        assert (await two.run(KEYED, plan=ROW, actor=ADA)).status == "paused"
        assert (await two.resume(row.session_id)).status == "completed"
    assert len(workshop.calls) == 3


async def test_a_rehearsal_does_not_use_the_key_up(workshop: Workshop, url: str) -> None:
    """A request that was rehearsed under its key is carried out when it is sent, and can be rehearsed again."""
    workshop.tool("do.it")
    course = plan(step("a"))

    async with workshop.journal(url) as journal, workshop.runtime(workshop.pack(), journal) as runtime:
        for shadow, calls in ((True, 0), (False, 1), (True, 1), (False, 1)):
            assert (await runtime.run(KEYED, plan=course, actor=ADA, shadow=shadow)).status == "completed"
            assert len(workshop.calls) == calls
        assert len(await runtime.sessions()) == 3


class Racing(Through):
    """A journal in which a key looks free for one look, though somebody has taken it."""

    is_racing = False

    async def claim(self, tenant: str, key: str) -> Any:
        """The same, but for one look."""
        if self.is_racing:
            self.is_racing = False
            return None
        return await self.inner.claim(tenant, key)


@pytest.mark.req("R213")
async def test_whoever_is_second_by_a_moment_leaves_nothing_behind(workshop: Workshop) -> None:
    """A request that finds its key taken as it begins is the first one's session, and pins no snapshot for its own."""
    workshop.tool("do.it")

    library = SqliteEvidence.in_memory()
    await library.create("default", "draft", now_ms=0)
    await library.freeze("default", "draft", name="may", now_ms=0)
    journal = Racing(MemoryJournal())
    async with workshop.runtime(workshop.pack(), journal.itself, evidence=library) as runtime:
        first = await runtime.run(KEYED, plan=ROW, actor=ADA)
        journal.is_racing = True
        assert await runtime.run(KEYED, plan=ROW, actor=ADA) == first
        assert not journal.is_racing
        assert await library.pins("default", "may") == ()
        assert len(await runtime.sessions()) == 1


class Full(Through):
    """A journal that loses the answer to its first append."""

    fault: JournalError | None = None

    async def append(self, unit: Append) -> Position:
        """The same, but for one."""
        if self.fault is not None:
            fault, self.fault = self.fault, None
            raise fault
        return await self.inner.append(unit)


@pytest.mark.parametrize(
    ("fault", "pins"), [(JournalFull("disk", "no room"), 0), (AppendUnknown("disk", "gone"), 1)]
)
async def test_what_was_not_written_holds_no_pin_and_what_may_have_been_does(
    workshop: Workshop, fault: JournalError, pins: int
) -> None:
    """A session that surely is not there gives up its snapshot; one of which nobody knows keeps it."""
    workshop.tool("do.it")

    library = SqliteEvidence.in_memory()
    await library.create("default", "draft", now_ms=0)
    await library.freeze("default", "draft", name="may", now_ms=0)
    journal = Full(MemoryJournal())
    async with workshop.runtime(workshop.pack(), journal.itself, evidence=library) as runtime:
        journal.fault = fault
        with pytest.raises(type(fault)):
            await runtime.run(KEYED, plan=ROW, actor=ADA)
        assert len(await library.pins("default", "may")) == pins
