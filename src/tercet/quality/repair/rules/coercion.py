"""Giving an output the form that its schema asks for, where there is only one way to do so.

A number that was written as text becomes one, a default is filled in, a word of a list gets its spelling, a member that
the schema does not know is taken out. Nothing is guessed: where there are two ways, none is taken.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import orjson

from tercet.contracts.shape import JsonObject, as_list, as_object
from tercet.contracts.values import pointer
from tercet.contracts.values.pointer import value_at
from tercet.contracts.values.references import Place
from tercet.policy.schemas import Fault, faults
from tercet.quality.repair.materials import Materials, only
from tercet.quality.repair.regions import Edit, splice
from tercet.quality.verification.locations import Location

_ROUNDS = 8
"""One repaired fault may uncover another, so often."""
_MOST_REFERENCES = 32
_INTEGER = re.compile(r"[+-]?[0-9]{1,15}")
_NUMBER = re.compile(r"[+-]?(?:[0-9]{1,15}|[0-9]{1,3}(?:,[0-9]{3}){1,4})(?:\.[0-9]{1,9})?")
_BOOLEANS = {"true": True, "yes": True, "false": False, "no": False}


def coerce(output: JsonObject, place: Location | None, materials: Materials) -> tuple[Edit, ...]:
    """Edits that give what is at a place, or the whole output, its form; none unless all of it can be given."""
    if materials.schema is None:
        return ()
    text = orjson.dumps(materials.schema).decode()
    edits: list[Edit] = []
    for _ in range(_ROUNDS):
        found = [fault for fault in faults(text, output) if _concerns(fault, place)]
        if not found:
            return tuple(edits)
        new = list(_find_edits(output, found, materials))
        if not new:
            return ()
        for edit in new:
            output = splice(output, edit)
        edits += new
    return ()


def _concerns(fault: Fault, place: Location | None) -> bool:
    if place is None or not place.pointer:
        return True
    at = pointer.join(fault.place)
    if at == place.pointer or at.startswith(f"{place.pointer}/"):
        return True
    # A member that is missing, or should be, is the fault of what holds it.
    holder, _, name = place.pointer.rpartition("/")
    return at == holder and fault.keyword in ("required", "additionalProperties") and name in fault.message


def _find_edits(output: JsonObject, found: list[Fault], materials: Materials) -> Iterator[Edit]:
    seen: set[str] = set()
    for fault in found:
        for edit in _find_fault_edits(output, fault, materials):
            # One change of a place at a time: the next round sees what is left.
            if edit.region.pointer not in seen:
                seen.add(edit.region.pointer)
                yield edit


def _find_fault_edits(output: JsonObject, fault: Fault, materials: Materials) -> Iterator[Edit]:
    at = pointer.join(fault.place)
    schema = _part(materials.schema or {}, fault.place)
    value = value_at(output, at)
    match fault.keyword:
        case "required":
            yield from _fill_missing(at, value, schema, materials)
        case "additionalProperties":
            yield from _prune(at, value, schema)
        case "type" | "enum" | "const":
            new = _coerce_value(value, schema)
            if new is not None:
                yield Edit(region=Location(pointer=at), replacement=new)
        case _:
            return


def _fill_missing(at: str, value: Any, schema: JsonObject, materials: Materials) -> Iterator[Edit]:
    members = as_object(value) or {}
    properties = as_object(schema.get("properties")) or {}
    for name in as_list(schema.get("required")) or ():
        if isinstance(name, str) and name not in members:
            new = _unambiguous(name, _dereference(materials.schema or {}, properties.get(name)), materials)
            if new is not None:
                yield Edit(region=Location(pointer=at + pointer.join([name])), replacement=new)


def _unambiguous(name: str, schema: JsonObject, materials: Materials) -> Any:
    """The only value that a missing member can have: what the schema says, or what all evidence says."""
    if "default" in schema:
        return schema["default"]
    if "const" in schema:
        return schema["const"]
    choices = as_list(schema.get("enum")) or []
    if len(choices) == 1:
        return choices[0]
    found = only(materials.members(name))
    if found is None or not faults(orjson.dumps(schema).decode(), found):
        return found
    return _coerce_value(found, schema)


def _prune(at: str, value: Any, schema: JsonObject) -> Iterator[Edit]:
    known = as_object(schema.get("properties")) or {}
    patterns = as_object(schema.get("patternProperties"))
    if patterns:
        return  # which names they allow is for the validator to say, whose patterns are not Python's
    for name in as_object(value) or {}:
        if name not in known:
            yield Edit(region=Location(pointer=at + pointer.join([name])), is_removal=True)


def _coerce_value(value: Any, schema: JsonObject) -> Any:
    """Return the value in the form that the schema asks for; None if there is none, or more than one."""
    if "const" in schema:
        return schema["const"]
    choices = as_list(schema.get("enum"))
    if choices is not None:
        return _match_spelling(value, choices)
    kinds = schema.get("type")
    names = as_list(kinds) or [kinds]
    found = [new for kind in names if (new := _as_kind(value, kind)) is not None]
    return found[0] if len(found) == 1 else None


def _match_spelling(value: Any, choices: list[Any]) -> Any:
    if not isinstance(value, str):
        return None
    same = [choice for choice in choices if isinstance(choice, str) and _plain(choice) == _plain(value)]
    return same[0] if len(same) == 1 else None


def _plain(word: str) -> str:
    return re.sub(r"[\s_-]+", " ", word.strip().casefold())


def _as_kind(value: Any, kind: Any) -> Any:
    match kind:
        case "integer":
            return _as_integer(value)
        case "number":
            return _as_number(value)
        case "boolean":
            return _BOOLEANS.get(value.strip().casefold()) if isinstance(value, str) else None
        case "string":
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            return orjson.dumps(value).decode() if is_number else None
        case "array":
            is_scalar = isinstance(value, str | int | float)
            return [value] if is_scalar else None
        case _:
            return None


def _as_integer(value: Any) -> int | None:
    if isinstance(value, float):
        return int(value) if value.is_integer() else None
    text = value.strip() if isinstance(value, str) else ""
    return int(text) if _INTEGER.fullmatch(text) else None


def _as_number(value: Any) -> float | int | None:
    text = value.strip() if isinstance(value, str) else ""
    if not _NUMBER.fullmatch(text):
        return None
    plain = text.replace(",", "")
    return float(plain) if "." in plain else int(plain)


def _part(schema: JsonObject, place: Place) -> JsonObject:
    """The schema of what is at a place, as far as `properties`, `items` and local references lead there."""
    part = _dereference(schema, schema)
    for token in place:
        inside = as_object(part.get("properties")) or {}
        if isinstance(token, str):
            part = _dereference(schema, inside.get(token, part.get("additionalProperties")))
            continue
        listed = as_list(part.get("prefixItems")) or []
        part = _dereference(schema, listed[token] if token < len(listed) else part.get("items"))
    return part


def _dereference(schema: JsonObject, part: Any) -> JsonObject:
    for _ in range(_MOST_REFERENCES):
        found = as_object(part) or {}
        reference = found.get("$ref")
        if not isinstance(reference, str) or not reference.startswith("#"):
            return found
        part = value_at(schema, reference[1:])
    return {}
