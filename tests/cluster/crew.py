"""A cluster in one process: a Temporal client, workers and the means to start and answer sessions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any, Protocol

from temporalio.client import Client

from plugins.temporal import TemporalServer
from tercet.cluster.connection import TemporalSettings, connect
from tercet.cluster.dispatch import Dispatcher
from tercet.cluster.sweep import Sweep
from tercet.cluster.worker import WorkerSettings, running_worker
from tercet.core.state import TERMINAL
from tercet.journal.protocol import Journal, SessionRow
from tercet.packs.pack import Pack
from tercet.runtime import RuntimeOptions
from tercet.service.hub import Hub

LEASE_MS = 1_500
PATIENCE_S = 180


async def client_of(server: TemporalServer) -> Client:
    """Return a client whose namespace knows the search attributes."""
    return await connect(TemporalSettings(address=server.address))


def dispatcher_of(client: Client) -> Dispatcher:
    """Return what wakes sessions, with short heartbeats."""
    return Dispatcher(client, heartbeat_ms=LEASE_MS)


@asynccontextmanager
async def working(client: Client, journal: Journal, *packs: Pack, **settings: Any) -> AsyncGenerator[Sweep]:
    """A worker of the cluster in this process; without `sweep_ms` it never sweeps."""
    settings = {"heartbeat_ms": LEASE_MS, "sweep_ms": None, "at_once": 8, **settings}

    def open_hub(pack: Pack) -> Hub:
        return Hub((pack,), journal, options=RuntimeOptions(lease_ms=LEASE_MS), watchdog_ms=None)

    async with running_worker(client, journal, open_hub, packs, WorkerSettings(**settings)) as sweep:
        yield sweep


async def until(
    journal: Journal, tenant: str, session: str, holds: Callable[[SessionRow], bool] | None = None
) -> SessionRow:
    """Return the row of a session once it is over, or once something holds for it."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            row = await journal.session(tenant, session)
            if row is not None and (row.status in TERMINAL if holds is None else holds(row)):
                return row
            await asyncio.sleep(0.05)


class Waking(Protocol):
    """Lets something carry a session on."""

    async def wake(self, row: SessionRow) -> bool:
        """Return whether the wake-up was taken."""
        ...


async def wake(dispatcher: Waking, journal: Journal, tenant: str, session: str) -> None:
    """Wake a session, as the service does."""
    row = await journal.session(tenant, session)
    assert row is not None
    assert await dispatcher.wake(row)
