"""Comparison of two events: the first field that differs, with both values."""

from __future__ import annotations

from typing import Any

import msgspec

from tercet.contracts.shape import as_list, as_object
from tercet.core import events as e
from tercet.view.run import Difference

NOTHING = "(nothing)"
"""The placeholder for a missing field."""

LONGEST = 4_000
"""Of a longer value only the beginning is shown."""
MOST_NESTED = 200
"""So is one with more lists and objects in it."""

_CHECKS: dict[type[e.Event], str] = {
    e.SessionStarted: "the pack or the evidence is not what the session was started with, or this version compiles it differently",
    e.SessionEnded: "the record was made from other facts, or this version makes records differently",
    e.PlanReviewed: "the plan or the review was changed, or this version's critic judges differently",
    e.RunReported: "the transcript or the report was changed, or this version's evaluators judge otherwise",
    e.GateOpened: "the call at the gate does not follow from the plan and its results",
}
_USUAL = "the journal was changed, or this version judges differently: see docs/replay.md"


def event_type(event: e.Event) -> str:
    """Return the name of an event in the journal."""
    return str(type(event).__struct_config__.tag)


def compare(position: int, recorded: e.Event, expected: e.Event) -> Difference | None:
    """Return the first field in which two events differ; None if they are equal except for the order of members: a
    pack is kept as canonical JSON, so its declarations may come in another order than in its files."""
    found = _first("", _fields(recorded), _fields(expected))
    if found is None:
        return None
    path, said, due = found
    return differing(position, recorded, path[:LONGEST], brief(said), brief(due))


def differing(
    position: int, event: e.Event, field: str, recorded: Any, expected: Any, check: str = ""
) -> Difference:
    """Return the difference between an event and the expected one in a field, with the check to make; by default the
    one for its type."""
    return Difference(
        position=position,
        event=event_type(event),
        step=getattr(event, "step", None) or None,
        field=field,
        recorded=recorded,
        expected=expected,
        check=check or _CHECKS.get(type(event), _USUAL),
    )


def brief(value: Any) -> Any:
    """Return a value as a report shows it: whole, or the beginning of its JSON where it is large or deeply nested.

    Recorded values may be anything, and the report must be printable.
    """
    text = msgspec.json.encode(value)
    if len(text) <= LONGEST and text.count(b"{") + text.count(b"[") <= MOST_NESTED:
        return value
    return f"{text[:LONGEST].decode('utf-8', 'ignore')} …"


def _fields(event: e.Event) -> Any:
    return msgspec.json.decode(msgspec.json.encode(event))


def _first(path: str, recorded: Any, expected: Any) -> tuple[str, Any, Any] | None:
    """Return the first place at which two JSON values differ."""
    before, after = as_object(recorded), as_object(expected)
    if before is not None and after is not None:
        for name in dict.fromkeys((*before, *after)):
            found = _first(f"{path}.{name}".lstrip("."), before.get(name, NOTHING), after.get(name, NOTHING))
            if found is not None:
                return found
        return None
    items, others = as_list(recorded), as_list(expected)
    if items is not None and others is not None and len(items) == len(others):
        for index, (item, other) in enumerate(zip(items, others, strict=True)):
            if (found := _first(f"{path}.{index}", item, other)) is not None:
                return found
        return None
    return None if _is_same(recorded, expected) else (path, recorded, expected)


def _is_same(recorded: Any, expected: Any) -> bool:
    """Return whether two scalars are equal in JSON, where 129.0 and 129 are the same number."""
    is_number = all(type(value) in (int, float) for value in (recorded, expected))
    return (is_number or type(recorded) is type(expected)) and recorded == expected


def not_due(position: int, recorded: e.Event, due: str) -> Difference:
    """Return the difference for an event that was recorded where none of its kind could happen."""
    return differing(position, recorded, "type", event_type(recorded), due)
