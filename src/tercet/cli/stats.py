"""`tercet stats`: the figures of the runs in a journal, the same that telemetry tells while they run."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import nullcontext
from typing import Annotated

import typer

from tercet.cli.damage_view import damage_exit, damage_json, show_damage
from tercet.cli.durations import read_duration
from tercet.cli.exit_code import ExitCode
from tercet.cli.journals import DEFAULT, TENANT, JournalUrl, journal_at
from tercet.cli.options import AsJson
from tercet.cli.screen import Screen, print_json
from tercet.cli.sessions import damaged_row, standing_in
from tercet.cli.stats_view import show_figures
from tercet.core.state import TERMINAL
from tercet.core.transcript import timestamp
from tercet.engine.checks.damage import DamagedSession, describe_damage, row_fault
from tercet.engine.session_reader import list_rows, load_history
from tercet.executor.clock import SystemClock
from tercet.journal.protocol import Journal
from tercet.observe.figures import Figures, Recorded, count_run, figures_of
from tercet.observe.tally import Tally

EXAMPLES = """\
tercet stats
tercet stats --since 7d --intent support.refund
tercet stats --json
"""


def stats(
    *,
    since: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION",
            help="Only runs that were started within this time, such as 7d, 12h or 30m: by default all.",
        ),
    ] = None,
    intent: Annotated[
        str | None, typer.Option(metavar="INTENT", help="Only runs that were asked for this.")
    ] = None,
    journal: JournalUrl = DEFAULT,
    as_json: AsJson = False,
) -> ExitCode:
    """Show how the runs of a journal went. It counts how many plans passed and steps completed, how often retries
    helped and people were asked, how long it took, and what it cost.

    The figures are counted from the events of every run, rehearsals left out, with the same rules as the metrics of
    `--telemetry`. Runs that have not ended are told by where they stand: waiting, escalated, paused, ending or in
    progress. Damaged runs are listed and not counted, and the exit code is then 5. Nothing is written.
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
    """Return the figures of the readable runs, and how many runs have not ended, by what they wait for."""
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
                    unfinished[standing_in(row)] += row.status not in TERMINAL
                    if status is not None and not number % 50:
                        status.update(f"reading runs: {number:,}")
    return figures_of(tally), {where: each for where, each in sorted(unfinished.items()) if each}


async def _recorded(journal: Journal, session: str) -> Recorded:
    history = await load_history(journal, TENANT, session, has_checkpoints=True)
    sizes = [(each.kind, len(each.data)) for each in history.checkpoints]
    return Recorded(events=history.events, checkpoints=sizes)
