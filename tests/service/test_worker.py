"""The worker carries on what nobody carries: within its bound, each tenant in turn, and never twice."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from journal.servers import own_journal
from service.desk import REFUND, REFUNDS, open_desk, refunds
from service.workers import PLAN, WORK, Shop, until_idle, until_over, working
from tercet.contracts.request import Actor, Request
from tercet.contracts.runs.session import TenantSessionRules
from tercet.engine.leases import LeaseClient
from tercet.engine.result import RunResult
from tercet.executor.clock import SystemClock
from tercet.journal.errors import JournalUnavailable, LeaseHeld
from tercet.journal.memory import MemoryJournal
from tercet.journal.opening import open_journal
from tercet.journal.protocol import Journal, Lease, SessionRow
from tercet.packs.pack import Pack
from tercet.runtime import Runtime, RuntimeOptions
from tercet.service import worker as worker_module
from tercet.service.hub import Hub
from tercet.service.server import running_worker
from tercet.service.worker import Worker
from tercet.testing.clock import VirtualClock

FINANCE = Actor(id="user_finance_lead", roles=("finance_lead",))


async def test_a_worker_carries_a_bounded_number_at_once() -> None:
    """Ten sessions are all carried, never more than three of them at the same time."""
    shop, journal = Shop(), MemoryJournal()
    await shop.start(journal, *["a"] * 10)
    async with working(journal, shop.pack, at_once=3, poll_ms=1) as worker:
        await until_idle(journal, worker)
    assert (len(shop.calls), shop.most_at_once) == (20, 3)


async def test_a_tenant_that_floods_does_not_keep_others_waiting() -> None:
    """With one slot, a tenant's only session is the second to be carried, although forty of another came before it."""
    shop, journal = Shop(), MemoryJournal()
    await shop.start(journal, *["flood"] * 40, "quiet")
    async with working(journal, shop.pack, at_once=1, poll_ms=1) as worker:
        await until_idle(journal, worker)
    order = [tenant for tenant, _, step in shop.calls if step == "s1"]
    assert order.index("quiet") <= 1
    assert len(order) == 41


async def test_long_runs_of_one_tenant_do_not_take_every_place() -> None:
    """While a tenant's calls last, a quarter of the places is kept for others: a session of another begins at once."""
    shop, journal = Shop(), MemoryJournal()
    shop.may_work.clear()
    await shop.start(journal, *["flood"] * 20)
    async with working(journal, shop.pack, at_once=8, poll_ms=1) as worker, asyncio.timeout(300):
        while len(shop.begun) < 6:  # noqa: ASYNC110 - the worker has no event for tests
            await asyncio.sleep(0.001)
        await shop.start(journal, "quiet")
        while "quiet" not in shop.begun:  # noqa: ASYNC110 - as above
            await asyncio.sleep(0.001)
        assert shop.begun == ["flood"] * 6 + ["quiet"]
        shop.may_work.set()
        await until_idle(journal, worker)
    assert len(shop.calls) == 42


async def test_a_tenant_that_floods_does_not_fill_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few of a tenant's sessions wait in memory, all of them are carried, and another tenant's is not left out."""
    monkeypatch.setattr(worker_module, "_MOST_QUEUED", 5)
    shop, journal = Shop(), MemoryJournal()
    shop.may_work.clear()
    started = await shop.start(journal, *["flood"] * 60)
    async with working(journal, shop.pack, at_once=4, poll_ms=1) as worker:
        for session in started:
            row = await journal.session("flood", session)
            assert row is not None
            worker.enqueue(row)
        assert worker.waiting <= 5
        await shop.start(journal, "quiet")
        async with asyncio.timeout(300):
            while "quiet" not in shop.begun:  # noqa: ASYNC110 - the worker has no event for tests
                await asyncio.sleep(0.001)
        assert worker.waiting <= 5
        shop.may_work.set()
        await until_idle(journal, worker)
    assert len(shop.calls) == 122


async def test_two_workers_never_carry_the_same_session() -> None:
    """Leases decide: every step of every session is called once."""
    shop, journal = Shop(), MemoryJournal()
    sessions = await shop.start(journal, *["a"] * 20)
    async with (
        working(journal, shop.pack, at_once=4, poll_ms=1) as one,
        working(journal, shop.pack, at_once=4, poll_ms=1) as two,
    ):
        await until_idle(journal, one)
        await until_idle(journal, two)
    assert sorted(shop.calls) == sorted(("a", name, step) for name in sessions for step in ("s1", "s2"))


async def _until_tried(worker: Worker, journal: Journal, session: str) -> SessionRow:
    """Enqueue a session whose lease is held, and return its row once the worker has tried it."""
    row = await journal.session("a", session)
    assert row is not None
    worker.enqueue(row)
    await worker.rest("a", session)
    assert not worker.carried
    return row


async def test_a_session_that_a_call_held_for_a_moment_goes_on_once_it_is_enqueued() -> None:
    """The lease would have gone on for long; who has released it says so, and no look is waited for."""
    shop, journal = Shop(), MemoryJournal()
    (session,) = await shop.start(journal, "a")
    leases = LeaseClient(journal=journal, tenant="a", clock=SystemClock())
    async with leases.holding(session), working(journal, shop.pack, poll_ms=3_600_000) as worker:
        row = await _until_tried(worker, journal, session)
        await _release(journal, session)
        worker.enqueue(row)
        ended = await until_over(journal, "a", session)
    assert (ended.status, len(shop.calls)) == ("completed", 2)


class BusyJournal(MemoryJournal):
    """A journal that does something once a lease turned out to be held."""

    def __init__(self) -> None:
        super().__init__()
        self.on_held: Callable[[], Awaitable[None]] | None = None

    async def acquire(self, tenant: str, stream: str, **more: Any) -> Lease:
        """Return the lease."""
        try:
            return await super().acquire(tenant, stream, **more)
        except LeaseHeld:
            if self.on_held is not None:
                await self.on_held()
            raise


async def test_a_session_that_is_enqueued_while_it_is_tried_is_tried_again() -> None:
    """The call that held the lease may end before the worker knows that it did not get it."""
    shop, journal = Shop(), BusyJournal()
    (session,) = await shop.start(journal, "a")
    row = await journal.session("a", session)
    assert row is not None
    leases = LeaseClient(journal=journal, tenant="a", clock=SystemClock())
    async with leases.holding(session), working(journal, shop.pack, poll_ms=3_600_000) as worker:

        async def release() -> None:
            await _release(journal, session)
            worker.enqueue(row)

        journal.on_held = release
        worker.enqueue(row)
        ended = await until_over(journal, "a", session)
    assert (ended.status, len(shop.calls)) == ("completed", 2)


async def _release(journal: Journal, session: str) -> None:
    lease = await journal.lease("a", session)
    assert lease is not None
    await journal.release(lease)


async def test_a_worker_waits_for_a_held_lease_no_longer_than_for_its_next_look() -> None:
    """A lease of ten seconds that is released after a moment does not keep the session from the next look."""
    shop, journal, clock = Shop(), MemoryJournal(), VirtualClock()
    (session,) = await shop.start(journal, "a")
    hub = Hub((shop.pack,), journal, watchdog_ms=None, options=RuntimeOptions(clock=clock))
    worker = Worker(hub, poll_ms=5)
    leases = LeaseClient(journal=journal, tenant="a", clock=clock)
    async with leases.holding(session), running_worker(hub, worker, set()):
        await _until_tried(worker, journal, session)
        await _release(journal, session)
        clock.advance(5)
        ended = await until_over(journal, "a", session)
    assert (ended.status, len(shop.calls)) == ("completed", 2)


async def test_a_session_that_cannot_go_on_here_is_left_alone() -> None:
    """One of another version of the pack is neither carried nor tried again and again."""
    shop, journal = Shop(), MemoryJournal()
    (session,) = await shop.start(journal, "a")
    other = shop.pack.model_copy(update={"version": "2.0.0"})
    async with working(journal, other, poll_ms=1) as worker:
        for _ in range(50):
            await asyncio.sleep(0.001)
        assert (worker.carried, worker.waiting, shop.calls) == (0, 0, [])
    async with working(journal, shop.pack, poll_ms=1) as worker:
        await until_idle(journal, worker)
    assert shop.calls == [("a", session, "s1"), ("a", session, "s2")]


@pytest.mark.parametrize(("on_loss", "calls"), [("pause", 0), ("resume", 2)])
async def test_a_session_that_was_silent_too_long_needs_its_packs_leave(on_loss: str, calls: int) -> None:
    """Once twice the heartbeat has passed since its process died, only a pack that says so lets it go on by itself."""
    shop, journal, now = Shop(), MemoryJournal(), SystemClock().now()
    rules = {"heartbeat_interval_ms": 1, "on_heartbeat_loss": on_loss}
    shop.pack = shop.pack.model_copy(update={"session": rules})
    (session,) = await shop.start(journal, "a")
    await journal.acquire("a", session, owner="host:1:1:20ms", now_ms=now - 1000, ttl_ms=10)
    async with working(journal, shop.pack, poll_ms=1) as worker:
        async with asyncio.timeout(300):
            while not worker.carried and not worker.has_blocked("a", session):  # noqa: ASYNC110 - no event
                await asyncio.sleep(0.01)
    assert len(shop.calls) == calls


@pytest.mark.req("R256")
async def test_stopping_a_worker_enqueues_what_it_carried() -> None:
    """The call under way ends, the session is not paused, and the next worker goes on after it."""
    shop, journal = Shop(), MemoryJournal()
    shop.may_work.clear()
    (session,) = await shop.start(journal, "a")
    async with working(journal, shop.pack, poll_ms=1):
        await shop.has_begun.wait()
        asyncio.get_running_loop().call_later(0.05, shop.may_work.set)
    assert shop.calls == [("a", session, "s1")]
    row = await journal.session("a", session)
    assert row is not None
    assert row.status == "in_progress"
    async with working(journal, shop.pack, poll_ms=1) as worker:
        await until_idle(journal, worker)
    assert shop.calls == [("a", session, "s1"), ("a", session, "s2")]


@pytest.mark.req("R256")
async def test_lifting_an_emergency_stop_enqueues_what_it_paused() -> None:
    """What a stop paused goes on when it is lifted; what an operator paused waits for the operator."""
    shop, journal = Shop(), MemoryJournal()
    async with open_desk(journal, shop.pack) as desk:
        me = desk.running.local_key
        asked: dict[str, Any] = {"request": {"intent": "work"}, "plan": PLAN}
        await desk.rpc(me, "emergencyStop", kind="tool", name="shop.work", note="incident")
        assert [each["name"] for each in (await desk.rpc(me, "listStops"))["stops"]] == ["shop.work"]
        stopped = (await desk.rpc(me, "invokeAgent", **asked))["session"]
        assert (stopped["status"], shop.calls) == ("paused", [])
        lifted = await desk.rpc(me, "liftStop", kind="tool", name="shop.work")
        assert lifted["resumed"] == [stopped["session_id"]]
        assert (await desk.until(me, stopped["session_id"]))["session"]["status"] == "completed"
        assert len(shop.calls) == 2


async def test_a_session_that_cannot_be_resumed_leaves_no_other_paused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Lifting a stop resumes all sessions but the one that cannot be read, and names that one with the reason."""
    shop, journal = Shop(), MemoryJournal()
    async with open_desk(journal, shop.pack) as desk:
        me = desk.running.local_key
        asked: dict[str, Any] = {"request": {"intent": "work"}, "plan": PLAN}
        await desk.rpc(me, "emergencyStop", kind="tenant")
        stopped = [(await desk.rpc(me, "invokeAgent", **asked))["session"]["session_id"] for _ in range(3)]
        for session in stopped:
            await desk.until(me, session, "paused")
        resume = Runtime.resume

        async def resume_or_fail(runtime: Runtime, session_id: str) -> RunResult:
            if session_id == stopped[1]:
                raise JournalUnavailable("the journal", "it is gone for a moment")
            return await resume(runtime, session_id)

        monkeypatch.setattr(Runtime, "resume", resume_or_fail)
        lifted = await desk.rpc(me, "liftStop", kind="tenant")
        assert sorted(lifted["resumed"]) == sorted((stopped[0], stopped[2]))
        [failed] = lifted["not_resumed"]
        assert (failed["session_id"], failed["code"]) == (stopped[1], "journal_unavailable")
        for session in lifted["resumed"]:
            assert (await desk.until(me, session))["session"]["status"] == "completed"


async def test_an_operators_pause_waits_for_the_operator() -> None:
    """A paused session is not carried on by the worker, also not when a stop is lifted; resumeSession goes on with it."""
    shop, journal = Shop(), MemoryJournal()
    shop.may_work.clear()
    async with open_desk(journal, shop.pack) as desk:
        me = desk.running.local_key
        asked: dict[str, Any] = {"request": {"intent": "work"}, "plan": PLAN, "mode": "batch"}
        session = (await desk.rpc(me, "invokeAgent", **asked))["session"]["session_id"]
        await shop.has_begun.wait()
        pausing = asyncio.ensure_future(desk.rpc(me, "pauseSession", session_id=session, note="wait"))
        for _ in range(100):
            await asyncio.sleep(0)
        shop.may_work.set()
        assert (await pausing)["session"]["status"] == "paused"
        await desk.rpc(me, "emergencyStop", kind="tenant")
        assert (await desk.rpc(me, "liftStop", kind="tenant"))["resumed"] == []
        assert len(shop.calls) == 1
        await desk.rpc(me, "resumeSession", session_id=session)
        assert (await desk.until(me, session))["session"]["status"] == "completed"
        assert len(shop.calls) == 2


async def test_what_another_process_approves_goes_on(shop: Path) -> None:
    """An approval that does not come through the service is found in the journal."""
    journal = MemoryJournal()
    async with (
        open_desk(journal) as desk,
        Runtime(Pack.load(REFUNDS), journal, watchdog_ms=None) as elsewhere,
    ):
        agent = await desk.key("agt_support")
        started = await desk.rpc(agent, "invokeAgent", request=REFUND)
        await elsewhere.approve(started["gates"][0], actor=FINANCE)
        assert (await desk.until(agent, started["session"]["session_id"]))["session"]["status"] == "completed"
    assert len(refunds(shop)) == 1


OPEN = ("sqlite", "postgres")


@asynccontextmanager
async def shared_journal(kind: str, folder: Path, request: pytest.FixtureRequest) -> AsyncGenerator[Journal]:
    """An empty journal in a file or on a server."""
    async with own_journal(kind, folder, request) as url, open_journal(url) as journal:
        yield journal


@pytest.mark.parametrize("kind", OPEN)
async def test_what_another_process_denies_ends(
    shop: Path, kind: str, request: pytest.FixtureRequest
) -> None:
    """A denial that does not come through the service is carried out by the worker, without the watchdog."""
    tenant = f"t_{os.urandom(4).hex()}"
    pack = Pack.load(REFUNDS)
    async with (
        shared_journal(kind, shop, request) as journal,
        Runtime(pack, journal, tenant=tenant, watchdog_ms=None) as elsewhere,
        working(journal, pack, poll_ms=5),
    ):
        waiting = await elsewhere.run(Request.model_validate(REFUND), actor=Actor(id="agt_support"))
        (gate,) = await elsewhere.gates()
        await elsewhere.deny(gate.id, actor=FINANCE, note="no")
        ended = await until_over(journal, tenant, waiting.session_id)
    assert (ended.status, refunds(shop)) == ("rejected", [])


@pytest.mark.parametrize("ending", ["expired", "cancelled"])
@pytest.mark.parametrize("status", ["awaiting_gate", "paused"])
@pytest.mark.usefixtures("shop")
async def test_what_ends_while_it_waits_is_carried_to_its_end(status: str, ending: str) -> None:
    """A waiting or paused session that expires or is cancelled by another process is ended without the watchdog."""
    journal, pack, agent = MemoryJournal(), Pack.load(REFUNDS), Actor(id="agt_support")
    async with Runtime(pack, journal, watchdog_ms=None) as elsewhere:
        if status == "paused":
            await elsewhere.halt("tenant", "default", actor=FINANCE)
        ttl_ms = 500 if ending == "expired" else None
        waiting = await elsewhere.run(Request.model_validate(REFUND), actor=agent, ttl_ms=ttl_ms)
        row = await journal.session("default", waiting.session_id)
        assert row is not None
        assert row.status == status
        if status == "paused":
            await elsewhere.lift("tenant", "default", actor=FINANCE)
        if ending == "cancelled":
            await elsewhere.cancel(waiting.session_id, actor=agent)
    async with working(journal, pack, poll_ms=5):
        ended = await until_over(journal, "default", waiting.session_id)
    assert ended.status == ending


async def test_sessions_of_other_packs_do_not_hide_ours() -> None:
    """A worker finds its session behind any number of older ones that it cannot carry on."""
    shop, journal = Shop(), MemoryJournal()
    other = Shop()
    other.pack = other.pack.model_copy(update={"name": "other"})
    await other.start(journal, *["a"] * 70)
    (session,) = await shop.start(journal, "a")
    async with working(journal, shop.pack, poll_ms=1):
        ended = await until_over(journal, "a", session)
    assert (ended.status, len(shop.calls), other.calls) == ("completed", 2, [])


@pytest.mark.slow
async def test_workers_share_a_journal_on_postgresql(postgres_url: str) -> None:
    """Two workers with connections of their own carry the sessions of two tenants, each step once."""
    shop = Shop()
    tenants = [f"{name}_{os.urandom(4).hex()}" for name in ("one", "two")]
    async with open_journal(postgres_url) as first, open_journal(postgres_url) as second:
        sessions = await shop.start(first, *tenants * 5)
        async with (
            working(first, shop.pack, at_once=3, poll_ms=5) as one,
            working(second, shop.pack, at_once=3, poll_ms=5) as two,
        ):
            async with asyncio.timeout(300):
                while len(shop.calls) < 20 or one.running or two.running:  # noqa: ASYNC110 - other workers
                    await asyncio.sleep(0.01)
        steps = sorted((name, step) for name in sessions for step in ("s1", "s2"))
        assert sorted((session, step) for _, session, step in shop.calls) == steps
        for tenant, session in zip(tenants * 5, sessions, strict=True):
            row = await first.session(tenant, session)
            assert row is not None
            assert row.status == "completed"


@pytest.mark.parametrize(
    ("query", "parameters", "found_by"),
    [
        ("list_resumable", (0, 10, 0, "", ""), ("sessions_in_progress", "sessions_due (due_at<?)")),
        ("list_unfinished", ("a@1", "", "[]", 20), ("sessions_by_status (tenant=? AND status=?)",)),
    ],
)
async def test_a_look_across_tenants_reads_no_other_session(
    tmp_path: Path, query: str, parameters: tuple[Any, ...], found_by: tuple[str, ...]
) -> None:
    """The queries go by indexes: looking for work costs nothing for waiting sessions, and counting for ended ones."""
    import sqlite3  # noqa: PLC0415 - only here

    from tercet.journal.sqlite.journal import SCHEMA  # noqa: PLC0415 - only here

    path = tmp_path / "runs.db"
    async with open_journal(f"sqlite:///{path}"):
        pass
    db = sqlite3.connect(path)
    plan = db.execute(f"EXPLAIN QUERY PLAN {SCHEMA.queries[query]}", parameters).fetchall()
    db.close()
    for index in found_by:
        assert any(index in str(row) for row in plan), plan
    assert not any("SCAN sessions" in str(row) and "USING" not in str(row) for row in plan), plan


class Later(SystemClock):
    """The clock of this machine, two days on."""

    def now(self) -> int:
        """Return the wall time."""
        return super().now() + 2 * 24 * 3_600_000


async def test_a_worker_deletes_what_is_kept_no_longer() -> None:
    """By the retention of each tenant, also with several tenants in one journal."""
    shop, journal = Shop(), MemoryJournal()
    rules = shop.pack.session.model_copy(
        update={"tenants": {"brief": TenantSessionRules.model_validate({"retention_days": 1})}}
    )
    pack = shop.pack.model_copy(update={"session": rules})
    for tenant in ("brief", "long"):
        async with Runtime(pack, journal, tenant=tenant) as runtime:
            assert (await runtime.run(WORK, plan=PLAN)).status == "completed"
    hub = Hub((pack,), journal, options=RuntimeOptions(clock=Later()))
    async with running_worker(hub, Worker(hub), {"brief", "long"}), asyncio.timeout(300):
        while True:
            left = [len(await journal.sessions(tenant)) for tenant in ("brief", "long")]
            if left == [0, 1]:
                break
            await asyncio.sleep(0.01)


async def test_a_request_that_is_sent_again_leaves_the_session_to_the_worker() -> None:
    """The front does not touch a session that the worker is about to carry on."""
    shop, journal = Shop(), MemoryJournal()
    options, request = RuntimeOptions(is_front=True), Request(intent="work", request_key="k")
    async with Runtime(shop.pack, journal, watchdog_ms=None, options=options) as runtime:
        first = await runtime.run(request, plan=PLAN)
        before = await journal.read("default", first.session_id)
        again = await runtime.run(request, plan=PLAN)
    assert (again.session_id, again.status) == (first.session_id, "in_progress")
    assert await journal.read("default", first.session_id) == before
