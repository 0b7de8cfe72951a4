"""`tercet golden`: recorded runs as regression tests."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from rich.text import Text

from tercet.cli import ExitCode
from tercet.cli.inputs import load_pack
from tercet.cli.journals import DEFAULT, TENANT, JournalUrl, is_bundle, use_journal
from tercet.cli.options import AsJson, Force, GoldenFolder, Workers, argument, option
from tercet.cli.replay.replay import Tally, progress_over, show_change, show_difference, show_replayed
from tercet.cli.replay.runs import NamedRuns, make_folder, read_runs, require_writable
from tercet.cli.screen import Screen, print_json, respond
from tercet.contracts.errors import UsageError
from tercet.core.state import TERMINAL
from tercet.replay.bundle.exporting import export_run, new_file
from tercet.replay.golden import GoldenReport, GoldenRun, file_name, files_in
from tercet.replay.golden import check as check_folder
from tercet.replay.recording import Recording
from tercet.replay.replay import replay_many
from tercet.view.run import ReplayReport
from tercet.view.terminal.text import count, printable
from tercet.view.vocabulary import status_word

ADD_EXAMPLES = """\
tercet golden add ses_0123456789abcdef --to golden
tercet golden add run.tercet --to golden
"""
CHECK_EXAMPLES = """\
tercet golden check golden
tercet golden check golden --pack examples/refunds  # exit 3 if a verdict would change
"""


def add(
    runs: NamedRuns,
    *,
    to: GoldenFolder,
    force: Force = False,
    journal: JournalUrl = DEFAULT,
    as_json: AsJson = False,
) -> ExitCode:
    """Keep runs in a folder, each as one file, as golden runs.

    A run whose replay already differs is refused: exit 3. A run that is not over is kept up to its last event.
    """
    if to.exists():
        make_folder(to)  # raises before any run is judged
    found = read_runs(journal, runs, is_all=False)
    reports = replay_many(found)
    if wrong := [report for report in reports if not report.is_equal]:
        if as_json:
            print_json({"added": [], "different": [each.model_dump(mode="json") for each in wrong]})
        else:
            tally = Tally(is_whole=True)
            for each in wrong:
                tally.take(each)
            show_replayed(Screen(), tally)
        return ExitCode.REFUSED
    targets = [to / file_name(recording.session) for recording in found]
    _require_free(targets, is_forced=force)
    make_folder(to)
    for name, recording, target in zip(runs, found, targets, strict=True):
        if is_bundle(name):
            _copy(Path(name), target)
        else:
            _keep(journal, recording, target)
    if as_json:
        unfinished = [
            str(target) for target, report in zip(targets, reports, strict=True) if not _is_over(report)
        ]
        print_json({"added": list(map(str, targets)), "unfinished": unfinished, "different": []})
    else:
        _show_kept(Screen(), targets, reports)
    return ExitCode.ACCEPTED


def _is_over(report: ReplayReport) -> bool:
    return report.status in TERMINAL


def _show_kept(screen: Screen, targets: list[Path], reports: Sequence[ReplayReport]) -> None:
    for target, report in zip(targets, reports, strict=True):
        screen.conclude(f"kept {printable(str(target), 200)}")
        if not _is_over(report):
            screen.put(
                f"The run is {status_word(report.status)}, not over: later events are not in the file.",
                first="  · ",
            )


def _require_free(targets: list[Path], *, is_forced: bool) -> None:
    for target in targets:
        if targets.count(target) > 1:
            raise UsageError(
                f"{target} would be written twice",
                code="named_twice",
                remedy="name each run once",
            )
        if target.parent.is_dir():
            require_writable(target, is_forced=is_forced)


def _copy(source: Path, target: Path) -> None:
    """Copy a bundle unchanged, with its signature."""
    with new_file(target, is_forced=True) as file, source.open("rb") as given:
        shutil.copyfileobj(given, file)


def _keep(url: str, recording: Recording, target: Path) -> None:
    use_journal(url, lambda opened: export_run(opened, TENANT, recording.session, target, is_forced=True))


def check(
    folder: Annotated[Path, argument("FOLDER", "The folder of golden runs.")],
    *,
    pack: Annotated[
        Path | None,
        option("PACK", "Judge the runs under the pack in this folder instead of their own."),
    ] = None,
    workers: Workers = None,
    as_json: AsJson = False,
) -> ExitCode:
    """Replay every golden run. Exits with 0 if all are as recorded, and with 3 and the differences if not.

    A run with a correction, added by `tercet feedback golden`, must be decided differently: with --pack it counts as
    corrected once the pack decides it as the correction says, and as still wrong until then.
    """
    total = len(files_in(folder))
    other = load_pack(pack) if pack is not None else None
    with progress_over(total, is_shown=not as_json) as told:
        report = check_folder(folder, other, workers=workers, progress=told)
    code = ExitCode.ACCEPTED if report.is_same else ExitCode.REFUSED
    document = report.model_dump(mode="json")
    return respond(lambda: document, lambda screen: _show(screen, report), as_json=as_json, code=code)


def _show(screen: Screen, report: GoldenReport) -> None:
    for run in report.runs:
        if run.outcome not in ("same", "corrected"):
            _show_run(screen, run)
    under = f" under {printable(report.pack, 80)}" if report.pack else ""
    counts = [
        f"{report.same:,} the same",
        f"{report.changed:,} changed",
        f"{report.corrected:,} as corrected" if report.corrected else "",
        f"{report.still_wrong:,} still wrong" if report.still_wrong else "",
        f"{report.unreadable:,} unreadable" if report.unreadable else "",
    ]
    told = f"{count(len(report.runs), 'golden run')}{under}: {', '.join(filter(None, counts))}"
    screen.conclude(told, is_good=report.is_same)


def _show_run(screen: Screen, run: GoldenRun) -> None:
    screen.say(Text.assemble((printable(run.file, 120), "bold"), f"  {run.outcome.replace('_', ' ')}"))
    if run.difference is not None:
        show_difference(screen, run.difference)
    if run.change is not None:
        show_change(screen, run.change)
    if run.error is not None:
        screen.put(printable(run.error), first="  · ")
