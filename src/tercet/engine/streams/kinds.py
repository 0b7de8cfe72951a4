"""Streams that are not sessions: their names, whether their contents match the name, and marks of sessions that lost events."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
from pydantic import ValidationError

from tercet.contracts.errors import TercetError, UsageError
from tercet.core.messages import Message
from tercet.core.state import TERMINAL
from tercet.engine.personal.keys import KIND as SUBJECT
from tercet.engine.personal.keys import SubjectEntry
from tercet.engine.streams.artifacts import Settlement
from tercet.engine.streams.audit import AUDIT, CALLS, AuditEntry, CallResult
from tercet.engine.streams.credentials import KIND as LOGINS
from tercet.engine.streams.credentials import STREAM as API_KEYS
from tercet.engine.streams.credentials import KeyEvent, Login
from tercet.engine.streams.experience import Lesson, read_entry
from tercet.engine.streams.nesting import Share
from tercet.engine.streams.notices import KIND as NOTICES
from tercet.engine.streams.notices import NoticeEvent
from tercet.engine.streams.recent_calls import KIND as REPEATS
from tercet.engine.streams.recent_calls import Claim
from tercet.engine.streams.stops import STREAM as STOPS
from tercet.engine.streams.stops import Stop
from tercet.executor.breaker import Circuit
from tercet.journal.database import DatabaseJournal
from tercet.journal.errors import Loss
from tercet.journal.protocol import Journal, Stored
from tercet.journal.side_stream import append_next, demand_owner, encode_entry

_PAGE = 200


class LostHistory(msgspec.Struct, frozen=True, kw_only=True):
    """A session that lost events."""

    tenant: str
    session_id: str
    left: int
    """How many events are left."""
    had: int | None
    """Their number; None if the commit log does not record it."""


def lost_of(session: str) -> str:
    """Return the name of the stream that marks a session as having lost events."""
    return f"lost:{session}"


async def demand_history(journal: Journal, tenant: str, session: str) -> None:
    """Raise `UsageError` for a session that lost events: resuming it would repeat the calls that they recorded."""
    if (await journal.head(tenant, lost_of(session))).seq:
        raise UsageError(
            f"session {session} lost events when its journal was damaged, so which calls it made is not known",
            code="history_lost",
            remedy="check what its tools did, and start a new run for the rest",
        )


async def mark_lost(journal: DatabaseJournal, loss: Loss) -> list[LostHistory]:
    """Mark the sessions that lost events, so that they cannot be resumed, and return them.

    If the commit log does not name every changed stream, all sessions that are not over may have lost events.
    """
    had = {(each.tenant, each.stream): each.seq for each in loss.streams}
    found: list[LostHistory] = []
    after = ("", "")
    while page := await journal.inspect_sessions(after, _PAGE):
        for row in page:
            last = had.get((row.tenant, row.session_id))
            left = (await journal.head(row.tenant, row.session_id)).seq
            is_behind = last is not None and left < last
            if is_behind or (last is None and not loss.is_complete and row.status not in TERMINAL):
                lost = LostHistory(tenant=row.tenant, session_id=row.session_id, left=left, had=last)
                stream = lost_of(row.session_id)
                data = encode_entry(lost, row.tenant, stream)
                await append_next(journal, row.tenant, stream, data, notify=True)
                found.append(lost)
        after = (page[-1].tenant, page[-1].session_id)
    return found


class _Breaker(Circuit, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A stored circuit. Unknown fields are refused, since all fields have defaults and any object would match."""

    of: tuple[str, str] = ("", "")


def find_foreign(tenant: str, stream: str, stored: Sequence[Stored]) -> str:
    """Return why a stream that is not a session lacks the content that its name promises; empty if it has it."""
    kind, _, subject = stream.partition(":")
    if kind not in _KINDS or (kind == STOPS) != (stream == STOPS):
        return "no kind of stream has this name"
    try:
        demand_owner(tenant, stream, stored)
    except TercetError as error:
        return error.message
    for each in stored:
        try:
            is_own = _KINDS[kind](each.data, tenant, subject)
        except (msgspec.MsgspecError, UnicodeDecodeError, ValidationError):
            is_own = False
        if not is_own:
            return f"event {each.seq} does not belong into a stream of this name, or a newer version wrote it"
    return ""


def _is_stop(data: bytes, tenant: str, _: str) -> bool:
    stop = msgspec.json.decode(data, type=Stop)
    return stop.kind != "tenant" or stop.name == tenant


def _is_message(data: bytes, _: str, session: str) -> bool:
    return msgspec.json.decode(data, type=Message).session == session


def _is_loss(data: bytes, tenant: str, session: str) -> bool:
    lost = msgspec.json.decode(data, type=LostHistory)
    return (lost.tenant, lost.session_id) == (tenant, session)


def _is_correction(data: bytes, _: str, __: str) -> bool:
    read_entry(data)
    return True


def _is_a(kind: Any) -> Callable[[bytes, str, str], bool]:
    def is_decodable(data: bytes, _: str, __: str) -> bool:
        msgspec.json.decode(data, type=kind)
        return True

    return is_decodable


_KINDS: Mapping[str, Callable[[bytes, str, str], bool]] = {
    STOPS: _is_stop,
    "inbox": _is_message,
    "lost": _is_loss,
    "feedback": _is_correction,
    "rollback": _is_a(Settlement),
    "family": _is_a(Share),
    "experience": _is_a(Lesson),
    "calibration": _is_a(Lesson),
    "breaker": _is_a(_Breaker),
    REPEATS: _is_a(Claim),
    API_KEYS: _is_a(KeyEvent),
    AUDIT: _is_a(AuditEntry),
    CALLS: _is_a(CallResult),
    NOTICES: _is_a(NoticeEvent),
    LOGINS: _is_a(Login),
    SUBJECT: _is_a(SubjectEntry),
}
"""The check of each kind of stream's contents, by the part of its name before the colon."""
