"""Leaving a session to another worker: nothing is begun, nothing is paused, and whoever is next goes on at once."""

from __future__ import annotations

import asyncio
from typing import Any

from tercet.contracts.request import Actor
from tercet.core import events as e
from tercet.engine.people import Roster
from tercet.engine.session_reader import load_history
from tercet.journal.memory import MemoryJournal
from tercet.runtime.live import LiveRun
from tercet.tools import ToolContext

from .workshop import ADA, ASK, Workshop

PLAN = {"intent": "work", "steps": [{"id": "s1", "tool": "shop.first"}, {"id": "s2", "tool": "shop.second", "depends_on": ["s1"]}]}  # fmt: skip


async def test_a_front_runtime_leaves_what_it_starts_to_a_worker(workshop: Workshop) -> None:
    """A run is durable when it is started and nothing was called; a worker finds it at once and carries it to its end."""
    workshop.tool("shop.first")
    workshop.tool("shop.second")
    pack, journal = workshop.pack(), MemoryJournal()
    async with (
        workshop.runtime(pack, journal, is_front=True) as front,
        workshop.runtime(pack, journal) as worker,
    ):
        left = await front.run(ASK, plan=PLAN, actor=ADA)
        assert (left.status, workshop.calls) == ("in_progress", [])
        (row,) = await journal.resumable(now_ms=workshop.clock.now())
        assert row.session_id == left.session_id
        assert (await worker.carry_on(row.session_id)).status == "completed"
        assert workshop.calls == [("s1", 1), ("s2", 1)]
        assert await journal.resumable(now_ms=workshop.clock.now()) == []


async def test_a_worker_that_stops_hands_its_sessions_over(workshop: Workshop) -> None:
    """The call under way ends, the next does not begin, and the session is not paused."""
    has_begun, may_end = asyncio.Event(), asyncio.Event()

    async def slow(_: ToolContext, params: dict[str, Any]) -> Any:
        has_begun.set()
        await may_end.wait()
        return params

    workshop.tool("shop.first", slow)
    workshop.tool("shop.second")
    pack, journal = workshop.pack(), MemoryJournal()
    async with workshop.runtime(pack, journal) as runtime:
        running = asyncio.ensure_future(runtime.run(ASK, plan=PLAN, actor=ADA))
        await has_begun.wait()
        runtime.hand_over()
        may_end.set()
        left = await running
        assert (left.status, workshop.calls) == ("in_progress", [("s1", 1)])
        assert [row.session_id for row in await journal.resumable(now_ms=0)] == [left.session_id]
        assert (await runtime.carry_on(left.session_id)).status == "completed"
        assert workshop.calls == [("s1", 1), ("s2", 1)]
        history = await load_history(journal, runtime.tenant, left.session_id)
        assert not any(isinstance(event, e.SessionPaused) for event in history.events)


async def test_a_pause_is_not_turned_into_a_hand_over(workshop: Workshop) -> None:
    """An operator who pauses a session while its process stops finds it paused."""
    has_begun, may_end = asyncio.Event(), asyncio.Event()

    async def slow(_: ToolContext, params: dict[str, Any]) -> Any:
        has_begun.set()
        await may_end.wait()
        return params

    workshop.tool("shop.first", slow)
    workshop.tool("shop.second")
    async with workshop.runtime(workshop.pack(), MemoryJournal()) as runtime:
        running = asyncio.ensure_future(runtime.run(ASK, plan=PLAN, actor=ADA))
        await has_begun.wait()
        (row,) = await runtime.sessions()
        pausing = asyncio.ensure_future(runtime.pause(row.session_id, actor=ADA))
        for _ in range(50):  # until the run has heard of it: the journal in memory does not wait
            await asyncio.sleep(0)
        runtime.hand_over()
        may_end.set()
        assert (await running).status == "paused"
        assert (await pausing).status == "paused"


class Kept:
    """Stands for a worker that keeps every run."""

    def __init__(self) -> None:
        self.runs: list[LiveRun] = []

    def take(self, run: LiveRun) -> bool:
        """Keep a run."""
        self.runs.append(run)
        return True


async def test_a_run_that_is_kept_begins_when_its_turn_comes(workshop: Workshop) -> None:
    """It is durable and its lease is held while it waits; it goes on as if nothing had been, and its view is in memory."""
    workshop.tool("shop.first")
    workshop.tool("shop.second")
    kept = Kept()
    journal = MemoryJournal()
    async with workshop.runtime(workshop.pack(), journal, is_front=True, keep=kept.take) as runtime:
        started = await runtime.run(ASK, plan=PLAN, actor=ADA)
        assert (started.status, workshop.calls, len(kept.runs)) == ("in_progress", [], 1)
        (run,) = kept.runs
        assert run.key == (runtime.tenant, started.session_id)
        assert await journal.resumable(now_ms=workshop.clock.now()) == []
        assert run.is_current
        assert run.session_row() == await runtime.session(started.session_id)
        run.proceed()
        assert (await run.running).status == "completed"
        assert workshop.calls == [("s1", 1), ("s2", 1)]
        assert run.is_current
        assert run.session_row() == await runtime.session(started.session_id)
        history = await load_history(journal, runtime.tenant, started.session_id)
        assert not any(isinstance(event, e.SessionResumed) for event in history.events)


async def test_a_run_that_is_kept_can_be_left_to_another_worker(workshop: Workshop) -> None:
    """Its lease is released; what is known of it here is then not current any more."""
    workshop.tool("shop.first")
    workshop.tool("shop.second")
    kept = Kept()
    pack, journal = workshop.pack(), MemoryJournal()
    async with (
        workshop.runtime(pack, journal, is_front=True, keep=kept.take) as front,
        workshop.runtime(pack, journal) as worker,
    ):
        started = await front.run(ASK, plan=PLAN, actor=ADA)
        kept.runs[0].hand_over()
        assert (await kept.runs[0].running).status == "in_progress"
        assert not kept.runs[0].is_current
        assert (await worker.carry_on(started.session_id)).status == "completed"
        assert workshop.calls == [("s1", 1), ("s2", 1)]


async def test_a_run_that_waits_for_its_turn_reads_its_messages(workshop: Workshop) -> None:
    """It is cancelled while it waits, and nothing is called."""
    workshop.tool("shop.first")
    workshop.tool("shop.second")
    kept = Kept()
    async with workshop.runtime(workshop.pack(), MemoryJournal(), is_front=True, keep=kept.take) as runtime:
        started = await runtime.run(ASK, plan=PLAN, actor=ADA)
        assert (await runtime.cancel(started.session_id, actor=ADA)).status == "cancelled"
        assert (await kept.runs[0].running).status == "cancelled"
        assert workshop.calls == []


async def test_a_run_that_is_over_at_once_is_not_kept(workshop: Workshop) -> None:
    """A plan that is refused needs no turn."""
    kept = Kept()
    async with workshop.runtime(workshop.pack(), MemoryJournal(), is_front=True, keep=kept.take) as runtime:
        refused = {"intent": "work", "steps": [{"id": "s1", "tool": "shop.unknown"}]}
        assert (await runtime.run(ASK, plan=refused, actor=ADA)).status == "failed"
    assert kept.runs == []


def test_a_credential_gives_no_role_that_the_list_does_not_give() -> None:
    """By a key, a listed person holds those roles of the list that the key names; an unlisted one holds none."""
    roster = Roster([Actor(id="bob", roles=("boss", "law"))])
    key = Actor(id="bob", roles=("boss", "pope"), auth="api_key")
    assert roster.known(key).roles == ("boss",)
    assert roster.known(Actor(id="bob")).roles == ("boss", "law")
    assert roster.known(Actor(id="eve", roles=("boss",), auth="api_key")).roles == ()
    assert Roster([]).known(Actor(id="eve", roles=("boss",), auth="api_key")).roles == ("boss",)
