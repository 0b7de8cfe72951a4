"""What a cluster does when wake-ups, workers or Temporal are lost, and when two pack versions run side by side."""

from __future__ import annotations

import asyncio
import signal
from collections import Counter
from pathlib import Path

import pytest
from temporalio.worker import Replayer, UnsandboxedWorkflowRunner
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner

from acceptance import effects
from cluster.crew import PATIENCE_S, working
from cluster.front import open_front
from cluster.orders import AGENT, LEAD, PLAN, SELL, make_pack
from cluster.process import worker_process
from plugins.temporal import TemporalServer, running_temporal
from tercet.cluster.connection import queue_of
from tercet.cluster.drain import count_remaining, wait_drained
from tercet.cluster.workflow import SessionWorkflow
from tercet.runtime import Runtime

pytestmark = pytest.mark.slow


SOLD = Counter(s1=1, s2=1)


async def test_a_denied_or_cancelled_session_takes_its_effects_back(
    temporal: TemporalServer, postgres_url: str, shop: Path
) -> None:
    """The wake-up after a denial or a cancellation lets a worker compensate, once; a lane ran inside of each."""
    pack = make_pack()
    async with open_front(temporal, postgres_url, pack, shop) as front:
        async with working(front.client, front.journal, pack):
            denied, cancelled = await front.start(2)
            await front.runtime.deny(await front.at_gate(denied), actor=LEAD)
            await front.at_gate(cancelled)
            await front.runtime.cancel(cancelled, actor=AGENT)
            for session, status in ((denied, "rejected"), (cancelled, "cancelled")):
                await front.wake(session)
                assert (await front.until(session)).status == status
                assert front.happened(session) == Counter({"s1": 1, "~s1": 1})
        looks = [each for each in effects.read(front.effects) if each.tool.startswith("order.look")]
        assert len(looks) == 2


async def test_a_lost_wake_up_is_found_by_the_sweep_and_histories_replay(
    temporal: TemporalServer, postgres_url: str, shop: Path
) -> None:
    """Nobody signals after the approval; the sweep does. The workflow's history is short, and replays, also in the sandbox of
    Temporal's workers, which refuses code that is not deterministic."""
    pack = make_pack()
    async with open_front(temporal, postgres_url, pack, shop) as front:
        async with working(front.client, front.journal, pack, sweep_ms=100) as sweep:
            (session,) = await front.start()
            await front.approve(session, is_woken=False)
            assert (await front.until(session)).status == "completed"
            handle = front.client.get_workflow_handle(f"{front.tenant}/{session}")
            assert await handle.result() == "completed"
        assert sweep.woken >= 1
        assert front.happened(session) == SOLD
        history = await handle.fetch_history()
        assert len(history.events) <= 40
        for runner in (UnsandboxedWorkflowRunner(), SandboxedWorkflowRunner()):
            await Replayer(workflows=[SessionWorkflow], workflow_runner=runner).replay_workflow(history)


async def test_a_gate_that_nobody_answers_expires_by_a_timer(
    temporal: TemporalServer, postgres_url: str, shop: Path
) -> None:
    """No sweep runs and nobody signals: the workflow's own timer wakes the session when its gate's time is up."""
    pack = make_pack(gate_ttl_ms=1_500)
    async with open_front(temporal, postgres_url, pack, shop) as front:
        async with working(front.client, front.journal, pack):
            (session,) = await front.start()
            assert (await front.until(session)).status == "expired"
        assert front.happened(session) == Counter({"s1": 1, "~s1": 1})


async def test_a_killed_worker_is_followed_by_another_and_the_charge_happens_once(
    temporal: TemporalServer, postgres_url: str, shop: Path
) -> None:
    """Killed after the charge and before it could record it; the other worker looks the charge up."""
    pack, log = make_pack(), shop / "log"
    async with open_front(temporal, postgres_url, pack, shop) as front:
        (shop / "order.charge").touch()
        with worker_process(temporal.address, postgres_url, pack.version, log=log) as first:
            (session,) = await front.start()
            await front.approve(session)
            await front.charged(session)
            first.kill()
        (shop / "order.charge").unlink()
        with worker_process(temporal.address, postgres_url, pack.version, log=log):
            assert (await front.until(session)).status == "completed"
        assert front.happened(session) == SOLD


async def test_a_lane_that_is_woken_is_left_to_its_parent(
    temporal: TemporalServer, postgres_url: str, shop: Path
) -> None:
    """The sweep may find the lane of a lost worker. Its workflow ends at once: the parent's advance carries the lane."""
    pack, log = make_pack(), shop / "log"
    async with open_front(temporal, postgres_url, pack, shop) as front:
        (shop / "order.look").touch()
        with worker_process(temporal.address, postgres_url, pack.version, log=log) as first:
            (session,) = await front.start()
            async with asyncio.timeout(PATIENCE_S):
                while len(rows := await front.journal.sessions(front.tenant)) < 2:  # noqa: ASYNC110
                    await asyncio.sleep(0.02)
            first.kill()
        (lane,) = (row.session_id for row in rows if row.session_id != session)
        await front.wake(lane)
        with worker_process(temporal.address, postgres_url, pack.version, log=log):
            async with asyncio.timeout(PATIENCE_S):
                await front.client.get_workflow_handle(f"{front.tenant}/{lane}").result()
            (shop / "order.look").unlink()
            await front.at_gate(session)


async def test_a_frozen_worker_writes_nothing_and_repeats_nothing(
    temporal: TemporalServer, postgres_url: str, shop: Path
) -> None:
    """Stopped inside of its call beyond its lease, it wakes up after another has ended the session."""
    pack, log = make_pack(), shop / "log"
    async with open_front(temporal, postgres_url, pack, shop) as front:
        (shop / "order.charge").touch()
        with worker_process(temporal.address, postgres_url, pack.version, log=log) as frozen:
            (session,) = await front.start()
            await front.approve(session)
            await front.charged(session)
            frozen.send_signal(signal.SIGSTOP)
            (shop / "order.charge").unlink()
            with worker_process(temporal.address, postgres_url, pack.version, log=log):
                assert (await front.until(session)).status == "completed"
            ended = await front.journal.head(front.tenant, session)
            frozen.send_signal(signal.SIGCONT)
            assert frozen.stdin is not None
            frozen.stdin.close()
            frozen.stdin = None
            assert await asyncio.to_thread(frozen.wait, PATIENCE_S) == 0
            assert await front.journal.head(front.tenant, session) == ended
        assert front.happened(session) == SOLD
        assert "Traceback" not in log.read_text(encoding="utf-8")


async def test_an_approval_while_temporal_is_down_counts(postgres_url: str, shop: Path) -> None:
    """The journal has it; once Temporal is back, the session goes on."""
    pack = make_pack()
    with running_temporal(shop) as server:
        async with (
            open_front(server, postgres_url, pack, shop) as front,
            working(front.client, front.journal, pack, sweep_ms=250),
        ):
            (session,) = await front.start()
            gate = await front.at_gate(session)
            server.kill()
            await front.runtime.approve(gate, actor=LEAD)
            row = await front.journal.session(front.tenant, session)
            assert row is not None
            assert not await front.dispatcher.wake(row)
            assert front.happened(session) == Counter(s1=1)
            server.start()
            assert (await front.until(session)).status == "completed"
            assert front.happened(session) == SOLD


async def test_a_rolling_upgrade_runs_every_session_with_the_code_it_is_pinned_to(
    temporal: TemporalServer, postgres_url: str, shop: Path
) -> None:
    """Two versions side by side under load: each worker takes only its own, and the old one is drained, then stopped."""
    # Versions of their own: sessions that other tests leave on this server would be counted as well.
    old, new = make_pack("3.0.0"), make_pack("4.0.0")
    async with (
        open_front(temporal, postgres_url, old, shop) as before,
        open_front(temporal, postgres_url, new, shop) as after,
    ):
        early = await before.start(4)
        late = await after.start(4)
        async with working(after.client, after.journal, new):
            for session in late:
                await after.approve(session)
            assert [(await after.until(session)).status for session in late] == ["completed"] * 4
            # Nobody has the old version: its sessions wait for a worker that has.
            rows = [await before.journal.session(before.tenant, session) for session in early]
            assert {row.status for row in rows if row is not None} == {"in_progress"}
            assert not any(before.happened(session) for session in early)
            queue = queue_of(old.ref, old.hash)
            async with working(before.client, before.journal, old):
                for session in early[1:]:
                    await before.approve(session)
                    await before.until(session)
                await before.at_gate(early[0])
                async with asyncio.timeout(PATIENCE_S):
                    while True:  # Temporal's lists lag behind
                        left = await count_remaining(before.client, before.journal, queue)
                        if left.temporal.total == 1 and left.temporal.by_status == {"awaiting_gate": 1}:
                            break
                        await asyncio.sleep(0.1)
                assert left.temporal.sessions == left.journal.sessions == (f"{before.tenant}/{early[0]}",)
                await before.approve(early[0])
                async with asyncio.timeout(PATIENCE_S):
                    await wait_drained(before.client, before.journal, queue, lambda _: None)
        for front, sessions, version in ((before, early, "3.0.0"), (after, late, "4.0.0")):
            for session in sessions:
                assert front.happened(session) == SOLD
                found = {each.tool for each in effects.read(front.effects) if each.warrant == session}
                assert found == {f"order.reserve@{version}", f"order.charge@{version}"}


@pytest.mark.parametrize("is_moved", [True, False])
async def test_a_version_is_drained_although_its_session_left_it_without_a_wake_up(
    is_moved: bool, temporal: TemporalServer, postgres_url: str, shop: Path
) -> None:
    """At its gate it was moved to another pack, or cancelled, by a process that does not know of Temporal: its workflow waits
    on the old version until the drain signals it."""
    old, new = make_pack(f"6.{is_moved:d}.0"), make_pack(f"7.{is_moved:d}.0")
    async with (
        open_front(temporal, postgres_url, old, shop) as front,
        working(front.client, front.journal, old, new),
    ):
        (session,) = await front.start()
        await front.at_gate(session)
        pack = new if is_moved else old
        async with Runtime(pack, front.journal, tenant=front.tenant, watchdog_ms=None) as alone:
            if is_moved:
                await alone.migrate(session, actor=LEAD)
            else:
                await alone.cancel(session, actor=AGENT)
                await alone.carry_on(session)
        async with asyncio.timeout(PATIENCE_S):
            await wait_drained(front.client, front.journal, queue_of(old.ref, old.hash), lambda _: None)
        if is_moved:
            await front.approve(session)
        assert (await front.until(session)).status == ("completed" if is_moved else "cancelled")
        assert await front.client.get_workflow_handle(f"{front.tenant}/{session}").result()


async def test_a_session_that_temporal_does_not_know_is_left_on_its_version(
    temporal: TemporalServer, postgres_url: str, shop: Path
) -> None:
    """It has waited at its gate since before Temporal was used: without a worker of its version it would wait for good."""
    pack = make_pack("5.0.0")
    async with open_front(temporal, postgres_url, pack, shop) as front:
        async with Runtime(pack, front.journal, tenant=front.tenant, watchdog_ms=None) as alone:
            session = (await alone.run(SELL, plan=PLAN, actor=AGENT)).session_id
        left = await count_remaining(front.client, front.journal, pack.ref)
        assert not left.is_drained
        assert left.is_known
        assert not (await count_remaining(front.client, front.journal, "orders@5.0.1")).is_known
        assert (left.temporal.total, left.journal.total) == (0, 1)
        assert (left.journal.by_status, left.journal.sessions) == (
            {"awaiting_gate": 1}, (f"{front.tenant}/{session}",),
        )  # fmt: skip
        async with working(front.client, front.journal, pack):
            await front.approve(session)
            async with asyncio.timeout(PATIENCE_S):
                await wait_drained(front.client, front.journal, queue_of(pack.ref, pack.hash), lambda _: None)
            assert (await front.until(session)).status == "completed"
            assert (
                await count_remaining(front.client, front.journal, pack.ref)
            ).is_known  # by its closed workflow
