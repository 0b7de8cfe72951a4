"""`--set PARAM=VALUE`: values as the schema of the call takes them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

from tercet.cli.documents import read_json
from tercet.contracts import pointer
from tercet.contracts.errors import UsageError
from tercet.core.modifications import faults_at, place_of
from tercet.core.state import OpenGate


def read_set_values(given: Sequence[str], gate: OpenGate | None) -> dict[str, Any]:
    """Return the values that are set, by JSON Pointer; raises `UsageError` for what is not PARAM=VALUE.

    A value is the JSON that its text holds, unless only the text itself fits the schema of the gate's call.
    """
    changes: dict[str, Any] = {}
    for each in given:
        name, is_given, text = each.partition("=")
        if not is_given or not name:
            raise UsageError(
                f"{each!r} sets no parameter",
                code="usage",
                remedy="write --set PARAM=VALUE, such as --set cents=500",
            )
        place = place_of(name)
        if place in changes:
            raise UsageError(f"{name} is set twice", code="usage", remedy="give each parameter one value")
        values = list(_readings(text))
        changes[place] = next((value for value in values if _fits(gate, place, value)), values[0])
    return changes


def _readings(text: str) -> Iterator[Any]:
    """Yield what a text may mean: the JSON value that it holds, then the text itself."""
    with suppress(UsageError):
        yield read_json(text, "value", code="usage", remedy="write JSON")
    yield text


def _fits(gate: OpenGate | None, place: str, value: Any) -> bool:
    """Whether the schema of a gate's call allows a value at a place; what cannot be checked here is checked later."""
    try:
        return gate is None or not faults_at(gate, place, value)
    except (pointer.PointerError, LookupError, ValueError):
        return True
