"""What a worker of a cluster does to the process that it has for itself."""

from __future__ import annotations

import asyncio
import gc
import weakref

import pytest

from cluster.crew import PATIENCE_S
from cluster.orders import make_pack
from plugins.temporal import TemporalServer
from tercet.cluster import process
from tercet.cluster.connection import TemporalSettings
from tercet.cluster.worker import WorkerSettings
from tercet.journal.memory import MemoryJournal
from tercet.packs.pack import Pack
from tercet.service.hub import Hub

pytestmark = pytest.mark.slow


class Cycle:
    """Refers to itself, as a workflow does that has left Temporal's cache."""

    def __init__(self) -> None:
        self.itself = self


async def test_a_worker_frees_what_sessions_leave_and_does_not_look_at_what_stays(
    temporal: TemporalServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python alone looks for old cycles only once there are many, among all modules and classes."""
    monkeypatch.setattr(process, "TIDY_S", 0.01)
    journal, settings = MemoryJournal(), TemporalSettings(address=temporal.address)

    def open_hub(pack: Pack) -> Hub:
        return Hub((pack,), journal, watchdog_ms=None)

    was_frozen = gc.get_freeze_count()
    gc.unfreeze()
    gc.disable()
    try:
        options = WorkerSettings(sweep_ms=None)
        async with process.open_worker(settings, journal, open_hub, (make_pack(),), options):
            assert 10 * len(gc.get_objects()) < gc.get_freeze_count()
            left = weakref.ref(Cycle())
            async with asyncio.timeout(PATIENCE_S):
                while left() is not None:  # noqa: ASYNC110 - the collector tells nobody
                    await asyncio.sleep(0.01)
    finally:
        gc.enable()
        if not was_frozen:
            gc.unfreeze()
