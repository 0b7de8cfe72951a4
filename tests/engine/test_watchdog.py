"""The watchdog: what nobody carries expires, is paused, is brought to its end, or goes on."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tercet.contracts.errors import UsageError
from tercet.contracts.gate import Gate
from tercet.contracts.plan import Plan
from tercet.contracts.runs.record import FailureReport, HaltRecord
from tercet.core import events as e
from tercet.core.config import RunConfig
from tercet.engine.rows import PAGE
from tercet.engine.watchdog import LOST, SweepResult
from tercet.journal.protocol import Journal
from tercet.packs.pack import Pack

from .test_limits import taking
from .test_runs import Script
from .test_sagas import saga_pack, undone, world
from .workshop import ADA, ASK, BOB, Death, Workshop, events, names, plan, step

MINUTE = 60_000


async def leave_behind(workshop: Workshop, pack: Pack, journal: Journal, point: str = "before_call") -> str:
    """A session whose process died in the middle of its first call."""
    death = Death(point)

    async def life() -> None:
        async with workshop.runtime(pack, journal, crash=death) as runtime:
            await runtime.run(ASK, plan=plan(step("a"), step("b", depends_on=("a",))), actor=ADA)

    assert await death.of(life()) is None
    [row] = await journal.sessions("default", limit=1)
    return row.session_id


@pytest.mark.req("R257", "R328")
async def test_a_session_whose_process_is_gone_is_paused(workshop: Workshop, url: str) -> None:
    """After twice the heartbeat without a lease it is paused with the reason, and whoever resumes it loses nothing."""
    workshop.tool("do.it", idempotent=True)
    pack = workshop.pack()

    async with workshop.journal(url) as journal:
        session = await leave_behind(workshop, pack, journal)
        async with workshop.runtime(pack, journal) as runtime:
            await workshop.clock.sleep(MINUTE - 1)
            assert await runtime.sweep() == SweepResult()
            await workshop.clock.sleep(1)
            assert await runtime.sweep() == SweepResult(paused=(session,))
            assert await runtime.sweep() == SweepResult()
            state = await runtime.state(session)
            assert (state.status, state.reason) == ("paused", LOST)
            halted = await runtime.artifact(session)
            assert isinstance(halted, HaltRecord)
            assert (halted.reason, halted.checkpoint[:7]) == (LOST, "sha256:")
            assert (await runtime.resume(session)).status == "completed"
    assert [name for name, _ in workshop.calls] == ["a", "b"]


@pytest.mark.req("R257")
async def test_only_time_without_a_lease_counts_as_silence(workshop: Workshop, url: str) -> None:
    """A call that takes ten minutes writes nothing meanwhile, and its session is left alone, since its lease lives."""
    workshop.tool("do.it", taking(10 * MINUTE), timeout_ms=20 * MINUTE)
    pack = workshop.pack()

    async with (
        workshop.journal(url) as journal,
        workshop.runtime(pack, journal) as runtime,
        workshop.runtime(pack, journal, watchdog_ms=5_000) as other,
    ):
        running = asyncio.ensure_future(runtime.run(ASK, plan=plan(step("a")), actor=ADA))
        await workshop.clock.sleep(9 * MINUTE)
        assert await other.sweep() == SweepResult()
        assert (await running).status == "completed"
    assert workshop.calls == [("a", 1)]


@pytest.mark.req("R258", "R328")
async def test_a_pack_may_let_lost_sessions_go_on(workshop: Workshop, url: str) -> None:
    """Where the pack says resume, the watchdog of a process that has the pack carries the session to its end."""
    workshop.tool("do.it", idempotent=True)
    pack = workshop.pack(session={"on_heartbeat_loss": "resume"})

    async with workshop.journal(url) as journal:
        session = await leave_behind(workshop, pack, journal)
        async with workshop.runtime(pack, journal, watchdog_ms=5_000) as runtime:
            await workshop.clock.sleep(2 * MINUTE)
            assert (await runtime.state(session)).status == "completed"
        assert "session_paused" not in names(await events(journal, session))


@pytest.mark.req("R258")
async def test_what_cannot_go_on_here_is_paused(workshop: Workshop) -> None:
    """A session that shall be resumed, but whose planner nobody has brought, is paused, and the watchdog says so."""
    workshop.tool("do.it", idempotent=True)
    pack = workshop.pack(session={"on_heartbeat_loss": "resume"})
    signals: list[str] = []

    def signal(name: str, _: dict[str, Any]) -> None:
        signals.append(name)

    class Stuck(Script):
        """A planner during whose turn the process dies."""

        async def propose(self, config: RunConfig, feedback: tuple[str, ...]) -> Plan:
            await death("planning")
            return await super().propose(config, feedback)

    death = Death("planning")

    async with workshop.journal("memory:") as journal:

        async def life() -> None:
            async with workshop.runtime(pack, journal) as runtime:
                await runtime.run(ASK, planner=Stuck(), actor=ADA)

        assert await death.of(life()) is None
        await workshop.clock.sleep(2 * MINUTE)
        async with workshop.runtime(pack, journal, signal=signal) as runtime:
            [session] = (await runtime.sweep()).resumed
            assert (await runtime.state(session)).status == "paused"
    assert "watchdog_failed" in signals


@pytest.mark.req("R259")
@pytest.mark.parametrize("what", ["session", "gate"])
async def test_what_has_expired_is_brought_to_its_end(workshop: Workshop, url: str, what: str) -> None:
    """A time to live that ends while nobody looks ends the session, with its effects taken back and a terminal
    checkpoint, by the watchdog alone."""
    world(workshop)
    pack = saga_pack(workshop, session={"ttl_ms": 50_000 if what == "session" else 10**9})
    course = plan(step("a"), step("w", "wipe.it", depends_on=("a",)))

    async with workshop.journal(url) as journal:
        async with workshop.runtime(pack, journal) as runtime:
            session = (await runtime.run(ASK, plan=course, actor=ADA)).session_id
        async with workshop.runtime(pack, journal, watchdog_ms=5_000) as runtime:
            await workshop.clock.sleep(45_000)
            assert (await runtime.state(session)).status == "awaiting_gate"
            await workshop.clock.sleep(30_000)
            report = await runtime.artifact(session)
            assert isinstance(report, FailureReport)
            assert report.status == "expired"
            assert report.reason.startswith("Session expired")
            assert report.rollback is not None
            assert report.rollback.success
            assert report.checkpoint is not None
            newest = await journal.newest("default", session, "point")
            assert newest is not None
            assert newest.hash == report.checkpoint
            assert newest.seq == (await runtime.state(session)).position
    assert undone(workshop) == ["a"]


async def test_a_denial_that_nobody_follows_up_is_carried_out(workshop: Workshop, url: str) -> None:
    """Whoever denies need not have the pack: the next watchdog that has it takes the effects back and ends the run."""
    world(workshop)
    pack = saga_pack(workshop)
    course = plan(step("a"), step("w", "wipe.it", depends_on=("a",)))

    async with workshop.journal(url) as journal, workshop.runtime(pack, journal) as runtime:
        result = await runtime.run(ASK, plan=course, actor=ADA)
        assert result.gate is not None
        await runtime.deny(result.gate.id, actor=BOB)
        assert await runtime.sweep() == SweepResult(resumed=(result.session_id,))
        assert (await runtime.state(result.session_id)).status == "rejected"
    assert undone(workshop) == ["a"]


@pytest.mark.req("R259")
async def test_sessions_of_another_pack_expire_and_starve_nobody(workshop: Workshop) -> None:
    """Where the pinned pack is not, a session expires and stays there, its effects untouched; however many of them
    stay due, the sessions behind them are looked after."""
    world(workshop)
    other = saga_pack(workshop, name="other")
    pack = saga_pack(workshop)
    course = plan(step("a"), step("w", "wipe.it", depends_on=("a",)))

    async with workshop.journal("memory:") as journal:
        async with workshop.runtime(other, journal) as runtime:
            foreign = [(await runtime.run(ASK, plan=course, actor=ADA)).session_id for _ in range(PAGE + 5)]
        await workshop.clock.sleep(1)
        async with workshop.runtime(pack, journal) as runtime:
            ours = (await runtime.run(ASK, plan=course, actor=ADA)).session_id
            workshop.calls.clear()
            await workshop.clock.sleep(MINUTE)
            swept = await runtime.sweep()
            assert set(swept.expired) == {*foreign, ours}
            assert swept.resumed == (ours,)
            assert undone(workshop) == ["a"]
            state = await runtime.state(foreign[0])
            assert (state.status, state.ending) == ("in_progress", "expired")
            later = (await runtime.run(ASK, plan=course, actor=ADA)).session_id
            await workshop.clock.sleep(2 * MINUTE)
            assert await runtime.sweep() == SweepResult(expired=(later,), resumed=(later,))
        async with workshop.runtime(other, journal) as runtime:
            swept = await runtime.sweep()
            assert set(swept.resumed) == set(foreign)
            assert {row.status for row in await runtime.sessions(limit=1_000)} == {"expired"}


async def test_two_watchdogs_do_each_thing_once(workshop: Workshop, url: str) -> None:
    """Two processes that look at the same moment pause a lost session once, and bring an expired one to its end once."""
    world(workshop)
    pack = saga_pack(workshop)
    course = plan(step("a"), step("w", "wipe.it", depends_on=("a",)))

    async with workshop.journal(url) as journal:
        async with workshop.runtime(pack, journal) as runtime:
            waiting = (await runtime.run(ASK, plan=course, actor=ADA)).session_id
        lost = await leave_behind(workshop, pack, journal)
        await workshop.clock.sleep(2 * MINUTE)
        async with workshop.runtime(pack, journal) as one, workshop.runtime(pack, journal) as two:
            await asyncio.gather(one.sweep(), two.sweep())
            await asyncio.gather(one.sweep(), two.sweep())
            assert (await one.state(waiting)).status == "expired"
            assert (await one.state(lost)).status == "paused"
        assert names(await events(journal, waiting)).count("session_expired") == 1
        assert names(await events(journal, lost)).count("session_paused") == 1
    assert undone(workshop) == ["a"]


async def test_a_session_that_cannot_be_read_keeps_nobody_from_being_looked_after(workshop: Workshop) -> None:
    """A damaged session is signalled at every look, and the others are looked after all the same."""
    world(workshop)
    pack = saga_pack(workshop)
    course = plan(step("w", "wipe.it"))
    signals: list[dict[str, Any]] = []

    def signal(name: str, fields: dict[str, Any]) -> None:
        if name == "watchdog_failed":
            signals.append(fields)

    async with (
        workshop.journal("memory:") as journal,
        workshop.runtime(pack, journal, signal=signal) as runtime,
    ):
        bad = (await runtime.run(ASK, plan=course, actor=ADA)).session_id
        good = (await runtime.run(ASK, plan=course, actor=ADA)).session_id
        await workshop.clock.sleep(2 * MINUTE)
        real = journal.read

        async def read(tenant: str, stream: str, **where: Any) -> Any:
            found = await real(tenant, stream, **where)
            return found[1:] if stream == bad else found

        runtime.journal.read = read  # type: ignore[method-assign]
        swept = await runtime.sweep()
        assert swept == SweepResult(expired=(good,), resumed=(good,))
        assert [fields["session_id"] for fields in signals] == [bad]


async def test_closing_a_runtime_lets_go_of_what_its_watchdog_carries(workshop: Workshop, url: str) -> None:
    """A runtime that is closed while its watchdog carries a session leaves it so that another can go on at once."""
    workshop.tool("do.it", taking(1_000), idempotent=True)
    pack = workshop.pack(session={"on_heartbeat_loss": "resume"})

    async with workshop.journal(url) as journal:
        session = await leave_behind(workshop, pack, journal)
        await workshop.clock.sleep(2 * MINUTE)
        async with workshop.runtime(pack, journal) as runtime:
            sweeping = asyncio.ensure_future(runtime.sweep())
            await workshop.clock.sleep(500)
        await sweeping
        async with workshop.runtime(pack, journal) as runtime:
            assert (await runtime.state(session)).status == "paused"
            assert await journal.lease("default", session) is None
            assert (await runtime.resume(session)).status == "completed"
        found = await events(journal, session)
        assert sum(isinstance(event, e.Complete) for event in found) == 2


async def test_a_short_life_costs_no_look(workshop: Workshop) -> None:
    """The watchdog of a runtime that lives shorter than its period never reads the journal."""
    gate = Gate(name="BOSS", roles=("boss",))
    workshop.tool("do.it")
    asked: list[str] = []

    async with workshop.journal("memory:") as journal:
        real = journal.due

        async def due(tenant: str, **where: Any) -> Any:
            asked.append(tenant)
            return await real(tenant, **where)

        journal.due = due  # type: ignore[method-assign]
        async with workshop.runtime(workshop.pack(gates=(gate,)), journal, watchdog_ms=15_000) as runtime:
            await runtime.run(ASK, plan=plan(step("a")), actor=ADA)
        assert asked == []
        async with workshop.runtime(workshop.pack(gates=(gate,)), journal, watchdog_ms=15_000):
            await workshop.clock.sleep(50_000)
        assert asked == ["default"] * 3


def test_a_period_must_be_one(workshop: Workshop) -> None:
    """A watchdog that would look all the time is wrong use."""
    workshop.tool("do.it")
    for period in (0, -5):
        with pytest.raises(UsageError) as caught:
            workshop.runtime(workshop.pack(), watchdog_ms=period)
        assert caught.value.code == "wrong_period"


async def test_nothing_is_taken_over_while_the_tenant_is_stopped(workshop: Workshop, url: str) -> None:
    """What has expired is written down, but not one call is made for it until the stop is lifted."""
    world(workshop)
    pack = saga_pack(workshop)
    course = plan(step("a"), step("w", "wipe.it", depends_on=("a",)))

    async with workshop.journal(url) as journal, workshop.runtime(pack, journal) as runtime:
        session = (await runtime.run(ASK, plan=course, actor=ADA)).session_id
        await runtime.halt("tenant", "default", actor=BOB)
        await workshop.clock.sleep(2 * MINUTE)
        assert await runtime.sweep() == SweepResult(expired=(session,))
        before = await runtime.state(session)
        await workshop.clock.sleep(2 * MINUTE)
        assert await runtime.sweep() == SweepResult()
        assert await runtime.state(session) == before
        await runtime.lift("tenant", "default", actor=BOB)
        assert await runtime.sweep() == SweepResult(resumed=(session,))
        assert (await runtime.state(session)).status == "expired"
    assert undone(workshop) == ["a"]
