"""Workers in this process, and a pack whose one tool notes who calls it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from service.desk import ENDED
from tercet.contracts.decision import DecisionSpec
from tercet.contracts.request import Request
from tercet.journal.protocol import Journal, SessionRow
from tercet.packs.pack import Pack
from tercet.runtime import Runtime, RuntimeOptions
from tercet.service.hub import Hub
from tercet.service.server import running_worker
from tercet.service.worker import Worker
from tercet.tools import Tool, ToolContext

WORK = Request(intent="work")
PLAN = {"steps": [{"id": "s1", "tool": "shop.work"}, {"id": "s2", "tool": "shop.work", "depends_on": ["s1"], "params": {"again": True}}]}  # fmt: skip


class Shop:
    """A pack with one tool, which notes who calls it and may be held up."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str, str]] = []
        self.begun: list[str] = []
        self.at_once = self.most_at_once = 0
        self.may_work = asyncio.Event()
        self.may_work.set()
        self.has_begun = asyncio.Event()
        tool = Tool.model_validate({"name": "shop.work", "mode": "local_write", "call": self._work})
        spec = DecisionSpec.model_validate({"id": "work", "risk_tier": "low"})
        self.pack = Pack.model_validate(
            {"name": "shop", "version": "1.0.0", "tools": (tool,), "decisions": (spec,)}
        )

    async def _work(self, context: ToolContext, **_: Any) -> str:
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        self.begun.append(context.tenant)
        self.has_begun.set()
        await self.may_work.wait()
        await asyncio.sleep(0)
        self.at_once -= 1
        self.calls.append((context.tenant, context.session_id, context.step_id))
        return "done"

    async def start(self, journal: Journal, *tenants: str) -> list[str]:
        """Start a session for each tenant, and leave it to a worker."""
        found: list[str] = []
        for tenant in tenants:
            options = RuntimeOptions(is_front=True)
            async with Runtime(
                self.pack, journal, tenant=tenant, watchdog_ms=None, options=options
            ) as runtime:
                found.append((await runtime.run(WORK, plan=PLAN)).session_id)
        return found


@asynccontextmanager
async def serving(journal: Journal, pack: Pack, **settings: Any) -> AsyncGenerator[tuple[Worker, Hub]]:
    """A worker for one pack, and the hub whose runtimes start runs that it may keep."""
    hub = Hub((pack,), journal, watchdog_ms=None)
    worker = Worker(hub, **settings)
    async with running_worker(hub, worker, set()):
        yield worker, hub


@asynccontextmanager
async def working(journal: Journal, pack: Pack, **settings: Any) -> AsyncGenerator[Worker]:
    """A worker for one pack."""
    async with serving(journal, pack, **settings) as (worker, _):
        yield worker


async def start_here(hub: Hub, *tenants: str) -> list[str]:
    """Start a session for each tenant in the process of the worker."""
    return [(await (await hub.runtime(each)).run(WORK, plan=PLAN)).session_id for each in tenants]


async def until_idle(journal: Journal, worker: Worker) -> None:
    """Return once there is nothing to carry on."""
    async with asyncio.timeout(300):
        while worker.running or worker.waiting or await journal.resumable(now_ms=0):  # noqa: ASYNC110 - other workers
            await asyncio.sleep(0.001)


async def until_over(journal: Journal, tenant: str, session: str) -> SessionRow:
    """Return the row of a session once it is over."""
    async with asyncio.timeout(300):
        while (row := await journal.session(tenant, session)) is None or row.status not in ENDED:  # noqa: ASYNC110 - another process
            await asyncio.sleep(0.005)
        return row
