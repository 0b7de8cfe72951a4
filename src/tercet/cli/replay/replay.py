"""`tercet replay`: judging recorded runs again, under their own pack or another one. Nothing is called."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, TypeAlias, TypeVar

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from tercet.cli import ExitCode
from tercet.cli.inputs import load_pack
from tercet.cli.journals import DEFAULT, JournalUrl
from tercet.cli.options import AsJson, Workers, option
from tercet.cli.replay.runs import Everything, Intent, RunReader, Runs, Status, open_runs, require_runs
from tercet.cli.screen import Screen, print_json
from tercet.contracts.errors import TercetError, UsageError
from tercet.contracts.runs.behaviour import CURRENT
from tercet.packs.pack import Pack
from tercet.replay.replay import replay_each
from tercet.replay.what_if import JudgedAs, Rejudged, VerdictChange, WhatIfReport, rejudge_each
from tercet.view.run import Count, Difference, ReplayReport
from tercet.view.terminal.text import count, json_text, printable
from tercet.view.vocabulary import status_word

MOST = 50
"""If there are more runs, only those that differ are shown."""


@dataclass
class Tally:
    """The results of replays, counted; those that will be shown are kept."""

    is_whole: bool
    """Whether all runs will be shown, not only those that differ."""
    runs: int = 0
    different: int = 0
    rederived: int = 0
    facts: int = 0
    kept: list[ReplayReport] = field(default_factory=list[ReplayReport])

    def take(self, report: ReplayReport) -> None:
        """Count a run, and keep it if it will be shown."""
        self.runs += 1
        self.different += not report.is_equal
        self.rederived += report.verdicts_rederived
        self.facts += report.verdicts_as_facts
        if self.is_whole or not report.is_equal:
            self.kept.append(report)


def show_replayed(screen: Screen, tally: Tally) -> None:
    """Show the result of each run, and the totals if there are several."""
    for report in tally.kept:
        _show_report(screen, report, is_alone=tally.runs == 1)
    if tally.runs != 1:
        screen.say(
            f"{count(tally.runs, 'run')}: {tally.runs - tally.different:,} equal, {tally.different:,} different; "
            f"{count(tally.rederived, 'verdict')} re-derived, {tally.facts:,} taken from the record"
        )


def _show_report(screen: Screen, report: ReplayReport, *, is_alone: bool) -> None:
    text = f"{report.outcome}  {printable(report.session_id, 80)}  {printable(report.pack, 80)}, {status_word(report.status)}"
    screen.conclude(text, is_good=report.is_equal)
    if report.difference is not None:
        show_difference(screen, report.difference)
    if is_alone:
        events = f"{count(report.events, 'event')}, {count(report.checkpoints, 'checkpoint')}"
        screen.put(f"{events}, all as recorded", first="  · ")
        screen.put(_verdicts(report), first="  · ")
        if report.erased:
            more = f" and {len(report.erased) - 5:,} more" if len(report.erased) > 5 else ""
            erased = f"{count(len(report.erased), 'personal value')} erased, judged as tokens: "
            screen.put(f"{erased}{printable(', '.join(report.erased[:5]))}{more}", first="  · ")
        if set(CURRENT) - set(report.behaviour):
            rules = ", ".join(map(str, sorted(report.behaviour))) or "none"
            screen.put(f"judged by the numbered rules that it was recorded under: {rules}", first="  · ")
        for fact in report.facts:
            screen.put(_fact(fact), first="    fact  ")


def _verdicts(report: ReplayReport) -> str:
    rederived = count(report.verdicts_rederived, "verdict")
    return f"{rederived} re-derived, {report.verdicts_as_facts:,} taken from the record"


def _fact(fact: Count) -> str:
    return f"{fact.count:,} {fact.event}: {fact.reason}"


def show_difference(screen: Screen, found: Difference) -> None:
    """Show the first difference between a run and its replay."""
    where = f"event {found.position}, {printable(found.event, 60)}"
    step = f", step {printable(found.step, 80)}" if found.step else ""
    screen.put(f"{where}{step}, field {printable(found.field, 200)}", first="  · ")
    screen.put(_value(found.recorded), first="    recorded  ")
    screen.put(_value(found.expected), first="    expected  ")
    screen.put(printable(found.check), first="  → ")


def _value(value: Any) -> str:
    return printable(value if isinstance(value, str) else json_text(value, indent=None), 400)


# --- what if ---


def show_what_if(screen: Screen, report: WhatIfReport) -> None:
    """Show each changed verdict with its reasons, and how many there are."""
    for run in report.runs:
        if run.outcome != "unchanged":
            _show_rejudged(screen, run)
    text = f"{count(len(report.runs), 'run')} under {printable(report.pack, 80)}: {report.changed:,} changed, {report.unchanged:,} unchanged"
    unreadable = f", {report.unreadable:,} unreadable" if report.unreadable else ""
    screen.conclude(f"{text}{unreadable}", is_good=report.is_unchanged)


def _show_rejudged(screen: Screen, run: Rejudged) -> None:
    screen.say(
        Text.assemble(
            (f"{printable(run.session_id, 80)}", "bold"),
            f"  {printable(run.intent, 60)}  {status_word(run.old_status)} → {status_word(run.new_status)}",
        )
    )
    if run.change is not None:
        show_change(screen, run.change)
    if run.error is not None:
        screen.put(printable(run.error), first="  · ")


def show_change(screen: Screen, change: VerdictChange) -> None:
    """Show a verdict that would change, and why."""
    step = f" {printable(change.step, 80)}" if change.step else ""
    where = f"event {change.position}, {change.event}{step}"
    screen.put(f"{where}: {_verdict_text(change.old)} → {_verdict_text(change.new)}", first="  · ")
    for reason in change.new.reasons[:3]:
        screen.put(printable(reason), first="    ")


def _verdict_text(said: JudgedAs) -> str:
    """Return a verdict in short, with its code or the gates that it demands."""
    gates = [f"{name or 'anyone'} ×{quorum}" for name, (_, quorum) in said.details.get("needs", {}).items()]
    more = said.details.get("code") or ", ".join(gates)
    return printable(f"{said.verdict} ({more})" if more else said.verdict, 200)


# --- replay ---


FoundT = TypeVar("FoundT")

REPLAY_EXAMPLES = """\
tercet replay ses_0123456789abcdef
tercet replay run.tercet --json
tercet replay past --pack examples/refunds  # a folder of bundles
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
    workers: Workers = None,
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
