"""The crash campaign: `make crash`.

Worker processes on SQLite and on PostgreSQL are killed by SIGKILL at every named point and at random instants, over the
refund pack and a plan of twelve steps in parallel branches, for every way in which a tool may recover, also where a
call outlives its time after its effect. Each session is then resumed until it is over. Then: no run is lost, no effect
of a tool that is idempotent or can reconcile happened twice, no call of a tool that declares nothing was repeated
blindly, and each record equals the one of a run that nobody killed.

Then the zombies: workers are stopped by SIGSTOP at the same points, others take over, and the first ones wake up.
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
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

from plugins.postgres import start_server
from tercet.testing.crash_points import POINTS

from .trial import RANDOM, Found, Trial, normalise, run_trial
from .zombie import WINDOW, Haunting, haunt, wrongs_of

SCENES = (
    "twelve:read_only",
    "twelve:idempotent",
    "twelve:reconcile",
    "twelve:nothing",
    "refunds:idempotent",
    "refunds:reconcile",
    "refunds:nothing",
)
HANGS = {"twelve": "s06", "refunds": "s3"}
"""In each pack the step that is made to outlive its time."""
HAUNTED = ("twelve:idempotent", "twelve:fenced", "twelve:reconcile", "twelve:nothing", "refunds:nothing")
LEAST_KILLS = 500


@dataclass(kw_only=True)
class Row:
    """What was found for one backend and one declaration."""

    trials: int = 0
    kills: int = 0
    gates: int = 0
    lost: int = 0
    duplicates: int = 0
    blind_repeats: int = 0
    different: int = 0


@dataclass
class Tally:
    """All that was found, and what of it breaks a promise."""

    references: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    rows: dict[tuple[str, str], Row] = field(default_factory=dict[tuple[str, str], Row])
    violations: list[str] = field(default_factory=list[str])

    @property
    def kills(self) -> int:
        """How many workers were killed."""
        return sum(row.kills for row in self.rows.values())

    def add(self, found: Found) -> None:
        """Count one trial."""
        trial = found.trial
        backend = trial.journal.partition(":")[0]
        row = self.rows.setdefault((backend, trial.declaration), Row())
        row.trials += 1
        row.kills += found.kills
        row.gates += found.gates
        row.lost += found.is_lost
        row.duplicates += found.duplicates
        row.blind_repeats += found.blind_repeats
        problems = list(problems_of(found, self.references.get(trial.scene)))
        row.different += any("record" in problem for problem in problems)
        self.violations += [f"{trial.name}: {problem}" for problem in problems]

    def table(self) -> Table:
        """The result, one line for each backend and declaration."""
        table = Table(title=f"{self.kills} kills")
        for head in ("journal", "the tool declares"):
            table.add_column(head)
        for head in ("runs", "kills", "gates", "lost runs", "duplicates", "blind repeats", "other records"):
            table.add_column(head, justify="right")
        for (backend, declaration), row in sorted(self.rows.items()):
            repeats = f"{row.duplicates} (allowed)" if declaration == "read_only" else str(row.duplicates)
            numbers = (row.trials, row.kills, row.gates, row.lost, repeats, row.blind_repeats, row.different)
            table.add_row(backend, declaration, *map(str, numbers))
        return table


def problems_of(found: Found, reference: dict[str, Any] | None) -> Iterator[str]:
    """What a trial shows that must not be."""
    if found.is_lost:
        yield f"the run was lost: {found.status} after {found.workers} workers"
        return
    if found.trial.declaration != "read_only" and found.duplicates:
        yield f"{found.duplicates} effects happened again: {found.steps}"
    if found.blind_repeats:
        yield f"{found.blind_repeats} calls were repeated blindly"
    if found.errors:
        yield f"workers failed: {'; '.join(found.errors)}"
    if reference is not None and normalise(found.record) != reference:
        yield "its record is not that of a run that nobody killed"


def trials(journal: str, folder: Path, rounds: int) -> Iterator[Trial]:
    """The trials on one journal: every point, four times in a row; random instants; calls that outlive their time."""
    for scene in SCENES:
        pack = scene.partition(":")[0]
        later = 3 if pack == "twelve" else 1
        for turn in range(rounds):
            for point in POINTS:
                kills = (f"{point}:{1 + turn}", f"{point}:{later + turn}", f"{point}:1", f"{point}:1")
                yield _trial(journal, folder, scene, kills)
            for number in range(5):
                yield _trial(journal, folder, scene, (RANDOM,) * 3, seed=turn * 5 + number)
        for number, kill in enumerate(("", "after_effect:2", "after_answer:2", "before_append:4", RANDOM)):
            kills = (kill,) if kill else ()
            yield _trial(journal, folder, scene, kills, hang=HANGS[pack], seed=number)


def _trial(
    journal: str, folder: Path, scene: str, kills: Sequence[str], *, hang: str = "", seed: int = 0
) -> Trial:
    words = [journal.partition(":")[0], scene, *kills, hang, str(seed)]
    name = "-".join(filter(None, words)).replace(":", "_")
    return Trial(
        name=name,
        journal=journal.format(name=name),
        scene=scene,
        kills=kills,
        hang=hang,
        folder=folder,
        seed=seed,
    )


@dataclass
class Campaign:
    """Both parts, on several journals, with several workers at once and a bar that shows how far they are."""

    journals: Sequence[str]
    folder: Path
    slots: asyncio.Semaphore
    progress: Progress

    async def crash(self, rounds: int) -> Tally:
        """Kill workers, and count."""
        tally = Tally()
        for scene in SCENES:
            found = await self._try(_trial(self.journals[0], self.folder, scene, ()))
            tally.references[scene] = {} if found.is_lost else normalise(found.record)
        for journal in self.journals:
            chosen = list(trials(journal, self.folder, rounds))
            bar = self._bar("kills", journal, len(chosen))
            for ending in asyncio.as_completed([self._try(trial) for trial in chosen]):
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

    async def _try(self, trial: Trial) -> Found:
        async with self.slots:
            return await run_trial(trial)

    async def _haunt(self, journal: str, scene: str, point: str) -> Haunting:
        async with self.slots:
            named = _trial(journal, self.folder, scene, ("zombie", point))
            return await haunt(replace(named, kills=()), point)

    def _bar(self, part: str, journal: str, total: int) -> TaskID:
        return self.progress.add_task(f"{part}, {journal.partition(':')[0]}", total=total)


def zombie_table(found: Sequence[Haunting]) -> Table:
    """The zombies, one line for each journal and declaration."""
    table = Table(title=f"{len(found)} zombies")
    for head in ("journal", "the tool declares"):
        table.add_column(head)
    for head in ("zombies", "with the lock", "wrote", "second effects", f"of them at {' or '.join(WINDOW)}"):
        table.add_column(head, justify="right")
    rows: dict[tuple[str, str], list[Haunting]] = {}
    for haunting in found:
        backend = haunting.successor.trial.journal.partition(":")[0]
        rows.setdefault((backend, haunting.declaration), []).append(haunting)
    for (backend, declaration), each in sorted(rows.items()):
        second = sum(haunting.successor.duplicates for haunting in each)
        behind = sum(haunting.successor.duplicates for haunting in each if haunting.point in WINDOW)
        written = sum(haunting.has_written for haunting in each)
        locked = sum(bool(haunting.refused) for haunting in each)
        table.add_row(backend, declaration, *map(str, (len(each), locked, written, second, behind)))
    return table


async def run(
    journals: Sequence[str], folder: Path, *, rounds: int, parallel: int
) -> tuple[Tally, list[Haunting]]:
    """The whole campaign."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        campaign = Campaign(journals, folder, asyncio.Semaphore(parallel), progress)
        return await campaign.crash(rounds), await campaign.haunt()


def main() -> int:
    """Run the campaign on both journals, print the table, and say whether every promise was kept."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=1, help="how often all of it is done, each time later")
    parser.add_argument("--parallel", type=int, default=2 * (os.cpu_count() or 1), help="workers at once")
    given = parser.parse_args()
    # Ended by a signal, it still stops its server and removes its folder.
    signal.signal(signal.SIGTERM, _end)
    began = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="tercet-crash-"))
    server = start_server(folder / "postgres")
    try:
        journals = [f"sqlite:///{folder}/{{name}}.db", server.url]
        tally, hauntings = asyncio.run(run(journals, folder, rounds=given.rounds, parallel=given.parallel))
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)
    console = Console(width=None if sys.stdout.isatty() else 140)
    console.print(tally.table())
    console.print(zombie_table(hauntings))
    wrongs = [f"{each.successor.trial.name}: {wrong}" for each in hauntings for wrong in wrongs_of(each)]
    violations = [*tally.violations, *wrongs]
    if tally.kills < LEAST_KILLS:
        violations.append(f"only {tally.kills} kills, of at least {LEAST_KILLS}")
    for violation in violations:
        console.print(f"VIOLATION: {violation}", style="red", highlight=False)
    console.print(f"{len(violations)} violations in {time.monotonic() - began:.0f} s")
    return 1 if violations else 0


def _end(number: int, _: object) -> None:
    sys.exit(128 + number)
