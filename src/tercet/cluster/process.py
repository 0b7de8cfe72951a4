"""What commands start: the part of a service that wakes sessions, and a worker."""

from __future__ import annotations

import asyncio
import ctypes
import gc
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

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

TIDY_S = 10
"""How often a worker frees what it no longer needs: with what it started with left out, a few milliseconds each time."""


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
        gc.collect()
        gc.freeze()  # what exists by now stays: the collector need not look at it again
        tidying = asyncio.create_task(_tidy())
        try:
            yield
        finally:
            tidying.cancel()


async def _tidy() -> None:
    """Free what is left of sessions that wait, again and again.

    Workflows that have left Temporal's cache are cycles, and Python looks for cycles among older objects only once they
    have grown by a quarter. What is freed then is kept by the allocator of the C library for what comes next."""
    trim: Any = getattr(ctypes.CDLL(None), "malloc_trim", None)
    while True:
        await asyncio.sleep(TIDY_S)
        gc.collect()
        if trim is not None:  # other systems than Linux return memory by themselves
            trim(0)
