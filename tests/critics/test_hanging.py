"""A critic that hangs: people are heard, time limits hold, and a turn that was cut off is taken in once."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tercet.core import messages
from tercet.critics import Decision, Engine, StopReason, critic
from tercet.engine import inbox
from tercet.journal.memory import MemoryJournal
from tercet.replay.replay import replay
from tercet.testing.clock import VirtualClock

from .bench import ADA, BOB, Scripted, act, counted, last, play
from .test_engine_packs import pack

HOUR_MS = 3_600_000
DONE = Decision.final("done")


def scene(clock: VirtualClock, **more: Any) -> tuple[Engine, Scripted]:
    """An agent with one call, and a critic that hangs the first time that it is asked."""
    say, _ = counted("desk.say")
    agent = Scripted([act("a"), DONE], [say])
    asked: list[int] = []

    @critic
    async def slow(state: Any, decision: Any, results: Any) -> str:
        del state, decision, results
        asked.append(1)
        if len(asked) == 1:
            await clock.sleep(HOUR_MS)
        return "continue"

    return Engine(agent, [slow], clock=clock, actor=ADA, journal=MemoryJournal(), **more), agent


@pytest.mark.parametrize("who", ["pause", "cancel"])
def test_a_critic_that_hangs_keeps_nobody_from_being_heard(who: str) -> None:
    """A run whose critic hangs is paused or cancelled at once."""
    clock = VirtualClock()
    engine, _ = scene(clock)

    async def main() -> None:
        running = asyncio.ensure_future(engine.run("t"))
        await clock.sleep(100)
        async with engine.runtime() as runtime:
            [row] = await runtime.sessions()
            await getattr(runtime, who)(row.session_id, actor=BOB)
            ended = await running
            assert ended.status == {"pause": "paused", "cancel": "cancelled"}[who]
            assert clock.now() < HOUR_MS + VirtualClock().now()
            assert (await replay(runtime.journal, row.session_id)).difference is None

    play(main(), clock)


def test_a_turn_that_was_cut_off_is_taken_in_once() -> None:
    """Resumed by the same engine, the agent reduces the results of the turn from where it stood before them."""
    clock = VirtualClock()
    engine, agent = scene(clock)

    async def main() -> None:
        running = asyncio.ensure_future(engine.run("t"))
        await clock.sleep(100)
        async with engine.runtime() as runtime:
            [row] = await runtime.sessions()
            await runtime.pause(row.session_id, actor=BOB)
        assert (await running).stop_reason == StopReason.PAUSED
        result = await engine.resume(row.session_id)
        assert result.status == "completed"
        assert [state.at for state in agent.met] == [0, 1]

    play(main(), clock)


def test_a_wish_that_comes_to_nothing_lets_the_turn_be_taken_in_again() -> None:
    """A pause in the name of a policy is dropped; the critic is asked again, about a state that holds the turn once."""
    clock = VirtualClock()
    engine, agent = scene(clock)

    async def main() -> None:
        running = asyncio.ensure_future(engine.run("t"))
        await clock.sleep(100)
        async with engine.runtime() as runtime:
            [row] = await runtime.sessions()
            letter = messages.Pause(session=row.session_id, actor="policy:none")
            await inbox.post(runtime.journal, "default", letter)
        assert (await running).status == "completed"
        assert [state.at for state in agent.met] == [0, 1]

    play(main(), clock)


@pytest.mark.req("R131")
def test_a_critic_has_as_long_as_its_limit_says() -> None:
    """A turn that takes longer than the critic may is handed to a person, with the reason."""
    clock = VirtualClock()
    say, _ = counted("desk.say")
    engine, _ = scene(clock, pack=pack(say, limits={"critic": {"timeout_ms": 5_000}}))
    result = play(engine.run("t"), clock)
    assert (result.status, last(result).action) == ("paused", "escalate")
    assert last(result).reason == "the agent and its critics took longer than 5,000 ms"
