"""Golden runs: chosen runs, each a bundle in one folder, that must come out the same after every change.

A run is kept only if it does so now. Checking judges each of them again, as it was or under another pack; a file that is
damaged is a change like any other.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

from tercet.contracts.errors import TercetError, UsageError
from tercet.contracts.shape import Absent, Published
from tercet.packs.pack import Pack
from tercet.replay.outcome import Difference, ReplayReport
from tercet.replay.recording import Recording
from tercet.replay.replaying import replay_many
from tercet.replay.sources import load_bundle
from tercet.replay.what_if import Rejudged, VerdictChange, what_if

SUFFIX = ".tercet"
_PLAIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,200}")
"""What may become the name of a file: a bundle from elsewhere can call its session anything, also `../../x`."""


class GoldenRun(Published):
    """One run of the set."""

    file: str
    session_id: str = ""
    outcome: Literal["same", "changed", "unreadable"]
    difference: Absent[Difference] = None
    """Where it comes out otherwise than it was recorded."""
    change: Absent[VerdictChange] = None
    """The first verdict that would be another one, under another pack."""
    error: Absent[str] = None


class GoldenReport(Published):
    """What became of the whole set."""

    folder: str
    pack: Absent[str] = None
    """The pack that it was judged under, where that is not each run's own."""
    same: int
    changed: int
    unreadable: int
    runs: tuple[GoldenRun, ...]

    @property
    def is_same(self) -> bool:
        """Whether every run came out as it was kept."""
        return self.changed == self.unreadable == 0


def file_name(session: str) -> str:
    """The file that a run is kept in; raises `UsageError` for a name that a bundle may have and no file should."""
    if not _PLAIN.fullmatch(session):
        raise UsageError(
            f"a run that is called {session[:80]!r} has no file name",
            code="wrong_name",
            remedy="keep runs whose sessions are named by Tercet, such as ses_0123456789abcdef",
        )
    return f"{session}{SUFFIX}"


def files_in(folder: Path) -> list[Path]:
    """The runs of a folder by name; raises `UsageError` if there are none."""
    found = sorted(folder.glob(f"*{SUFFIX}")) if folder.is_dir() else []
    if not found:
        raise UsageError(
            f"there are no golden runs in {folder}",
            code="no_golden_runs",
            remedy=f"keep some: tercet golden add RUN --to {folder}",
        )
    return found


def check(
    folder: Path,
    pack: Pack | None = None,
    *,
    workers: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> GoldenReport:
    """Judge every run of a folder again, as it was or under another pack."""
    files = files_in(folder)
    loaded = {file: _load(file) for file in files}
    runs = [run for run in loaded.values() if isinstance(run, Recording)]
    judged = iter(_judged(runs, pack, workers, progress))
    found = tuple(
        GoldenRun(file=file.name, outcome="unreadable", error=run)
        if isinstance(run, str)
        else _golden(file, next(judged))
        for file, run in loaded.items()
    )
    outcomes = [each.outcome for each in found]
    return GoldenReport(
        folder=str(folder),
        pack=None if pack is None else pack.ref,
        same=outcomes.count("same"),
        changed=outcomes.count("changed"),
        unreadable=outcomes.count("unreadable"),
        runs=found,
    )


def _load(file: Path) -> Recording | str:
    """The run in a file, or why it cannot be read."""
    try:
        return asyncio.run(load_bundle(file))
    except TercetError as error:
        return str(error)


def _judged(
    runs: Sequence[Recording],
    pack: Pack | None,
    workers: int | None,
    progress: Callable[[int], None] | None,
) -> Sequence[ReplayReport | Rejudged]:
    if pack is None:
        return replay_many(runs, workers=workers, progress=progress)
    return what_if(runs, pack, workers=workers, progress=progress).runs


def _golden(file: Path, judged: ReplayReport | Rejudged) -> GoldenRun:
    if isinstance(judged, ReplayReport):
        outcome = "same" if judged.is_equal else "changed"
        return GoldenRun(
            file=file.name, session_id=judged.session_id, outcome=outcome, difference=judged.difference
        )
    outcome = "same" if judged.outcome == "unchanged" else judged.outcome
    return GoldenRun(
        file=file.name,
        session_id=judged.session_id,
        outcome=outcome,
        change=judged.change,
        error=judged.error,
    )
