"""A value that a JSON Schema allows, for people to fill in: it shows the shape, and claims nothing."""

from __future__ import annotations

from typing import Any

from tercet.contracts.canonical import canonical
from tercet.contracts.shape import JsonObject, as_list, as_object
from tercet.policy import schemas

_DEEPEST = 6
_SIMPLE: dict[str, Any] = {
    "boolean": False,
    "array": [],
    "null": None,
}


def sample(schema: Any) -> Any:
    """A value that fits a schema; None where none was found, which does not mean that there is none."""
    root = as_object(schema) or {}
    made = _made(root, root, 0)
    fits = not schemas.faults(canonical(root).decode(), made)
    return made if fits else None


def _made(schema: JsonObject, root: JsonObject, depth: int) -> Any:
    if depth > _DEEPEST:
        return None
    for given in ("const", "default"):
        if given in schema:
            return schema[given]
    for listed in ("enum", "examples"):
        if values := as_list(schema.get(listed)):
            return values[0]
    if isinstance(reference := schema.get("$ref"), str):
        return _made(_pointed_at(root, reference), root, depth + 1)
    for choice in ("anyOf", "oneOf", "allOf"):
        if options := as_list(schema.get(choice)):
            return _made(as_object(options[0]) or {}, root, depth + 1)
    return _by_type(schema, root, depth)


def _by_type(schema: JsonObject, root: JsonObject, depth: int) -> Any:
    given: Any = schema.get("type", "object" if "properties" in schema else "string")
    kind = str((as_list(given) or [given])[0])
    if kind == "object":
        members = as_object(schema.get("properties")) or {}
        wanted = as_list(schema.get("required")) or list(members)
        return {str(name): _made(as_object(members.get(str(name))) or {}, root, depth + 1) for name in wanted}
    if kind in ("integer", "number"):
        return schema.get("minimum", 0)
    if kind == "string":
        return "…".ljust(int(schema.get("minLength", 0)), "…")
    return _SIMPLE.get(kind)


def _pointed_at(root: JsonObject, reference: str) -> JsonObject:
    found: Any = root
    for part in reference.removeprefix("#/").split("/"):
        found = (as_object(found) or {}).get(part)
    return as_object(found) or {}
