"""Streams that are not sessions: their names, and whether what they hold belongs to the name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec
from pydantic import ValidationError

from tercet.contracts.errors import TercetError
from tercet.core.messages import Message
from tercet.engine.streams.artifacts import Settlement
from tercet.engine.streams.experience import Lesson
from tercet.engine.streams.feedback import read_entry
from tercet.engine.streams.lost_history import LostHistory
from tercet.engine.streams.nesting import Share
from tercet.engine.streams.repeats import KIND as REPEATS
from tercet.engine.streams.repeats import Claim
from tercet.engine.streams.stops import STREAM as STOPS
from tercet.engine.streams.stops import Stop
from tercet.executor.breaker import Circuit
from tercet.journal.protocol import Stored
from tercet.journal.side_stream import demand_owner


class _Breaker(Circuit, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A circuit as it is stored. All of its fields have defaults, so other objects would pass for one."""

    of: tuple[str, str] = ("", "")


def find_foreign(tenant: str, stream: str, stored: Sequence[Stored]) -> str:
    """Return why a stream that is not a session does not hold what its name says; empty if it does."""
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


def _is_a(kind: type[msgspec.Struct]) -> Callable[[bytes, str, str], bool]:
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
}
"""What each kind of stream holds, by the part of its name before the colon."""
