"""Events of messages, expiry, pause and resume."""

from __future__ import annotations

from tercet.contracts.errors import TercetError, UsageError
from tercet.contracts.loop import Phase
from tercet.core import commands as c
from tercet.core import events as e
from tercet.core import message_rules, messages
from tercet.core.answers import Made, Now, made
from tercet.core.fold.base import copy_fields
from tercet.core.run import Run
from tercet.core.state import State

_ENDING = (Phase.COMMIT, Phase.FAIL)


class ForeignMessage(TercetError):  # noqa: N818 - it names what was found
    """A message in a session's inbox that was sent to another session."""

    default_code = "wrong_session"


def receive_message(state: State, command: c.Receive, now: int) -> e.Event:
    """Return the event that a message becomes: its request, or that it was dropped, with the reason.

    Raises `ForeignMessage` if it was sent to another session.
    """
    try:
        message = messages.decode(command.data)
        if message.session != state.start.session:
            raise ForeignMessage(f"it was sent to session {message.session}")
        return message_rules.event_of(message, state, now, inbox=command.inbox, outside=command.outside)
    except UsageError as error:
        at = max(now, state.at)
        return e.MessageDropped(at=at, inbox=command.inbox, code=error.code, reason=error.message)


def receive(run: Run, command: c.Receive, answer: Now) -> Made:
    """Return a message of a person to the session."""
    return made(receive_message(run.state, command, answer.at))


def expire(run: Run, command: c.Expire, answer: Now) -> Made:
    """Return the end of a session that has expired, or whose gate has; nothing if neither has."""
    expired = find_expired(run.state, answer.at, outside=command.outside)
    return made() if expired is None else made(expired)


def pause(run: Run, command: c.Pause, answer: Now) -> Made:
    """Return the pause of a session that can be resumed."""
    del run
    return made(pause_session(command, answer.at))


def pause_session(command: c.Pause, at: int) -> e.SessionPaused:
    """Return the event that pauses a session, also for a process that does not carry it."""
    return copy_fields(e.SessionPaused, command, at=at)


def resume(run: Run, command: c.Resume, answer: Now) -> Made:
    """Return a session that another process carries on."""
    return made(copy_fields(e.SessionResumed, command, at=answer.at, in_flight=run.state.in_flight))


def find_expired(state: State, now: int, *, outside: bool = False) -> e.SessionExpired | None:
    """Return the expiry event of a session whose time to live, or that of one of its gates, has passed; None otherwise."""
    if not state.is_started or state.phase in _ENDING:
        return None
    ends = state.start.expires
    if ends and now >= ends:
        return e.SessionExpired(at=max(now, state.at), reason="Session expired", outside=outside)
    for gate in state.gates.values():
        if gate.expires and now >= gate.expires:
            reason = f"Session expired: nobody answered gate {gate.id} in time"
            return e.SessionExpired(at=max(now, state.at), reason=reason, gate=gate.id, outside=outside)
    return None


def due_at(state: State) -> int | None:
    """Return when a process that runs nothing of a session has to look at it; None if it may wait for ever.

    That is when a time to live ends, or a heartbeat is due; and at once if its end was decided while no process ran it.
    """
    if state.is_over:
        return None
    times = [gate.expires for gate in state.gates.values() if gate.expires]
    if not state.ending and (ends := state.start.expires):
        times.append(ends)
    if state.status == "in_progress":
        times.append(state.at + 2 * state.start.heartbeat)
    elif state.ending and not state.gates:
        times.append(state.at)
    return min(times, default=None)
