"""`tercet sessions`: what is in the journal, and going on with it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated, Any, TypeAlias, get_args

import msgspec
import typer
from rich.text import Text

from tercet.cli.documents import load_pack
from tercet.cli.exit_code import ExitCode
from tercet.cli.foreground import Foreground
from tercet.cli.journals import DEFAULT, TENANT, JournalUrl, Story, journal_at, read_story
from tercet.cli.options import AsJson
from tercet.cli.progress import Progress, Silence
from tercet.cli.screen import Screen, print_json
from tercet.cli.session_view import STYLES, show_ending, show_session
from tercet.cli.session_view import as_json as session_json
from tercet.cli.standing import EXIT_CODES, Commands, Standing, standing
from tercet.cli.text import ago, printable
from tercet.contracts.errors import UsageError
from tercet.executor.clock import SystemClock
from tercet.journal import codec
from tercet.journal.protocol import Journal, SessionRow
from tercet.runtime.machine import evolve
from tercet.runtime.records import read_record
from tercet.runtime.state import SessionState, State
from tercet.runtime.transcript import timestamp

POLL_S = 0.2
MOST = 200

SessionId: TypeAlias = Annotated[
    str, typer.Argument(metavar="ID", help="The session: ses_ and sixteen letters or digits.")
]

LIST_EXAMPLES = """\
tercet sessions list
tercet sessions list --status awaiting_gate --json
"""
SHOW_EXAMPLES = """\
tercet sessions show ses_0123456789abcdef
"""
WATCH_EXAMPLES = """\
tercet sessions watch ses_0123456789abcdef
tercet sessions watch ses_0123456789abcdef --json
"""
RESUME_EXAMPLES = """\
tercet sessions resume ses_0123456789abcdef --pack examples/refunds
"""


def list_sessions(
    *,
    status: Annotated[
        str | None,
        typer.Option(
            metavar="STATUS", help=f"Only those that are so, one of {', '.join(get_args(SessionState))}."
        ),
    ] = None,
    journal: JournalUrl = DEFAULT,
    as_json: AsJson = False,
) -> ExitCode:
    """List the sessions of the journal, newest first: at most 200."""
    if status is not None and status not in get_args(SessionState):
        raise UsageError(
            f"a session is never {status!r}",
            code="unknown_status",
            remedy=f"choose one of {', '.join(get_args(SessionState))}",
        )
    rows = asyncio.run(_rows(journal, status))
    if as_json:
        print_json({"sessions": [_row_json(row) for row in rows]})
    else:
        _show_rows(Screen(), rows, SystemClock().now())
    return ExitCode.ACCEPTED


async def _rows(url: str, status: str | None) -> list[SessionRow]:
    async with journal_at(url) as journal:
        return await journal.sessions(TENANT, status=status, limit=MOST)


def _row_json(row: SessionRow) -> dict[str, Any]:
    return {
        "session_id": row.session_id,
        "status": row.status,
        "intent": row.intent,
        "pack": row.pack,
        "snapshot": row.snapshot,
        "owner": row.owner,
        "started_at": timestamp(row.started_at),
        "updated_at": timestamp(row.updated_at),
        "next_step": row.next_step,
    }


_STANDINGS: dict[str, Standing] = {
    "awaiting_gate": "waiting",
    "in_progress": "in progress",
    "paused": "paused",
    "completed": "completed",
    "failed": "failed",
}


def _show_rows(screen: Screen, rows: list[SessionRow], now: int) -> None:
    if not rows:
        screen.say("There is no session of this kind.")
    table = [
        (row.session_id, row.status, printable(row.intent, 40), ago(now - row.updated_at), _next(row))
        for row in rows
    ]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for row, cells in zip(rows, table, strict=True):
        session, status, *others = (f"{cell:<{width}}  " for cell, width in zip(cells, widths, strict=True))
        style = STYLES[_STANDINGS.get(row.status, "in progress")].removeprefix("bold ")
        line = Text.assemble((session, "bold"), (status, style), "".join(others).rstrip())
        screen.say(line)


def _next(row: SessionRow) -> str:
    is_over = row.status in ("completed", "failed")
    return f"next {printable(row.next_step, 40)}" if row.next_step and not is_over else ""


def show(session: SessionId, *, journal: JournalUrl = DEFAULT, as_json: AsJson = False) -> ExitCode:
    """Show a session: its plan with how far each step is, the gates that wait, what was used, and what was said of it."""
    story, record = asyncio.run(_look(journal, session))
    commands = Commands(journal=journal)
    if as_json:
        print_json({**session_json(story, commands), "decision_record": record})
    else:
        show_session(Screen(), story, commands, now=SystemClock().now(), record=record)
    return ExitCode.ACCEPTED


async def _look(url: str, session: str) -> tuple[Story, Any]:
    async with journal_at(url) as journal:
        story = await read_story(journal, session)
        record = await read_record(journal, TENANT, story.state) if story.state.record else None
        return story, record


def watch(session: SessionId, *, journal: JournalUrl = DEFAULT, as_json: AsJson = False) -> ExitCode:
    """Follow a session from its first event, live, whichever process carries it. Nothing is written.

    With --json each event is one line. Ends when the session is over, with the exit code that its run had: 0, 3 or 5;
    Ctrl-C ends it before.
    """
    screen = Screen()
    progress = Silence() if as_json else Progress(screen, SystemClock(), is_followed=True)
    with progress:
        state = asyncio.run(_follow(journal, session, progress, as_json=as_json))
    if not as_json:
        screen.say()
        show_ending(screen, state, Commands(journal=journal))
    return EXIT_CODES[standing(state)]


async def _follow(url: str, session: str, progress: Progress | Silence, *, as_json: bool) -> State:
    async with journal_at(url) as journal:
        drawing = asyncio.ensure_future(progress.keep_fresh())
        try:
            state = await _read_on(journal, session, State(), progress, as_json=as_json)
            if not state.start:
                await read_story(journal, session)  # says that it is not there
            while not state.is_over:
                await asyncio.sleep(POLL_S)
                state = await _read_on(journal, session, state, progress, as_json=as_json)
            return state
        finally:
            drawing.cancel()


async def _read_on(
    journal: Journal, session: str, state: State, progress: Progress | Silence, *, as_json: bool
) -> State:
    """Read and show what has been appended since; the state after it."""
    while page := await journal.read(TENANT, session, after=state.position):
        for stored in page:
            event = codec.decode(stored.data)
            state = evolve(state, event)
            progress.tell(state, event)
            if as_json:
                print_json({"seq": stored.seq, "event": msgspec.to_builtins(event)}, is_line=True)
    return state


def resume(
    session: SessionId,
    *,
    pack: Annotated[
        Path, typer.Option(metavar="PACK", help="The folder of the pack that the session was started with.")
    ],
    journal: JournalUrl = DEFAULT,
    as_json: AsJson = False,
) -> ExitCode:
    """Go on with a session that was paused or answered, or whose process has died.

    What had been done stays done. If a dead process still has the lease on the session, this waits until it runs out,
    and says for how long; if that process turns out to be alive, it is left alone. A session that is over is shown, and
    nothing is done. Exits as `tercet run` does.
    """
    loaded = load_pack(pack)
    commands = Commands(journal=journal, pack=str(pack))
    screen = Screen()
    progress = Silence() if as_json else Progress(screen, SystemClock())
    story = Foreground(loaded, progress, commands).carry(
        lambda runtime: runtime.resume(session), is_new=False
    )
    if as_json:
        print_json(session_json(story, commands))
    else:
        if not progress.has_told:
            screen.say(f"· session {printable(session)} is over: nothing was done")
        screen.say()
        show_ending(screen, story.state, commands)
    return EXIT_CODES[standing(story.state)]
