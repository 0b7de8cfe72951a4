"""Workers whose clocks are wrong and jump: a part of `make crash`.

Worker processes are killed at crash points and at random instants, and each session is resumed by workers whose wall
clocks differ by up to an hour and are set ahead or back while they run. Then two workers at a time want one session, the
first of them alive for a while. Every run ends in the time that it really takes: a worker that waits for a clock hangs,
which is a violation. No effect happens twice, and each record equals the one of a run with a right clock.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from plugins.postgres import start_server

from . import effects
from .parts import Report
from .schedule import trial
from .tally import Tally
from .trial import RANDOM, Found, Trial, look, run_trial, start, state_of

HOUR_MS = 3_600_000
SCENES = (
    "twelve:idempotent", "twelve:reconcile", "refunds:nothing", "denied:reconcile",
)  # fmt: skip
PATTERNS: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...] = (
    # Set back by an hour between two workers, and ahead again.
    (("after_append:2", "before_call:1", "after_effect:1"), ("0:0:0", f"-{HOUR_MS}:0:0", f"{HOUR_MS}:0:0")),
    # Each worker's clock jumps while it runs.
    (
        ("before_effect:1", "after_answer:1", "inside_commit:2"),
        (f"0:-{HOUR_MS}:9", f"{HOUR_MS}:-{HOUR_MS}:6", f"0:{HOUR_MS}:4"),
    ),
    # The first clock is ahead, all others are right: leases and times of the first lie in the future.
    (("after_effect:1", RANDOM, RANDOM), (f"{HOUR_MS}:0:0", "0:0:0", "0:0:0", "0:0:0", "0:0:0")),
    (
        (RANDOM, RANDOM, RANDOM),
        (f"{HOUR_MS // 2}:{HOUR_MS // 2}:5", f"-{HOUR_MS}:0:0", f"0:-{HOUR_MS}:3", "-7000:0:0"),
    ),
)
"""The kills of a trial, and the clocks of its processes in their order, again and again."""
PAIRS = ((0, HOUR_MS), (0, -HOUR_MS), (HOUR_MS, 0), (-HOUR_MS, 7_000))
"""The offsets of two workers that want the same session."""


def clock_trials(journal: str, folder: Path, scenes: Sequence[str] = SCENES) -> Iterator[Trial]:
    """The trials on one journal."""
    for scene in scenes:
        for number, (kills, clocks) in enumerate(PATTERNS):
            yield replace(trial(journal, folder, scene, kills, seed=100 + number), clocks=clocks)


async def run_pair(chosen: Trial, offsets: tuple[int, int], kill_after_s: float | None) -> Found:
    """Two workers at once, of which the first may be killed; what became of the session."""
    effects.create(chosen.effects)
    found = Found(trial=chosen, workers=2)
    first = start(chosen, clock=f"{offsets[0]}:0:0")
    second = None
    try:
        async with asyncio.timeout(300):
            while await state_of(chosen) is None:  # noqa: ASYNC110 - another process writes it
                await asyncio.sleep(0.01)
            second = start(chosen, clock=f"{offsets[1]}:0:0")
            if kill_after_s is not None:
                await asyncio.sleep(kill_after_s)
                first.kill()
                found.kills = 1
            _, told = await second.ended()
            found.status = told.get("status", told.get("error", "it said nothing"))
    except TimeoutError:
        found.status = "hung"
    finally:
        for worker in filter(None, (first, second)):
            worker.kill()
    await look(chosen, found)
    return found


async def _count(journals: Sequence[str], folder: Path, parallel: int) -> Tally:
    """All trials on all journals, counted."""
    slots, tally, draw = asyncio.Semaphore(parallel), Tally(), random.Random(1)  # noqa: S311 - instants

    async def one(chosen: Trial) -> Found:
        async with slots:
            return await run_trial(chosen)

    async def pair(journal: str, number: int, scene: str) -> Found:
        chosen = trial(journal, folder, scene, ("pair",), seed=number)
        async with slots:
            kill_after_s = 0.3 * draw.random() if number % 2 else None
            return await run_pair(replace(chosen, kills=()), PAIRS[number % len(PAIRS)], kill_after_s)

    for found in await asyncio.gather(*(one(trial(journals[0], folder, scene)) for scene in SCENES)):
        tally.references[found.trial.scene] = {} if found.is_lost else found.left
    trials = [one(each) for journal in journals for each in clock_trials(journal, folder)]
    pairs = [
        pair(journal, number, scene)
        for journal in journals
        for scene in ("twelve:idempotent", "twelve:reconcile")
        for number in range(len(PAIRS))
    ]
    for ending in asyncio.as_completed([*trials, *pairs]):
        tally.add(await ending)
    return tally


async def run(folder: Path, parallel: int) -> Report:
    """All trials on both journals, with a PostgreSQL server of their own."""
    folder = folder / "clocks"
    folder.mkdir()
    server = await asyncio.to_thread(start_server, folder / "postgres")
    try:
        tally = await _count([f"sqlite:///{folder}/{{name}}.db", server.url], folder, parallel)
    finally:
        await asyncio.to_thread(server.stop)
    table = tally.table()
    table.title = "clocks that are wrong and jump"
    return Report(table=table, violations=list(tally.violations))
