"""What a tool is really called with: the defaults that its schema declares, and one spelling for equal values.

Two calls are the same action if their tool receives the same values, however the plan writes them. The defaults and formats
come from the tool's JSON Schema; what a schema does not declare is compared as written.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any, cast

from pydantic import TypeAdapter

from tercet.contracts import pointer
from tercet.contracts.shape import JsonObject, as_list, as_object
from tercet.contracts.tool import ToolSpec

MAX_DEPTH = 64
"""How deep values are looked into; what nests deeper is compared as written."""
MAX_NESTED_DEFAULTS = 2
"""How many defaults may be filled in inside one another: a schema may refer to itself."""
MAX_OPTIONS = 50
"""How many alternatives of a schema are looked at."""

_NO_SCHEMA: JsonObject = {}
_NUMBERS = frozenset({"number", "integer"})
_ALTERNATIVES = ("allOf", "anyOf", "oneOf")
_COMPOSING = frozenset({"$ref", *_ALTERNATIVES})


def identity_params(tool: ToolSpec, params: dict[str, Any], *, is_strict: bool = True) -> dict[str, Any]:
    """Return the parameters that say which action a call is.

    Those are the declared ones. Without any, they are the authority parameters if one of them is a number: two payments
    are not told apart by their memo. Else they are all: two messages to one person are told apart by their text. Under
    earlier rules the authority parameters were enough in both cases.
    """
    names = tool.identity or tool.authority
    if not names or (is_strict and not tool.identity and not any(_is_number(tool, name) for name in names)):
        return params
    return {name: params.get(name) for name in names}


def repeat_params(tool: ToolSpec, params: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters by which a call repeats one of another run, spelled so that equal values are equal."""
    compared = canonical_params(tool, params)
    names = tool.once_per.identity if tool.once_per else ()
    return {name: compared.get(name) for name in names} if names else identity_params(tool, compared)


def _is_number(tool: ToolSpec, name: str) -> bool:
    """Whether the schema of a tool allows numbers for a parameter; one that names no type allows them."""
    types = _Walk(tool.parameters, spell=_spell).types_of(name)
    return not types or not types.isdisjoint(_NUMBERS)


def effective_params(tool: ToolSpec, params: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters with the defaults that the tool's schema declares, at every level."""
    return _Walk(tool.parameters, spell=lambda _, value: value).of_object(params)


def canonical_params(tool: ToolSpec, params: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters with declared defaults filled in and equal values spelled alike, to compare calls by.

    The tool itself is called with the parameters as they were written.
    """
    return _Walk(tool.parameters, spell=_spell).of_object(params)


def keeps_text(tool: ToolSpec, name: str) -> bool:
    """Whether texts for a parameter that are written differently are different values to its tool."""
    walk = _Walk(tool.parameters, spell=_spell)
    return _is_spelled_as_written(walk.options_of(name))


def defaults_in(params: JsonObject, effective: JsonObject) -> tuple[str, ...]:
    """Return the JSON Pointers of the values that `effective_params` has filled in."""
    return tuple(map(pointer.join, _added(params, effective)))


def _added(before: Any, after: Any) -> Iterator[tuple[str | int, ...]]:
    old, new = as_object(before), as_object(after)
    if old is not None and new is not None:
        for name, value in new.items():
            inner = _added(old[name], value) if name in old else iter([()])
            yield from ((name, *rest) for rest in inner)
    for index, pair in enumerate(zip(as_list(before) or (), as_list(after) or (), strict=False)):
        yield from ((index, *rest) for rest in _added(*pair))


class _Walk:
    """Goes through values and their schema side by side."""

    def __init__(self, root: JsonObject, *, spell: Callable[[list[JsonObject], Any], Any]) -> None:
        self._root = root
        self._spell = spell

    def of_object(self, params: dict[str, Any]) -> dict[str, Any]:
        return self._members(self._options(self._root), params, MAX_DEPTH, MAX_NESTED_DEFAULTS)

    def options_of(self, name: str) -> list[JsonObject]:
        """Return what the schema says about a parameter."""
        declared = as_object(_only(o["properties"] for o in self._options(self._root) if "properties" in o))
        return self._options((declared or {}).get(name, _NO_SCHEMA))

    def types_of(self, name: str) -> set[Any]:
        """Return the JSON types that the schema names for a parameter."""
        found = (as_object(option.get("properties")) or {} for option in self._options(self._root))
        schemas = [declared[name] for declared in found if name in declared]
        types = (kind for each in schemas for option in self._options(each) for kind in _types(option))
        return {kind for kind in types if kind is not None}

    def _value(self, schema: Any, value: Any, depth: int, defaults: int) -> Any:
        if depth == 0 or not schema:  # nothing is declared about it, and it may be large
            return value
        options = self._options(schema)
        if (members := as_object(value)) is not None:
            return self._members(options, members, depth - 1, defaults)
        if (items := as_list(value)) is not None:
            item = _only(option["items"] for option in options if "items" in option)
            return [self._value(item, each, depth - 1, defaults) for each in items]
        return self._spell(options, value)

    def _members(
        self, options: list[JsonObject], members: JsonObject, depth: int, defaults: int
    ) -> dict[str, Any]:
        declared = as_object(_only(option["properties"] for option in options if "properties" in option))
        declared = declared or {}
        found = {
            name: self._value(declared.get(name, _NO_SCHEMA), value, depth, defaults)
            for name, value in members.items()
        }
        for name, schema in declared.items() if defaults else ():
            if name in members:
                continue
            default = next((each for each in self._options(schema) if "default" in each), None)
            if default is not None:
                found[name] = self._value(schema, default["default"], depth, defaults - 1)
        return found

    def _options(self, schema: Any) -> list[JsonObject]:
        """Return a schema, what it refers to, and its alternatives."""
        if isinstance(schema, dict) and _COMPOSING.isdisjoint(cast("JsonObject", schema)):
            return [cast("JsonObject", schema)]
        found: list[JsonObject] = []
        waiting: list[Any] = [schema]
        while waiting and len(found) < MAX_OPTIONS:
            each = as_object(waiting.pop(0))
            if each is None or each in found:
                continue
            found.append(each)
            if isinstance(ref := each.get("$ref"), str):
                waiting.append(self._target(ref))
            for word in _ALTERNATIVES:
                waiting += as_list(each.get(word)) or ()
        return found

    def _target(self, ref: str) -> Any:
        try:
            return pointer.follow(self._root, ref.removeprefix("#"))
        except pointer.PointerError:  # a schema elsewhere, which is not at hand
            return None


def _only(found: Iterator[Any]) -> Any:
    """Return the only one; None if there are several, of which any might be meant."""
    first = next(found, None)
    return first if next(found, None) is None else None


# --- one spelling for each value ---


def _spell(options: list[JsonObject], value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return value
    types = {kind for option in options for kind in _types(option)}
    if "string" in types and not types.isdisjoint(_NUMBERS):
        return _number_text(value, is_integer="number" not in types)
    if isinstance(value, str):
        for option in options:
            if (spelled := _formatted(option.get("format"), value)) is not None:
                return spelled
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _is_spelled_as_written(options: list[JsonObject]) -> bool:
    types = {kind for option in options for kind in _types(option)}
    is_mixed = "string" in types and not types.isdisjoint(_NUMBERS)
    return not is_mixed and all(option.get("format") not in (*_FORMATS,) for option in options)


def _types(option: JsonObject) -> list[Any]:
    kind = option.get("type")
    return as_list(kind) or [kind]


_INTEGER = re.compile(r"-?(0|[1-9][0-9]*)")


def _number_text(value: str | float, *, is_integer: bool) -> Any:
    """Return a number as text that is the same however it was written; other texts as they are.

    Where only integers are numbers, `"007"` stays a text: it may be a name.
    """
    if isinstance(value, str) and is_integer and not _INTEGER.fullmatch(value):
        return value
    try:
        sign, digits, exponent = Decimal(str(value)).as_tuple()
    except (InvalidOperation, ValueError):  # not a number, or an integer too long to be written
        return value
    if not isinstance(exponent, int):  # not a finite number
        return value
    written = "".join(map(str, digits)).lstrip("0")
    kept = written.rstrip("0")
    return f"{'-' if sign else ''}{kept}e{exponent + len(written) - len(kept)}" if kept else "0"


_DATE, _DATE_TIME = TypeAdapter(date), TypeAdapter(datetime)
_TIME, _DURATION = TypeAdapter(time), TypeAdapter(timedelta)


def _date_time(text: str) -> str:
    found = _DATE_TIME.validate_python(text)
    return (found if found.tzinfo is None else found.astimezone(UTC)).isoformat()


def _uuid(text: str) -> str | None:
    digits = text.lower().removeprefix("urn:uuid:").strip("{}").replace("-", "")
    return digits if re.fullmatch("[0-9a-f]{32}", digits) else None


_FORMATS: dict[str, Callable[[str], str | None]] = {
    "date": lambda text: _DATE.validate_python(text).isoformat(),
    "date-time": _date_time,
    "time": lambda text: _TIME.validate_python(text).isoformat(),
    "duration": lambda text: str(_DURATION.validate_python(text)),
    "uuid": _uuid,
}


def _formatted(name: Any, text: str) -> str | None:
    """Return a text of a format in one spelling; None if the format has none, or the text is not of it."""
    spell = _FORMATS.get(name) if isinstance(name, str) else None
    try:
        return None if spell is None else spell(text)
    except (ValueError, OverflowError):
        return None
