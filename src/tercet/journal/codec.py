"""Events as bytes: JSON of one tagged struct behind one byte that says the version.

The version rises only when old readers would misread new events. Fields that a reader does not know are ignored; a
version or an event type that it does not know is refused, since ignoring a fact would fold a wrong state.
"""

from __future__ import annotations

import msgspec

from tercet.contracts.errors import TercetError
from tercet.journal.events import Event

VERSION = b"1"

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Event)


class CodecError(TercetError):
    """Bytes that are no event of this version."""

    default_code = "journal_unreadable"


def encode(event: Event) -> bytes:
    """An event as bytes."""
    return VERSION + _encoder.encode(event)


def decode(data: bytes) -> Event:
    """The event that bytes hold."""
    if data[:1] != VERSION:
        raise CodecError(
            f"this event was written in format {data[:1]!r}, and this Tercet reads format {VERSION!r}",
            code="newer_journal",
            remedy="read it with the version of Tercet that wrote it, or a newer one",
        )
    try:
        return _decoder.decode(data[1:])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise CodecError(
            f"this event cannot be read: {error}", remedy="the journal is damaged, or newer than this Tercet"
        ) from error
