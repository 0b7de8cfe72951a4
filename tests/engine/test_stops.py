"""Emergency stops: what an operator stops is not called any more, in any process, until it is lifted."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from tercet.contracts.errors import UsageError
from tercet.contracts.request import Actor
from tercet.core import events as e
from tercet.engine.streams.stops import StopKind

from .test_limits import taking
from .test_sagas import denied, saga_pack, undone, world
from .test_sessions import ROW, pair, session_under_way
from .workshop import ADA, ASK, BOB, Workshop, events, plan, step

STOPS: list[tuple[StopKind, str]] = [("tool", "do.it"), ("pack", "workshop"), ("tenant", "default")]


@pytest.mark.parametrize(("kind", "name"), STOPS)
async def test_a_stop_takes_effect_before_the_next_call_of_another_process(
    workshop: Workshop, file: str, kind: StopKind, name: str
) -> None:
    """The call under way ends, the next one is not made, the session is paused with the reason; lifted, it goes on."""
    workshop.tool("do.it", taking(3_000))

    async with pair(workshop, workshop.pack(), file) as (one, two):
        running = asyncio.ensure_future(one.run(ASK, plan=ROW, actor=ADA))
        session = await session_under_way(workshop, two)
        await two.halt(kind, name, actor=BOB, note="too many complaints")
        result = await running
        reason = f"emergency stop of {kind} {name} by bob: too many complaints"
        assert (result.status, result.reason) == ("paused", reason)
        assert workshop.calls == [("a", 1)]
        assert (await one.resume(session)).reason == reason
        assert workshop.calls == [("a", 1)]
        await one.lift(kind, name, actor=BOB)
        assert (await two.resume(session)).status == "completed"
    assert workshop.calls == [("a", 1), ("b", 1), ("c", 1)]


async def test_a_stop_in_the_same_moment_as_the_intent_withholds_the_call(
    workshop: Workshop, url: str
) -> None:
    """A stop that is written after a call was decided and before its INTENT is durable is heard before the call."""
    workshop.tool("do.it")
    stopped: list[Any] = []

    async with workshop.journal(url) as journal, workshop.runtime(workshop.pack(), journal) as operator:

        async def stop(point: str) -> None:
            if point == "before_append" and not stopped:
                stopped.append(await operator.halt("tool", "do.it", actor=BOB))

        async with workshop.runtime(workshop.pack(), journal, crash=stop) as runtime:
            result = await runtime.run(ASK, plan=plan(step("a")), actor=ADA)
            assert result.status == "paused"
            assert workshop.calls == []
            found = await events(journal, result.session_id)
            assert any(isinstance(event, e.Intent) for event in found)
            assert [event.code for event in found if isinstance(event, e.Abort)] == ["emergency_stop"]
            await operator.lift("tool", "do.it", actor=BOB)
            result = await runtime.resume(result.session_id)
            assert result.status == "completed"
            assert (await runtime.state(result.session_id)).used.retries == 0
    assert [name for name, _ in workshop.calls] == ["a"]


async def test_what_is_not_stopped_goes_on(workshop: Workshop, url: str) -> None:
    """A stop of another tool, another pack or another tenant holds nothing up here."""
    workshop.tool("do.it")
    workshop.tool("other.it")

    async with (
        workshop.journal(url) as journal,
        workshop.runtime(workshop.pack(), journal) as runtime,
        workshop.runtime(workshop.pack(), journal, tenant="elsewhere") as elsewhere,
    ):
        await runtime.halt("tool", "other.it", actor=BOB)
        await runtime.halt("pack", "another", actor=BOB)
        await elsewhere.halt("tenant", "elsewhere", actor=BOB)
        assert (await runtime.run(ASK, plan=ROW, actor=ADA)).status == "completed"
        assert (await elsewhere.run(ASK, plan=ROW, actor=ADA)).status == "paused"
    assert len(workshop.calls) == 3


async def test_a_wrong_stop_is_told(workshop: Workshop) -> None:
    """There is nothing to lift before a stop, nor after it was lifted once; and nobody stops another tenant."""
    workshop.tool("do.it")

    async with workshop.runtime(workshop.pack()) as runtime:
        with pytest.raises(UsageError) as caught:
            await runtime.lift("tool", "do.it", actor=BOB)
        assert caught.value.code == "not_stopped"
        with pytest.raises(UsageError) as caught:
            await runtime.halt("tenant", "elsewhere", actor=BOB)
        assert caught.value.code == "wrong_tenant"
        await runtime.halt("tool", "do.it", actor=BOB)
        await runtime.lift("tool", "do.it", actor=BOB)
        with pytest.raises(UsageError) as caught:
            await runtime.lift("tool", "do.it", actor=BOB)
        assert caught.value.code == "not_stopped"


async def test_a_stop_holds_compensations_back_too(workshop: Workshop, url: str) -> None:
    """While its tool is stopped an effect is not taken back; lifted, the session comes to its end."""
    world(workshop)

    async with (
        workshop.journal(url) as journal,
        workshop.runtime(saga_pack(workshop), journal) as runtime,
    ):
        await runtime.halt("tool", "undo.it", actor=BOB)
        result = await denied(runtime)
        result = await runtime.resume(result.session_id)
        assert (result.status, undone(workshop)) == ("awaiting_gate", [])
        await runtime.lift("tool", "undo.it", actor=BOB)
        assert (await runtime.resume(result.session_id)).status == "rejected"
    assert undone(workshop) == ["b", "a"]


async def test_a_stop_is_written_whatever_its_words(workshop: Workshop, url: str) -> None:
    """Words that are no text do not keep an operator from stopping a tool, nor from lifting that."""
    workshop.tool("do.it")
    odd = Actor(id="b\udc80b")

    async with workshop.journal(url) as journal, workshop.runtime(workshop.pack(), journal) as runtime:
        await runtime.halt("tool", "do.it", actor=odd, note="\udcff!")
        result = await runtime.run(ASK, plan=plan(step("a")), actor=ADA)
        assert result.reason == "emergency stop of tool do.it by b?b: ?!"
        await runtime.lift("tool", "do.it", actor=odd, note="\udcff")
        assert (await runtime.resume(result.session_id)).status == "completed"


async def test_only_what_can_be_stopped_is_stopped(workshop: Workshop, url: str) -> None:
    """A kind of stop that there is not is told as one, and leaves the board readable for every other run."""
    workshop.tool("do.it")

    async with workshop.journal(url) as journal, workshop.runtime(workshop.pack(), journal) as runtime:
        for say in (runtime.halt, runtime.lift):
            with pytest.raises(UsageError) as caught:
                await say(cast("StopKind", "tol"), "do.it", actor=BOB)
            assert caught.value.code == "wrong_kind"
        assert (await runtime.run(ASK, plan=plan(step("a")), actor=ADA)).status == "completed"
