"""Saying something to a session: an answer to its gate, or pause, cancel, extend.

What is said goes into the inbox of the session, which needs no lease; so it is never lost, whoever carries the session.
Here one only waits until it has been heard, in order to tell what came of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from rich.text import Text

from tercet.cli.foreground import process_name
from tercet.cli.journals import TENANT, journal_at
from tercet.cli.people import Speaker
from tercet.cli.screen import Screen
from tercet.contracts.errors import UsageError
from tercet.contracts.request import Actor
from tercet.core.messages import Message
from tercet.core.state import State
from tercet.engine import inbox as mail
from tercet.engine.leases import Desk
from tercet.engine.session_reader import load_state
from tercet.executor.clock import SystemClock
from tercet.journal.errors import LeaseHeld

Words = Callable[[State, Actor], Message]
"""What is said to a session as it stands, by somebody."""


@dataclass(frozen=True, kw_only=True)
class Heard:
    """What came of it."""

    state: State
    actor: Actor
    carrier: str = ""
    """The process that carries the session, where one does."""


def speak(url: str, session: str, speaker: Speaker, words: Words, *, screen: Screen | None) -> Heard:
    """Say something, and wait until it was heard; `screen` is told for whom is waited."""
    waiting = _Waiting(screen)
    try:
        return asyncio.run(_speak(url, session, speaker, words, waiting))
    except KeyboardInterrupt:
        waiting.give_up()
        raise


async def _speak(url: str, session: str, speaker: Speaker, words: Words, waiting: _Waiting) -> Heard:
    async with journal_at(url, is_written=True) as journal:
        before = await load_state(journal, TENANT, session)
        actor = speaker.facing(before)
        desk = Desk(journal=journal, tenant=TENANT, clock=SystemClock())
        try:
            state = await mail.deliver(desk, words(before, actor), waiting)
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
        return "say who you are with --actors PACK; or let a person with that role answer"
    if error.code == "own_gate":
        return f"{error.remedy}; to try a pack out alone, start its run with --dev"
    return error.remedy


class _Waiting:
    """Told while another process has the session; says so once."""

    def __init__(self, screen: Screen | None) -> None:
        self._screen = screen
        self.carrier = ""

    def __call__(self, found: LeaseHeld) -> None:
        if not self.carrier and self._screen is not None:
            line = f"· {process_name(found.owner)} has this session, and is told: waiting until it has heard"
            self._screen.say(Text(line, style="dim"))
        self.carrier = process_name(found.owner)

    def give_up(self) -> None:
        """Say what becomes of it all the same."""
        if self.carrier and self._screen is not None:
            self._screen.say("· it is kept: whoever carries the session hears it, or whoever resumes it")
