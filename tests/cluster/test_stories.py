"""Sessions that Temporal schedules: through gates to their end, with the journal as the only truth."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
import pytest

from cluster.crew import PATIENCE_S, client_of, dispatcher_of, until, working
from plugins.temporal import TemporalServer
from service.desk import REFUND, REFUNDS, Desk, refunds
from tercet.cluster.connection import queue_of
from tercet.cluster.workflow import INTENT, PACK, STATUS, TENANT
from tercet.contracts.request import Actor
from tercet.engine.streams.credentials import SCOPES
from tercet.journal.opening import open_journal
from tercet.journal.protocol import Journal
from tercet.packs.pack import Pack
from tercet.service.server import ServeSettings, open_service

pytestmark = pytest.mark.slow


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a database of the refund desk of its own."""
    monkeypatch.setenv("TERCET_REFUNDS_DB", str(tmp_path / "refunds.db"))
    return tmp_path


@asynccontextmanager
async def open_front(temporal: TemporalServer, journal: Journal, *packs: Pack) -> AsyncGenerator[Desk]:
    """A service that runs nothing itself: it wakes sessions through Temporal."""
    dispatcher = dispatcher_of(await client_of(temporal))
    settings = ServeSettings(local=Actor(id="olga", os_user="olga"), tenant=f"t{os.urandom(4).hex()}")
    served = packs or (Pack.load(REFUNDS),)
    async with open_service(served, journal, settings, carrier=dispatcher) as running:
        transport = httpx2.ASGITransport(app=running.app)  # pyright: ignore[reportArgumentType] - a Starlette type
        async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1:8700") as client:
            yield Desk(running=running, client=client, journal=journal)
    await dispatcher.close()


async def test_a_refund_goes_through_its_gate_to_its_end(
    temporal: TemporalServer, postgres_url: str, shop: Path
) -> None:
    """The service only records and wakes; a worker carries the session, and the approval's signal lets it go on."""
    async with open_journal(postgres_url) as journal, open_front(temporal, journal) as desk:
        client = await client_of(temporal)
        tenant = "default"
        agent = await desk.key("agt_support")
        finance = await desk.key("user_finance_lead", roles=("finance_lead",))
        async with working(client, journal, Pack.load(REFUNDS)):
            started = await desk.rpc(agent, "invokeAgent", request=REFUND)
            session = started["session"]["session_id"]
            await until(journal, tenant, session, lambda row: row.status == "awaiting_gate")
            gates = (await desk.rpc(agent, "getSession", session_id=session))["gates"]
            assert refunds(shop) == []
            approved = await desk.rpc(finance, "approveGate", gate_id=gates[0])
            assert "session" in approved, approved
            row = await until(journal, tenant, session)
            handle = client.get_workflow_handle(f"{tenant}/{session}")
            assert await handle.result() == "completed"
        assert row.status == "completed"
        assert len(refunds(shop)) == 1
        found = await handle.describe()
        queue = f"{row.pack}+{row.pack_hash.removeprefix('sha256:')[:12]}"
        expected = {TENANT: tenant, INTENT: "support.refund", STATUS: "completed", PACK: queue}
        assert {key: found.typed_search_attributes[key] for key in expected} == expected


async def test_a_session_that_is_moved_at_its_gate_shows_its_new_pack(
    temporal: TemporalServer, postgres_url: str, shop: Path
) -> None:
    """The service reviews its plan again and runs nothing; the workflow is woken, and waits on the queue of the new version."""
    shutil.copytree(REFUNDS, shop / "newer")
    declared = shop / "newer" / "pack.toml"
    text = declared.read_text(encoding="utf-8")
    declared.write_text(text.replace('version = "1.0.0"', 'version = "1.1.0"'), encoding="utf-8")
    old, new = Pack.load(REFUNDS), Pack.load(shop / "newer")
    async with open_journal(postgres_url) as journal, open_front(temporal, journal, old) as before:
        client, agent = await client_of(temporal), await before.key("agt_support")
        async with working(client, journal, old):
            started = await before.rpc(agent, "invokeAgent", request=REFUND)
            session = started["session"]["session_id"]
            await before.until(agent, session, "awaiting_gate")
    async with (
        open_journal(postgres_url) as journal,
        open_front(temporal, journal, old, new) as after,
        working(client, journal, new),
    ):
        operator = await after.key("user_operator", scopes=SCOPES)
        moved = await after.rpc(operator, "migrateSession", session_id=session)
        assert moved["session"]["status"] == "awaiting_gate", moved
        handle = client.get_workflow_handle(f"default/{session}")
        async with asyncio.timeout(PATIENCE_S):
            queue = queue_of(new.ref, new.hash)
            while (await handle.describe()).typed_search_attributes[PACK] != queue:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        await after.rpc(operator, "cancelSession", session_id=session)
        assert await handle.result() == "cancelled"
