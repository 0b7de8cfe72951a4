"""Judgements that take long: the event loop goes on meanwhile, so that the lease is kept and whoever says stop is heard."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from tercet.contracts.loop import VerificationVerdict
from tercet.core.outputs import judging as quality
from tercet.journal.errors import LeaseHeld

from .quality_desk import GOOD, accept, demand_within_bounds, desk, run_accepted, way
from .workshop import BOB, Workshop

LATEST_S = 30.0
"""A judgement that nobody lets go on by then was made in the event loop, which cannot do so."""


class Pondering:
    """Verification that does not end before it is told to."""

    def __init__(self, verify: Callable[..., VerificationVerdict]) -> None:
        self._verify = verify
        self._loop = asyncio.get_running_loop()
        self._may_end = threading.Event()
        self.has_begun = asyncio.Event()
        self.was_let_go_on = True

    def __call__(self, *given: Any, **more: Any) -> VerificationVerdict:
        self._loop.call_soon_threadsafe(self.has_begun.set)
        self.was_let_go_on &= self._may_end.wait(LATEST_S)
        return self._verify(*given, **more)

    def let_go_on(self) -> None:
        """Let it come to its end."""
        self._may_end.set()


def ponder(monkeypatch: pytest.MonkeyPatch) -> Pondering:
    """Let verification take long."""
    pondering = Pondering(quality.verify_output)
    monkeypatch.setattr(quality, "verify_output", pondering)
    return pondering


async def test_the_lease_is_kept_while_outputs_are_judged(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many times as long as a lease lasts: nobody else can take the session over, and the run is completed."""
    pack = desk(workshop, {"letter": GOOD})

    pondering = ponder(monkeypatch)
    async with (
        workshop.journal("memory:") as journal,
        workshop.runtime(pack, journal, lease_ms=10_000) as runtime,
    ):
        running = asyncio.ensure_future(run_accepted(runtime))
        await pondering.has_begun.wait()
        for _ in range(60):
            workshop.clock.advance(2_000)
            for _ in range(20):  # whoever woke up does what there is to do
                await asyncio.sleep(0)
        (row,) = await journal.sessions("default", limit=9)
        now = workshop.clock.now()
        with pytest.raises(LeaseHeld):
            await journal.acquire("default", row.session_id, owner="other", now_ms=now, ttl_ms=10_000)
        pondering.let_go_on()
        result = await running
        assert pondering.was_let_go_on
        assert (result.status, result.outputs) == ("completed", {"letter": GOOD})


@pytest.mark.parametrize("how", ["stop", "cancel"])
async def test_a_run_can_be_interrupted_while_outputs_are_judged(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """Nothing of the judgement is recorded; a run that was stopped is judged when it goes on."""
    pack = desk(workshop, {"letter": GOOD})

    pondering = ponder(monkeypatch)
    async with workshop.journal("memory:") as journal, workshop.runtime(pack, journal) as runtime:
        running = asyncio.ensure_future(run_accepted(runtime))
        await pondering.has_begun.wait()
        (row,) = await journal.sessions("default", limit=9)
        said = None
        if how == "stop":
            runtime.stop()
        else:
            said = asyncio.ensure_future(runtime.cancel(row.session_id, actor=BOB, note="enough"))
        result = await running
        if said is not None:
            await said
        _, found = await demand_within_bounds(journal, row.session_id)
        assert "outputs_verified: critique" not in way(found)
        pondering.let_go_on()
        assert result.status == ("paused" if how == "stop" else "cancelled")
        if how == "stop":
            done = await accept(runtime, await runtime.resume(row.session_id))
            assert (done.status, done.outputs) == ("completed", {"letter": GOOD})
        assert pondering.was_let_go_on
