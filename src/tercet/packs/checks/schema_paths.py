"""What a JSON Schema says about the fields of a value. None means that it leaves the question open."""

from __future__ import annotations

from tercet.contracts import pointer
from tercet.contracts.shape import JsonObject, as_object

_OPEN = ("anyOf", "oneOf", "allOf", "not", "if", "patternProperties", "propertyNames", "$dynamicRef")
_MAX_HOPS = 8

ANY_ITEM = "*"


def fields_of(schema: JsonObject) -> tuple[str, ...] | None:
    """The fields that an object of this schema has; None if the schema does not list them all in one place."""
    found = dereferenced(schema, schema)
    if found is None or any(word in found for word in _OPEN) or _takes_more(found):
        return None
    return tuple(map(str, as_object(found.get("properties", {})) or {}))


def named_fields(schema: JsonObject) -> tuple[str, ...] | None:
    """The fields that a schema names; None also where it names none and forbids none, which says nothing."""
    found = dereferenced(schema, schema) or {}
    is_silent = "properties" not in found and found.get("additionalProperties") is None
    return None if is_silent else fields_of(schema)


def missing_field(schema: JsonObject, where: str) -> str | None:
    """The first field on the way of a pointer that a value of this schema cannot have; None if it may have all."""
    current: JsonObject | None = schema
    for token in pointer.parts(where):
        current = dereferenced(schema, current)
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


def _takes_more(schema: JsonObject) -> bool:
    """Whether a schema says that there may be other fields; by silence, JSON Schema allows them and authors do not."""
    return schema.get("additionalProperties") not in (None, False)


def dereferenced(root: JsonObject, schema: JsonObject | None) -> JsonObject | None:
    """The schema behind local references; None where it cannot be told."""
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
