"""What deriving an event again comes to."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from tercet.core import events as e


@dataclass(frozen=True, kw_only=True)
class Derived:
    """The event as it must have been, given all that was recorded before it.

    What only the world could tell stands in it as it was recorded; `fact` says why, where that is the judgement itself.
    """

    event: e.Event
    fact: str = ""


def at_its_time(derived: e.Event, recorded: e.Event) -> e.Event:
    """A derived event at the time that was recorded, which is always a fact."""
    if type(derived) is not type(recorded) or derived.at == recorded.at:
        return derived
    return msgspec.structs.replace(derived, at=recorded.at)
