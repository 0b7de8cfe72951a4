"""The checks of `check`, one small function per question.

A check takes the parts of a pack and yields a problem for each defect. It is pure, and reports nothing about files that
could not be read.

This module has the types of a check and shared helpers: problems of unknown names, and what a JSON Schema says about
the fields of a value, where None means that it leaves the question open.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from difflib import get_close_matches
from typing import Literal, TypeAlias

from tercet.contracts.decision import DecisionSpec
from tercet.contracts.problem import Problem
from tercet.contracts.shape import JsonObject, as_object
from tercet.contracts.values import pointer
from tercet.packs.parts import Parts

Problems: TypeAlias = Iterator[Problem]
Check: TypeAlias = Callable[[Parts], Problems]


def offers(decision: DecisionSpec, tool: str) -> bool:
    """Return whether a decision may use a tool."""
    return (decision.tools is None or tool in decision.tools) and tool not in decision.prohibited_tools


def unknown_gate(parts: Parts, place: str, name: str) -> Problem:
    """Return the problem of a gate that does not exist."""
    remedy = did_you_mean(name, parts.gate) or "declare it in gates.toml, or name another"
    return parts.problem("unknown_gate", place, f"there is no gate {name}", remedy)


def unknown_tool(parts: Parts, place: str, name: str) -> Problem:
    """Return the problem of a tool that does not exist."""
    remedy = did_you_mean(name, parts.tool) or f"this pack has {', '.join(sorted(parts.tool)) or 'no tools'}"
    return parts.problem("unknown_tool", place, f"there is no tool {name}", remedy)


def unknown_parameter(parts: Parts, code: str, place: str, name: str, known: Iterable[str]) -> Problem:
    """Return the problem of a parameter that does not exist."""
    names = list(known)
    remedy = did_you_mean(name, names) or f"it takes {', '.join(names) or 'none'}"
    return parts.problem(code, place, f"there is no parameter {name}", remedy)


def unknown_fact(
    parts: Parts,
    place: str,
    told: str,
    name: str,
    known: Iterable[str],
    *,
    severity: Literal["error", "warning"] = "error",
) -> Problem:
    """Return the problem of a member of evidence that does not exist."""
    names = list(known)
    remedy = (
        did_you_mean(name, names) or f"name one of {', '.join(names[:12]) or 'those that the evidence has'}"
    )
    return parts.problem("value_source_unknown", place, told, remedy, severity=severity)


def did_you_mean(name: str, known: Iterable[str], words: str = "did you mean {}?") -> str | None:
    """Return a suggestion of the most similar known name; None if none is similar."""
    near = get_close_matches(name, list(known), n=1)
    return words.format(near[0]) if near else None


_OPEN = ("anyOf", "oneOf", "allOf", "not", "if", "patternProperties", "propertyNames", "$dynamicRef")
_MAX_HOPS = 8

ANY_ITEM = "*"


def fields_of(schema: JsonObject) -> tuple[str, ...] | None:
    """Return the fields of an object of this schema; None if the schema does not list all of them in one place."""
    found = dereferenced(schema, schema)
    if found is None or any(word in found for word in _OPEN) or _takes_more(found):
        return None
    return tuple(map(str, as_object(found.get("properties", {})) or {}))


def named_fields(schema: JsonObject) -> tuple[str, ...] | None:
    """Return the fields that a schema names; None also if it names none and forbids none, which is inconclusive."""
    found = dereferenced(schema, schema) or {}
    is_silent = "properties" not in found and found.get("additionalProperties") is None
    return None if is_silent else fields_of(schema)


def missing_field(schema: JsonObject, where: str, *, in_lists: bool = False) -> str | None:
    """Return the first field of a pointer that a value of this schema cannot have; None if it may have all.

    `in_lists` says that it is a mark, which goes through lists that it does not spell out.
    """
    current: JsonObject | None = schema
    for token in pointer.parts(where):
        current = dereferenced(schema, current)
        if in_lists and token != ANY_ITEM and not token.isdecimal():
            current = _within_lists(schema, current)
        if current is None or any(word in current for word in _OPEN):
            return None
        if current.get("type") == "array" or "items" in current:
            current = as_object(current.get("items"))
            continue
        properties = as_object(current.get("properties"))
        if properties is None:
            return None
        if token != ANY_ITEM and token not in properties:
            return None if _takes_more(current) else token
        current = as_object(properties.get(token))
    return None


def _within_lists(root: JsonObject, schema: JsonObject | None) -> JsonObject | None:
    """Return the schema of the items of a list, or of the lists in it; that of another value as it is."""
    for _ in range(_MAX_HOPS):
        if schema is None or "items" not in schema or any(word in schema for word in _OPEN):
            break
        schema = dereferenced(root, as_object(schema["items"]))
    return schema


def _takes_more(schema: JsonObject) -> bool:
    """Return whether a schema allows additional fields explicitly; JSON Schema allows them by default, authors rarely
    mean it.
    """
    return schema.get("additionalProperties") not in (None, False)


def dereferenced(root: JsonObject, schema: JsonObject | None) -> JsonObject | None:
    """Return the schema behind local references; None if it cannot be determined."""
    for _ in range(_MAX_HOPS):
        if schema is None or "$ref" not in schema:
            return schema
        target = str(schema["$ref"])
        if not target.startswith("#"):
            return None
        try:
            schema = as_object(pointer.follow(root, target[1:]))
        except pointer.PointerError:
            return None
    return None
