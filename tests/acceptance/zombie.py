"""Zombies: a worker is stopped at a point, another takes its session over and ends it, and then the first one wakes up.

What it writes then must be refused. Whether its call still happens depends on where it was stopped: behind its last
look at the lease nothing of ours can hold it back, and only the tool can, by the key or by the fencing token.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from dataclasses import dataclass
from typing import Any

from tercet.core import codec
from tercet.core import events as e
from tercet.journal.opening import open_journal

from . import effects
from .nursery import Worker
from .trial import PATIENCE_S, Found, Trial, look, operate, run_trial, start, work

MOST_STARTS = 10
WINDOW = ("before_call", "before_effect")
"""The points between the last look at the lease and the effect."""
HAUNTED = {"twelve": 2, "refunds": 1}
"""At the how-manieth passing the worker is stopped: in the branches of the twelve, at the payment of the refund."""


class PointNotReachedError(Exception):
    """No worker came to the point at which it was to be stopped: nothing was tried yet."""


@dataclass(frozen=True, kw_only=True)
class Haunting:
    """What a zombie did."""

    point: str
    successor: Found
    """How the session ended, and what was found after the zombie's own end."""
    refused: dict[str, Any]
    """What the worker said that wanted to take over from a zombie with the lock of the file; else empty."""
    told: dict[str, Any]
    """What the zombie said when it ended."""
    has_written: bool
    """Whether the journal changed after the successor had ended the session."""
    in_flight: frozenset[str]
    """The steps whose calls were under way when somebody took the session over."""

    @property
    def declaration(self) -> str:
        """How the tools recover."""
        return self.successor.trial.declaration

    @property
    def second_effects(self) -> Counter[str]:
        """How often each step had its effect beyond the first time, without what the guarantees allow.

        A process that is stopped behind its last look at the lease makes that call when it wakes up, and nothing but the
        tool could hold it back: one second effect for each call that was under way, wherever the process was stopped.
        """
        again = Counter({step: count - 1 for step, count in self.successor.steps.items()})
        if self.declaration in ("reconcile", "nothing"):
            again.subtract(self.in_flight)
        return +again


async def haunt(trial: Trial, point: str) -> Haunting:
    """Stop a worker at a point, let another end its session, and wake the first one up."""
    effects.create(trial.effects)
    await _approve(trial)
    zombie = await _stopped(trial, f"{point}:{HAUNTED[trial.pack]}:stop")
    refused: dict[str, Any] = {}
    try:
        async with asyncio.timeout(4 * PATIENCE_S):
            _, first = await work(trial, "", random.Random(0))  # noqa: S311 - instants, not secrets
            if first.get("error") == "journal_busy":
                # It holds the lock of the file: nobody can take over before it goes on, or is killed.
                refused = first
                zombie.wake()
                _, told = await zombie.ended()
                successor = await run_trial(trial)
                before = await _head(trial)
            else:
                successor = await run_trial(trial)
                before = await _head(trial)
                zombie.wake()
                _, told = await zombie.ended()
    finally:
        zombie.kill()
    await look(trial, successor)
    return Haunting(
        point=point,
        successor=successor,
        refused=refused,
        told=told,
        has_written=await _head(trial) != before,
        in_flight=await _in_flight(trial),
    )


async def race_successor(trial: Trial) -> tuple[dict[str, Any], bool, Found]:
    """Wake a worker that was stopped before an append while its successor has its lease and has not written yet.

    The stream still ends where the first worker left it: only the lease can tell that its append is too late. Return what
    it said at its end, whether it has written, and how the session ended.
    """
    effects.create(trial.effects)
    zombie = await _stopped(trial, "before_append:2:stop")
    successor = None
    try:
        async with asyncio.timeout(2 * PATIENCE_S):
            before = await _head(trial)
            successor = await _stopped(trial, "before_append:1:stop")
            zombie.wake()
            _, told = await zombie.ended()
            has_written = await _head(trial) != before
            successor.wake()
            await successor.ended()
    finally:
        zombie.kill()
        if successor is not None:
            successor.kill()
    return told, has_written, await run_trial(trial)


async def _stopped(trial: Trial, crash: str) -> Worker:
    """A worker that stands still at its point; one that lost its lease on the way ends, and is followed by another."""
    told: dict[str, Any] = {}
    for _ in range(MOST_STARTS):
        worker = start(trial, crash)
        if await worker.stopped():
            return worker
        _, told = await worker.ended()
    raise PointNotReachedError(f"{trial.name}: no worker came to {crash}; the last one said {told}")


async def _approve(trial: Trial) -> None:
    """Bring a refund to the payment: its gate is approved, and the next worker pays."""
    if trial.scene.startswith("refunds"):
        draw = random.Random(0)  # noqa: S311 - instants, not secrets
        await work(trial, "", draw)
        await operate(trial, Found(trial=trial), [], draw)


async def _head(trial: Trial) -> bytes:
    """The chain over all that the session's journal holds."""
    async with open_journal(trial.journal) as journal:
        (row,) = await journal.sessions(trial.name)
        return (await journal.head(trial.name, row.session_id)).chain


async def _in_flight(trial: Trial) -> frozenset[str]:
    """The steps whose calls were under way at one of the take-overs."""
    async with open_journal(trial.journal) as journal:
        (row,) = await journal.sessions(trial.name)
        events = [codec.decode(stored.data) for stored in await journal.read(trial.name, row.session_id)]
    return frozenset(
        step for event in events if isinstance(event, e.SessionResumed) for step in event.in_flight
    )


def wrongs_of(haunting: Haunting) -> list[str]:
    """What a haunting shows that must not be."""
    found = haunting.successor
    wrongs: list[str] = []
    if found.is_lost:
        wrongs.append(f"the run was lost: {found.status}")
    if haunting.has_written:
        wrongs.append("the zombie wrote to the journal")
    if haunting.second_effects:
        wrongs.append(f"second effects: {dict(haunting.second_effects)}")
    # One that had only just got its lease finds the session over, and says so.
    is_told = haunting.told.get("error") == "lease_lost" or haunting.told.get("status") == "completed"
    if not haunting.refused and not is_told:
        wrongs.append(f"the zombie was not told that its lease is lost: {haunting.told}")
    return wrongs
