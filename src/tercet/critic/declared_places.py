"""What a tool's schema declares about the places of its parameters, as far as trust depends on it."""

from __future__ import annotations

from typing import Any

from tercet.contracts.shape import as_list, as_object
from tercet.contracts.tool import ToolSpec
from tercet.contracts.values import references
from tercet.contracts.values.references import Found, Leaf, Place
from tercet.contracts.values.trust import scalar


def keys_of(place: Place) -> list[str]:
    """Return the object keys on the way to a place; the first `$literal` is the wrapper, a second one would be data."""
    keys = [token for token in place if isinstance(token, str)]
    if references.LITERAL in keys:
        keys.remove(references.LITERAL)
    return keys


def names_nothing(tool: ToolSpec, found: Found) -> bool:
    """Return whether an input cannot direct a call to another object: a boolean, null, or a word enumerated by the
    tool's schema.
    """
    if type(found) is not Leaf:
        return False
    if found.value is None or isinstance(found.value, bool) or is_empty(found.value):
        return True
    members = schema_at(tool, found.place)
    words = as_list(members.get("enum")) or [members.get("const")]
    return any(scalar(found.value) == scalar(word) for word in words)


def takes_number(tool: ToolSpec, place: Place) -> bool:
    """Return whether a tool's schema allows only a number at a place of its parameters, so that dispatch refuses all
    else.
    """
    kinds = schema_at(tool, place).get("type")
    declared = set(as_list(kinds) or [kinds])
    return not declared.isdisjoint(_NUMBERS) and declared <= {*_NUMBERS, "null"}


_NUMBERS = frozenset({"number", "integer"})


def schema_at(tool: ToolSpec, place: Place) -> dict[str, Any]:
    """Return what a tool's schema declares for one place of its parameters; empty if nothing definite."""
    schema: Any = tool.parameters
    for token in without_wrapper(place):
        members = as_object(schema) or {}
        inner = members.get("properties" if isinstance(token, str) else "items")
        schema = (as_object(inner) or {}).get(token) if isinstance(token, str) else inner
        if "prefixItems" in members:
            return {}
    return as_object(schema) or {}


def is_empty(value: Any) -> bool:
    """Return whether a literal is a list or an object: one that has members is not a literal but several."""
    return isinstance(value, dict | list)


def is_equal(first: Any, second: Any) -> bool:
    """Return whether two JSON values without members are equal; `true` is not 1, and an empty list is not an empty
    object.
    """
    if is_empty(first) or is_empty(second):
        return type(first) is type(second) and first == second
    return scalar(first) == scalar(second)


def without_wrapper(place: Place) -> Place:
    """Return the place of a value as its call has it, without `$literal`."""
    return tuple(t for t in place if t != references.LITERAL) if references.LITERAL in place else place
