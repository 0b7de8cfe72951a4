"""JSON Schema validators, compiled once for each schema text."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import jsonschema_rs
import orjson

from tercet.contracts.errors import UsageError
from tercet.contracts.references import Place
from tercet.contracts.shape import as_list, as_object
from tercet.policy.schema_bounds import Bounds, TooMuchWorkError, measure

MAX_TEXT = 2**21
"""A longer schema is refused unread."""
MAX_GROWN = 2**17
"""How far the work of a schema that refers to itself may grow with the levels of a value."""


class Fault(NamedTuple):
    """One way in which a value breaks its schema."""

    place: Place
    keyword: str
    message: str


@lru_cache(maxsize=4_096)
def validator(schema_text: str) -> Any:
    """Return the validator of a schema given as JSON text; raises `UsageError` if it is not one, or expands too far."""
    _bounds(schema_text)
    try:
        # Offline: a schema that reaches out would do I/O, and mean something else tomorrow.
        return jsonschema_rs.validator_for(orjson.loads(schema_text), offline=True)
    except (ValueError, jsonschema_rs.ReferencingError) as error:
        raise UsageError(f"not a JSON Schema: {str(error).splitlines()[0]}", code="schema_invalid") from error


@lru_cache(maxsize=4_096)
def _bounds(schema_text: str) -> Bounds:
    if len(schema_text) > MAX_TEXT:
        raise _too_complex(f"it has more than {MAX_TEXT:,} characters")
    try:
        return measure(orjson.loads(schema_text))
    except TooMuchWorkError as error:
        raise _too_complex(str(error)) from error
    except ValueError as error:
        raise UsageError(f"not a JSON Schema: {error}", code="schema_invalid") from error


def _too_complex(why: str) -> UsageError:
    return UsageError(
        f"this JSON Schema is too complex to be checked: {why}",
        code="schema_invalid",
        remedy="write it flatter: fewer levels of allOf, anyOf and $ref",
    )


@lru_cache(maxsize=4_096)
def _prepared(schema_text: str, unchecked: frozenset[str]) -> tuple[Any, int]:
    """Return the validator of a schema in which these members may be anything, and how its work grows with the levels."""
    return _relaxed(schema_text, unchecked), _bounds(schema_text).growth


def _relaxed(schema_text: str, unchecked: frozenset[str]) -> Any:
    schema = as_object(orjson.loads(schema_text)) if unchecked else None
    if schema is None:
        return validator(schema_text)
    properties = {**(as_object(schema.get("properties")) or {}), **dict.fromkeys(sorted(unchecked), True)}
    return validator(orjson.dumps({**schema, "properties": properties}).decode())


def faults(schema_text: str, value: Any, unchecked: frozenset[str] = frozenset()) -> list[Fault]:
    """Every way in which a value breaks a schema; the members in `unchecked` may be anything."""
    compiled, growth = _prepared(schema_text, unchecked)
    if growth > 1 and not _is_shallow(value, growth):
        return [Fault((), "maxDepth", "it nests too deep for a schema that refers to itself several times")]
    try:
        if compiled.is_valid(value):
            return []
    except ValueError as error:
        return [Fault((), "type", f"no JSON value: {_short(str(error))}")]
    return [
        Fault(
            tuple(error.instance_path),
            str(error.schema_path[-1]) if error.schema_path else "",
            _short(error.message),
        )
        for error in compiled.iter_errors(value)
    ]


def _is_shallow(value: Any, growth: int) -> bool:
    """Whether a value has so few levels that work which grows with each of them stays bounded."""
    levels: list[Any] = [value]
    work = 1
    while levels:
        levels = [
            member
            for item in levels
            for member in ((as_object(item) or {}).values() or as_list(item) or ())
            if isinstance(member, dict | list)
        ]
        work *= growth
        if work > MAX_GROWN and levels:
            return False
    return True


def _short(message: str) -> str:
    return message if len(message) <= 200 else f"{message[:160]} … {message[-30:]}"
