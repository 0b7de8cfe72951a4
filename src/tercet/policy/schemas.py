"""JSON Schema validators, compiled once for each schema text, and limits on their work.

The work of a schema is measured before it is compiled, since a validator cannot be interrupted. A schema of a kilobyte
can make a validator evaluate 2^30 subschemas, by `allOf` whose members refer twice to the next one. Three things are
counted: how many subschemas apply to one value (*in place*, through `allOf`, `$ref` and the like), how that number
grows from a value to its members, and whether it grows without end in a recursive schema.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple

import jsonschema_rs
import orjson

from tercet.contracts.errors import UsageError
from tercet.contracts.shape import JsonObject, as_list, as_object
from tercet.contracts.values import pointer
from tercet.contracts.values.references import Place
from tercet.policy.fault_sentences import fault_sentence

MAX_SUBSCHEMAS = 20_000
MAX_DEPTH = 128
MAX_EVALUATIONS = 2_000
"""The maximum number of subschemas that apply to one value."""
_MAX_LISTED = 200_000
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_IN_PLACE = ("allOf", "anyOf", "oneOf", "not", "if", "then", "else")
_IN_PLACE_BY_NAME = ("dependentSchemas", "dependencies")
_MEMBERS = (
    "patternProperties", "additionalProperties", "propertyNames", "unevaluatedProperties",
    "items", "prefixItems", "additionalItems", "contains", "unevaluatedItems",
)  # fmt: skip
_ESCAPED = re.compile(r"(?:%[0-9a-fA-F]{2})+")
_ANY = "*"
"""The key for members that no property names."""


class TooMuchWorkError(ValueError):
    """The work of validating against this schema is not bounded."""


class Bounds(NamedTuple):
    """How far the work of validating against a schema can grow."""

    growth: int
    """The growth of work with each level of a value in a recursive schema; 1 if it does not grow."""


def measure(schema: Any) -> Bounds:
    """Return the bounds of a schema; raise `TooMuchWorkError` for one that is too large, too deep or expands too far."""
    return _Measuring(schema).bounds()


class _Measuring:
    def __init__(self, schema: Any) -> None:
        self._root = as_object(schema) or {}
        self._named: dict[str, JsonObject] = {}
        self._collect()
        self._counts: dict[int, int] = {}
        self._grown: dict[int, int] = {}
        self._listed = 0
        self._is_recursive = False
        self._growth = 1

    def bounds(self) -> Bounds:
        work = self._grow(self._root, ())
        if work > MAX_EVALUATIONS:
            raise TooMuchWorkError(f"it applies more than {MAX_EVALUATIONS:,} subschemas to one value")
        return Bounds(self._growth if self._is_recursive else 1)

    def _collect(self) -> None:
        """Count subschemas and levels, and collect the targets of references."""
        seen, stack = 0, [(self._root, 0)]
        while stack:
            item, depth = stack.pop()
            members = as_object(item)
            inner = list(members.values()) if members is not None else as_list(item)
            if inner is None:
                continue
            seen += 1
            if seen > MAX_SUBSCHEMAS or depth > MAX_DEPTH:
                limit = f"{MAX_SUBSCHEMAS:,} parts" if seen > MAX_SUBSCHEMAS else f"{MAX_DEPTH} levels"
                raise TooMuchWorkError(f"it has more than {limit}")
            for key in ("$id", "$anchor", "$dynamicAnchor") if members is not None else ():
                if isinstance(name := (members or {}).get(key), str):
                    self._named[name if key == "$id" else f"#{name}"] = members or {}
            stack += [(each, depth + 1) for each in inner]

    def _resolve(self, reference: str) -> JsonObject | None:
        """Return the target of a reference; None if there is none, which the compiler reports."""
        base, _, fragment = reference.partition("#")
        root = self._root
        if base:
            named = [each for name, each in self._named.items() if name.rstrip("#").endswith(base)]
            if not named:
                return None
            root = named[0]
        if not fragment:
            return root
        if not fragment.startswith("/"):
            return self._named.get(f"#{fragment}")
        return as_object(pointer.value_at(root, _unquote(fragment)))

    def _in_place(self, schema: JsonObject) -> Iterator[JsonObject]:
        """Return the subschemas that apply to the same value as a schema."""
        for key in _REFERENCES:
            if isinstance(name := schema.get(key), str) and (found := self._resolve(name)) is not None:
                yield found
        for key in _IN_PLACE:
            yield from _schemas(schema.get(key))
        for key in _IN_PLACE_BY_NAME:
            yield from _schemas(list((as_object(schema.get(key)) or {}).values()))

    def _count(self, schema: JsonObject, around: tuple[int, ...]) -> int:
        """Return how many subschemas apply to a value together with a schema, itself included."""
        known = self._counts.get(id(schema))
        if known is not None:
            return known
        if id(schema) in around or len(around) > MAX_DEPTH:
            raise TooMuchWorkError("it refers to itself for the same value")
        total = 1 + sum(self._count(each, (*around, id(schema))) for each in self._in_place(schema))
        # `unevaluated…` evaluates all sibling keywords again.
        total *= 2 if "unevaluatedProperties" in schema or "unevaluatedItems" in schema else 1
        if total > MAX_EVALUATIONS:
            raise TooMuchWorkError(f"it applies more than {MAX_EVALUATIONS:,} subschemas to one value")
        self._counts[id(schema)] = total
        return total

    def _together(self, schema: JsonObject) -> Iterator[JsonObject]:
        """Return every subschema that applies to a value together with a schema, with repetitions."""
        stack = [schema]
        while stack:
            self._listed += 1
            if self._listed > _MAX_LISTED:
                raise TooMuchWorkError("it has too many combinations of subschemas")
            found = stack.pop()
            yield found
            stack += self._in_place(found)

    def _grow(self, schema: JsonObject, around: tuple[int, ...]) -> int:
        """Return the maximum number of subschemas that apply to one value at or below the value of a schema."""
        known = self._grown.get(id(schema))
        if known is not None:
            return known
        if id(schema) in around or len(around) > MAX_DEPTH:
            self._is_recursive = True
            return 1
        own = self._count(schema, ())
        inside = (*around, id(schema))
        most = own
        for members in self._members(schema).values():
            self._growth = max(self._growth, sum(times for _, times in members.values()))
            most = max(most, sum(times * self._grow(each, inside) for each, times in members.values()))
        self._grown[id(schema)] = most
        return most

    def _members(self, schema: JsonObject) -> dict[str, dict[int, tuple[JsonObject, int]]]:
        """Return for each member of a value the schemas that apply and how often."""
        counted: dict[str, Counter[int]] = {_ANY: Counter()}
        schemas: dict[int, JsonObject] = {}
        for applied in self._together(schema):
            for name, each in (as_object(applied.get("properties")) or {}).items():
                if (inner := as_object(each)) is not None:
                    counted.setdefault(name, Counter())[id(inner)] += 1
                    schemas[id(inner)] = inner
            for key in _MEMBERS:
                value = applied.get(key)
                if key == "patternProperties":
                    value = list((as_object(value) or {}).values())
                for inner in _schemas(value):
                    counted[_ANY][id(inner)] += 1
                    schemas[id(inner)] = inner
        rest = counted[_ANY]
        return {
            name: {
                each: (schemas[each], times) for each, times in (own if name == _ANY else own + rest).items()
            }
            for name, own in counted.items()
        }


def _unquote(fragment: str) -> str:
    """Return a URL fragment as text; `urllib` could do I/O, and is not allowed in the pure layers."""
    return _ESCAPED.sub(
        lambda match: bytes.fromhex(match[0].replace("%", "")).decode("utf-8", "replace"), fragment
    )


def _schemas(value: Any) -> Iterator[JsonObject]:
    """Return the schemas in a keyword's value, which is one or a list of them; true and false cost nothing."""
    for each in as_list(value) or [value]:
        if (schema := as_object(each)) is not None:
            yield schema


MAX_TEXT = 2**21
"""The maximum length of a schema."""
MAX_GROWN = 2**17
"""The maximum growth of a recursive schema's work with the levels of a value."""


class Fault(NamedTuple):
    """One violation of a schema."""

    place: Place
    keyword: str
    message: str
    """What the validator says."""
    sentence: str = ""
    """The violation of a call's parameters as a sentence."""

    @property
    def text(self) -> str:
        """The sentence; where there is none, the place and what the validator says."""
        return self.sentence or f"{pointer.join(self.place)[1:] or 'arguments'}: {self.message}"


@lru_cache(maxsize=4_096)
def validator(schema_text: str) -> Any:
    """Return the validator of a schema given as JSON text; raise `UsageError` if it is invalid, or expands too far."""
    _bounds(schema_text)
    try:
        # Offline: a remote schema would need I/O, and could change.
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
    """Return the validator of a schema in which these members may be anything, and the growth of its work."""
    return _relaxed(schema_text, unchecked), _bounds(schema_text).growth


def _relaxed(schema_text: str, unchecked: frozenset[str]) -> Any:
    schema = as_object(orjson.loads(schema_text)) if unchecked else None
    if schema is None:
        return validator(schema_text)
    properties = {**(as_object(schema.get("properties")) or {}), **dict.fromkeys(sorted(unchecked), True)}
    return validator(orjson.dumps({**schema, "properties": properties}).decode())


def find_check(schema_text: str, unchecked: frozenset[str]) -> Callable[[Any], bool] | None:
    """Return the function that says whether a value satisfies a schema; None where only `faults` can tell.

    It raises `ValueError` for a value that is not JSON.
    """
    try:
        compiled, growth = _prepared(schema_text, unchecked)
    except UsageError:  # an invalid schema matches nothing
        return None
    return compiled.is_valid if growth <= 1 else None


def faults(schema_text: str, value: Any, unchecked: frozenset[str] = frozenset()) -> list[Fault]:
    """Return every violation of a schema; the members in `unchecked` may be anything."""
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
            fault_sentence(tuple(error.instance_path), error.kind, error.instance),
        )
        for error in compiled.iter_errors(value)
    ]


def _is_shallow(value: Any, growth: int) -> bool:
    """Return whether a value has few enough levels for work that grows with each of them."""
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
