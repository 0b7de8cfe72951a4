"""What deriving an event again comes to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from tercet.journal import events as e


@dataclass(frozen=True, kw_only=True)
class Derived:
    """The event as it must have been, given all that was recorded before it.

    What only the world could tell stands in it as it was recorded; `fact` says why, where that is the judgement itself.
    """

    event: e.Event
    fact: str = ""


def with_facts(derived: e.Event, recorded: e.Event, *names: str) -> e.Event:
    """A derived event with these fields as they were recorded. The time of an event is always a fact."""
    if type(derived) is not type(recorded):
        return derived
    taken: dict[str, Any] = {name: getattr(recorded, name) for name in ("at", *names)}
    return msgspec.structs.replace(derived, **taken)
