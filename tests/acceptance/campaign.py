"""The crash campaign: `make crash`.

Worker processes on SQLite and on PostgreSQL are killed by SIGKILL at every named point and at random instants, over the
refund pack and a plan of twelve steps in parallel branches, for every way in which a tool may recover, also where a
call outlives its time after its effect. Each session is then resumed until it is over. Then: no run is lost, no effect
of a tool that is idempotent or can reconcile happened twice, no call of a tool that declares nothing was repeated
blindly, and each record equals the one of a run that nobody killed.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from plugins.postgres import start_server
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from tercet.testing.crash_points import POINTS

from .trial import RANDOM, Found, Trial, normalise, run_trial

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
        self.violations += [f"{trial.name} on {backend}: {problem}" for problem in problems]

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
    """The trials on one journal: every point, early and late, twice in a row; random instants; calls that hang."""
    for scene in SCENES:
        for turn in range(rounds):
            for point in POINTS:
                yield _trial(journal, folder, scene, (f"{point}:{1 + turn * 2}", f"{point}:{1 + turn % 2}"))
        for turn in range(4 * rounds):
            yield _trial(journal, folder, scene, (RANDOM, RANDOM), seed=turn)
        for turn, point in enumerate(("after_effect", "after_answer", "before_append", RANDOM)):
            kill = point if point == RANDOM else f"{point}:{1 + turn}"
            yield _trial(journal, folder, scene, (kill,), hang=HANGS[scene.partition(":")[0]])


def _trial(
    journal: str, folder: Path, scene: str, kills: Sequence[str], *, hang: str = "", seed: int = 0
) -> Trial:
    words = [scene, *kills, hang, str(seed)]
    name = "-".join(filter(None, words)).replace(":", "_")
    return Trial(
        name=name, journal=journal.format(name=name), scene=scene, kills=kills, hang=hang, folder=folder, seed=seed
    )


async def campaign(journals: Sequence[str], folder: Path, *, rounds: int, parallel: int) -> Tally:
    """Run all trials, several at once."""
    tally = Tally()
    slots = asyncio.Semaphore(parallel)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:

        async def run(trial: Trial) -> Found:
            async with slots:
                return await run_trial(trial)

        for scene in SCENES:
            found = await run(_trial(journals[0], folder, scene, ()))
            tally.references[scene] = {} if found.is_lost else normalise(found.record)
        for journal in journals:
            chosen = list(trials(journal, folder, rounds))
            bar = progress.add_task(journal.partition(":")[0], total=len(chosen))
            for ending in asyncio.as_completed([run(trial) for trial in chosen]):
                tally.add(await ending)
                progress.update(bar, advance=1)
    return tally


def main() -> int:
    """Run the campaign on both journals, print the table, and say whether every promise was kept."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=3, help="how often each point is tried, each time later")
    parser.add_argument("--parallel", type=int, default=2 * (os.cpu_count() or 1), help="workers at once")
    given = parser.parse_args()
    began = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="tercet-crash-"))
    server = start_server(folder / "postgres")
    try:
        journals = [f"sqlite:///{folder}/{{name}}.db", server.url]
        tally = asyncio.run(campaign(journals, folder, rounds=given.rounds, parallel=given.parallel))
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)
    console = Console()
    console.print(tally.table())
    for violation in tally.violations:
        console.print(f"VIOLATION: {violation}", style="red", highlight=False)
    console.print(f"{len(tally.violations)} violations in {time.monotonic() - began:.0f} s")
    if tally.kills < LEAST_KILLS:
        console.print(f"too few kills: {tally.kills} of at least {LEAST_KILLS}", style="red")
        return 1
    return 1 if tally.violations else 0


if __name__ == "__main__":
    sys.exit(main())
