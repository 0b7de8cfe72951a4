"""Events as bytes: a version byte, followed by the JSON of one tagged struct.

A sealed event has its own version byte and, before the JSON, the hash of the fold that was stored with it (of the state
before the event). So the chain over the events covers the fold too.

The version changes only when old readers would misread new events. Unknown fields are ignored; an unknown version or
event type is refused, since ignoring an event would fold a wrong state.
"""

from __future__ import annotations

import msgspec

from tercet.contracts.errors import InternalError, TercetError
from tercet.core import events as e
from tercet.core.events import Event

VERSION = b"1"
SEALED = b"S"
_BODY = 1 + 32
"""Where the JSON of a sealed event begins."""

_TYPED = (
    e.SessionStarted, e.PlanProposed, e.Decomposed, e.PlanReviewed, e.EvidenceRetrieved, e.Intent, e.Complete,
    e.StepJudged, e.OutputsProduced, e.RunReported, e.SessionEnded,
)  # fmt: skip
"""Events of every run. Their values have been parsed before, and reading them again would cost a tenth of a step."""

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Event)


class CodecError(TercetError):
    """Bytes that are not an event of this version."""

    default_code = "journal_unreadable"


def encode(event: Event, *, fold: bytes = b"") -> bytes:
    """Return an event as bytes, sealed with the SHA-256 of a fold where there is one.

    Raises `InternalError` for a value that `decode` would refuse: a session with such an event could never be read again.
    """
    data = _encoder.encode(event)
    if type(event) not in _TYPED:
        try:
            _decoder.decode(data)
        except msgspec.DecodeError as error:
            raise InternalError(f"an event cannot be written, since it could not be read: {error}") from error
    return (SEALED + fold if fold else VERSION) + data


def seal_of(data: bytes) -> bytes:
    """Return the hash of the fold that an event is sealed with; empty if there is none."""
    return data[1:_BODY] if data[:1] == SEALED else b""


def strip_seal(data: bytes) -> bytes:
    """Return the bytes of an event without its seal."""
    return VERSION + data[_BODY:] if data[:1] == SEALED else data


def _format(version: bytes) -> str:
    """Return the version byte of an event for people."""
    return version.decode("ascii", "backslashreplace") or "(empty)"


def decode(data: bytes) -> Event:
    """Decode an event."""
    if data[:1] not in (VERSION, SEALED):
        raise CodecError(
            f"this event was written in format {_format(data[:1])}, and this Tercet reads formats {_format(VERSION)} and {_format(SEALED)}",
            code="newer_journal",
            remedy="read it with the version of Tercet that wrote it, or a newer one",
        )
    try:
        return _decoder.decode(data[_BODY:] if data[:1] == SEALED else data[1:])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise CodecError(
            f"this event cannot be read: {error}", remedy="the journal is damaged, or newer than this Tercet"
        ) from error
