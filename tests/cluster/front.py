"""What starts and answers sessions in tests of the cluster, and runs none: workers do, after it has woken them."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from temporalio.client import Client

from acceptance import effects
from cluster.crew import PATIENCE_S, Waking, client_of, dispatcher_of, until, wake
from cluster.orders import AGENT, LEAD, PLAN, SELL
from plugins.temporal import TemporalServer
from tercet.contracts.request import Request
from tercet.core.state import TERMINAL
from tercet.journal.opening import open_journal
from tercet.journal.protocol import Journal, SessionRow
from tercet.packs.pack import Pack
from tercet.runtime import Runtime, RuntimeOptions


@dataclass(frozen=True, kw_only=True)
class Front:
    """A process that starts and answers sessions of one tenant, and runs none."""

    client: Client
    journal: Journal
    dispatcher: Waking
    runtime: Runtime
    tenant: str
    effects: Path

    async def start(
        self, count: int = 1, *, request: Request = SELL, plan: Any = PLAN, is_woken: bool = True
    ) -> list[str]:
        """Start sessions, and wake them; their wake-ups may be lost."""
        found = [(await self.runtime.run(request, plan=plan, actor=AGENT)).session_id for _ in range(count)]
        for session in found if is_woken else ():
            await self.wake(session)
        return found

    async def wake(self, session: str) -> None:
        """Wake a session, as the service does."""
        await wake(self.dispatcher, self.journal, self.tenant, session)

    async def at_gate(self, session: str) -> str:
        """Return the gate of a session once it waits there."""
        await self.until(session, "awaiting_gate")
        return next(iter((await self.runtime.state(session)).gates))

    async def until(self, session: str, *statuses: str) -> SessionRow:
        """Return the row of a session once it has one of these statuses; without any, once it is over."""
        return await until(
            self.journal, self.tenant, session, lambda row: row.status in (statuses or TERMINAL)
        )

    async def approve(self, session: str, *, is_woken: bool = True) -> None:
        """Approve the charge of a session; the wake-up may be lost."""
        await self.runtime.approve(await self.at_gate(session), actor=LEAD)
        if is_woken:
            await self.wake(session)

    async def charged(self, session: str) -> None:
        """Return once the charge of a session has happened."""
        async with asyncio.timeout(PATIENCE_S):
            while not self.happened(session)["s2"]:  # noqa: ASYNC110 - another process
                await asyncio.sleep(0.02)

    def happened(self, session: str) -> Counter[str]:
        """Return how often each step of a session had its effect."""
        return Counter(each.step for each in effects.read(self.effects) if each.warrant == session)


@asynccontextmanager
async def open_front(
    server: TemporalServer, url: str, pack: Pack, folder: Path, *, tenant: str = ""
) -> AsyncGenerator[Front]:
    """Open a front, with a tenant of its own if none is named."""
    tenant = tenant or f"t{os.urandom(4).hex()}"
    client = await client_of(server)
    async with (
        open_journal(url) as journal,
        Runtime(
            pack, journal, tenant=tenant, watchdog_ms=None, options=RuntimeOptions(is_front=True)
        ) as runtime,
    ):
        yield Front(
            client=client, journal=journal, dispatcher=dispatcher_of(client), runtime=runtime, tenant=tenant,
            effects=folder / "effects.db",
        )  # fmt: skip
