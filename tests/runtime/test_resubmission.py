"""Asking again: whoever is not sure whether a request arrived sends it again, and gets the session that it began."""

from __future__ import annotations

import asyncio

import pytest

from tercet.contracts.errors import UsageError
from tercet.contracts.request import Request

from .test_limits import taking
from .test_sagas import WAITS, saga_pack, world
from .test_sessions import ROW, pair
from .workshop import ADA, BOB, Workshop, plan, step

KEYED = Request(intent="work", input={"order": "o1"}, request_key="order o1")


@pytest.mark.req("R213")
def test_the_same_request_is_the_same_session(workshop: Workshop, file: str) -> None:
    """Sent again after it has completed, from another process, it brings the committed result and calls nothing."""
    workshop.tool("do.it")

    async def main() -> None:
        async with pair(workshop, workshop.pack(), file) as (one, two):
            first = await one.run(KEYED, plan=ROW, actor=ADA)
            again = await two.run(KEYED, plan=ROW, actor=ADA)
            assert first.status == "completed"
            assert again == first
            assert len(await one.sessions()) == 1

    workshop.run(main())
    assert len(workshop.calls) == 3


@pytest.mark.req("R213")
def test_a_session_that_waits_is_found_as_it_stands(workshop: Workshop, url: str) -> None:
    """A request whose session waits at a gate, or was denied, brings that session and begins no other."""
    world(workshop)

    async def main() -> None:
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

    workshop.run(main())


@pytest.mark.req("R213")
def test_another_request_under_the_same_key_is_refused(workshop: Workshop, url: str) -> None:
    """Another input, another plan or none at all under a key that was used is wrong use, and names the session."""
    workshop.tool("do.it")
    other = KEYED.model_copy(update={"input": {"order": "o2"}})

    async def main() -> None:
        async with workshop.journal(url) as journal, workshop.runtime(workshop.pack(), journal) as runtime:
            first = await runtime.run(KEYED, plan=ROW, actor=ADA)
            for request, course in ((other, ROW), (KEYED, plan(step("z"))), (KEYED, None)):
                with pytest.raises(UsageError) as caught:
                    await runtime.run(request, plan=course, actor=ADA)
                assert caught.value.code == "request_key_reused"
                assert first.session_id in caught.value.message
            fresh = await runtime.run(
                KEYED.model_copy(update={"request_key": "another"}), plan=ROW, actor=ADA
            )
            assert fresh.session_id != first.session_id

    workshop.run(main())


@pytest.mark.req("R213")
def test_two_at_once_are_one_session(workshop: Workshop, file: str) -> None:
    """Two processes that get the same request in the same moment begin one session, and both name it."""
    workshop.tool("do.it", taking(1_000))

    async def main() -> None:
        async with pair(workshop, workshop.pack(), file) as (one, two):
            results = await asyncio.gather(
                one.run(KEYED, plan=ROW, actor=ADA), two.run(KEYED, plan=ROW, actor=ADA)
            )
            assert results[0].session_id == results[1].session_id
            assert "completed" in {result.status for result in results}
            [row] = await one.sessions()
            assert row.session_id == results[0].session_id

    workshop.run(main())
    assert len(workshop.calls) == 3


def test_keys_of_tenants_are_their_own(workshop: Workshop, url: str) -> None:
    """The same key in two tenants is two requests."""
    workshop.tool("do.it")

    async def main() -> None:
        async with (
            workshop.journal(url) as journal,
            workshop.runtime(workshop.pack(), journal) as one,
            workshop.runtime(workshop.pack(), journal, tenant="elsewhere") as two,
        ):
            first = await one.run(KEYED, plan=ROW, actor=ADA)
            second = await two.run(KEYED, plan=ROW, actor=ADA)
            assert first.session_id != second.session_id

    workshop.run(main())
    assert len(workshop.calls) == 6


def test_a_rehearsal_does_not_use_the_key_up(workshop: Workshop, url: str) -> None:
    """A request that was rehearsed under its key is carried out when it is sent, and can be rehearsed again."""
    workshop.tool("do.it")
    course = plan(step("a"))

    async def main() -> None:
        async with workshop.journal(url) as journal, workshop.runtime(workshop.pack(), journal) as runtime:
            for shadow, calls in ((True, 0), (False, 1), (True, 1), (False, 1)):
                assert (await runtime.run(KEYED, plan=course, actor=ADA, shadow=shadow)).status == "completed"
                assert len(workshop.calls) == calls
            assert len(await runtime.sessions()) == 3

    workshop.run(main())
