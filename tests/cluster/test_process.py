"""What a worker of a cluster does to the process that it has for itself."""

from __future__ import annotations

import gc

import pytest

from cluster.orders import make_pack
from plugins.temporal import TemporalServer
from tercet.cluster.connection import TemporalSettings
from tercet.cluster.process import open_worker
from tercet.cluster.worker import WorkerSettings
from tercet.journal.memory import MemoryJournal
from tercet.packs.pack import Pack
from tercet.service.hub import Hub

pytestmark = pytest.mark.slow


async def test_the_garbage_collector_of_a_worker_looks_at_little_besides_its_sessions(
    temporal: TemporalServer,
) -> None:
    """A whole collection comes once a quarter of what it looks at is new: with all modules that would be megabytes."""
    journal, settings = MemoryJournal(), TemporalSettings(address=temporal.address)

    def open_hub(pack: Pack) -> Hub:
        return Hub((pack,), journal, watchdog_ms=None)

    was_frozen = gc.get_freeze_count()
    gc.unfreeze()
    try:
        async with open_worker(settings, journal, open_hub, (make_pack(),), WorkerSettings(sweep_ms=None)):
            assert 10 * len(gc.get_objects()) < gc.get_freeze_count()
    finally:
        if not was_frozen:
            gc.unfreeze()
