"""Outputs in the form that their schema asks for, where there is exactly one. Nothing is guessed."""

from __future__ import annotations

import re
from typing import Any

import orjson

from tercet.contracts.shape import JsonObject, as_list, as_object
from tercet.contracts.values import pointer
from tercet.contracts.values.pointer import value_at
from tercet.policy.schemas import faults
from tercet.quality.repair.losses import Materials
from tercet.quality.repair.regions import Edit, is_there, splice
from tercet.quality.verification.locations import Location

_MOST_REFERENCES = 32
_INTEGER = re.compile(r"[+-]?[0-9]{1,15}")
_NUMBER = re.compile(r"[+-]?(?:[0-9]{1,15}|[0-9]{1,3}(?:,[0-9]{3}){1,4})(?:\.[0-9]{1,9})?")
_BOOLEANS = {"true": True, "yes": True, "false": False, "no": False}


def coerce(output: JsonObject, place: Location | None, materials: Materials) -> tuple[Edit, ...]:
    """Return the edit that gives what is at a place, or the whole output, its form; none unless all of it can be given."""
    root, at = materials.schema, place.pointer if place else ""
    part = _part(root or {}, at)
    if root is None or (part is None and not is_there(output, at)):
        return ()
    value = value_at(output, at)
    new = None if part is None else _fit(root, part, value) if is_there(output, at) else _only_choice(part)
    edit = Edit(region=Location(at), replacement=new, is_removal=part is None)
    if part is not None and (new is None or orjson.dumps(new) == orjson.dumps(value)):
        return ()
    left = (pointer.join(fault.place) for fault in faults(orjson.dumps(root).decode(), splice(output, edit)))
    return () if any(f"{each}/".startswith(f"{at}/") for each in left) else (edit,)


def _fit(root: JsonObject, schema: Any, value: Any) -> Any:
    """Return a value in the form of its schema, as far as that is clear."""
    part = _dereference(root, schema)
    if (items := as_list(value)) is not None:
        listed = as_list(part.get("prefixItems")) or []
        return [
            _fit(root, listed[at] if at < len(listed) else part.get("items"), item)
            for at, item in enumerate(items)
        ]
    if (members := as_object(value)) is None:
        return _coerce_value(value, part)
    known = as_object(part.get("properties")) or {}
    kept = {
        name: _fit(root, known.get(name), member)
        for name, member in members.items()
        if name in known or not _is_closed(part)
    }
    required = (name for name in as_list(part.get("required")) or () if name not in members)
    filled = {name: _only_choice(_dereference(root, known.get(name))) for name in required}
    return kept | {name: new for name, new in filled.items() if new is not None}


def _is_closed(part: JsonObject) -> bool:
    """Return whether other members than its own are a fault; which names patterns allow is for the validator to say."""
    return part.get("additionalProperties") is False and not part.get("patternProperties")


def _only_choice(part: JsonObject) -> Any:
    """Return the only value that the schema leaves a missing member; None if there are several."""
    choices = as_list(part.get("enum")) or []
    return part.get("default", part.get("const", choices[0] if len(choices) == 1 else None))


def _coerce_value(value: Any, part: JsonObject) -> Any:
    """Return a scalar in the form that its schema asks for; as it is, if there is none, or more than one."""
    if "const" in part:
        return part["const"]
    if (choices := as_list(part.get("enum"))) is not None:
        same = [each for each in choices if isinstance(each, str) and _plain(each) == _plain(str(value))]
        return same[0] if len(same) == 1 and isinstance(value, str) else value
    kinds = as_list(part.get("type")) or [part.get("type")]
    if kinds == [None] or not faults(orjson.dumps({"type": kinds}).decode(), value):
        return value
    found = [new for kind in kinds if (new := _as_kind(value, kind)) is not None]
    return found[0] if len(found) == 1 else value


def _plain(word: str) -> str:
    return re.sub(r"[\s_-]+", " ", word.strip().casefold())


def _as_kind(value: Any, kind: Any) -> Any:
    text = value.strip() if isinstance(value, str) else ""
    match kind:
        case "integer":
            return int(text) if _INTEGER.fullmatch(text) else None
        case "number":
            plain = text.replace(",", "") if _NUMBER.fullmatch(text) else ""
            return (float(plain) if "." in plain else int(plain)) if plain else None
        case "boolean":
            return _BOOLEANS.get(text.casefold())
        case "string":
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            return orjson.dumps(value).decode() if is_number else None
        case "array":
            return [value] if isinstance(value, str | int | float) else None
        case _:
            return None


def _part(root: JsonObject, at: str) -> JsonObject | None:
    """Return the schema of what is at a place, as far as `properties`, `items` and local references lead there; None for a
    member that is a fault."""
    part = _dereference(root, root)
    for token in pointer.parts(at):
        inside = as_object(part.get("properties")) or {}
        listed = as_list(part.get("prefixItems")) or []
        if token in inside:
            inner = inside[token]
        elif token.isdecimal() and ("items" in part or listed):
            inner = listed[int(token)] if int(token) < len(listed) else part.get("items")
        elif _is_closed(part):
            return None
        else:
            inner = part.get("additionalProperties")
        part = _dereference(root, inner)
    return part


def _dereference(root: JsonObject, part: Any) -> JsonObject:
    for _ in range(_MOST_REFERENCES):
        found = as_object(part) or {}
        reference = found.get("$ref")
        if not isinstance(reference, str) or not reference.startswith("#"):
            return found
        part = value_at(root, reference[1:])
    return {}
