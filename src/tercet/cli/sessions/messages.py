"""Sending a message to a session: an answer to its gate, or pause, cancel, extend.

A message goes into the inbox of the session, which needs no lease, so it is never lost, whichever process runs the
session. The command waits only until the message was read, in order to report the result.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any, get_type_hints

import msgspec
from rich.text import Text

from tercet.cli import ExitCode
from tercet.cli.journals import DEFAULT, TENANT, JournalUrl, journal_at
from tercet.cli.options import AsJson, Note
from tercet.cli.run.runner import process_name
from tercet.cli.screen import Screen
from tercet.cli.sessions.next_commands import Commands, commands_for
from tercet.cli.sessions.people import ActAs, ActorsPath, Dev, Speaker, speaker_as
from tercet.contracts.errors import UsageError
from tercet.contracts.request import Actor
from tercet.core.messages import Message
from tercet.core.state import State
from tercet.engine import inbox
from tercet.engine.leases import LeaseClient
from tercet.engine.session_reader import load_state
from tercet.executor.clock import SystemClock
from tercet.journal.errors import LeaseHeld

Words = Callable[[State, Actor], Message]
"""Builds the message for a session in its current state, from an actor."""


class Heard(msgspec.Struct, frozen=True, kw_only=True):
    """What came of it."""

    state: State
    actor: Actor
    carrier: str = ""
    """The process that carries the session, where one does."""


class Voice(msgspec.Struct, frozen=True, kw_only=True):
    """The options of a command that sends a message: the reason, the sender, and where the session is."""

    note: Note = ""
    actors: ActorsPath = None
    as_: ActAs = ""
    dev: Dev = False
    journal: JournalUrl = DEFAULT
    as_json: AsJson = False

    def speak(self, session: str, words: Words) -> tuple[Heard, Commands]:
        """Say something, wait until it was heard, and return what came of it and what may be typed next."""
        speaker = speaker_as(self.actors, self.as_, self.journal, is_dev=self.dev)
        waiting = _Waiting(None if self.as_json else Screen())
        try:
            heard = asyncio.run(_speak(self.journal, session, speaker, words, waiting))
        except KeyboardInterrupt:
            waiting.give_up()
            raise
        return heard, commands_for(self.journal, speaker, heard.state)


def spoken(command: Callable[..., ExitCode]) -> Callable[..., ExitCode]:
    """Give a command the options of a `Voice`, which it takes as `voice`; an option of its own stays as it is."""
    own = dict(inspect.signature(command, eval_str=True).parameters)
    del own["voice"]
    types = get_type_hints(Voice, include_extras=True)
    options = inspect.signature(Voice).parameters.items()
    shared = {name: each.replace(annotation=types[name]) for name, each in options if name not in own}

    @wraps(command)
    def run(**given: Any) -> ExitCode:
        voice = Voice(**{name: given.pop(name) for name in shared})
        return command(**given, voice=voice)

    vars(run)["__signature__"] = inspect.Signature([*own.values(), *shared.values()])
    run.__annotations__ = {name: each.annotation for name, each in (own | shared).items()}
    return run


async def _speak(url: str, session: str, speaker: Speaker, words: Words, waiting: _Waiting) -> Heard:
    async with journal_at(url, is_written=True) as journal:
        before = await load_state(journal, TENANT, session)
        actor = speaker.facing(before)
        desk = LeaseClient(journal=journal, tenant=TENANT, clock=SystemClock())
        try:
            state = await inbox.deliver(desk, words(before, actor), waiting)
        except UsageError as error:
            error.remedy = _remedy(error, speaker, before)
            raise
    return Heard(state=state, actor=actor, carrier=waiting.carrier)


_WRONG_PERSON = ("role_missing", "own_gate", "own_change", "already_approved")


def _remedy(error: UsageError, speaker: Speaker, state: State) -> str | None:
    """Return what to do about a refusal: in a development session, one may act as another actor."""
    people = state.start.people
    if error.code in _WRONG_PERSON and state.start.dev and people:
        return f"act as another actor with --dev --as NAME: {', '.join(people)}"
    if error.code == "role_missing" and not speaker.path and not people:
        return "say who you are with --actors and the folder of a pack, or an actors.toml; or let a person with that role answer"
    if error.code == "own_gate":
        return f"{error.remedy}; to try a pack out alone, start its run with --dev"
    return error.remedy


class _Waiting:
    """Called while another process holds the lease; reports that once."""

    def __init__(self, screen: Screen | None) -> None:
        self._screen = screen
        self.carrier = ""

    def __call__(self, found: LeaseHeld) -> None:
        if not self.carrier and self._screen is not None:
            line = f"· {process_name(found.owner)} runs this session: waiting until it has read the message"
            self._screen.say(Text(line, style="dim"))
        self.carrier = process_name(found.owner)

    def give_up(self) -> None:
        """Report what becomes of the message when the wait is interrupted."""
        if self.carrier and self._screen is not None:
            self._screen.say("· the message is kept: it is read when the session runs again")
