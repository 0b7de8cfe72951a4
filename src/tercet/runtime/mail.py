"""Delivering what people say: into the inbox of a session, and from there into its events.

Only the journal is needed here, not the pack: speaking loads no code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TypeAlias

from tercet.contracts.errors import UsageError
from tercet.executor.clock import Clock
from tercet.journal import codec
from tercet.journal import events as e
from tercet.journal.errors import LeaseHeld, LeaseLost
from tercet.journal.protocol import Append, Journal, Lease, Stored
from tercet.journal.side_stream import append_next, read_all
from tercet.runtime import messages, opening
from tercet.runtime.expiry import overdue
from tercet.runtime.gate_fold import DROPPED_KEPT
from tercet.runtime.machine import evolve
from tercet.runtime.messages import Said, inbox_of
from tercet.runtime.rows import row_of
from tercet.runtime.state import State

POLL_MS = 100

Held: TypeAlias = Callable[[LeaseHeld], None]
"""Told each time a lease turns out to be held by somebody else; may raise, to wait no longer."""


async def post(journal: Journal, tenant: str, said: Said) -> int:
    """Put a message into the inbox of its session, and ring; its position there."""
    data = (messages.encode(said),)
    return (await append_next(journal, tenant, inbox_of(said.session), lambda _: data, ring=True)).seq


async def unread(journal: Journal, tenant: str, state: State) -> list[Stored]:
    """What was said to a session and has not become an event yet."""
    return await read_all(journal, tenant, inbox_of(state.start["session"]), after=state.inbox)


def heard(state: State, letters: list[Stored], now: int, *, outside: bool) -> Iterator[tuple[e.Event, State]]:
    """The events that messages become, each with the state after it. A session that is over hears nothing more, and one
    that is carried forward comes to rest before a wish to pause becomes an event."""
    for letter in letters:
        if state.is_over:
            return
        event = _event(letter, state, now, outside=outside)
        if isinstance(event, e.SessionPaused) and not outside:
            yield event, state
            return
        state = evolve(state, event)
        yield event, state


def _event(letter: Stored, state: State, now: int, *, outside: bool) -> e.Event:
    """What a message becomes: an event that fits, or the note that it did not."""
    try:
        said = messages.decode(letter.data)
        return messages.event_of(said, state, now, inbox=letter.seq, outside=outside)
    except UsageError as error:
        at = max(now, state.at)
        return e.MessageDropped(at=at, inbox=letter.seq, code=error.code, reason=error.message)


async def answer_to(journal: Journal, tenant: str, state: State, position: int) -> State:
    """The state, if the message at this position of the inbox became an event; raises `UsageError` if it was dropped."""
    dropped = state.dropped
    if len(dropped) >= DROPPED_KEPT and position < dropped[0][0]:
        # The state knows the last ones only, and so many people spoke at once that this one may have been before them.
        said = await opening.events_of(journal, tenant, str(state.start["session"]))
        dropped = tuple((d.inbox, d.code, d.reason) for d in said if isinstance(d, e.MessageDropped))
    for inbox, code, reason in dropped:
        if inbox == position:
            raise UsageError(reason, code=code, remedy="look at the session again: it has moved on")
    return state


async def take(
    journal: Journal, tenant: str, session: str, *, owner: str, clock: Clock, lease_ms: int, held: Held
) -> Lease:
    """The lease on a session, as soon as its owner has let go of it or it has run out."""
    while True:
        now = clock.now()
        try:
            return await journal.acquire(tenant, session, owner=owner, now_ms=now, ttl_ms=lease_ms)
        except LeaseHeld as found:
            held(found)
            # Its owner may let go of it earlier.
            await clock.sleep(min(POLL_MS, max(1, found.until - now + 1)))


async def deliver(
    journal: Journal,
    tenant: str,
    said: Said,
    *,
    owner: str,
    clock: Clock,
    lease_ms: int,
    held: Held,
) -> State:
    """Say something to a session that this process does not carry: the state once it has become an event.

    Whoever carries the session reads its inbox; where nobody does, it is read here. What is wrong already is told
    without writing anything.
    """
    state = await touch(journal, tenant, said.session, owner=owner, clock=clock, lease_ms=lease_ms)
    messages.event_of(said, state, clock.now())
    position = await post(journal, tenant, said)
    return await follow(
        journal, tenant, said.session, position, owner=owner, clock=clock, lease_ms=lease_ms, held=held
    )


async def follow(
    journal: Journal,
    tenant: str,
    session: str,
    position: int,
    *,
    owner: str,
    clock: Clock,
    lease_ms: int,
    held: Held,
) -> State:
    """The state once the message at this position of the inbox has become an event; raises `UsageError` if it did not."""
    while True:
        try:
            state = await absorb(journal, tenant, session, owner=owner, clock=clock, lease_ms=lease_ms)
        except LeaseHeld as found:
            held(found)
            await clock.sleep(POLL_MS)
            state = (await opening.restore(journal, tenant, session)).state
        if state.inbox >= position:
            return await answer_to(journal, tenant, state, position)
        if state.is_over:
            raise messages.session_over(session, state)


async def absorb(
    journal: Journal, tenant: str, session: str, *, owner: str, clock: Clock, lease_ms: int
) -> State:
    """Read the inbox of a session that nobody carries, and what is overdue; raises `LeaseHeld` if somebody does."""
    lease = await journal.acquire(tenant, session, owner=owner, now_ms=clock.now(), ttl_ms=lease_ms)
    try:
        state = before = (await opening.restore(journal, tenant, session)).state
        events: list[e.Event] = []
        now = max(clock.now(), state.at)
        if (late := overdue(state, now, outside=True)) is not None:
            events.append(late)
            state = evolve(state, late)
        letters = [] if state.is_over else await unread(journal, tenant, state)
        for event, after in heard(state, letters, now, outside=True):
            events.append(event)
            state = after
        if events:
            await journal.append(
                Append(
                    tenant=tenant,
                    stream=session,
                    expected=before.position,
                    epoch=lease.epoch,
                    events=tuple(codec.encode(event) for event in events),
                    row=row_of(state),
                )
            )
        return state
    finally:
        with suppress(LeaseLost):
            await journal.release(lease)


async def touch(
    journal: Journal, tenant: str, session: str, *, owner: str, clock: Clock, lease_ms: int
) -> State:
    """How a session stands, once what is overdue has been written down; whoever carries it does that themselves."""
    state = (await opening.restore(journal, tenant, session)).state
    if overdue(state, clock.now()) is not None:
        with suppress(LeaseHeld):
            return await absorb(journal, tenant, session, owner=owner, clock=clock, lease_ms=lease_ms)
    return state
