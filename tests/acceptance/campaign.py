"""The crash campaign: `make crash`.

Worker processes on SQLite and on PostgreSQL are killed by SIGKILL at every named point and at random instants, over the
refund pack, a plan of twelve steps in parallel branches, and a run with lanes that run and wait, for every way in which a
tool may recover, also where a call outlives its time after its effect. Each session is then resumed until it is over. Then: no run is lost, no effect
of a tool that is idempotent or can reconcile happened twice, no call of a tool that declares nothing was repeated
blindly, none happened before its approval was in the journal, and each record equals the one of a run that nobody
killed.

Then people: runs are denied, expire at a gate, or are given up, and what they did is taken back. Workers are killed
while gates open and while effects are taken back, approvers while they answer. The same holds, and each effect is taken
back once.

Then the zombies: workers are stopped by SIGSTOP at the same points, others take over, and the first ones wake up.

Then the further parts, each described in its own module.

With `--temporal` the sessions are scheduled by Temporal, on PostgreSQL: the first three parts, unchanged.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from cluster.trial_worker import engine_of
from plugins.postgres import start_server
from plugins.temporal import running_temporal
from tercet.testing.crash_points import POINTS

from . import clock_jumps, damage, restarts
from .parts import Part, Report
from .schedule import DEATHS, HAUNTED, SAGAS, SCENES, sagas, trial, trials
from .tally import Tally, zombie_table
from .trial import Engine, Found, Trial, run_trial
from .zombie import Haunting, PointNotReachedError, haunt, wrongs_of

MOST_SESSIONS = 5
"""How many sessions are tried until a worker comes to the point at which it is to be stopped."""
LEAST_KILLS = 500
"""For each of the two parts that kill."""


@dataclass
class Campaign:
    """All parts, on several journals, with several workers at once and a bar that shows how far they are."""

    journals: Sequence[str]
    folder: Path
    engines: asyncio.Queue[Engine]
    """Those that are free: each carries one trial at a time."""
    progress: Progress

    async def crash(self, rounds: int) -> Tally:
        """Kill workers of runs that succeed, and count."""
        chosen = {journal: list(trials(journal, self.folder, rounds)) for journal in self.journals}
        return await self._count("kills", SCENES, chosen)

    async def fail(self, rounds: int) -> Tally:
        """Kill workers and approvers of runs that fail and are taken back, and count."""
        chosen = {journal: list(sagas(journal, self.folder, rounds)) for journal in self.journals}
        return await self._count("ways back", SAGAS, chosen)

    async def _count(self, part: str, scenes: Iterable[str], chosen: dict[str, list[Trial]]) -> Tally:
        tally = Tally()
        calm = [self._try(trial(self.journals[0], self.folder, scene)) for scene in scenes]
        for found in await asyncio.gather(*calm):
            tally.references[found.trial.scene] = {} if found.is_lost else found.left
        for journal, its in chosen.items():
            bar = self._bar(part, journal, len(its))
            for ending in asyncio.as_completed([self._try(each) for each in its]):
                tally.add(await ending)
                self.progress.update(bar, advance=1)
        return tally

    async def haunt(self) -> list[Haunting]:
        """Stop workers, and wake them up after others have taken over."""
        found: list[Haunting] = []
        for journal in self.journals:
            chosen = [(scene, point) for scene in HAUNTED for point in POINTS]
            bar = self._bar("zombies", journal, len(chosen))
            for ending in asyncio.as_completed([self._haunt(journal, *each) for each in chosen]):
                found.append(await ending)
                self.progress.update(bar, advance=1)
        return found

    @asynccontextmanager
    async def _engine(self) -> AsyncGenerator[Engine]:
        engine = await self.engines.get()
        try:
            yield engine
        finally:
            self.engines.put_nowait(engine)

    async def _try(self, chosen: Trial) -> Found:
        async with self._engine() as engine:
            return await run_trial(replace(chosen, engine=engine))

    async def _haunt(self, journal: str, scene: str, point: str) -> Haunting:
        async with self._engine() as engine:
            for seed in range(MOST_SESSIONS - 1):
                try:
                    return await self._stop_at(journal, scene, point, seed, engine)
                except PointNotReachedError as error:
                    # On a busy machine a call outlives its time before the point, and the session then waits for a person.
                    self.progress.console.print(f"another session is tried: {error}", highlight=False)
            return await self._stop_at(journal, scene, point, MOST_SESSIONS - 1, engine)

    async def _stop_at(self, journal: str, scene: str, point: str, seed: int, engine: Engine) -> Haunting:
        named = trial(journal, self.folder, scene, ("zombie", point), seed=seed)
        return await haunt(replace(named, kills=(), engine=engine), point)

    def _bar(self, part: str, journal: str, total: int) -> TaskID:
        return self.progress.add_task(f"{part}, {journal.partition(':')[0]}", total=total)


FURTHER = (
    Part(name="restarts", run=restarts.run),
    Part(name="damage", run=damage.run),
    Part(name="clocks", run=clock_jumps.run),
)
"""Parts that bring their own table."""
SCHEDULED_PARTS = ("kills", "sagas", "zombies")
"""The parts that also run with sessions that Temporal schedules, on PostgreSQL."""
PARTS = (*SCHEDULED_PARTS, *(part.name for part in FURTHER))


@dataclass(kw_only=True)
class Outcome:
    """What the parts of a campaign found; a part that was left out found nothing."""

    tally: Tally | None = None
    failed: Tally | None = None
    hauntings: Sequence[Haunting] = ()
    further: Sequence[Report] = ()

    def show(self, console: Console) -> list[str]:
        """Print the tables; what breaks a promise."""
        violations: list[str] = []
        for part, table in ((self.tally, Tally.table), (self.failed, Tally.saga_table)):
            if part is None:
                continue
            console.print(table(part))
            violations += part.violations
            if part.kills < LEAST_KILLS:
                violations.append(f"only {part.kills} kills, of at least {LEAST_KILLS}")
        violations += self.failed.missed(DEATHS) if self.failed else []
        if self.hauntings:
            console.print(zombie_table(self.hauntings))
        for report in self.further:
            console.print(report.table)
            violations += report.violations
        return violations + [
            f"{each.successor.trial.name}: {wrong}" for each in self.hauntings for wrong in wrongs_of(each)
        ]


async def run(
    journals: Sequence[str], folder: Path, *, rounds: int, engines: Sequence[Engine], parts: Sequence[str]
) -> Outcome:
    """The whole campaign, or parts of it, with as many trials at once as there are engines."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        free: asyncio.Queue[Engine] = asyncio.Queue()
        for engine in engines:
            free.put_nowait(engine)
        campaign = Campaign(journals, folder, free, progress)
        return Outcome(
            tally=await campaign.crash(rounds) if "kills" in parts else None,
            failed=await campaign.fail(rounds) if "sagas" in parts else None,
            hauntings=await campaign.haunt() if "zombies" in parts else (),
            further=[await part.run(folder, len(engines)) for part in FURTHER if part.name in parts],
        )


def main() -> int:
    """Run the campaign on both journals, print the tables, and say whether every promise was kept."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=1, help="how often all of it is done, each time later")
    parser.add_argument("--parallel", type=int, default=4 * (os.cpu_count() or 1), help="workers at once")
    parser.add_argument("--only", choices=PARTS, help="leave the other parts out")
    parser.add_argument("--temporal", action="store_true", help="let Temporal schedule the sessions")
    given = parser.parse_args()
    # Ended by a signal, it still stops its server and removes its folder.
    signal.signal(signal.SIGTERM, _end)
    began = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="tercet-crash-"))
    server = start_server(folder / "postgres")
    parts = (given.only,) if given.only else SCHEDULED_PARTS if given.temporal else PARTS
    names = tuple(f"trial-{number}" for number in range(given.parallel))
    try:
        with running_temporal(folder, *names) if given.temporal else nullcontext() as temporal:
            journals = [server.url] if temporal else [f"sqlite:///{folder}/{{name}}.db", server.url]
            engines = [engine_of(temporal.address, name) if temporal else Engine() for name in names]
            found = asyncio.run(run(journals, folder, rounds=given.rounds, engines=engines, parts=parts))
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)
    console = Console(width=None if sys.stdout.isatty() else 200)
    violations = found.show(console)
    for violation in violations:
        console.print(f"VIOLATION: {violation}", style="red", highlight=False)
    console.print(f"{len(violations)} violations in {time.monotonic() - began:.0f} s")
    return 1 if violations else 0


def _end(number: int, _: object) -> None:
    sys.exit(128 + number)
