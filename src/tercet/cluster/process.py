"""What commands start: the part of a service that wakes sessions, and a worker."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager

from tercet.cluster.connection import TemporalSettings, connect
from tercet.cluster.dispatch import Dispatcher
from tercet.cluster.drain import count_remaining, wait_drained
from tercet.cluster.worker import WorkerSettings, running_worker
from tercet.journal.protocol import Journal
from tercet.packs import Pack
from tercet.service.hub import Hub

__all__ = (
    "TemporalSettings",
    "WorkerSettings",
    "connect",
    "count_remaining",
    "open_dispatcher",
    "open_worker",
    "wait_drained",
)


@asynccontextmanager
async def open_dispatcher(settings: TemporalSettings) -> AsyncGenerator[Dispatcher]:
    """Open what wakes sessions through Temporal."""
    dispatcher = Dispatcher(await connect(settings))
    try:
        yield dispatcher
    finally:
        await dispatcher.close()


@asynccontextmanager
async def open_worker(
    settings: TemporalSettings,
    journal: Journal,
    open_hub: Callable[[Pack], Hub],
    packs: Sequence[Pack],
    options: WorkerSettings,
) -> AsyncGenerator[None]:
    """Run the sessions of packs that Temporal schedules."""
    client = await connect(settings)
    async with running_worker(client, journal, open_hub, packs, options):
        yield
