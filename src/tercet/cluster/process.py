"""What commands start: the part of a service that wakes sessions, and a worker."""

from __future__ import annotations

import gc
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
    """Run the sessions of packs that Temporal schedules, in a process that does nothing else."""
    client = await connect(settings)
    async with running_worker(client, journal, open_hub, packs, options):
        _freeze()
        yield


def _freeze() -> None:
    """Let the garbage collector leave out what exists by now and stays.

    It looks at all objects only once a quarter of them is new. Of those that a worker has at its start, that quarter is
    many megabytes of workflows that have left Temporal's cache: each of them is a cycle."""
    gc.collect()
    gc.freeze()
    gc.collect()  # so that the quarter is one of what is left
