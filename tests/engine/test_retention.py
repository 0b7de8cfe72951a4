"""Forgetting: what ended long ago goes with all that belongs to it, and nothing else does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tercet.contracts.errors import UsageError
from tercet.contracts.request import Request
from tercet.core.messages import inbox_of
from tercet.engine.checks.retention import DAY_MS
from tercet.engine.rows import PAGE
from tercet.engine.streams.nesting import family_of
from tercet.journal.errors import BlobMissing, JournalCorrupt, JournalUnavailable
from tercet.journal.memory import MemoryJournal
from tercet.runtime import Runtime
from tercet.tools import ToolContext

from .faults import Through
from .test_sagas import WAITS, refusing, saga_pack, world
from .workshop import ADA, ASK, BOB, Workshop, plan, step

KEYED = Request(intent="work", request_key="k1")


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of a journal of each kind."""
    match request.param:
        case "memory":
            return "memory:"
        case "sqlite":
            return f"sqlite:///{tmp_path / 'runs.db'}"
        case _:
            return str(request.getfixturevalue("postgres_url"))


async def left_of(runtime: Runtime, session: str) -> list[int]:
    """How many events there are of a session, of its inbox and of what was settled in it."""
    streams = (session, inbox_of(session), f"rollback:{session}")
    return [(await runtime.journal.head(runtime.tenant, stream)).seq for stream in streams]


@pytest.mark.req("R263")
async def test_what_ended_long_ago_is_forgotten_whole(workshop: Workshop, store: str) -> None:
    """Events, inbox, settlements, blobs and the request's key go; the number of sessions is told."""
    world(workshop, refusing())

    async with (
        workshop.journal(store) as journal,
        workshop.runtime(saga_pack(workshop), journal, tenant="forgetful") as runtime,
    ):
        result = await runtime.run(KEYED, plan=WAITS, actor=ADA)
        assert result.gate is not None
        await runtime.deny(result.gate.id, actor=BOB)
        result = await runtime.resume(result.session_id)
        for name in ("a", "b"):
            await runtime.settle_rollback(result.session_id, name, actor=BOB)
        assert all(await left_of(runtime, result.session_id))
        state = await runtime.state(result.session_id)
        await workshop.clock.sleep(DAY_MS)
        assert await runtime.prune(older_than_ms=2 * DAY_MS) == 0
        assert await runtime.prune(older_than_ms=DAY_MS // 2) == 1
        assert await runtime.prune(older_than_ms=0) == 0
        assert await left_of(runtime, result.session_id) == [0, 0, 0]
        assert await runtime.sessions() == []
        with pytest.raises(BlobMissing):
            await journal.blob(runtime.tenant, state.kept)
        again = await runtime.run(KEYED, plan=plan(step("z")), actor=ADA)
        assert again.session_id != result.session_id


@pytest.mark.req("R263")
async def test_only_what_is_over_and_settled_is_forgotten(workshop: Workshop, url: str) -> None:
    """Sessions that wait, that are paused, or that left an operator something to do stay, however old they are."""
    world(workshop, refusing())

    async with (
        workshop.journal(url) as journal,
        workshop.runtime(saga_pack(workshop), journal) as runtime,
    ):
        waiting = await runtime.run(ASK, plan=WAITS, actor=ADA)
        owed = await runtime.run(ASK, plan=WAITS, actor=ADA)
        assert owed.gate is not None
        await runtime.deny(owed.gate.id, actor=BOB)
        await runtime.resume(owed.session_id)
        done = await runtime.run(ASK, plan=plan(step("a")), actor=ADA)
        assert done.status == "completed"
        await workshop.clock.sleep(10 * DAY_MS)
        assert await runtime.prune(older_than_ms=DAY_MS) == 1
        left = {row.session_id for row in await runtime.sessions()}
        assert left == {waiting.session_id, owed.session_id}
        for name in ("a", "b"):
            await runtime.settle_rollback(owed.session_id, name, actor=BOB)
        assert await runtime.prune(older_than_ms=DAY_MS) == 1


@pytest.mark.req("R263")
async def test_tenants_have_rules_of_their_own(workshop: Workshop) -> None:
    """A tenant that the pack names keeps its sessions, and lets them live, as long as the pack says for it."""
    workshop.tool("do.it")
    own = {"short": {"retention_days": 2, "ttl_ms": 1_000}, "long": {"retention_days": 90}}
    pack = workshop.pack(
        session={"retention_days": 30, "ttl_ms": 5_000, "heartbeat_interval_ms": 500, "tenants": own}
    )

    async with workshop.journal("memory:") as journal:
        kept: dict[str, list[int]] = {}
        lives: dict[str, int] = {}
        for tenant in ("short", "default", "long"):
            async with workshop.runtime(pack, journal, tenant=tenant) as runtime:
                result = await runtime.run(ASK, plan=plan(step("a")), actor=ADA)
                lives[tenant] = (await runtime.session(result.session_id)).heartbeat.ttl_ms
        for days in (3, 28, 60):
            await workshop.clock.sleep(days * DAY_MS)
            for tenant in lives:
                async with workshop.runtime(pack, journal, tenant=tenant) as runtime:
                    kept.setdefault(tenant, []).append(await runtime.prune())
    assert lives == {"short": 1_000, "default": 5_000, "long": 5_000}
    assert kept == {"short": [1, 0, 0], "default": [0, 1, 0], "long": [0, 0, 1]}


@pytest.mark.req("R263")
async def test_a_pack_says_how_long_its_sessions_are_kept(workshop: Workshop) -> None:
    """Without an age the pack's own counts, for its own sessions and its own tenant; a pack that is silent keeps all."""
    workshop.tool("do.it")
    other = workshop.pack(name="other")
    pack = workshop.pack(session={"retention_days": 30})

    async with (
        workshop.journal("memory:") as journal,
        workshop.runtime(other, journal) as keeping,
        workshop.runtime(pack, journal) as runtime,
        workshop.runtime(pack, journal, tenant="elsewhere") as elsewhere,
    ):
        for each in (keeping, runtime, elsewhere):
            await each.run(ASK, plan=plan(step("a")), actor=ADA)
        await workshop.clock.sleep(29 * DAY_MS)
        assert await runtime.prune() == 0
        await workshop.clock.sleep(2 * DAY_MS)
        assert await keeping.prune() == 0
        assert await runtime.prune() == 1
        [row] = await runtime.sessions()
        assert row.pack == "other@1.0.0"
        assert len(await elsewhere.sessions()) == 1
        with pytest.raises(UsageError) as caught:
            await runtime.prune(older_than_ms=-1)
        assert caught.value.code == "wrong_age"


async def test_what_stays_hides_nothing_behind_it(workshop: Workshop) -> None:
    """More sessions of another pack than a page holds do not keep those behind them from being forgotten."""
    workshop.tool("do.it")
    pack = workshop.pack(session={"retention_days": 1})

    async with workshop.journal("memory:") as journal:
        async with workshop.runtime(workshop.pack(name="other"), journal) as keeping:
            for _ in range(PAGE + 1):
                await keeping.run(ASK, plan=plan(step("a")), actor=ADA)
        await workshop.clock.sleep(1)
        async with workshop.runtime(pack, journal) as runtime:
            await runtime.run(ASK, plan=plan(step("a")), actor=ADA)
            await workshop.clock.sleep(2 * DAY_MS)
            assert await runtime.prune() == 1
            assert len(await runtime.sessions(limit=1_000)) == PAGE + 1


class BitRot(Through):
    """A journal with one session that cannot be read any more."""

    damaged = ""

    async def read(self, tenant: str, stream: str, **named: Any) -> Any:
        """The same, but for one stream."""
        if stream == self.damaged:
            raise JournalCorrupt(f"stream {stream}", "bit rot")
        return await self.inner.read(tenant, stream, **named)

    async def newest(self, tenant: str, stream: str, kind: Any) -> Any:
        """None for the damaged one, so that its events are needed."""
        return None if stream == self.damaged else await self.inner.newest(tenant, stream, kind)


@pytest.mark.req("R263")
async def test_a_session_that_cannot_be_read_keeps_no_other_from_being_forgotten(workshop: Workshop) -> None:
    """It stays, since nobody knows what is owed for it, and is told; those before and behind it are forgotten."""
    workshop.tool("do.it")
    told: list[tuple[str, Any]] = []

    journal = BitRot(MemoryJournal())

    def signal(name: str, said: dict[str, Any]) -> None:
        told.append((name, said.get("session_id")))

    async with workshop.runtime(workshop.pack(), journal.itself, signal=signal) as runtime:
        ran = [await runtime.run(ASK, plan=plan(step("a")), actor=ADA) for _ in range(3)]
        await workshop.clock.sleep(DAY_MS)
        journal.damaged = ran[1].session_id
        assert await runtime.prune(older_than_ms=0) == 2
        assert [row.session_id for row in await runtime.sessions()] == [journal.damaged]
        assert ("prune_failed", journal.damaged) in told


async def test_a_journal_that_is_gone_is_told_and_not_taken_for_damage(workshop: Workshop) -> None:
    """Where the journal itself does not answer, pruning ends with that."""
    workshop.tool("do.it")

    class Gone(Through):
        """A journal that cannot be read once a test says so."""

        is_gone = False

        async def head(self, tenant: str, stream: str) -> Any:
            """The same while it is there."""
            if self.is_gone:
                raise JournalUnavailable("memory", "the disk is gone")
            return await self.inner.head(tenant, stream)

    journal = Gone(MemoryJournal())
    async with workshop.runtime(workshop.pack(), journal.itself) as runtime:
        await runtime.run(ASK, plan=plan(step("a")), actor=ADA)
        await workshop.clock.sleep(DAY_MS)
        journal.is_gone = True
        with pytest.raises(JournalUnavailable):
            await runtime.prune(older_than_ms=0)


async def test_what_a_family_of_runs_shared_is_forgotten_with_it(workshop: Workshop, store: str) -> None:
    """The stream of reservations goes with the root, or with a child that wrote to it after the root was gone."""
    runtimes: list[Runtime] = []
    parents: list[ToolContext] = []

    async def spawn(context: ToolContext, params: dict[str, Any]) -> Any:
        parents.append(context)
        await runtimes[0].run(ASK, plan=plan(step("b")), parent=context)
        return params

    workshop.tool("do.it")
    workshop.tool("dig.it", spawn, idempotent=True)

    async with (
        workshop.journal(store) as journal,
        workshop.runtime(workshop.pack(), journal, tenant="family") as runtime,
    ):
        runtimes.append(runtime)
        root = (await runtime.run(ASK, plan=plan(step("a", "dig.it")), actor=ADA)).session_id
        assert (await journal.head("family", family_of(root))).seq
        await workshop.clock.sleep(DAY_MS)
        assert await runtime.prune(older_than_ms=0) == 2
        assert (await journal.head("family", family_of(root))).seq == 0
        await runtime.run(ASK, plan=plan(step("c")), parent=parents[0])  # one that begins too late
        assert (await journal.head("family", family_of(root))).seq
        await workshop.clock.sleep(DAY_MS)
        assert await runtime.prune(older_than_ms=0) == 1
        assert (await journal.head("family", family_of(root))).seq == 0
