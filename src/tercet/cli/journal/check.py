"""`tercet journal check` and `accept`: verifying a journal, and accepting lost commits."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from typing import Annotated, Any

import msgspec
from rich.text import Text

from tercet.cli import ExitCode
from tercet.cli.journals import DEFAULT, JournalUrl, require_journal_file
from tercet.cli.options import AsJson, flag
from tercet.cli.screen import Screen, print_json
from tercet.contracts.errors import UsageError
from tercet.engine.checks.journal import JournalProblem, JournalReport, check_journal
from tercet.engine.streams.kinds import LostHistory, mark_lost
from tercet.journal.errors import JournalCorrupt
from tercet.journal.opening import accept_loss, open_to_inspect
from tercet.view.terminal.text import count, printable

CHECK_EXAMPLES = """\
tercet journal check
tercet journal check --journal sqlite:///runs.db --json
"""
ACCEPT_EXAMPLES = """\
tercet journal accept --yes
tercet journal accept --journal sqlite:///runs.db --yes --json
"""
_EVERY = 50


def check(*, journal: JournalUrl = DEFAULT, as_json: AsJson = False) -> ExitCode:
    """Verify a whole journal, and list what is damaged.

    Checks, for all tenants, the database file, missing commits, the chain of every stream up to its recorded end, the
    names of streams, checkpoints, session rows and claims against the events, rows that belong to no stream, and
    every blob against its digest. One damaged stream does not end the check. Nothing is written. Exits
    with 0 if nothing is damaged and with 5 if something is.
    """
    report = asyncio.run(_check(journal, Screen(stderr=True), is_quiet=as_json))
    if as_json:
        print_json(_report_json(report))
    else:
        _show(Screen(), report)
    return ExitCode.FAILED if report.problems else ExitCode.ACCEPTED


async def _check(url: str, screen: Screen, *, is_quiet: bool) -> JournalReport:
    require_journal_file(url)
    try:
        journal, loss = await open_to_inspect(url)
    except JournalCorrupt as error:
        report = JournalReport()
        report.add(error.place, error.message, error.remedy or "")
        return report
    is_shown = screen.is_terminal and not is_quiet
    try:
        with screen.status("checking") if is_shown else nullcontext() as status:

            def progress(report: JournalReport) -> None:
                if status is not None and not (report.streams + report.claims + report.blobs) % _EVERY:
                    status.update(f"checking: {_format_counts(report)}")

            return await check_journal(journal, loss, progress=progress)
    finally:
        await journal.close()


def _report_json(report: JournalReport) -> dict[str, Any]:
    return {
        "is_intact": not report.problems,
        "streams": report.streams,
        "events": report.events,
        "sessions": report.sessions,
        "claims": report.claims,
        "blobs": report.blobs,
        "problems": [msgspec.to_builtins(problem) for problem in report.problems],
    }


def _show(screen: Screen, report: JournalReport) -> None:
    for problem in report.problems:
        _show_problem(screen, problem)
    if report.problems:
        found = count(len(report.problems), "problem")
        screen.say(Text.assemble((f"✗ {found}", "bold red"), f" in {_format_counts(report)}"))
    else:
        screen.say(Text.assemble(("✓ ", "green"), f"{_format_counts(report)}: no damage found"))


def _show_problem(screen: Screen, problem: JournalProblem) -> None:
    where = f"{problem.stream}: " if problem.stream else ""
    headline = Text.assemble(("✗ ", "red"), (printable(f"{where}{problem.place}", 200), "bold"))
    screen.put(Text.assemble(headline, f": {printable(problem.what, 400)}"), rest="  ")
    screen.put(printable(problem.remedy), first="  → ")


def _format_counts(report: JournalReport) -> str:
    return ", ".join(
        (
            count(report.streams, "stream"),
            count(report.events, "event"),
            count(report.sessions, "session"),
            count(report.claims, "claim"),
            count(report.blobs, "blob"),
        )
    )


def accept(
    *,
    yes: Annotated[bool, flag("Give up the lost commits; copy the files first.", "--yes")] = False,
    journal: JournalUrl = DEFAULT,
    as_json: AsJson = False,
) -> None:
    """Accept that a SQLite journal has lost commits.

    Use it when opening the journal fails with journal_damaged: its log is damaged, or an older backup was restored.
    Sessions that lost events are marked, and can no longer be resumed: the calls that they made after their last
    remaining event are unknown, and none is repeated. All other sessions can be resumed. A run that was lost as a
    whole leaves no trace, so the same request starts a new one. Exits with 0 if the journal can be used, and with 2
    without --yes.
    """
    require_journal_file(journal)
    if not yes:
        raise UsageError(
            "accepting the loss cannot be undone",
            code="not_confirmed",
            remedy="see what is missing with tercet journal check, copy the files, then add --yes",
        )
    marked = asyncio.run(accept_loss(journal, mark_lost))
    if as_json:
        print_json({"is_changed": marked is not None, "sessions": msgspec.to_builtins(marked or [])})
    else:
        _show_accepted(Screen(), marked)


def _show_accepted(screen: Screen, marked: list[LostHistory] | None) -> None:
    if marked is None:
        screen.say("No commit is missing: nothing was changed.")
        return
    screen.say(Text.assemble(("✓ ", "green"), "the journal can be used again"))
    for each in marked:
        had = "an unknown number" if each.had is None else f"{each.had:,}"
        screen.put(
            f"{printable(each.session_id, 80)}: {count(each.left, 'event')} left of {had}; it cannot be resumed",
            first="  ",
        )
