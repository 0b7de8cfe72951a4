"""`tercet stats`: statistics of the runs in a journal, with the same rules as the metrics of telemetry."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from typing import Annotated

from tercet.cli import ExitCode
from tercet.cli.amounts import read_duration
from tercet.cli.journals import DEFAULT, TENANT, JournalUrl, journal_at
from tercet.cli.options import AsJson, option
from tercet.cli.screen import Screen, print_json
from tercet.cli.sessions.sessions import damage_exit, damage_json, damaged_row, show_damage, standing_of_row
from tercet.contracts.runs.budget import MICROCENTS_PER_CENT
from tercet.core.state import TERMINAL
from tercet.core.transcript import timestamp
from tercet.engine.checks.journal import DamagedSession, describe_damage, row_fault
from tercet.engine.session_reader import list_rows, load_history
from tercet.executor.clock import SystemClock
from tercet.journal.protocol import Journal
from tercet.observe.figures import Figures, Recorded, count_run, figures_of
from tercet.observe.tally import Tally
from tercet.view.terminal.text import count, duration_text, printable

EXAMPLES = """\
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
        recovered = {"completed": found.steps_recovered, "lost": found.steps_lost}
        yield "retried", f"{_counts(recovered)}{_share(found.recovery_rate, 'of retried steps')}"
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
