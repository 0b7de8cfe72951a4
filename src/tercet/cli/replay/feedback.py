"""`tercet feedback`: corrections of runs that are over, which become golden cases."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from rich.text import Text

from tercet.cli import ExitCode
from tercet.cli.inputs import read_input
from tercet.cli.journals import DEFAULT, TENANT, JournalUrl, complete_part, complete_session, use_journal
from tercet.cli.options import AsJson, Force, GoldenFolder, argument, option
from tercet.cli.replay.runs import make_folder, require_writable, write_file
from tercet.cli.screen import Screen, print_json, respond
from tercet.cli.sessions.people import ActorsPath, local_user_from
from tercet.engine.session_reader import list_rows, load_state
from tercet.engine.streams.experience import Feedback, add_feedback, find_feedback, read_feedback
from tercet.executor.clock import SystemClock
from tercet.journal.protocol import Journal
from tercet.replay.bundle.exporting import export_run
from tercet.replay.bundle.layout import SUFFIX
from tercet.replay.golden import Expected, expected_beside
from tercet.view.terminal.text import json_text, printable

ADD_EXAMPLES = """\
tercet feedback add ses_0123456789abcdef --note "the refund leaves out the shipping"
tercet feedback add ses_0123456789abcdef --note "too little" --expected '{"amount_inr": 1299}'
"""
LIST_FEEDBACK_EXAMPLES = """\
tercet feedback list
tercet feedback list ses_0123456789abcdef --json
"""
GOLDEN_EXAMPLES = """\
tercet feedback golden ses_0123456789abcdef.f1 --to golden
tercet golden check golden --pack examples/refunds  # exit 3 while the pack still accepts it
"""


def add(
    run: Annotated[str, argument("RUN", "The session of a run that is over.", callback=complete_session)],
    *,
    note: Annotated[str, option("TEXT", "What is wrong with the result, in your words.")],
    expected: Annotated[
        str | None, option("JSON", "The outputs that would have been right: a JSON object, or @ and a file.")
    ] = None,
    actors: ActorsPath = None,
    journal: JournalUrl = DEFAULT,
    as_json: AsJson = False,
) -> None:
    """Attach a correction to the record of a run.

    The record itself does not change; your name and the time are kept.
    """
    wanted = read_input(expected, "--expected") if expected is not None else {}
    author = local_user_from(actors).actor.id
    now = SystemClock().now()
    made = use_journal(
        journal,
        lambda opened: add_feedback(
            opened, TENANT, run, author=author, correction=note, expected=wanted, now=now
        ),
        is_written=True,
    )
    if as_json:
        print_json(made.model_dump(mode="json"))
        return
    screen = Screen()
    kept = f"{made.id} is kept with record {made.entry.record_hash[:20]}…"
    screen.conclude(printable(kept, 200))
    screen.offer("  Make a golden case of it:", f"tercet feedback golden {made.id} --to golden")


def list_feedback(
    run: Annotated[
        str | None, argument("RUN", "Only corrections of this session.", callback=complete_session)
    ] = None,
    *,
    journal: JournalUrl = DEFAULT,
    as_json: AsJson = False,
) -> ExitCode:
    """List the corrections of runs, the newest runs first."""
    found = use_journal(journal, lambda opened: _list(opened, run))
    told = {"feedback": [each.model_dump(mode="json") for each in found]}
    return respond(lambda: told, lambda screen: _show_feedback(screen, found), as_json=as_json)


async def _list(journal: Journal, run: str | None) -> list[Feedback]:
    if run is not None:
        await load_state(journal, TENANT, run)  # raises if there is no such session
        return await read_feedback(journal, TENANT, run)
    sessions = [row.session_id async for row in list_rows(journal, TENANT)]
    return [each for session in sessions for each in await read_feedback(journal, TENANT, session)]


def golden(
    feedback: Annotated[
        str, argument("ID", "The correction, as tercet feedback list names it.", callback=complete_part)
    ],
    *,
    to: GoldenFolder,
    force: Force = False,
    journal: JournalUrl = DEFAULT,
    as_json: AsJson = False,
) -> None:
    """Turn a correction into a golden case.

    The run is exported as one file, with the expected result beside it. `tercet golden check` with --pack then fails
    until the pack decides the run as the correction says.
    """
    found, wanted = use_journal(journal, lambda opened: _found(opened, feedback))
    file = to / f"{found.session_id}{SUFFIX}"
    make_folder(to)
    for target in (file, expected_beside(file)):
        require_writable(target, is_forced=force, other="folder with --to")
    use_journal(journal, lambda opened: export_run(opened, TENANT, found.session_id, file, is_forced=True))
    write_file(expected_beside(file), f"{wanted.model_dump_json(indent=2)}\n".encode())
    if as_json:
        print_json({"file": str(file), "expected": wanted.model_dump(mode="json")})
        return
    screen = Screen()
    screen.conclude(f"kept {printable(str(file), 200)}")
    ending = "accepted" if wanted.is_accepted else "anything but completed"
    told = f"tercet golden check {to} --pack, with a pack's folder, passes once the run ends as {ending} under that pack."
    screen.put(Text(told, style="dim"), first="  ")


async def _found(journal: Journal, feedback: str) -> tuple[Feedback, Expected]:
    found = await find_feedback(journal, TENANT, feedback)
    state = await load_state(journal, TENANT, found.session_id)
    return found, Expected(
        feedback=found.id,
        session_id=found.session_id,
        author=found.entry.author,
        correction=found.entry.correction,
        expected=found.entry.expected,
        is_accepted=state.status != "completed",
    )


# --- on the screen ---


def _show_feedback(screen: Screen, found: Sequence[Feedback]) -> None:
    """Show each correction with its author."""
    for each in found:
        entry = each.entry
        who = f"  {printable(entry.author, 60)}, {entry.given_at:%Y-%m-%d %H:%M} UTC"
        screen.say(Text.assemble((printable(each.id, 80), "bold"), who))
        screen.put(printable(entry.correction), first="  · ")
        if entry.expected:
            screen.put(printable(json_text(entry.expected, indent=None)), first="    expected  ")
    if not found:
        screen.say("There are no corrections yet: tercet feedback add RUN --note TEXT")
