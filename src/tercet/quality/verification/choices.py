"""Values of an output that are chosen out of a few words: they state nothing that a source could bear out.

`language: en` and `priority: HIGH` say what was decided. Evidence may contradict such a value; where it says nothing,
nothing is wrong.
"""

from __future__ import annotations

import re

from tercet.contracts import pointer
from tercet.contracts.quality import Claim
from tercet.contracts.shape import JsonObject, as_object
from tercet.quality.verification.locations import parse_location

_WORD = re.compile(r"[A-Za-z ]+: [A-Za-z]+(?:[_-][A-Za-z]+)*")
_MOST_REFERENCES = 16


def is_choice(claim: Claim, schema: JsonObject | None = None) -> bool:
    """Whether a claim is a value that the schema lists, or a single word without figures."""
    return is_listed(claim, schema) or (_is_member(claim) and _WORD.fullmatch(claim.text) is not None)


def is_listed(claim: Claim, schema: JsonObject | None) -> bool:
    """Whether a claim is a value that the schema lists: one of an enumeration, or a constant."""
    if schema is None or not _is_member(claim):
        return False
    found = _schema_at(schema, pointer.parts(parse_location(claim.location).pointer))
    return "enum" in found or "const" in found


def _is_member(claim: Claim) -> bool:
    return parse_location(claim.location).start is None


def _schema_at(schema: JsonObject, tokens: tuple[str, ...]) -> JsonObject:
    """The schema of a member, as far as properties, items and references lead; empty if they do not."""
    found = _resolve(schema, schema)
    for token in tokens:
        named = as_object((as_object(found.get("properties")) or {}).get(token))
        found = _resolve(schema, named or as_object(found.get("items")) or {})
    return found


def _resolve(root: JsonObject, schema: JsonObject) -> JsonObject:
    for _ in range(_MOST_REFERENCES):
        reference = schema.get("$ref")
        if not isinstance(reference, str) or not reference.startswith("#/"):
            return schema
        try:
            schema = as_object(pointer.follow(root, reference[1:])) or {}
        except pointer.PointerError:
            return {}
    return {}
