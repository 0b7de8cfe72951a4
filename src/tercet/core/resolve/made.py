"""The result of resolving a command."""

from __future__ import annotations

import msgspec

from tercet.core import events as e


class Made(msgspec.Struct, frozen=True, gc=False):
    """Events, and the bytes that are stored beside them under their digest."""

    events: tuple[e.Event, ...] = ()
    blobs: tuple[bytes, ...] = ()


def made(*events: e.Event, blobs: tuple[bytes, ...] = ()) -> Made:
    """Return these events, with the bytes that are stored beside them."""
    return Made(events, blobs)
