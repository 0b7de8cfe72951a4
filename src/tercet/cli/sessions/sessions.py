"""`tercet sessions list`, `show` and `watch`: reading sessions from the journal."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any, cast

import msgspec
from rich.text import Text

from tercet.cli import ExitCode
from tercet.cli.journals import (
    DEFAULT,
    JournalUrl,
    RecordedSession,
    SessionId,
    journal_at,
    read_session,
    tenant_of,
    use_journal,
)
from tercet.cli.options import STATUSES, AsJson, flag, option, recorded_status
from tercet.cli.remote import as_remote, unserved_pack
from tercet.cli.run.progress import NoProgress, Progress
from tercet.cli.run.runner import Tell, process_name
from tercet.cli.run.runner import follow as follow_session
from tercet.cli.screen import Screen, print_json
from tercet.cli.sessions.next_commands import EXIT_CODES, Commands, commands_for
from tercet.cli.sessions.people import ActorsPath, local_user_from, refuse_actors
from tercet.cli.sessions.session_json import as_json as session_json
from tercet.cli.sessions.session_view import show_ending, show_session, standing_style
from tercet.contracts.runs.session import SessionStatus
from tercet.core import effects as undoing
from tercet.core import events as e
from tercet.core.state import TERMINAL, State
from tercet.core.transcript import timestamp
from tercet.engine.checks.journal import DamagedSession, escape_undecodable, row_fault
from tercet.engine.personal.reveal import Revealer
from tercet.engine.rows import details_of, is_escalated
from tercet.engine.session_reader import load_state, read_record
from tercet.executor.clock import SystemClock
from tercet.journal.protocol import Journal, Lease, SessionRow
from tercet.view.session import find_refusal
from tercet.view.terminal.text import ago, duration_text, listed, printable
from tercet.view.vocabulary import Standing, standing, standing_of

MOST = 200
ESCALATED = "escalated"
LIST_SESSIONS_EXAMPLES = """\
tercet sessions list
tercet sessions list --status waiting --json
"""
SHOW_EXAMPLES = """\
tercet sessions show ses_0123456789abcdef
tercet sessions show ses_0123456789abcdef --actors examples/refunds
tercet sessions show ses_0123456789abcdef --json | jq .decision_record
"""
WATCH_EXAMPLES = """\
tercet sessions watch ses_0123456789abcdef
tercet sessions watch ses_0123456789abcdef --no-follow
tercet sessions watch ses_0123456789abcdef --json
"""


def list_sessions(
    *,
    status: Annotated[
        str | None,
        option("STATUS", f"Only sessions with this status, one of {', '.join((*STATUSES, ESCALATED))}."),
    ] = None,
    journal: JournalUrl = DEFAULT,
    as_json: AsJson = False,
) -> ExitCode:
    """List up to 200 sessions of the journal, newest first.

    Each line shows the status, and the open gate, the next step or the ending of the session. `escalated` selects the
    paused sessions that need a decision by a person. Damaged sessions are listed last, and the exit code is then 5.
    """
    recorded = "paused" if status == ESCALATED else recorded_status(status, (*STATUSES, ESCALATED))
    found = use_journal(
        journal, lambda opened: opened.sessions(tenant_of(opened), status=recorded, limit=MOST)
    )
    unreadable = [each for row in found if (each := damaged_row(row)) is not None]
    rows = [row for row in found if damaged_row(row) is None]
    rows = [row for row in rows if status != ESCALATED or standing_of_row(row) == ESCALATED]
    if as_json:
        print_json({"sessions": [_row_json(row) for row in rows], "damaged": damage_json(unreadable)})
    else:
        screen = Screen()
        if not found:
            screen.say("There is no matching session.")
        _show_rows(screen, rows, SystemClock().now())
        show_damage(screen, unreadable, journal)
    return damage_exit(unreadable)


def damaged_row(row: SessionRow) -> DamagedSession | None:
    """Return the damage of a row that cannot be read; None if it can be read."""
    reason = row_fault(row)
    return DamagedSession(session_id=escape_undecodable(row.session_id), reason=reason) if reason else None


def standing_of_row(row: SessionRow) -> Standing:
    """Return the status of a session for display, by its row."""
    details = details_of(row)
    status = cast("SessionStatus", row.status)
    return standing_of(status, details.ending, is_escalated=is_escalated(row), has_gates=bool(details.gates))


def _row_json(row: SessionRow) -> dict[str, Any]:
    details = details_of(row)
    return {
        "session_id": row.session_id,
        "status": row.status,
        "standing": standing_of_row(row),
        "reason": details.reason,
        "gates": list(details.gates),
        "ending": details.ending,
        "intent": row.intent,
        "pack": row.pack,
        "snapshot": row.snapshot,
        "owner": row.owner,
        "started_at": timestamp(row.started_at),
        "updated_at": timestamp(row.updated_at),
        "next_step": row.next_step,
    }


def _show_rows(screen: Screen, rows: list[SessionRow], now: int) -> None:
    table = [
        (
            row.session_id,
            standing_of_row(row),
            printable(row.intent, 30),
            ago(now - row.updated_at),
            _next(row),
        )
        for row in rows
    ]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for row, cells in zip(rows, table, strict=True):
        session, status, *others = (f"{cell:<{width}}  " for cell, width in zip(cells, widths, strict=True))
        style = standing_style(standing_of_row(row)).removeprefix("bold ")
        line = Text.assemble((session, "bold"), (status, style), "".join(others).rstrip())
        screen.say(line)


def _next(row: SessionRow) -> str:
    """Return the open gate, the ending or the next step of a session."""
    details = details_of(row)
    if row.status in TERMINAL:
        return ""
    if details.gates:
        return f"gate {listed([gate.rpartition('.')[2] for gate in details.gates])}"
    if details.ending:
        return f"as {details.ending}"
    return f"next {printable(row.next_step, 40)}" if row.next_step else ""


def show(
    session: SessionId, *, actors: ActorsPath = None, journal: JournalUrl = DEFAULT, as_json: AsJson = False
) -> None:
    """Show a session: its plan, progress, gates, budget and verdicts.

    If the run was re-planned, each revision is shown with the steps that it kept, the new ones, and those that were
    given up, and why. Times are those of the current plan: finished steps with their duration, open ones with their
    estimate; a step off the longest path is shown with how long it may wait. Where outputs are reviewed before they are
    committed, each phase is shown with its defects, its repairs and the limits at the exit.
    """
    refuse_actors(journal, actors)
    (recorded, record, lease), unserved = use_journal(journal, lambda opened: _look_and_ask(opened, session))
    commands, now = commands_for(journal, local_user_from(actors), recorded.state), SystemClock().now()
    commands = replace(commands, unserved=unserved)
    if as_json:
        told = {"lease": _lease_json(lease, now), "decision_record": record}
        print_json({**session_json(recorded, commands), **told})
    else:
        holder = _lease_text(recorded, lease, now, is_remote=commands.is_remote)
        if unserved and lease is None:
            holder = "no process of the service runs it"
        show_session(Screen(), recorded, commands, now=now, record=record, holder=holder)


async def _look_and_ask(
    journal: Journal, session: str
) -> tuple[tuple[RecordedSession, Any, Lease | None], str]:
    """Return a session, and its pack version if it is one of a service that does not serve that one."""
    found, remote = await _look(journal, session), as_remote(journal)
    if remote is None or found[0].state.is_over:
        return found, ""
    return found, unserved_pack(await remote.client.call("getSession", {"session_id": session}))


async def _look(journal: Journal, session: str) -> tuple[RecordedSession, Any, Lease | None]:
    recorded = await read_session(journal, session)
    tenant = tenant_of(journal)
    state = await load_state(journal, tenant, session)
    record = await read_record(journal, tenant, state) if state.record else None
    shown = await Revealer(journal, tenant, session).reveal(record)
    return recorded, shown, await journal.lease(tenant, session)


def _lease_json(lease: Lease | None, now: int) -> dict[str, Any] | None:
    if lease is None:
        return None
    return {"owner": lease.owner, "until": timestamp(lease.until), "has_ended": lease.until <= now}


def _lease_text(recorded: RecordedSession, lease: Lease | None, now: int, *, is_remote: bool) -> str:
    """Return which process runs a session in progress, by its lease."""
    if lease is None and is_remote:
        return "it waits for its turn"
    if lease is None:
        is_answered = isinstance(recorded.events[-1], e.GateAnswered)
        return "answered: resume it" if is_answered else "no process runs it: resume it"
    process = process_name(lease.owner)
    if lease.until <= now:
        ended = f"{process} ran it, and its lease expired {ago(now - lease.until)}"
        return ended if is_remote else f"{ended}: resume it"
    return f"{process} runs it; its lease expires in {duration_text(lease.until - now)}"


def watch(
    session: SessionId,
    *,
    follow: Annotated[
        bool,
        flag(
            "Wait for further events until the session is over.",
            "--follow/--no-follow",
            show_default=False,
        ),
    ] = True,
    journal: JournalUrl = DEFAULT,
    as_json: AsJson = False,
) -> ExitCode:
    """Follow a session live, whichever process runs it.

    All events are printed, from the first one on; with --json each is one line. The command ends when the session is
    over, with the exit code of its run: 0, 3 or 5. With --no-follow it ends after the events so far; a session that is
    not over then exits with 4, or with 5 if it was escalated.
    """
    screen = Screen()
    progress = NoProgress() if as_json else Progress(screen, SystemClock(), is_followed=True)

    def tell(state: State, event: e.Event) -> None:
        progress.tell(state, event)
        if as_json:
            print_json({"seq": state.position, "event": msgspec.to_builtins(event)}, is_line=True)

    with progress:
        state = asyncio.run(_follow(journal, session, progress, tell, is_followed=follow))
    if not as_json:
        screen.say()
        show_ending(
            screen,
            state,
            commands_for(journal, local_user_from(None), state),
            now=SystemClock().now(),
            rollback=undoing.rollback(state),
            refusal=find_refusal(state),
        )
    return EXIT_CODES[standing(state)]


async def _follow(
    url: str, session: str, progress: Progress | NoProgress, tell: Tell, *, is_followed: bool
) -> State:
    async with journal_at(url) as journal:
        drawing = asyncio.ensure_future(progress.redraw_until_cancelled())
        try:
            return await follow_session(
                journal, session, tell, until=lambda state: state.is_over or not is_followed
            )
        finally:
            drawing.cancel()


# --- sessions that cannot be read ---


def damage_exit(unreadable: Sequence[DamagedSession]) -> ExitCode:
    """Return the exit code of a list: 5 if a session in it could not be read."""
    return ExitCode.FAILED if unreadable else ExitCode.ACCEPTED


def damage_json(unreadable: Sequence[DamagedSession]) -> list[dict[str, str]]:
    """Return the sessions that could not be read as JSON."""
    return [msgspec.to_builtins(each) for each in unreadable]


def show_damage(screen: Screen, unreadable: Sequence[DamagedSession], url: str) -> None:
    """Print the sessions that could not be read, and the command that checks the journal."""
    for each in unreadable:
        line = Text.assemble(("✗ ", "red"), (printable(each.session_id, 80), "bold"), ("  damaged", "red"))
        screen.put(Text.assemble(line, f": {printable(each.reason, 300)}"), rest="  ")
    if unreadable:
        screen.offer("For the damage and its remedy:", Commands(journal=url).check_journal())
