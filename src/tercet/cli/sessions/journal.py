"""`tercet stats` and `tercet journal`: statistics of a journal, checking it, and accepting lost commits."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from typing import Annotated

import msgspec
from rich.text import Text

from tercet.cli import ExitCode
from tercet.cli.inputs import read_duration
from tercet.cli.journals import DEFAULT, TENANT, JournalUrl, journal_at, require_journal_file
from tercet.cli.options import AsJson, flag, option
from tercet.cli.screen import Screen, print_json, respond
from tercet.cli.sessions.sessions import damage_exit, damage_json, damaged_row, show_damage, standing_of_row
from tercet.contracts.errors import UsageError
from tercet.contracts.runs.budget import MICROCENTS_PER_CENT
from tercet.core.state import TERMINAL
from tercet.core.transcript import timestamp
from tercet.engine.checks.journal import (
    DamagedSession,
    JournalProblem,
    JournalReport,
    check_journal,
    describe_damage,
    row_fault,
)
from tercet.engine.session_reader import list_rows, load_history
from tercet.engine.streams.kinds import LostHistory, mark_lost
from tercet.executor.clock import SystemClock
from tercet.journal.errors import JournalCorrupt
from tercet.journal.opening import accept_loss, open_to_inspect
from tercet.journal.protocol import Journal
from tercet.observe.tally import Figures, Recorded, Tally, count_run, figures_of
from tercet.view.terminal.text import count, duration_text, printable

STATS_EXAMPLES = """\
tercet stats
tercet stats --since 7d --intent support.refund
tercet stats --json
"""


def stats(
    *,
    since: Annotated[
        str | None,
        option(
            "DURATION",
            "Only runs that were started within this time, such as 7d, 12h or 30m.",
        ),
    ] = None,
    intent: Annotated[str | None, option("INTENT", "Only runs with this intent.")] = None,
    journal: JournalUrl = DEFAULT,
    as_json: AsJson = False,
) -> ExitCode:
    """Show statistics of the runs in a journal.

    Shown are pass rates of plans and steps, retries, escalations, durations and costs. They are computed from the
    events of every run except rehearsals, by the same rules as the metrics of `--telemetry`. Runs that are not over
    are counted by status: waiting, escalated, paused, ending or in progress. Damaged runs are listed and not counted,
    and the exit code is then 5. Nothing is written.
    """
    now = SystemClock().now()
    after = 0 if since is None else now - read_duration(since)
    unreadable: list[DamagedSession] = []
    found, unfinished = asyncio.run(
        _figures(journal, after, intent, Screen(stderr=True), unreadable, is_quiet=as_json)
    )
    if as_json:
        since_when = timestamp(after) if after else None
        print_json(
            {
                "since": since_when,
                "intent": intent,
                "figures": found.as_json(),
                "unfinished": unfinished,
                "damaged": damage_json(unreadable),
            }
        )
    else:
        screen = Screen()
        show_figures(screen, found, unfinished)
        show_damage(screen, unreadable, journal)
    return damage_exit(unreadable)


async def _figures(
    url: str,
    after: int,
    intent: str | None,
    screen: Screen,
    unreadable: list[DamagedSession],
    *,
    is_quiet: bool,
) -> tuple[Figures, dict[str, int]]:
    """Return the figures of the readable runs, and the number of runs that are not over, by status."""
    tally, number = Tally(), 0
    unfinished: Counter[str] = Counter()
    is_shown = screen.is_terminal and not is_quiet
    with screen.status("reading runs") if is_shown else nullcontext() as status:
        async with journal_at(url) as journal:
            async for row in list_rows(journal, TENANT):
                if not row_fault(row) and row.started_at < after:
                    break
                if (broken := damaged_row(row)) is not None:
                    unreadable.append(broken)
                elif intent is None or row.intent == intent:
                    try:
                        count_run(tally, await _recorded(journal, row.session_id))
                    except Exception as error:  # noqa: BLE001 - damaged events can fail in any way
                        unreadable.append(describe_damage(row.session_id, error))
                        continue
                    number += 1
                    unfinished[standing_of_row(row)] += row.status not in TERMINAL
                    if status is not None and not number % 50:
                        status.update(f"reading runs: {number:,}")
    return figures_of(tally), {where: each for where, each in sorted(unfinished.items()) if each}


async def _recorded(journal: Journal, session: str) -> Recorded:
    history = await load_history(journal, TENANT, session, has_checkpoints=True)
    sizes = [(each.kind, len(each.data)) for each in history.checkpoints]
    return Recorded(events=history.events, checkpoints=sizes)


# --- on the screen ---


_LABEL = 13
_MOST_TOOLS = 8


def show_figures(screen: Screen, found: Figures, unfinished: Mapping[str, int]) -> None:
    """Print the figures, and the runs that are not over by status; figures of zero are left out."""
    if not found.runs and not found.plans_reviewed:
        screen.say("There is no matching run.")
        return
    for label, text in _facts(found, unfinished):
        if text:
            screen.put(text, first=f"{label:<{_LABEL}}")


def _facts(found: Figures, unfinished: Mapping[str, int]) -> Iterator[tuple[str, str]]:
    yield "runs", _joined(f"{found.runs:,}", _counts({**found.ended, **unfinished}))
    if (mean := found.mean_time_to_safe_completion_ms) is not None:
        yield (
            "time",
            f"{duration_text(round(mean))} from request to commit on average, waiting for people included",
        )
    yield "plans", f"{found.plans_reviewed:,} reviewed{_share(found.plan_pass_rate, 'passed the critic')}"
    yield "refused", _counts(found.plans_refused)
    yield (
        "re-planned",
        f"{count(found.replans, 'time')}: the planner was asked again" if found.replans else "",
    )
    if found.steps:
        yield (
            "steps",
            f"{_counts(found.steps)}{_share(found.step_completion_rate, 'of those tried')}",
        )
    yield "calls", _calls(found)
    if found.retries:
        yield "retries", f"{count(found.retries, 'call')}{_share(found.retry_rate, 'of all calls')}"
        tried = count(found.steps_recovered + found.steps_lost, "step")
        yield (
            "retried",
            f"{tried}, {found.steps_recovered:,} completed{_share(found.recovery_rate, 'of them')}",
        )
    yield "compensated", _counts(found.compensations)
    if found.loop_guard_trips:
        yield "loop guard", f"{count(found.loop_guard_trips, 'trip')}, {found.loop_guard_trip_rate:.2f} a run"
    yield "gates", _counts(found.gates_opened)
    yield "not passed", _counts({_FAILURES.get(name, name): n for name, n in found.gate_failures.items()})
    yield "escalated", _escalations(found)
    yield "checkpoints", f"{found.checkpoints_written:,}, {count(found.checkpoint_bytes, 'byte')}"
    if found.loops_resumed:
        cut_off = count(found.actions_recovered, "call")
        recovered = f", with {cut_off} that a process had left in flight" if found.actions_recovered else ""
        yield "resumed", f"{count(found.loops_resumed, 'time')}{recovered}"
    yield "cost", _in_phases({phase: _cents(cost) for phase, cost in found.cost_microcents.items()})
    yield "tokens", _in_phases({phase: f"{number:,}" for phase, number in found.tokens.items()})
    if found.lanes:
        rate = found.parent_replan_rate or 0
        replans = f"; their parents were planned again {rate:.2f} times a run"
        yield "lanes", f"{_counts(found.lanes)}{_share(found.lane_success_rate, 'completed')}{replans}"


_FAILURES = {
    "quality": "below a quality limit",
    "denied": "denied by a person",
    "expired": "not answered in time",
}
"""The text for each reason why something did not pass."""


def _calls(found: Figures) -> str:
    tools = sorted(found.actions_dispatched.items(), key=lambda each: -each[1])
    shown = ", ".join(f"{number:,} {printable(tool, 60)}" for tool, number in tools[:_MOST_TOOLS])
    return f"{shown}{', …' if len(tools) > _MOST_TOOLS else ''}"


def _escalations(found: Figures) -> str:
    told = [
        f"{number:,} of risk tier {tier}{f' ({rate:.2f} a run)' if rate else ''}"
        for tier, number in found.escalations.items()
        for rate in (found.escalation_rate.get(tier),)
    ]
    return ", ".join(told)


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{number:,} {printable(name, 60)}" for name, number in counts.items() if number)


def _in_phases(amounts: Mapping[str, str]) -> str:
    return ", ".join(f"{amount} in {printable(phase, 60)}" for phase, amount in amounts.items())


def _cents(microcents: int) -> str:
    return f"{microcents / MICROCENTS_PER_CENT:,.6g} cents"


def _joined(*parts: str) -> str:
    return ": ".join(filter(None, parts))


def _share(rate: float | None, text: str) -> str:
    return "" if rate is None else f" ({f'{100 * rate:.1f}'.removesuffix('.0')} % {text})"


# --- check ---


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
    return respond(
        lambda: {"is_intact": not report.problems, **msgspec.to_builtins(report)},
        lambda screen: _show(screen, report),
        as_json=as_json,
        code=ExitCode.FAILED if report.problems else ExitCode.ACCEPTED,
    )


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
