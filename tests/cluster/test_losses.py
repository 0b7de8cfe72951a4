"""What is left of a cluster whose Temporal has lost its data, or whose journal is restored from a backup."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any, cast

import asyncpg  # pyright: ignore[reportMissingTypeStubs] - it has none
import pytest

from cluster.crew import PATIENCE_S, working
from cluster.front import Front, open_front
from cluster.orders import LEAD, OFFER_PLAN, make_pack
from plugins.postgres import PostgresServer
from plugins.temporal import TemporalServer, program, running_temporal
from tercet.cluster.workflow import TENANT, WORKFLOW

pytestmark = pytest.mark.slow


async def test_a_temporal_that_lost_its_data_loses_no_session(postgres_url: str, shop: Path) -> None:
    """Its server comes back empty: one session was inside of a call, one waits for an approval, one for a time limit."""
    pack = make_pack()
    with running_temporal(shop) as server:
        async with (
            open_front(server, postgres_url, pack, shop) as front,
            working(front.client, front.journal, pack, sweep_ms=250),
        ):
            calling, waiting = await front.start(2)
            (offered,) = await front.start(plan=OFFER_PLAN)
            await front.at_gate(waiting)
            await front.at_gate(offered)
            (shop / "order.charge").touch()
            await front.approve(calling)
            await front.charged(calling)
            server.kill()
            server.remove_data()
            server.start()
            (shop / "order.charge").unlink()
            await front.runtime.approve(await front.at_gate(waiting), actor=LEAD)
            (late,) = await front.start(is_woken=False)
            await front.approve(late, is_woken=False)
            for session, status in (
                (calling, "completed"), (waiting, "completed"), (late, "completed"), (offered, "expired"),
            ):  # fmt: skip
                assert (await front.until(session)).status == status
                taken = Counter({"s1": 1, "~s1": 1}) if session == offered else Counter(s1=1, s2=1)
                assert front.happened(session) == taken


async def test_a_journal_restored_from_a_backup_goes_on_once_its_workflows_are_ended(
    temporal: TemporalServer, postgres_server: PostgresServer, shop: Path
) -> None:
    """Temporal is ahead of the backup: one workflow waits for a gate that has not opened there, and one knows a session that
    the journal has not. With the command of the page on many machines the journal decides alone."""
    pack = make_pack()
    name = f"restored_{os.urandom(4).hex()}"
    journal = await _create_database(postgres_server.url, name)
    async with open_front(temporal, journal, pack, shop) as front:
        (early,) = await front.start()
    copy = await _create_database(postgres_server.url, f"{name}_copy", f"TEMPLATE {name}")
    async with (
        open_front(temporal, journal, pack, shop, tenant=front.tenant) as front,
        working(front.client, front.journal, pack),
    ):
        (late,) = await front.start()
        for session in (early, late):
            await front.at_gate(session)
    async with open_front(temporal, copy, pack, shop, tenant=front.tenant) as front:
        await _end_workflows(temporal, front, early, late)
        async with working(front.client, front.journal, pack, sweep_ms=250):
            await front.approve(early)
            assert (await front.until(early)).status == "completed"
        assert front.happened(early) == Counter(s1=1, s2=1)
        assert await front.journal.session(front.tenant, late) is None


async def _create_database(server: str, name: str, how: str = "") -> str:
    connection = await cast("Any", asyncpg).connect(server)
    try:
        await connection.execute(f"CREATE DATABASE {name} {how}")
    finally:
        await connection.close()
    return server.replace("/postgres?", f"/{name}?")


async def _end_workflows(server: TemporalServer, front: Front, *sessions: str) -> None:
    query = f'WorkflowType = "{WORKFLOW}" AND {TENANT.name} = "{front.tenant}"'
    async with asyncio.timeout(PATIENCE_S):
        while (await front.client.count_workflows(query)).count < len(sessions):  # noqa: ASYNC110 - its lists lag behind
            await asyncio.sleep(0.1)
        words = ["workflow", "terminate", "--address", server.address, "--yes", "--query", query]
        words = [str(program()), *words, "--reason", "the journal is restored from a backup"]
        await asyncio.to_thread(subprocess.run, words, check=True, capture_output=True)
        for session in sessions:
            handle = front.client.get_workflow_handle(f"{front.tenant}/{session}")
            while (await handle.describe()).close_time is None:  # noqa: ASYNC110 - a batch of Temporal
                await asyncio.sleep(0.1)
