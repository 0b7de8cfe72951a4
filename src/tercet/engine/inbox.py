"""Inboxes: messages to sessions, and how they become events.

Sending a message needs the journal only, so no pack is loaded.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Iterator
from contextlib import suppress

import msgspec

from tercet.contracts.errors import UsageError
from tercet.core import codec, message_rules, messages
from tercet.core import commands as c
from tercet.core import events as e
from tercet.core.fold.apply import fold_event
from tercet.core.fold.gate import DROPPED_KEPT
from tercet.core.messages import Message, inbox_of
from tercet.core.resolve.sessions import ForeignMessage, find_expired, receive_message
from tercet.core.state import State
from tercet.engine.leases import POLL_MS, Held, LeaseClient
from tercet.engine.personal.vault import seal_message
from tercet.engine.rows import row_of
from tercet.engine.session_reader import load_history, load_state
from tercet.journal.errors import JournalCorrupt, LeaseHeld
from tercet.journal.protocol import Append, Journal, Stored
from tercet.journal.side_stream import append_at, append_next, name_owner, read_all


async def post(journal: Journal, tenant: str, message: Message) -> int:
    """Append a message to the inbox of its session, raise the tenant's change counter, and return its position. A message
    with a key that the inbox holds already is not appended again."""
    # The inbox has no lease: after a lost connection a message is recognised by its bytes alone.
    inbox, key = inbox_of(message.session), message.nonce
    data = messages.encode(msgspec.structs.replace(message, nonce=key or os.urandom(8).hex()))
    entry = name_owner(data, tenant, inbox)
    if not key:
        return (await append_next(journal, tenant, inbox, entry, notify=True)).seq
    while True:
        stored = await read_all(journal, tenant, inbox)
        if (posted := _position_of(stored, key)) is not None:
            return posted
        position = await append_at(journal, tenant, inbox, len(stored), entry, notify=True)
        if position is not None:
            return position.seq


async def find_posted(journal: Journal, tenant: str, message: Message) -> int | None:
    """Return the position of a message that was sent before with the same key; None if there is none."""
    if not message.nonce:
        return None
    return _position_of(await read_all(journal, tenant, inbox_of(message.session)), message.nonce)


def _position_of(stored: Iterable[Stored], key: str) -> int | None:
    for each in stored:
        # One that cannot be read here was sent by a newer version, and with another key.
        with suppress(UsageError):
            if messages.decode(each.data).nonce == key:
                return each.seq
    return None


async def read_unread(journal: Journal, tenant: str, state: State) -> list[Stored]:
    """Return the messages to a session that have not become events yet."""
    return await read_all(journal, tenant, inbox_of(state.start.session), after=state.inbox)


def apply_messages(
    state: State, unread: list[Stored], now: int, *, outside: bool
) -> Iterator[tuple[e.Event, State]]:
    """Yield the event of each message with the state after it, until the session is over.

    A driver (not `outside`) finishes its calls before a pause becomes an event, so a pause is yielded last and unapplied.
    """
    for message in unread:
        if state.is_over:
            return
        try:
            command = c.Receive(data=message.data, inbox=message.seq, outside=outside)
            event = receive_message(state, command, now)
        except ForeignMessage as error:
            where = f"message {message.seq} of stream {inbox_of(state.start.session)}"
            raise JournalCorrupt(where, error.message) from error
        if isinstance(event, e.SessionPaused) and not outside:
            yield event, state
            return
        state = fold_event(state, event)
        yield event, state


async def check_received(journal: Journal, tenant: str, state: State, position: int) -> State:
    """Return the state if the message at this inbox position became an event; raises `UsageError` if it was dropped."""
    dropped = state.dropped
    if len(dropped) >= DROPPED_KEPT and position < dropped[0][0]:
        # The state keeps only the latest dropped messages; this one may have been dropped before them.
        message = await load_history(journal, tenant, state.start.session)
        dropped = tuple(
            (d.inbox, d.code, d.reason) for d in message.events if isinstance(d, e.MessageDropped)
        )
    for inbox, code, reason in dropped:
        if inbox == position:
            raise UsageError(reason, code=code, remedy="look at the session again: it has moved on")
    return state


async def deliver(leases: LeaseClient, message: Message, on_held: Held) -> State:
    """Send a message to a session that this process does not run, and return the state once it has become an event.

    The process that runs the session reads its inbox; if there is none, it is read here. A message that the current
    state does not allow raises `UsageError`, and nothing is written.
    """
    journal, tenant = leases.journal, leases.tenant
    position = await find_posted(journal, tenant, message)
    if position is None:
        state = await refresh_state(leases, message.session)
        message_rules.event_of(message, state, leases.clock.now())
        message_rules.demand_current_rules(message, state)
        position = await post(journal, tenant, await seal_message(journal, tenant, message, state))
    return await wait_until_read(leases, message.session, position, on_held)


async def wait_until_read(leases: LeaseClient, session: str, position: int, on_held: Held) -> State:
    """Return the state once the message at this inbox position has become an event; raises `UsageError` if it is dropped."""
    while True:
        try:
            state = await process_inbox(leases, session)
        except LeaseHeld as found:
            on_held(found)
            await leases.clock.sleep(POLL_MS)
            state = await load_state(leases.journal, leases.tenant, session)
        if state.inbox >= position:
            return await check_received(leases.journal, leases.tenant, state, position)
        if state.is_over:
            raise message_rules.session_over(session, state)


async def process_inbox(leases: LeaseClient, session: str) -> State:
    """Record the expiry and the messages of a session that no process runs; raises `LeaseHeld` if one does."""
    async with leases.holding(session) as lease:
        state = before = await load_state(leases.journal, leases.tenant, session)
        events: list[e.Event] = []
        now = max(leases.clock.now(), state.at)
        if (late := find_expired(state, now, outside=True)) is not None:
            events.append(late)
            state = fold_event(state, late)
        unread_messages = [] if state.is_over else await read_unread(leases.journal, leases.tenant, state)
        for event, after in apply_messages(state, unread_messages, now, outside=True):
            events.append(event)
            state = after
        if events:
            await leases.journal.append(
                Append(
                    tenant=leases.tenant,
                    stream=session,
                    expected=before.position,
                    epoch=lease.epoch,
                    events=tuple(codec.encode(event) for event in events),
                    row=row_of(state),
                )
            )
        return state


async def refresh_state(leases: LeaseClient, session: str) -> State:
    """Return the state of a session, after recording its expiry if that is overdue and no process runs it."""
    state = await load_state(leases.journal, leases.tenant, session)
    if find_expired(state, leases.clock.now()) is not None:
        with suppress(LeaseHeld):
            return await process_inbox(leases, session)
    return state


class InboxReaders:
    """Callers that wait until a session has durably read its inbox up to a position."""

    def __init__(self) -> None:
        self._waiting: list[tuple[int, asyncio.Future[State | None]]] = []
        self._is_closed = False

    def __len__(self) -> int:
        return len(self._waiting)

    def wait(self, position: int) -> asyncio.Future[State | None]:
        """Return a future of the state once the inbox has been read so far; None if the session is released first."""
        reader: asyncio.Future[State | None] = asyncio.get_running_loop().create_future()
        if self._is_closed:
            reader.set_result(None)
        else:
            self._waiting.append((position, reader))
        return reader

    def answer(self, state: State) -> None:
        """Resolve the futures whose position has been read."""
        for position, reader in self._waiting:
            if position <= state.inbox and not reader.done():
                reader.set_result(state)
        self._waiting = [each for each in self._waiting if not each[1].done()]

    def close(self) -> None:
        """Resolve the remaining futures with None: nothing more will be read."""
        self._is_closed = True
        for _, reader in self._waiting:
            if not reader.done():
                reader.set_result(None)
