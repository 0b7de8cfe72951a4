"""The JSON Schema that constrains a model's answer: a plan made of the available tools.

Each step is one of the tools, with that tool's own parameters. A value is a literal that the tool's schema allows, or a
reference. In a parameter that carries authority it is a reference to a trusted source, or one of the trusted values; of
a sentence these are the entities that fit the parameter. A model constrained by the schema cannot invent an argument.

Only the common subset of providers' strict modes and grammar converters is used: objects whose properties are all
required and that take no others, `anyOf`, `enum`, `items`, bounds of lists and of whole numbers, `$defs`. So an
optional parameter is one that may be null, and reading the answer drops it. A tool's own string length is passed on, if
it has one.

The schema is a help and never a guarantee: the critic judges whatever comes back.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from tercet.contracts.shape import JsonObject, as_list, as_object
from tercet.contracts.tool import ToolSpec
from tercet.contracts.values.references import Place
from tercet.contracts.values.trust import scalar
from tercet.planner.sentences import Assignment, offered_values
from tercet.planner.sources import (
    MAX_VALUES,
    Source,
    find_sources,
    is_whole,
    trusted_values,
    type_of,
    types_in,
)

_NULL: JsonObject = {"type": "null"}
_ARRAY, _OBJECT, _BOOLEAN = frozenset({"array"}), frozenset({"object"}), frozenset({"boolean"})
_SCALARS = frozenset({"string", "number", "integer", "boolean"})
_MAX_ITEMS = 16
_MAX_DEPTH = 6
"""The maximum nesting of a literal; providers allow ten levels in total."""
_BOUNDS = {
    "string": ("minLength", "maxLength"),
    "integer": ("minimum", "maximum"),
    "array": ("minItems", "maxItems"),
}


def answer_schema(assignment: Assignment) -> JsonObject:
    """Return the schema of a plan for an assignment."""
    return _Writer(assignment).write()


def params_schema(tool: ToolSpec) -> JsonObject:
    """Return the schema of a tool's parameters as literals, in the common subset."""
    defined = as_object(tool.parameters.get("$defs")) or {}
    return _literal(_inlined(tool.parameters, defined)) or object_schema({})


def without_nulls(tool: ToolSpec, params: JsonObject) -> JsonObject:
    """Return parameters without the optional ones that are null in place of being omitted."""
    schemas = as_object(tool.parameters.get("properties")) or {}
    required = as_list(tool.parameters.get("required")) or []
    return {
        name: value
        for name, value in params.items()
        if value is not None
        or name in required
        or name not in schemas
        or not means_nothing_as_null(schemas[name])
    }


def means_nothing_as_null(schema: Any) -> bool:
    """Return whether null in an optional parameter means the same as omitting it: it may not be null, or null is its
    default.
    """
    members, types = as_object(schema) or {}, types_in(schema)
    is_default = "default" in members and members["default"] is None
    return is_default or (bool(types) and "null" not in types)


class Slot(NamedTuple):
    """A place in the parameters of a tool that takes an authority value."""

    tool: ToolSpec
    place: Place

    def part(self, token: str | int) -> Slot:
        """Return the place of a member or an item."""
        return Slot(self.tool, (*self.place, token))


class _Writer:
    """Writes one schema, with shared lists under `$defs`."""

    def __init__(self, assignment: Assignment) -> None:
        self._assignment = assignment
        self._sources = find_sources(assignment)
        self._is_whole = is_whole(assignment)
        self._values = trusted_values(assignment)
        self._defs: dict[str, JsonObject] = {}

    def write(self) -> JsonObject:
        steps: JsonObject = {
            "type": "array",
            "items": _any_of([self._step(tool) for tool in self._assignment.tools.values()]),
            "minItems": 0 if self._assignment.is_partial else 1,
            "maxItems": self._assignment.max_steps,
        }
        members = {"steps": steps}
        if self._assignment.outputs:
            members["outputs"] = object_schema(
                {name: self._output(name) for name in self._assignment.outputs}
            )
        plan = object_schema(members)
        return {**plan, "$defs": dict(sorted(self._defs.items()))} if self._defs else plan

    def _step(self, tool: ToolSpec) -> JsonObject:
        members: JsonObject = {"tool": {"type": "string", "enum": [tool.name]}, "params": self._params(tool)}
        if evidence := [entry.id for entry in self._assignment.evidence]:
            wanted = {"type": "array", "items": {"type": "string", "enum": evidence}}
            members["evidence_refs"] = {**wanted, "maxItems": min(len(evidence), _MAX_ITEMS)}
        return object_schema(members)

    def _params(self, tool: ToolSpec) -> JsonObject:
        defined = as_object(tool.parameters.get("$defs")) or {}
        required = as_list(tool.parameters.get("required")) or []
        members: JsonObject = {}
        for name, schema in (as_object(tool.parameters.get("properties")) or {}).items():
            bound = Slot(tool, (name,)) if name in tool.authority_parameters else None
            value = self._value(_inlined(schema, defined), bound)
            is_left_out = name not in required and {"type": "null"} not in value
            members[name] = _any_of([*value, _NULL] if is_left_out else value)
        return object_schema(members)

    def _value(self, schema: JsonObject, bound: Slot | None) -> list[JsonObject]:
        """Return the schemas of a value: literals, or references to something of its type. `bound` is the place of an
        authority value.
        """
        types = types_in(schema)
        literal = _literal(schema) if bound is None else self._trusted(schema, bound)
        ways = [literal] if literal is not None else []
        ways += self._references(types, is_bound=bound is not None)
        return ways or [self._any_reference()]

    def _trusted(self, schema: JsonObject, slot: Slot) -> JsonObject | None:
        """Return the schema of the trusted values that fit; None if there are none."""
        types = types_in(schema) - {"null"}
        options = as_list(schema.get("anyOf")) or as_list(schema.get("oneOf"))
        if options and not types.isdisjoint(_ARRAY | _OBJECT):
            ways = [self._trusted(as_object(option) or {}, slot) for option in options if option != _NULL]
            found = [way for way in ways if way is not None]
            return _any_of(found) if found else None
        if types == _ARRAY:
            item = self._trusted(as_object(schema.get("items")) or {}, slot.part(0))
            return None if item is None else {**_bounded(schema, "array"), "items": item}
        if types == _OBJECT:
            return self._trusted_object(schema, slot)
        allowed = as_list(schema.get("enum"))
        named = offered_values(self._assignment, slot.tool, slot.place)
        listed: dict[Any, Any] = {(type(value), scalar(value)): value for value in (*named, *self._values)}
        fitting = [
            value
            for value in listed.values()
            if (not types or types & type_of(value)) and (allowed is None or value in allowed)
        ]
        return {"enum": fitting[:MAX_VALUES]} if fitting else None

    def _trusted_object(self, schema: JsonObject, slot: Slot) -> JsonObject | None:
        members: JsonObject = {}
        for name, part in (as_object(schema.get("properties")) or {}).items():
            ways = self._value(as_object(part) or {}, slot.part(name))
            is_left_out = name not in (as_list(schema.get("required")) or [])
            members[name] = _any_of([*ways, _NULL] if is_left_out else ways)
        return object_schema(members) if members else None

    def _output(self, name: str) -> JsonObject:
        """Return the schema of an output's source; only enumerated words may be literals."""
        declared = as_object(self._assignment.spec.outputs_schema) or {}
        defined = as_object(declared.get("$defs")) or {}
        schema = _inlined((as_object(declared.get("properties")) or {}).get(name), defined)
        types = types_in(schema)
        is_word = "enum" in schema or "const" in schema or types == _BOOLEAN
        ways: list[JsonObject] = []
        if is_word and (literal := _literal(schema)) is not None:
            ways.append(literal)
        ways += self._references(types, is_bound=False)
        return _any_of(ways or [self._any_reference()])

    # --- references ---

    def _references(self, types: frozenset[str], *, is_bound: bool) -> list[JsonObject]:
        """Return the schemas of the references that a value of these types can use."""
        if not self._is_whole:
            return [self._any_reference(), *self._listed("$evidence", types, is_bound=is_bound)]
        return [
            *self._listed("$from", types, is_bound=is_bound),
            *self._listed("$evidence", types, is_bound=is_bound),
        ]

    def _listed(self, key: str, types: frozenset[str], *, is_bound: bool) -> list[JsonObject]:
        found = [
            source.text
            for source in self._sources
            if source.key == key and _fits(source, types) and (source.is_trusted or not is_bound)
        ]
        if not found:
            return []
        kind = "_".join(sorted(types)) or "any"
        name = f"{key.removeprefix('$')}_{kind}{'_trusted' if is_bound else ''}"
        self._defs[name] = object_schema({key: {"type": "string", "enum": found}})
        return [{"$ref": f"#/$defs/{name}"}]

    def _any_reference(self) -> JsonObject:
        """Return the schema of an unchecked reference: if the sources cannot be listed, or none of them fits."""
        self._defs["from"] = object_schema({"$from": {"type": "string"}})
        return {"$ref": "#/$defs/from"}


def _fits(source: Source, types: frozenset[str]) -> bool:
    return not types or not source.types or bool(source.types & types)


def object_schema(members: JsonObject) -> JsonObject:
    """Return the schema of an object that has exactly these members."""
    return {
        "type": "object",
        "properties": members,
        "required": list(members),
        "additionalProperties": False,
    }


def _any_of(ways: Iterable[JsonObject]) -> JsonObject:
    listed = list(ways)
    return listed[0] if len(listed) == 1 else {"anyOf": listed}


def _bounded(schema: JsonObject, kind: str) -> JsonObject:
    """Return a type with the bounds of the schema."""
    bounds = {name: schema[name] for name in _BOUNDS.get(kind, ()) if type(schema.get(name)) is int}
    if kind == "array":
        bounds["maxItems"] = min(bounds.get("maxItems", _MAX_ITEMS), _MAX_ITEMS)
        bounds["minItems"] = min(bounds.get("minItems", 0), bounds["maxItems"])
    return {"type": kind, **bounds}


def _literal(schema: JsonObject, depth: int = 0) -> JsonObject | None:
    """Return a tool's schema in the common subset; None if that cannot express it, or not at this depth."""
    if "const" in schema:
        return {"enum": [schema["const"]]}
    if as_list(schema.get("enum")):
        return {"enum": schema["enum"]}
    if (parts := as_list(schema.get("anyOf")) or as_list(schema.get("oneOf"))) is not None:
        ways = [_literal(as_object(part) or {}, depth) for part in parts]
        return _any_of([way for way in ways if way is not None]) if any(ways) else None
    kinds = sorted(types_in(schema))
    ways = [_of_kind(schema, kind, depth) for kind in kinds]
    found = [way for way in ways if way is not None]
    if not kinds:
        return {"anyOf": [{"type": kind} for kind in sorted(_SCALARS - {"integer"})]}
    return _any_of(found) if found else None


def _of_kind(schema: JsonObject, kind: str, depth: int) -> JsonObject | None:
    if kind in _SCALARS or kind == "null":
        return _bounded(schema, kind)
    if depth >= _MAX_DEPTH:
        return None
    if kind == "array":
        item = _literal(as_object(schema.get("items")) or {}, depth + 1)
        return None if item is None else {**_bounded(schema, kind), "items": item}
    required = as_list(schema.get("required")) or []
    members: JsonObject = {}
    for name, part in (as_object(schema.get("properties")) or {}).items():
        literal = _literal(as_object(part) or {}, depth + 1)
        if literal is None:
            return None
        members[name] = literal if name in required else _any_of([literal, _NULL])
    return object_schema(members) if members else None


def _inlined(schema: Any, defined: JsonObject, depth: int = 0) -> JsonObject:
    """Return a schema with its local definitions inlined; a recursive one is cut off at some depth."""
    members = as_object(schema) or {}
    if depth > _MAX_DEPTH:
        return {}
    target = members.get("$ref")
    if isinstance(target, str):
        found = defined.get(target.removeprefix("#/$defs/"))
        return _inlined(found, defined, depth + 1)
    return {key: _inlined_member(key, value, defined, depth) for key, value in members.items()}


def _inlined_member(key: str, value: Any, defined: JsonObject, depth: int) -> Any:
    if key == "properties":
        named = as_object(value) or {}
        return {name: _inlined(part, defined, depth + 1) for name, part in named.items()}
    if key == "items":
        return _inlined(value, defined, depth + 1)
    if key in ("anyOf", "oneOf"):
        return [_inlined(part, defined, depth) for part in as_list(value) or []]
    return value
