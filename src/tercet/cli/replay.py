"""`tercet replay`: recorded runs judged again, as they were or under another pack. Nothing is called."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from tercet.cli.documents import load_pack
from tercet.cli.exit_code import ExitCode
from tercet.cli.journals import DEFAULT, JournalUrl
from tercet.cli.options import AsJson
from tercet.cli.recordings import Everything, Intent, Runs, Status, demand_runs, read_runs
from tercet.cli.replay_view import show_replayed, show_what_if
from tercet.cli.screen import Screen, print_json
from tercet.contracts.errors import UsageError
from tercet.packs.pack import Pack
from tercet.replay.recording import Recording
from tercet.replay.replaying import replay_many
from tercet.replay.what_if import what_if

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
        typer.Option(
            metavar="PACK",
            help="Judge them under the pack in this folder instead, and show what would change.",
        ),
    ] = None,
    installed: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="PACK",
            help="The folder of the pack that runs were recorded with, where their journal has not kept it; may be given several times.",
        ),
    ] = None,
    everything: Everything = False,
    intent: Intent = None,
    status: Status = None,
    workers: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="How many processes; by default one for each core.")
    ] = None,
    journal: JournalUrl = DEFAULT,
    as_json: AsJson = False,
) -> ExitCode:
    """Judge recorded runs again, offline. Does every verdict follow from the facts that were recorded before it?

    No tool, model or planner is called. Exits with 0 if everything comes out the same; with 3 if something differs, and
    names the first event, step and field. With --pack the facts stay as they were and the rules are the other pack's: each
    run is judged up to the first verdict that would be another one, and the exit code is 3 if there is any.
    """
    demand_runs(runs or (), is_all=everything, intent=intent, status=status)
    if pack is not None and installed:
        raise UsageError(
            "--installed is for judging runs as they were, and --pack for judging them otherwise",
            code="which_pack",
            remedy="give one of the two",
        )
    other = load_pack(pack) if pack is not None else None
    packs = [load_pack(folder) for folder in installed or ()]
    found = asyncio.run(read_runs(journal, runs or (), is_all=everything, intent=intent, status=status))
    if other is not None:
        return _what_if(found, other, workers, as_json=as_json)
    return _replay(found, packs, workers, as_json=as_json)


def _replay(found: list[Recording], packs: list[Pack], workers: int | None, *, as_json: bool) -> ExitCode:
    with progress_over(len(found), is_shown=not as_json) as told:
        reports = replay_many(found, packs=packs, workers=workers, progress=told)
    different = sum(not each.is_equal for each in reports)
    if as_json:
        print_json(
            {
                "outcome": "replay_different" if different else "replay_equal",
                "equal": len(reports) - different,
                "different": different,
                "runs": [each.model_dump(mode="json") for each in reports],
            }
        )
    else:
        show_replayed(Screen(), reports)
    return ExitCode.REFUSED if different else ExitCode.ACCEPTED


def _what_if(found: list[Recording], pack: Pack, workers: int | None, *, as_json: bool) -> ExitCode:
    with progress_over(len(found), is_shown=not as_json) as told:
        report = what_if(found, pack, workers=workers, progress=told)
    if as_json:
        print_json(report.model_dump(mode="json"))
    else:
        show_what_if(Screen(), report)
    return ExitCode.ACCEPTED if report.is_unchanged else ExitCode.REFUSED


@contextmanager
def progress_over(total: int, *, is_shown: bool) -> Generator[Callable[[int], None]]:
    """A bar over runs on stderr while it lasts, on a terminal; told how many are done."""
    screen = Screen(stderr=True)
    columns = TextColumn("judging"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    is_off = not (is_shown and screen.is_terminal)
    with Progress(*columns, console=screen, transient=True, disable=is_off) as bar:
        task = bar.add_task("", total=total)
        yield lambda done: bar.update(task, completed=done)
