"""A service around the refund desk, called over ASGI: keys for its people, and what its database holds."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import httpx2

from tercet.contracts.request import Actor
from tercet.engine.streams.credentials import NewKey
from tercet.executor.clock import SystemClock
from tercet.journal.memory import MemoryJournal
from tercet.journal.protocol import Journal
from tercet.packs.pack import Pack
from tercet.service.server import Running, ServeSettings, open_service

REFUNDS = Path(__file__).parents[2] / "examples" / "refunds"
REFUND = {"intent": "support.refund", "input": {"order_id": "ord_881", "window_id": "rw_881"}}
HOST = "http://127.0.0.1:8700"
ENDED = ("completed", "failed", "expired", "rejected", "cancelled")


@dataclass(frozen=True, kw_only=True)
class Desk:
    """A service that runs in this process."""

    running: Running
    client: httpx2.AsyncClient
    journal: Journal

    async def key(self, actor: str, **more: Any) -> str:
        """Make an API key."""
        wanted = NewKey(tenant=more.pop("tenant", "default"), actor=actor, by="test", **more)
        _, text = await self.running.keys.create(wanted, SystemClock().now())
        return text

    async def post(self, key: str, body: Any, **headers: str) -> httpx2.Response:
        """Send something to /rpc."""
        sent = {"authorization": f"Bearer {key}", **headers} if key else headers
        if isinstance(body, bytes):
            return await self.client.post("/rpc", content=body, headers=sent)
        return await self.client.post("/rpc", json=body, headers=sent)

    async def rpc(self, key: str, method: str, /, _as: str = "", **params: Any) -> Any:
        """Return the result of a call, or the data of its error."""
        headers = {"tercet-act-as": _as} if _as else {}
        response = await self.post(
            key, {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}, **headers
        )
        answer = cast("dict[str, Any]", response.json())
        if "jsonrpc" not in answer:
            return answer["error"]
        assert (answer["jsonrpc"], answer["id"]) == ("2.0", 1)
        return answer["result"] if "result" in answer else answer["error"]["data"]

    async def until(self, key: str, session: str, *statuses: str) -> dict[str, Any]:
        """Return a session once it has one of these statuses; without any, once it is over."""
        async with asyncio.timeout(300):
            while True:
                found = await self.rpc(key, "getSession", session_id=session)
                if found["session"]["status"] in (statuses or ENDED):
                    return found
                await asyncio.sleep(0.01)


def refunds(folder: Path) -> list[tuple[str, int]]:
    """Return the refunds that the desk has paid."""
    with closing(sqlite3.connect(folder / "refunds.db")) as db:
        return db.execute("SELECT payment_id, amount_inr FROM refunds").fetchall()


@asynccontextmanager
async def open_desk(journal: Journal | None = None, *packs: Pack, **settings: Any) -> AsyncGenerator[Desk]:
    """A service with the refund desk, or other packs."""
    journal = journal or MemoryJournal()
    settings.setdefault("local", Actor(id="olga", os_user="olga"))
    served = packs or (Pack.load(REFUNDS),)
    async with open_service(served, journal, ServeSettings(**settings)) as running:
        transport = httpx2.ASGITransport(app=cast("Any", running.app))
        async with httpx2.AsyncClient(transport=transport, base_url=HOST) as client:
            yield Desk(running=running, client=client, journal=journal)
