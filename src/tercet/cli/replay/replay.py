"""`tercet replay`: judging recorded runs again, under their own pack or another one. Nothing is called."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Annotated, TypeAlias, TypeVar

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from tercet.cli import ExitCode
from tercet.cli.inputs import load_pack
from tercet.cli.journals import DEFAULT, JournalUrl
from tercet.cli.options import AsJson, option
from tercet.cli.replay.replay_view import MOST, Tally, show_replayed, show_what_if
from tercet.cli.replay.runs import Everything, Intent, RunReader, Runs, Status, open_runs, require_runs
from tercet.cli.screen import Screen, print_json
from tercet.contracts.errors import TercetError, UsageError
from tercet.packs.pack import Pack
from tercet.replay.replay import replay_each
from tercet.replay.what_if import Rejudged, WhatIfReport, rejudge_each
from tercet.view.terminal.text import count

FoundT = TypeVar("FoundT")

EXAMPLES = """\
tercet replay ses_0123456789abcdef
tercet replay run.tercet --json
tercet replay --all --status completed
tercet replay --all --pack examples/refunds  # exit 3 if a verdict would change
"""


def replay(
    runs: Runs = None,
    *,
    pack: Annotated[
        Path | None,
        option("PACK", "Judge the runs under the pack in this folder, and show what would change."),
    ] = None,
    installed: Annotated[
        list[Path] | None,
        option(
            "PACK",
            "The folder of a pack that runs were recorded with, if their journal does not contain it; may be given several times.",
        ),
    ] = None,
    everything: Everything = False,
    intent: Intent = None,
    status: Status = None,
    workers: Annotated[
        int | None, option("N", "The number of processes; by default one for each core.", min=1)
    ] = None,
    journal: JournalUrl = DEFAULT,
    as_json: AsJson = False,
) -> ExitCode:
    """Replay recorded runs offline, and compare every verdict.

    No tool or model is called. Exits with 0 if everything is as recorded, and with 3 if something differs; the first
    event, step and field are then named. Runs are read one at a time, so there may be any number of them; Ctrl-C shows
    the results so far, and exits with 130. With --pack the recorded facts are judged by the rules of that pack, each run
    up to the first verdict that would change; the exit code is 3 if any would.
    """
    require_runs(runs or (), is_all=everything, intent=intent, status=status)
    if pack is not None and installed:
        raise UsageError(
            "--installed and --pack exclude each other",
            code="which_pack",
            remedy="--installed replays runs under their own pack, --pack judges them under another one",
        )
    other = load_pack(pack) if pack is not None else None
    packs = [load_pack(folder) for folder in installed or ()]
    with open_runs(journal, runs or (), is_all=everything, intent=intent, status=status) as found:
        if other is not None:
            return _what_if(found, other, workers, as_json=as_json)
        return _replay(found, packs, workers, as_json=as_json)


def _replay(found: RunReader, packs: list[Pack], workers: int | None, *, as_json: bool) -> ExitCode:
    tally = Tally(is_whole=as_json or len(found) <= MOST)
    coming = replay_each(found, packs=packs, workers=workers)
    cut = gather(coming, tally.take, len(found), is_shown=not as_json)
    if as_json:
        _raise_for_program(cut)
        print_json(
            {
                "outcome": "replay_different" if tally.different else "replay_equal",
                "equal": tally.runs - tally.different,
                "different": tally.different,
                "interrupted": cut is not None,
                "runs": [each.model_dump(mode="json") for each in tally.kept],
            }
        )
    elif tally.runs:
        show_replayed(Screen(), tally)
    return _ended(tally.runs, len(found), cut, is_same=not tally.different, as_json=as_json)


def _what_if(found: RunReader, pack: Pack, workers: int | None, *, as_json: bool) -> ExitCode:
    review_in: list[Rejudged] = []
    coming = rejudge_each(found, pack, workers=workers)
    cut = gather(coming, review_in.append, len(found), is_shown=not as_json)
    report = WhatIfReport.of(pack, review_in)
    if as_json:
        _raise_for_program(cut)
        print_json({**report.model_dump(mode="json"), "interrupted": cut is not None})
    elif review_in:
        show_what_if(Screen(), report)
    return _ended(len(review_in), len(found), cut, is_same=report.is_unchanged, as_json=as_json)


Cut: TypeAlias = KeyboardInterrupt | TercetError | None
"""Why not all runs were judged: Ctrl-C, or a run that cannot be read."""


def gather(coming: Generator[FoundT], take: Callable[[FoundT], object], total: int, *, is_shown: bool) -> Cut:
    """Pass each result to `take`, with a progress bar; return what ended this early, if anything did."""
    with progress_over(total, is_shown=is_shown) as told, closing(coming):
        try:
            for done, each in enumerate(coming, 1):
                take(each)
                told(done)
        except (KeyboardInterrupt, TercetError) as cut:
            return cut
    return None


def _raise_for_program(cut: Cut) -> None:
    """Raise the error that ended a replay early: a program gets the results or the error, never both."""
    if isinstance(cut, TercetError):
        raise cut


def _ended(done: int, total: int, cut: Cut, *, is_same: bool, as_json: bool) -> ExitCode:
    if cut is None:
        return ExitCode.ACCEPTED if is_same else ExitCode.REFUSED
    if not as_json and total > 1:
        Screen(stderr=True).say(f"· {done:,} of {count(total, 'run')} were judged")
    _raise_for_program(cut)
    return ExitCode.INTERRUPTED


@contextmanager
def progress_over(total: int, verb: str = "judging", *, is_shown: bool) -> Generator[Callable[[int], None]]:
    """Show a progress bar over runs on stderr, if that is a terminal."""
    screen = Screen(stderr=True)
    columns = TextColumn(verb), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    is_off = not (is_shown and screen.is_terminal)
    with Progress(*columns, console=screen, transient=True, disable=is_off) as bar:
        task = bar.add_task("", total=total)
        yield lambda done: bar.update(task, completed=done)
