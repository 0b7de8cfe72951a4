"""The effective parameters of a call: defaults from the tool's schema, and one spelling for equal values.

Two calls are the same action if their tool receives the same values, however the plan writes them. The defaults and
formats come from the tool's JSON Schema; what a schema does not declare is compared as written.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal, InvalidOperation
from ipaddress import ip_address
from operator import is_
from types import NoneType
from typing import Any, TypeAlias

from pydantic import TypeAdapter

from tercet.contracts.errors import UsageError
from tercet.contracts.shape import JsonObject, as_list, as_object
from tercet.contracts.tool import ToolSpec
from tercet.contracts.values import pointer
from tercet.contracts.values.references import Place
from tercet.contracts.values.schema_tree import NUMBERS, SchemaNode, SchemaReader, Schemas, SchemaTree
from tercet.policy import schemas

MAX_DEPTH = 64
"""The depth up to which values are normalised; deeper ones are compared as written."""
MAX_NESTED_DEFAULTS = 2
"""The maximum depth of nested defaults: a schema may refer to itself."""


def identity_params(tool: ToolSpec, params: dict[str, Any], *, is_strict: bool = True) -> dict[str, Any]:
    """Return the parameters that identify the action of a call.

    Those are the declared ones. Without any, they are the authority parameters if one of them is a number: two payments
    with different memos are the same action. Else they are all parameters: two messages to one person with different
    texts are different actions. Under earlier rules the authority parameters were used in both cases.
    """
    names = tool.identity or tool.authority
    if not names or (is_strict and not tool.identity and not any(_is_number(tool, name) for name in names)):
        return params
    return {name: params.get(name) for name in names}


def repeat_params(tool: ToolSpec, compared: dict[str, Any]) -> dict[str, Any]:
    """Return the `canonical_params` of a call that identify it across runs."""
    names = tool.once_per.identity if tool.once_per else ()
    return {name: compared.get(name) for name in names} if names else identity_params(tool, compared)


def _is_number(tool: ToolSpec, name: str) -> bool:
    """Return whether the schema of a tool allows numbers for a parameter; one without a type allows them."""
    schema = tool.parameters_schema
    found = (as_object(option.get("properties")) or {} for option in schema.root.options)
    types = {kind for each in found if name in each for kind in schema.node(each[name]).types}
    return not types or not types.isdisjoint(NUMBERS)


def effective_params(tool: ToolSpec, params: dict[str, Any], *, reads_all: bool = True) -> dict[str, Any]:
    """Return the parameters with the defaults that the tool's schema declares, at every level.

    `reads_all` is false under the rules before `Behaviour.SCHEMAS_READ_WHOLE`.
    """
    walk = _Walk if reads_all else _EarlierWalk
    return walk(tool.parameters_schema, spell=lambda _, value: value).of_object(params)


def ruled_params(tool: ToolSpec, params: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters as rules read them: with the declared defaults, except for null, which says no more than to
    leave the parameter out."""
    if not tool.may_have_defaults:
        return params
    return _Walk(tool.parameters_schema, spell=lambda _, value: value, fills_null=False).of_object(params)


def uncertain_defaults(tool: ToolSpec, params: dict[str, Any]) -> tuple[str, ...]:
    """Return the JSON Pointers of the values to which the tool may add other defaults than `effective_params`: the schema
    has alternatives there, and not exactly one accepts the value."""
    if not tool.may_have_defaults:
        return ()
    walk = _Walk(tool.parameters_schema, spell=lambda _, value: value)
    walk.of_object(params)
    return tuple(map(pointer.join, walk.uncertain))


def canonical_params(tool: ToolSpec, params: dict[str, Any], *, reads_all: bool = True) -> dict[str, Any]:
    """Return the parameters with declared defaults filled in and equal values spelled alike, to compare calls by.

    The tool itself is called with the parameters as they were written. `reads_all` is false under the rules before
    `Behaviour.SCHEMAS_READ_WHOLE`.
    """
    schema = tool.parameters_schema
    if (schema.is_flat or not reads_all) and _is_as_written(schema.root, schema.plain, params):
        return params
    if not reads_all:
        return _EarlierWalk(schema, spell=_spell_earlier).of_object(params)
    is_python = tool.adapter == "python"
    return _Walk(schema, spell=_spell, is_compared=True, is_python=is_python).of_object(params)


_AS_WRITTEN = frozenset({str, int, bool, NoneType})


def _is_as_written(root: SchemaNode, plain: frozenset[str], params: dict[str, Any]) -> bool:
    """Return whether no default is filled in, and every value has one spelling only: what most calls are."""
    if root.defaults:
        return False
    for name, value in params.items():
        if type(value) not in _AS_WRITTEN or (name in root.properties and name not in plain):
            return False
    return True


def keeps_spelling(tool: ToolSpec, name: str) -> bool:
    """Return whether differently written texts and integers for a parameter are different values to its tool."""
    schema = tool.parameters_schema
    node = schema.node(schema.root.properties.get(name))
    return schema.is_flat and not node.is_number_or_text and _FORMATS.keys().isdisjoint(node.formats)


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
    """Walks values and their schemas in parallel; unchanged values are returned as they are, and not copied."""

    def __init__(
        self,
        schema: SchemaTree,
        *,
        spell: Callable[[SchemaNode, str | float], Any],
        is_compared: bool = False,
        is_python: bool = False,
        fills_null: bool = True,
    ) -> None:
        self._schema = schema
        self._reader = SchemaReader(schema, _accepts)
        self._spell = spell
        self._is_compared = is_compared
        self._ignores_others = is_compared and is_python
        """Whether members that no schema declares are left out: a Python tool gets a model, which ignores them."""
        self._fills_null = fills_null
        self.uncertain: list[Place] = []
        """The places where not exactly one of a schema's alternatives accepts the value."""

    def of_object(self, params: dict[str, Any]) -> dict[str, Any]:
        return self._members((self._schema.schema,), params, (), MAX_NESTED_DEFAULTS)

    def _value(self, applied: Schemas, value: Any, place: Place, defaults: int) -> Any:
        if len(place) > MAX_DEPTH or not any(applied):  # undeclared, and perhaps large
            return value
        if isinstance(value, (str, int, float)):
            return self._spell(self._schema.node_of(applied), value)
        if (members := as_object(value)) is not None:
            return self._members(applied, members, place, defaults)
        if (items := as_list(value)) is not None:
            return self._items(applied, items, place, defaults)
        return value

    def _members(self, applied: Schemas, members: JsonObject, place: Place, defaults: int) -> dict[str, Any]:
        parts = self._parts(applied, members, place)
        is_model = self._ignores_others and bool(place) and _is_model(parts)
        found = {
            name: self._value(own, value, (*place, name), defaults)
            for name, value in members.items()
            if (own := self._reader.member(parts, name)) or not is_model
        }
        for name, default in self._reader.defaults(parts).items() if defaults else ():
            if name not in members and (default is not None or self._fills_null):
                own = self._reader.member(parts, name)
                found[name] = self._value(own, default, (*place, name), defaults - 1)
        is_same = len(found) == len(members) and all(map(is_, found.values(), members.values()))
        return members if is_same else found

    def _items(self, applied: Schemas, items: list[Any], place: Place, defaults: int) -> list[Any]:
        parts = self._parts(applied, items, place)
        found = [
            self._value(self._reader.item(parts, index), value, (*place, index), defaults)
            for index, value in enumerate(items)
        ]
        if self._is_compared and any(part.get("uniqueItems") is True for part in parts):
            by_text = {json.dumps(each, sort_keys=True): each for each in found}
            found = [by_text[text] for text in sorted(by_text)]
        return items if len(found) == len(items) and all(map(is_, found, items)) else found

    def _parts(self, applied: Schemas, value: Any, place: Place) -> list[JsonObject]:
        parts, is_certain = self._reader.parts(applied, value)
        if not is_certain:
            self.uncertain.append(place)
        return parts


_OF_OTHERS = {
    "additionalProperties", "patternProperties", "unevaluatedProperties", "propertyNames", "dependentSchemas", "if",
}  # fmt: skip


def _is_model(parts: list[JsonObject]) -> bool:
    """Return whether a schema declares members and says nothing of others, as Pydantic writes a model that ignores them."""
    return any("properties" in part for part in parts) and not any(part.keys() & _OF_OTHERS for part in parts)


def _accepts(schema_text: str, value: Any) -> bool:
    try:
        return not schemas.faults(schema_text, value)
    except UsageError:  # an invalid schema matches nothing
        return False


class _EarlierWalk:
    """Walks values as the rules before `Behaviour.SCHEMAS_READ_WHOLE` did: by `properties` and `items` only."""

    def __init__(self, schema: SchemaTree, *, spell: Callable[[SchemaNode, str | float], Any]) -> None:
        self._schema = schema
        self._spell = spell

    def of_object(self, params: dict[str, Any]) -> dict[str, Any]:
        return self._members(self._schema.root, params, MAX_DEPTH, MAX_NESTED_DEFAULTS)

    def _value(self, schema: Any, value: Any, depth: int, defaults: int) -> Any:
        if depth == 0 or not schema:  # undeclared, and perhaps large
            return value
        node = self._schema.node(schema)
        if isinstance(value, (str, int, float)):
            return self._spell(node, value)
        if (members := as_object(value)) is not None:
            return self._members(node, members, depth - 1, defaults)
        if (items := as_list(value)) is not None:
            found = [self._value(node.item, each, depth - 1, defaults) for each in items]
            return items if all(map(is_, found, items)) else found
        return value

    def _members(self, node: SchemaNode, members: JsonObject, depth: int, defaults: int) -> dict[str, Any]:
        declared = node.properties
        found = {
            name: self._value(declared.get(name), value, depth, defaults) for name, value in members.items()
        }
        for name, default in node.defaults.items() if defaults else ():
            if name not in members:
                found[name] = self._value(declared[name], default, depth, defaults - 1)
        is_same = len(found) == len(members) and all(map(is_, found.values(), members.values()))
        return members if is_same else found


# --- one spelling for each value ---


def _spell(node: SchemaNode, value: str | float) -> Any:
    return _spelled(node, value, _FORMATS)


def _spell_earlier(node: SchemaNode, value: str | float) -> Any:
    return _spelled(node, value, _EARLIER_FORMATS)


def _spelled(node: SchemaNode, value: str | float, formats: _Formats) -> Any:
    if isinstance(value, bool):
        return value
    if node.is_number_or_text:
        return _number_text(value, is_integer="number" not in node.types)
    if isinstance(value, str):
        for name in node.formats:
            if (spelled := _formatted(formats.get(name), value)) is not None:
                return spelled
    return int(value) if isinstance(value, float) and value.is_integer() else value


_INTEGER = re.compile(r"-?(0|[1-9][0-9]*)")


def _number_text(value: str | float, *, is_integer: bool) -> Any:
    """Return a number as text that is independent of its spelling; other texts unchanged.

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


def _time(text: str) -> str:
    found = _TIME.validate_python(text)
    if found.tzinfo is None:
        return found.isoformat()
    day = datetime.combine(date(2000, 1, 2), found)  # any day with one before and after it
    return day.astimezone(UTC).timetz().isoformat()


_Formats: TypeAlias = Mapping[str, Callable[[str], str | None]]
_EARLIER_FORMATS: _Formats = {
    "date": lambda text: _DATE.validate_python(text).isoformat(),
    "date-time": _date_time,
    "time": lambda text: _TIME.validate_python(text).isoformat(),
    "duration": lambda text: str(_DURATION.validate_python(text)),
    "uuid": _uuid,
}
_ADDRESSES = ("ipv4", "ipv6", "ipvanyaddress")
_FORMATS: _Formats = {
    **_EARLIER_FORMATS,
    "time": _time,
    **dict.fromkeys(_ADDRESSES, lambda text: str(ip_address(text))),
}


def _formatted(spell: Callable[[str], str | None] | None, text: str) -> str | None:
    """Return a text in its canonical spelling; None if it has none, or the text does not match its format."""
    try:
        return None if spell is None else spell(text)
    except (ValueError, OverflowError):
        return None
