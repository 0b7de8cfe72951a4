"""Sending a message to a session: an answer to its gate, or pause, cancel, extend.

A message goes into the inbox of the session, which needs no lease, so it is never lost, whichever process runs the
session. The command waits only until the message was read, in order to report the result.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
from rich.text import Text

from tercet.cli.journals import DEFAULT, TENANT, JournalUrl, journal_at
from tercet.cli.options import AsJson, Note
from tercet.cli.remote import THE_SERVICE, acting_as, method_for, open_remote, unserved_pack
from tercet.cli.run.runner import process_name
from tercet.cli.screen import Screen
from tercet.cli.server_option import is_service
from tercet.cli.sessions.next_commands import Commands, commands_for
from tercet.cli.sessions.people import (
    ActAs,
    ActorsPath,
    Dev,
    LocalUser,
    local_user_as,
    refuse_actors,
)
from tercet.contracts.errors import UsageError
from tercet.contracts.request import Actor
from tercet.core.fold.base import owners_of
from tercet.core.messages import Message, Reply
from tercet.core.state import State
from tercet.engine import inbox
from tercet.engine.leases import LeaseClient
from tercet.engine.session_reader import load_state
from tercet.executor.clock import SystemClock
from tercet.journal.errors import LeaseHeld
from tercet.view.terminal.text import printable

MessageBuilder = Callable[[State, Actor], Message]
"""Builds the message that an actor sends to a session in its current state."""


class Delivery(msgspec.Struct, frozen=True, kw_only=True):
    """The session after it has read a message."""

    state: State
    actor: Actor
    holder: str = ""
    """The process that runs the session; empty if none does."""
    unserved: str = ""
    """The pack version of the session, if the service that has it does not serve that one."""


class MessageOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of a command that sends a message: the reason, the sender, and where the session is."""

    note: Note = ""
    actors: ActorsPath = None
    as_: ActAs = ""
    dev: Dev = False
    journal: JournalUrl = DEFAULT
    as_json: AsJson = False

    def send(self, session: str, build: MessageBuilder) -> tuple[Delivery, Commands]:
        """Send a message, wait until the session has read it, and return the result and the next commands."""
        if is_service(self.journal):
            refuse_actors(self.journal, self.actors)
            act_as = acting_as(self.journal, self.as_, is_dev=self.dev)
            delivery = asyncio.run(_send_to_service(self.journal, session, act_as, build))
            return delivery, Commands(journal=self.journal, unserved=delivery.unserved)
        user = local_user_as(self.actors, self.as_, self.journal, is_dev=self.dev)
        waiting = _Waiting(None if self.as_json else Screen())
        try:
            delivery = asyncio.run(_send(self.journal, session, user, build, waiting))
        except KeyboardInterrupt:
            waiting.give_up()
            raise
        return delivery, commands_for(self.journal, user, delivery.state)


async def _send(
    url: str, session: str, user: LocalUser, build: MessageBuilder, waiting: _Waiting
) -> Delivery:
    async with journal_at(url, is_written=True) as journal:
        before = await load_state(journal, TENANT, session)
        actor = user.actor_in(before)
        leases = LeaseClient(journal=journal, tenant=TENANT, clock=SystemClock())
        try:
            state = await inbox.deliver(leases, build(before, actor), waiting)
        except UsageError as error:
            error.remedy = _remedy(error, user, build(before, actor), before)
            raise
    return Delivery(state=state, actor=actor, holder=waiting.holder)


async def _send_to_service(url: str, session: str, act_as: str, build: MessageBuilder) -> Delivery:
    """Call the method that sends a message to a session; the rules of the service apply."""
    async with open_remote(url, act_as=act_as) as journal:
        before = await load_state(journal, journal.tenant, session)
        unserved = unserved_pack(await journal.client.call(*method_for(build(before, journal.actor))))
        state = await load_state(journal, journal.tenant, session)
        return Delivery(
            state=state, actor=journal.actor, holder="" if unserved else THE_SERVICE, unserved=unserved
        )


WRONG_PERSON = ("role_missing", "own_gate", "own_change", "already_approved")


def _remedy(error: UsageError, user: LocalUser, said: Message, state: State) -> str | None:
    """Return the remedy of a refusal; in a development session it names the actors who may give the answer."""
    people: dict[str, Any] = state.start.people or {}
    if error.code in WRONG_PERSON and state.start.dev and (others := _others(said, state)):
        return f"act as another actor with --dev --as {' or '.join(others)}"
    if error.code == "role_missing" and not user.path and not people:
        return "say who you are with --actors and a pack's folder or actors.toml, or ask a person with that role to answer"
    if error.code == "own_gate":
        return f"{error.remedy}; to try a pack out alone, start its run with --dev"
    return error.remedy


def _others(said: Message, state: State) -> list[str]:
    """Return the actors with a role that a gate still needs, besides the owner and those who have approved it."""
    gate = state.gates.get(said.gate) if isinstance(said, Reply) else None
    if gate is None:
        return []
    excluded = {said.actor, *(str(owner.get("id")) for owner in owners_of(state.start))}
    excluded |= {approval.actor for approval in gate.approvals}
    people: dict[str, Any] = state.start.people or {}
    return [
        name
        for name, person in people.items()
        if name not in excluded and any(gate.counts(need, tuple(person["roles"])) for need in gate.unmet)
    ]


def demand_opened(gate: str, state: State) -> None:
    """Raise `UsageError` for a gate that its session never opened."""
    session, _, number = gate.rpartition(".g")
    if number.isdecimal() and 0 < int(number) <= state.opened:
        return
    gates = " or ".join(state.gates)
    raise UsageError(
        f"there is no gate g{printable(number, 20)} in session {session}",
        code="gate_not_open",
        remedy=f"did you mean {gates}?" if gates else "tercet gates list shows the open gates",
    )


class _Waiting:
    """Called while another process holds the lease; reports that once."""

    def __init__(self, screen: Screen | None) -> None:
        self._screen = screen
        self.holder = ""

    def __call__(self, found: LeaseHeld) -> None:
        if not self.holder and self._screen is not None:
            line = f"· {process_name(found.owner)} runs this session: waiting until it has read the message"
            self._screen.say(Text(line, style="dim"))
        self.holder = process_name(found.owner)

    def give_up(self) -> None:
        """Report that the message is kept when the wait is interrupted."""
        if self.holder and self._screen is not None:
            self._screen.say("· the message is kept: it is read when the session runs again")
