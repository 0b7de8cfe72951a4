"""Kinds of values. A value may only be used for parameters of its own kind: a row id is not an amount."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from tercet.contracts.shape import JsonObject, as_list, as_object
from tercet.contracts.tool import ToolSpec
from tercet.contracts.values import pointer

Place = tuple[str | int, ...]

_SUGGESTED: tuple[tuple[str, frozenset[str]], ...] = (
    (
        "amount",
        frozenset(["amount", "total", "price", "sum", "cost", "fee", "balance", "cents", "refundable"]),
    ),
    ("email", frozenset(["email", "mail"])),
    ("uri", frozenset(["url", "uri", "link", "href", "website"])),
    ("date", frozenset(["date", "day", "deadline"])),
    ("count", frozenset(["count", "quantity", "qty", "index", "row", "position", "page", "version"])),
    ("id", frozenset(["id", "ids", "number", "no", "nr", "ref", "account", "iban", "key", "code"])),
)
_SYNONYMS = {
    "url": "uri",
    "uri-reference": "uri",
    "iri": "uri",
    "iri-reference": "uri",
    "idn-email": "email",
    "date-time": "date",
}
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
ANY_ITEM = "*"


class Kind(NamedTuple):
    """The kind of the values at a place, and whether the pack declares it or the name of the place suggests it."""

    name: str = ""
    is_declared: bool = False


UNKNOWN = Kind()
_WIDTHS = frozenset({"int32", "int64", "float", "double", "byte", "binary", "password"})
"""Formats of OpenAPI that say how a value is stored or shown, and not what it is."""


def declared_kind(name: str) -> Kind:
    """Return the kind of a declared name."""
    return Kind(_SYNONYMS.get(name, name), is_declared=True)


@lru_cache(maxsize=4_096)
def suggested_kind(name: str) -> Kind:
    """Return the kind that the name of a field or parameter suggests."""
    words = {word.lower() for word in _WORD.findall(name)}
    return next((Kind(kind) for kind, marks in _SUGGESTED if not words.isdisjoint(marks)), UNKNOWN)


def fits(source: Kind, target: Kind) -> bool:
    """Return whether a value of one kind may be used for a parameter of another kind."""
    if not target.name:
        return True
    if not source.name:
        return not target.is_declared
    return source.name == target.name


def parameter_kind(tool: ToolSpec, place: Place, *, reads_widths: bool = False) -> Kind:
    """Return the kind of values that a parameter of a tool takes; `reads_widths` takes `int64` and the like for kinds."""
    declared = tool.kinds.get(str(place[0]))
    if declared is not None:
        return declared_kind(declared)
    if not tool.has_formats:
        return named_kind(place)
    return _kind_in_schema(tool.parameters, place, reads_widths=reads_widths)


def result_kind(tool: ToolSpec, place: Place, *, reads_widths: bool = False) -> Kind:
    """Return the kind of the values in a field of a tool's result; see `parameter_kind`."""
    if tool.result_kinds:
        kinds = ((pointer.place_of(name), kind) for name, kind in tool.result_kinds.items())
        if (declared := declared_among(kinds, place)) is not None:
            return declared
    if not tool.has_formats:
        return named_kind(place)
    return _kind_in_schema(tool.result or {}, place, reads_widths=reads_widths)


def declared_among(fields: Iterable[tuple[Sequence[str], str]], place: Place) -> Kind | None:
    """Return the kind that a list of fields declares for a place, or for the list that it is an item of; `*` in a field
    stands for any item."""
    for field, kind in fields:
        rest = place[len(field) :]
        if all(each in (ANY_ITEM, str(token)) for each, token in zip(field, place, strict=False)) and (
            len(field) <= len(place) and all(map(_is_item, rest))
        ):
            return declared_kind(kind)
    return None


def _is_item(token: str | int) -> bool:
    """Return whether a token of a place is an item of a list: its number, or `*` for any."""
    return isinstance(token, int) or token.isdigit() or token == ANY_ITEM


@lru_cache(maxsize=4_096)
def named_kind(place: Place) -> Kind:
    """Return the kind that the last name on the way to a place suggests."""
    for token in reversed(place):
        if not _is_item(token):
            return suggested_kind(str(token))
    return UNKNOWN


def _kind_in_schema(schema: JsonObject, place: Place, *, reads_widths: bool) -> Kind:
    """Return the `format` that a JSON Schema gives to a place, else the kind that its name suggests."""
    here = [schema]
    for token in place:
        found = (_inner(option, token) for part in here for option in _options(schema, part))
        here = [each for each in found if each is not None]
    options = (option for part in here for option in _options(schema, part))
    formats = {text for option in options if isinstance(text := option.get("format"), str)}
    if not reads_widths:
        formats -= _WIDTHS
    return declared_kind(formats.pop()) if len(formats) == 1 else named_kind(place)


def _inner(schema: JsonObject, token: str | int) -> JsonObject | None:
    """Return what a schema says about a member or an item."""
    if _is_item(token) and "items" in schema:
        return as_object(schema["items"])
    return as_object((as_object(schema.get("properties")) or {}).get(str(token)))


def _options(root: JsonObject, schema: JsonObject) -> Iterator[JsonObject]:
    """Yield a part of a schema and its alternatives (`anyOf`), each with a local `$ref` followed once."""
    for option in (schema, *(as_list(schema.get("anyOf")) or ())):
        members = as_object(option)
        if members is None:
            continue
        ref = members.get("$ref")
        if isinstance(ref, str) and ref.startswith("#/$defs/"):
            members = as_object((as_object(root.get("$defs")) or {}).get(ref.removeprefix("#/$defs/")))
        if members is not None:
            yield members
