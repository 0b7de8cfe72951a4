"""A run that the process of a worker has started stays in memory: with its lease, in its turn, and for no longer than a moment."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from service.desk import open_desk
from service.workers import PLAN, Shop, serving, start_here, until_idle, until_over, working
from tercet.contracts.request import Actor
from tercet.journal.memory import MemoryJournal
from tercet.journal.protocol import Lease, Stored
from tercet.service import worker as worker_module


class CountingJournal(MemoryJournal):
    """A journal that counts what was asked of it."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: Counter[str] = Counter()

    async def acquire(self, *given: Any, **more: Any) -> Lease:
        """Return a lease."""
        self.asked["acquire"] += 1
        return await super().acquire(*given, **more)

    async def read(self, *given: Any, **more: Any) -> list[Stored]:
        """Return events."""
        self.asked["read"] += 1
        return await super().read(*given, **more)


async def test_a_run_that_was_started_here_is_not_read_again() -> None:
    """It goes on with the lease that it began with, and its caller is answered from memory."""
    shop, journal = Shop(), CountingJournal()
    async with open_desk(journal, shop.pack) as desk:
        me = desk.running.local_key
        asked: dict[str, Any] = {"request": {"intent": "work"}, "plan": PLAN}
        await desk.rpc(me, "invokeAgent", **asked)  # the first one reads the emergency stops
        journal.asked.clear()
        ended = await desk.rpc(me, "invokeAgent", **asked)
        assert (journal.asked, ended["session"]["status"], len(shop.calls)) == ({}, "completed", 4)
        read = await desk.rpc(me, "getSession", session_id=ended["session"]["session_id"])
        for each in (ended, read):
            del each["progress"]["emitted_at"]
        assert ended == read


async def test_runs_that_are_started_here_wait_for_their_turn() -> None:
    """Never more than three at once, and the only one of a quiet tenant is the second to go on."""
    shop, journal = Shop(), MemoryJournal()
    shop.may_work.clear()
    async with serving(journal, shop.pack, at_once=1, poll_ms=1) as (worker, hub):
        await start_here(hub, *["flood"] * 5, "quiet")
        shop.may_work.set()
        await until_idle(journal, worker)
    assert [tenant for tenant, _, step in shop.calls if step == "s1"][:3].count("quiet") == 1
    assert (len(shop.calls), shop.most_at_once) == (12, 1)


async def test_few_runs_of_a_tenant_are_kept_in_memory() -> None:
    """The others are left to any worker; another tenant's run is still kept, and all of them end."""
    shop, journal = Shop(), MemoryJournal()
    shop.may_work.clear()
    async with serving(journal, shop.pack, at_once=2, poll_ms=3_600_000) as (worker, hub):
        flood = await start_here(hub, *["flood"] * 20)
        kept = [session for session in flood if worker.live("flood", session) is not None]
        assert kept == flood[:9]
        assert {row.session_id for row in await journal.resumable(now_ms=0)} == set(flood[9:])
        (quiet,) = await start_here(hub, "quiet")
        assert worker.live("quiet", quiet) is not None
        shop.may_work.set()
        for session in kept:
            await until_over(journal, "flood", session)
    async with working(journal, shop.pack, poll_ms=1) as worker:
        await until_idle(journal, worker)
    assert len(shop.calls) == 42


async def test_a_run_that_waits_long_is_left_to_any_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """While the only place of its own worker is taken, another worker carries it on."""
    monkeypatch.setattr(worker_module, "KEPT_MS", 0)
    shop, journal, idle = Shop(), MemoryJournal(), Shop()
    shop.may_work.clear()
    async with serving(journal, shop.pack, at_once=1, poll_ms=1) as (worker, hub):
        (busy,) = await start_here(hub, "a")
        await shop.has_begun.wait()
        (waiting,) = await start_here(hub, "a")
        async with working(journal, idle.pack, poll_ms=1):
            ended = await until_over(journal, "a", waiting)
        assert (ended.status, idle.calls) == ("completed", [("a", waiting, "s1"), ("a", waiting, "s2")])
        shop.may_work.set()
        await until_idle(journal, worker)
    assert shop.calls == [("a", busy, "s1"), ("a", busy, "s2")]


async def test_a_worker_that_stops_leaves_the_runs_that_it_keeps() -> None:
    """Those that had no turn yet go on elsewhere at once, and none of their calls was made twice."""
    shop, journal = Shop(), MemoryJournal()
    shop.may_work.clear()
    async with serving(journal, shop.pack, at_once=1, poll_ms=1) as (_, hub):
        sessions = await start_here(hub, *["a"] * 4)
        await shop.has_begun.wait()
        asyncio.get_running_loop().call_later(0.05, shop.may_work.set)
    assert shop.calls == [("a", sessions[0], "s1")]
    assert len(await journal.resumable(now_ms=0)) == 4
    async with working(journal, shop.pack, poll_ms=1) as worker:
        await until_idle(journal, worker)
    assert sorted(shop.calls) == sorted(("a", session, step) for session in sessions for step in ("s1", "s2"))


async def test_a_run_that_is_cancelled_before_its_turn_is_answered() -> None:
    """Its caller does not wait for a place that it needs no more."""
    shop, journal = Shop(), MemoryJournal()
    shop.may_work.clear()
    async with serving(journal, shop.pack, at_once=1, poll_ms=1) as (worker, hub):
        await start_here(hub, "a")
        (waiting,) = await start_here(hub, "a")
        runtime = await hub.runtime("a")
        async with asyncio.timeout(300):
            await asyncio.gather(
                worker.rest("a", waiting), runtime.cancel(waiting, actor=Actor(id="anonymous"))
            )
        assert (await runtime.state(waiting)).status == "cancelled"
        assert (worker.live("a", waiting), worker.running, worker.waiting) == (None, 1, 0)
        shop.may_work.set()
        await until_idle(journal, worker)
    assert len(shop.calls) == 2
