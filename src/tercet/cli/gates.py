"""`tercet gates`: the questions that sessions wait with, and their answers.

Answers are bound to the call that was shown, and recorded with the name of the user of this machine. Whoever started
a run does not approve it; roles, quorum and expiry are not looked at yet.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncGenerator
from typing import Annotated, Any, TypeAlias

import orjson
import typer
from rich.text import Text

from tercet.cli import case
from tercet.cli.event_view import ANSWERS
from tercet.cli.exit_code import ExitCode
from tercet.cli.foreground import Patience
from tercet.cli.gate_view import show_gate
from tercet.cli.journals import DEFAULT, TENANT, JournalUrl, journal_at
from tercet.cli.options import AsJson
from tercet.cli.progress import Progress, Silence
from tercet.cli.screen import Screen, print_json
from tercet.cli.session_view import gate_json
from tercet.cli.standing import Commands
from tercet.cli.text import printable
from tercet.contracts.errors import UsageError
from tercet.contracts.request import Actor
from tercet.executor.clock import SystemClock
from tercet.journal.protocol import Journal
from tercet.runtime import opening
from tercet.runtime.answering import Reply, append_reply
from tercet.runtime.runtime import LEASE_MS
from tercet.runtime.state import OpenGate, State

_UNFINISHED = ("awaiting_gate", "in_progress", "paused")
_PAGE = 100

GateId: TypeAlias = Annotated[
    str, typer.Argument(metavar="GATE", help="The gate: the session's id, a dot, and g with a number.")
]
Note: TypeAlias = Annotated[
    str, typer.Option(metavar="TEXT", help="Why; it is kept with the answer.", show_default=False)
]

LIST_EXAMPLES = """\
tercet gates list
tercet gates list --json
"""
APPROVE_EXAMPLES = """\
tercet gates approve ses_0123456789abcdef.g1 --note "the lamp is broken, I saw it"
"""
DENY_EXAMPLES = """\
tercet gates deny ses_0123456789abcdef.g1 --note "the customer kept the lamp"
"""
SETTLE_EXAMPLES = """\
tercet gates settle ses_0123456789abcdef.g2 --did-not-happen
tercet gates settle ses_0123456789abcdef.g2 --happened --value '{"refund_id": "rf_17"}'
"""


def list_gates(*, journal: JournalUrl = DEFAULT, as_json: AsJson = False) -> ExitCode:
    """List the gates that wait for an answer, each with the call that it is about."""
    found = asyncio.run(_open_gates(journal))
    if as_json:
        print_json(
            {"gates": [{**gate_json(gate), "session_id": state.start["session"]} for state, gate in found]}
        )
        return ExitCode.ACCEPTED
    screen, commands = Screen(), Commands(journal=journal)
    if not found:
        screen.say("No gate waits.")
    for number, (state, gate) in enumerate(found):
        if number:
            screen.say()
        show_gate(screen, gate, owner=state.start["actor"]["id"])
        for line in commands.answers(gate):
            screen.show_command(line)
    return ExitCode.ACCEPTED


async def _open_gates(url: str) -> list[tuple[State, OpenGate]]:
    async with journal_at(url) as journal:
        states = [
            (await opening.restore(journal, TENANT, session)).state async for session in _unfinished(journal)
        ]
    return [(state, gate) for state in states for gate in state.gates.values()]


async def _unfinished(journal: Journal) -> AsyncGenerator[str]:
    for status in _UNFINISHED:
        before: str | None = None
        while page := await journal.sessions(TENANT, status=status, limit=_PAGE, before=before):
            for row in page:
                yield row.session_id
            before = page[-1].session_id


def approve(
    gate: GateId, *, note: Note = "", journal: JournalUrl = DEFAULT, as_json: AsJson = False
) -> ExitCode:
    """Approve the call that a gate shows. The answer is appended to the journal; resuming the session makes the call.

    It is recorded with the name of this machine's user, who must not be the one who started the run. Roles, quorum and
    expiry of gates are not looked at in this version.
    """
    return _answer(journal, Reply(gate=gate, answer="approve", actor=_actor(), note=note), as_json=as_json)


def deny(
    gate: GateId, *, note: Note = "", journal: JournalUrl = DEFAULT, as_json: AsJson = False
) -> ExitCode:
    """Deny the call that a gate shows: it is never made, and the session ends failed as soon as it is resumed.

    The answer is recorded with the name of this machine's user.
    """
    return _answer(journal, Reply(gate=gate, answer="deny", actor=_actor(), note=note), as_json=as_json)


def settle(
    gate: GateId,
    *,
    happened: Annotated[
        bool | None,
        typer.Option(
            "--happened/--did-not-happen",
            help="Whether the call took effect; if it did not, it is made when the session is resumed.",
            show_default=False,
        ),
    ] = None,
    value: Annotated[
        str | None,
        typer.Option(
            metavar="JSON", help="What the call brought, if it happened: later steps may refer to it."
        ),
    ] = None,
    note: Note = "",
    journal: JournalUrl = DEFAULT,
    as_json: AsJson = False,
) -> ExitCode:
    """Say whether a call of unknown outcome happened, after looking where it would have left its mark.

    The answer is recorded with the name of this machine's user.
    """
    if happened is None:
        raise UsageError(
            "it is not said whether the call happened",
            code="usage",
            remedy="say --happened or --did-not-happen; look where it would have left its mark, do not guess",
        )
    if value is not None and not happened:
        raise UsageError(
            "a call that did not happen brought nothing", code="usage", remedy="leave --value out"
        )
    reply = Reply(
        gate=gate,
        answer="happened" if happened else "did_not_happen",
        actor=_actor(),
        note=note,
        value=_value(value),
    )
    return _answer(journal, reply, as_json=as_json)


def _value(text: str | None) -> Any:
    try:
        return None if text is None else orjson.loads(text.encode(errors="surrogatepass"))
    except orjson.JSONDecodeError as error:
        raise UsageError(
            f"the value is not JSON: {error}",
            code="value_invalid",
            remedy="""write --value '{"refund_id": "rf_17"}', or --value '"text"'""",
        ) from error


def _actor() -> Actor:
    return Actor(id=case.local_user())


def _answer(url: str, reply: Reply, *, as_json: bool) -> ExitCode:
    """Append an answer; waits for whoever has the session to let go of it."""
    screen, commands = Screen(), Commands(journal=url)
    with Silence() if as_json else Progress(screen, SystemClock()) as progress:
        patience = Patience(progress, commands, gives_up=False)
        state = asyncio.run(_append(url, reply, patience))
    resume = commands.resume(reply.session)
    if as_json:
        print_json(
            {
                "gate": reply.gate,
                "answer": reply.answer,
                "actor": reply.actor.id,
                "auth": reply.actor.auth,
                "session_id": reply.session,
                "status": state.status,
                "next": [resume],
            }
        )
        return ExitCode.ACCEPTED
    done = f"{reply.gate} is {ANSWERS[reply.answer]} by {reply.actor.id}"
    screen.say(Text.assemble(("✓ ", "bold green"), printable(done)))
    screen.say(Text("  Go on with:", style="dim"))
    screen.show_command(resume)
    return ExitCode.ACCEPTED


async def _append(url: str, reply: Reply, patience: Patience) -> State:
    async with journal_at(url) as journal:
        return await append_reply(
            journal,
            TENANT,
            reply,
            owner=f"{socket.gethostname()}:{os.getpid()}:{os.urandom(4).hex()}",
            clock=SystemClock(),
            lease_ms=LEASE_MS,
            held=patience.wait_for,
        )
