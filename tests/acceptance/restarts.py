"""Server restarts: the PostgreSQL server stops and starts again while workers run, and no worker dies.

In the first half every worker is stopped at a crash point, the server is taken away, the workers go on without it, and
the server comes back. In the second half workers run one session after another while the server restarts at random
moments. The server is stopped as by an operator (fast), as by a crash (immediate), or its postmaster is killed. It stays
away for 1 to 30 seconds, which is within a journal's patience: so a worker that has opened its journal comes to a result.

Then every run has come to its end, each effect happened once, the record is that of a run without restarts, and no worker
has reported an end that the journal does not hold.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

from rich.table import Table

from plugins.postgres import PostgresServer, StopMode, start_server
from tercet.core.state import TERMINAL
from tercet.testing.crash_points import POINTS

from . import approver, effects
from .nursery import Worker
from .parts import Report
from .tally import problems_of
from .trial import Found, Trial, live, look, start, state_of

PATIENCE_S = 120
"""How long a worker may take: it may live through several restarts, one of them of half a minute."""
MOST_WORKERS = 10
SCENES = (
    "twelve:idempotent", "twelve:reconcile", "twelve:nothing", "refunds:idempotent", "refunds:reconcile",
    "refunds:nothing",
)  # fmt: skip
AT_POINTS_S = (1, 2, 1, 10, 1, 30)
"""How long the server is away, for each scene whose workers are stopped at the points."""
AT_RANDOM_S = (1, 1, 2, 1, 5, 1, 1, 30, 1, 2)
"""The same for the restarts at random moments."""
MODES: tuple[StopMode, ...] = get_args(StopMode)
AWAY = ("journal_unavailable", "append_unknown")

Moment: TypeAlias = Literal["points", "random"]


@dataclass
class Outages:
    """Takes a server away and brings it back, and says how often."""

    server: PostgresServer
    modes: Sequence[StopMode] = MODES
    """How it is stopped, in turn."""
    count: int = 0
    seconds: float = 0
    _standing: asyncio.Lock = field(default_factory=asyncio.Lock)

    @asynccontextmanager
    async def up(self) -> AsyncGenerator[None]:
        """Keep the server up while a process opens its journal."""
        async with self._standing:
            yield

    @asynccontextmanager
    async def restart(self, seconds: float) -> AsyncGenerator[None]:
        """Stop the server; start it again that many seconds after the block began."""
        async with self._standing:
            await asyncio.to_thread(self.server.stop, self.modes[self.count % len(self.modes)])
            try:
                back = asyncio.create_task(asyncio.sleep(seconds))
                yield
                await back
            finally:
                await asyncio.to_thread(self.server.start)
                self.count += 1
                self.seconds += seconds


@dataclass(kw_only=True)
class Lived:
    """What became of one session whose server restarted."""

    moment: Moment
    found: Found
    wrongs: list[str] = field(default_factory=list[str])

    def hear(self, code: int, told: dict[str, Any]) -> None:
        """Note how a worker ended. One that never opened its journal may say that the server was away."""
        self.found.workers += 1
        self.found.status = told.get("status", told.get("error", f"exit {code}"))
        if "status" not in told and not (self.found.status in AWAY and not told.get("opened")):
            self.wrongs.append(f"a worker ended without a result: {told or f'exit {code}'}")


async def _carry(lived: Lived, outages: Outages) -> Lived:
    """Let workers and approvers bring a session to its end, and look at what is left."""
    found, trial = lived.found, lived.found.trial
    draw = random.Random(trial.seed)  # noqa: S311 - instants, not secrets
    while found.status not in TERMINAL and found.workers < MOST_WORKERS:
        if found.status in ("awaiting_gate", "paused"):
            async with outages.up():
                answering = start(trial, "", approver.main)
                await answering.said()  # its journal is open
            _, told = await live(answering, "", draw, PATIENCE_S)
            found.gates += told.get("answered", 0)
        async with outages.up():
            worker = start(trial)
            await worker.said()
        lived.hear(*await live(worker, "", draw, PATIENCE_S))
        await _compare(lived, outages)
    async with outages.up():
        await look(trial, found)
    return lived


async def _compare(lived: Lived, outages: Outages) -> None:
    """An end that a worker has reported must be the one that the journal holds."""
    if lived.found.status not in TERMINAL:
        return
    async with outages.up():
        state = await state_of(lived.found.trial)
    stored = "nothing" if state is None else state.status
    if stored != lived.found.status:
        lived.wrongs.append(f"a worker reported {lived.found.status}, and the journal holds {stored}")


def _trial(server: PostgresServer, folder: Path, scene: str, name: str) -> Trial:
    trial = Trial(
        name=f"{folder.name}-{name}-{scene}".replace(":", "_"),
        journal=server.url,
        scene=scene,
        folder=folder,
        seed=len(name),
    )
    effects.create(trial.effects)
    return trial


async def at_points(
    outages: Outages, folder: Path, scene: str, points: Sequence[str], seconds: float
) -> list[Lived]:
    """One worker stopped at each point, one restart for all of them, and what became of their sessions."""
    lives = [
        Lived(moment="points", found=Found(trial=_trial(outages.server, folder, scene, point)))
        for point in points
    ]
    workers = [start(each.found.trial, f"{point}:1:stop") for each, point in zip(lives, points, strict=True)]
    stopped = await asyncio.gather(*(worker.stopped() for worker in workers))
    async with outages.restart(seconds):
        for worker, is_stopped in zip(workers, stopped, strict=True):
            if is_stopped:
                worker.wake()
    return await asyncio.gather(
        *(_wake(each, worker, outages) for each, worker in zip(lives, workers, strict=True))
    )


async def _wake(lived: Lived, worker: Worker, outages: Outages) -> Lived:
    """The end of a worker that was stopped, and then the rest of its session."""
    draw = random.Random(0)  # noqa: S311 - instants, not secrets
    lived.hear(*await live(worker, "", draw, PATIENCE_S))
    await _compare(lived, outages)
    return await _carry(lived, outages)


async def at_random(
    outages: Outages, folder: Path, lengths: Sequence[float], lanes: int, seed: int = 0
) -> list[Lived]:
    """Sessions one after another on several lanes, as long as the server restarts at random moments."""
    draw = random.Random(seed)  # noqa: S311 - instants, not secrets
    lived: list[Lived] = []
    scenes = cycle(SCENES)
    is_over = False

    async def lane(number: int) -> None:
        turn = 0
        while not is_over:
            trial = _trial(outages.server, folder, next(scenes), f"random-{number}-{turn}")
            lived.append(await _carry(Lived(moment="random", found=Found(trial=trial)), outages))
            turn += 1

    async with asyncio.TaskGroup() as tasks:
        for number in range(lanes):
            tasks.create_task(lane(number))
        for seconds in lengths:
            await asyncio.sleep(0.5 + 2 * draw.random())
            async with outages.restart(seconds):
                pass
        is_over = True
    return lived


async def run(folder: Path, parallel: int) -> Report:
    """Both halves on a server of their own."""
    folder = folder / "restarts"
    folder.mkdir()
    server = await asyncio.to_thread(start_server, folder / "postgres")
    outages = Outages(server)
    try:
        references = await _references(outages, folder)
        lived: list[Lived] = []
        for scene, seconds in zip(SCENES, AT_POINTS_S, strict=True):
            lived += await at_points(outages, folder, scene, POINTS, seconds)
        lived += await at_random(outages, folder, AT_RANDOM_S, parallel)
    finally:
        await asyncio.to_thread(server.stop)
    return Report(table=_table(outages, lived), violations=list(wrongs_of(lived, references)))


async def _references(outages: Outages, folder: Path) -> dict[str, dict[str, Any]]:
    """What each scene leaves behind where the server does not restart."""
    trials = [_trial(outages.server, folder, scene, "calm") for scene in SCENES]
    calm = await asyncio.gather(
        *(_carry(Lived(moment="random", found=Found(trial=trial)), outages) for trial in trials)
    )
    return {each.found.trial.scene: each.found.left for each in calm}


def wrongs_of(lived: Sequence[Lived], references: dict[str, dict[str, Any]]) -> list[str]:
    """What must not be."""
    return [
        f"{each.found.trial.name}: {wrong}"
        for each in lived
        for wrong in (*each.wrongs, *problems_of(each.found, references.get(each.found.trial.scene)))
    ]


def _table(outages: Outages, lived: Sequence[Lived]) -> Table:
    table = Table(title=f"{outages.count} server restarts, {outages.seconds:.0f} s without a server")
    table.add_column("restarts at")
    heads = ("runs", "workers", "effects", "lost runs", "second effects", "other ends reported")
    for head in heads:
        table.add_column(head, justify="right")
    for moment in get_args(Moment):
        mine = [each for each in lived if each.moment == moment]
        numbers = (
            len(mine),
            sum(each.found.workers for each in mine),
            sum(each.found.effects for each in mine),
            sum(each.found.is_lost for each in mine),
            sum(each.found.duplicates for each in mine),
            sum(len(each.wrongs) for each in mine),
        )
        table.add_row(moment, *map(str, numbers))
    return table
