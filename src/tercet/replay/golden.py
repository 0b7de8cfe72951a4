"""Golden runs: chosen runs, each a bundle in one folder, whose verdicts must stay the same after every change.

A run is kept only if its replay is equal now. Checking judges each run again, under its own or another pack; a damaged file
counts as a change.
"""

from __future__ import annotations

import asyncio
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from tercet.contracts.errors import TercetError, UsageError
from tercet.contracts.shape import Absent, Published
from tercet.packs.pack import Pack
from tercet.replay.bundle.layout import SUFFIX
from tercet.replay.pool import on_all_cores
from tercet.replay.recording import Recording, load_bundle
from tercet.replay.replay import replay_recording
from tercet.replay.rules import RuleSource
from tercet.replay.what_if import Rejudged, VerdictChange, what_if
from tercet.view.run import Difference, ReplayReport

_PLAIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,200}")
"""Session ids that may become a file name: a bundle can name its session anything, also `../../x`."""


class GoldenRun(Published):
    """One run of the set."""

    file: str
    session_id: str = ""
    outcome: Literal["same", "changed", "corrected", "still_wrong", "unreadable"]
    """`corrected` and `still_wrong` are for runs that a person has corrected: whether they now end as expected."""
    difference: Absent[Difference] = None
    """The first difference from the recorded run."""
    change: Absent[VerdictChange] = None
    """The first verdict that would change under another pack."""
    error: Absent[str] = None


class Expected(Published):
    """The expected outcome of a golden run that a person has corrected: a better pack must lead to another one."""

    feedback: str
    session_id: str
    author: str
    correction: str
    expected: dict[str, Any] = {}
    """The right outputs. Replay cannot produce them, but it reports whether the wrong ones are refused."""
    is_accepted: bool
    """Whether the run should have been accepted."""


class GoldenReport(Published):
    """The result of checking the whole set."""

    folder: str
    pack: Absent[str] = None
    """The pack that it was judged under, where that is not each run's own."""
    same: int
    changed: int
    corrected: int = 0
    still_wrong: int = 0
    unreadable: int
    runs: tuple[GoldenRun, ...]

    @property
    def is_same(self) -> bool:
        """Whether every run gave its recorded result, or the result that a person corrected it to."""
        return self.changed == self.still_wrong == self.unreadable == 0


def file_name(session: str) -> str:
    """Return the file of a run; raises `UsageError` for a name that a bundle may have and a file should not."""
    if not _PLAIN.fullmatch(session):
        raise UsageError(
            f"a run that is called {session[:80]!r} has no file name",
            code="wrong_name",
            remedy="keep runs whose sessions are named by Tercet, such as ses_0123456789abcdef",
        )
    return f"{session}{SUFFIX}"


def files_in(folder: Path) -> list[Path]:
    """Return the runs of a folder by name; raises `UsageError` if there are none."""
    found = sorted(folder.glob(f"*{SUFFIX}")) if folder.is_dir() else []
    if not found:
        raise UsageError(
            f"there are no golden runs in {folder}",
            code="no_golden_runs",
            remedy=f"keep some: tercet golden add RUN --to {folder}",
        )
    return found


def expected_beside(file: Path) -> Path:
    """Return the file with the expected outcome of a golden run."""
    return file.with_name(f"{file.name.removesuffix(SUFFIX)}.expected.json")


def read_expected(file: Path) -> Expected | None:
    """Return the expected outcome of a golden run; None if it has none. Raises `UsageError` if it cannot be read."""
    path = expected_beside(file)
    if not path.is_file():
        return None
    try:
        return Expected.model_validate_json(path.read_bytes())
    except ValidationError as error:
        raise UsageError(
            f"{path} does not hold an expected outcome",
            code="expected_unreadable",
            remedy=f"make it again: tercet feedback golden with --to {shlex.quote(str(path.parent))} --force",
        ) from error


def check(
    folder: Path,
    pack: Pack | None = None,
    *,
    workers: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> GoldenReport:
    """Judge every run of a folder again, under its own or another pack."""
    files, unreadable = files_in(folder), dict[Path, str]()
    judged = iter(_judge_run(_readable(files, unreadable), pack, workers, progress))
    found = tuple(_golden(file, unreadable[file] if file in unreadable else next(judged)) for file in files)
    outcomes = [each.outcome for each in found]
    return GoldenReport(
        folder=str(folder),
        pack=None if pack is None else pack.ref,
        same=outcomes.count("same"),
        changed=outcomes.count("changed"),
        corrected=outcomes.count("corrected"),
        still_wrong=outcomes.count("still_wrong"),
        unreadable=outcomes.count("unreadable"),
        runs=found,
    )


def _readable(files: Iterable[Path], unreadable: dict[Path, str]) -> Iterator[Recording]:
    """Yield the runs in files, each read when it is requested; keeps the errors of unreadable files."""
    for file in files:
        try:
            yield asyncio.run(load_bundle(file))
        except TercetError as error:
            unreadable[file] = str(error)


def _judge_run(
    runs: Iterable[Recording],
    pack: Pack | None,
    workers: int | None,
    progress: Callable[[int], None] | None,
) -> Sequence[ReplayReport | Rejudged | str]:
    if pack is None:
        return on_all_cores(_Replay(), runs, workers=workers, progress=progress)
    return what_if(runs, pack, workers=workers, progress=progress).runs


class _Replay:
    """Judges runs under their own packs and those of earlier runs; reports why a run cannot be judged."""

    def __init__(self) -> None:
        self._rulebook = RuleSource()

    def __call__(self, recording: Recording) -> ReplayReport | str:
        try:
            return replay_recording(recording, self._rulebook)
        except UsageError as error:
            return str(error)


def _corrected(file: Path, judged: Rejudged, wanted: Expected) -> GoldenRun:
    """Return the result for a run that a person has corrected: it passes only if its outcome changes."""
    is_right = (judged.new_status == "completed") == wanted.is_accepted
    should = "should have been accepted" if wanted.is_accepted else "should not have been accepted"
    said = (
        f"it would still be {judged.new_status}; {wanted.author} says that it {should}: {wanted.correction}"
    )
    return GoldenRun(
        file=file.name,
        session_id=judged.session_id,
        outcome="corrected" if is_right else "still_wrong",
        error=None if is_right else said,
    )


def _golden(file: Path, judged: ReplayReport | Rejudged | str) -> GoldenRun:
    if isinstance(judged, str):
        return GoldenRun(file=file.name, outcome="unreadable", error=judged)
    if isinstance(judged, ReplayReport):
        outcome = "same" if judged.is_equal else "changed"
        return GoldenRun(
            file=file.name, session_id=judged.session_id, outcome=outcome, difference=judged.difference
        )
    if (wanted := read_expected(file)) is not None and judged.outcome != "unreadable":
        return _corrected(file, judged, wanted)
    outcome = "same" if judged.outcome == "unchanged" else judged.outcome
    return GoldenRun(
        file=file.name,
        session_id=judged.session_id,
        outcome=outcome,
        change=judged.change,
        error=judged.error,
    )
