"""Kinds of values, written from docs/authority.md alone: what a name suggests, what is declared, and what fits what."""

from __future__ import annotations

import re
from typing import Any, NamedTuple, TypeAlias, cast

from tercet.contracts.decision import DecisionSpec
from tercet.contracts.tool import ToolSpec

Place: TypeAlias = tuple[str | int, ...]
Doc: TypeAlias = dict[str, Any]


class Kind(NamedTuple):
    """The kind of a place, and whether it was declared or only suggested by a name."""

    name: str
    is_declared: bool


SUGGESTIONS = [
    ("amount", "amount total price sum cost fee balance cents refundable"),
    ("email", "email mail"),
    ("uri", "url uri link href website"),
    ("date", "date day deadline"),
    ("count", "count quantity qty index row position page version"),
    ("id", "id ids number no nr ref account iban key code"),
]
SPELLINGS = {
    "url": "uri",
    "uri-reference": "uri",
    "iri": "uri",
    "idn-email": "email",
    "date-time": "date",
}
SENTENCE = "sentence"


def declared(name: str) -> Kind:
    """A declared kind under its usual name."""
    return Kind(SPELLINGS.get(name, name), is_declared=True)


def suggested(place: Place) -> Kind | None:
    """The kind that the last name on the way to a place suggests."""
    names = [str(token) for token in place if not is_item(token)]
    if not names:
        return None
    words = [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", names[-1])]
    for kind, listed in SUGGESTIONS:
        if any(word in listed.split() for word in words):
            return Kind(kind, is_declared=False)
    return None


def is_item(key: str | int) -> bool:
    """Whether a key on the way to a place leads into a list."""
    return isinstance(key, int) or key == "*" or key.isdigit()


def without_items(place: Place) -> Place:
    """The list that a place is an item of; any other place itself."""
    while place and is_item(place[-1]):
        place = place[:-1]
    return place


def parameter_kind(tool: ToolSpec, place: Place) -> Kind | None:
    """The kind of a place in the parameters of a tool."""
    if place and str(place[0]) in tool.kinds:
        return declared(tool.kinds[str(place[0])])
    return of_schema(tool.parameters, place) or suggested(place)


def result_kind(tool: ToolSpec, place: Place) -> Kind | None:
    """The kind of a place in the result of a tool."""
    for name, kind in tool.result_kinds.items():
        if leads_to(field_way(name), place):
            return declared(kind)
    return of_schema(tool.result, place) or suggested(place)


def field_kind(spec: DecisionSpec, owner: str, place: Place) -> Kind | None:
    """The kind of a field of the request or of a class of evidence."""
    for field in spec.fields:
        named, way = split_path(field.of)
        if is_class(named, owner) and leads_to(way, place):
            return declared(field.kind)
    return suggested(place)


def of_schema(schema: Any, place: Place) -> Kind | None:
    """The kind that the `format` of a JSON Schema gives a place."""
    for token in place:
        inner = member(schema, "items" if is_item(token) else "properties")
        schema = inner if is_item(token) else member(inner, str(token))
    found = member(schema, "format")
    return declared(found) if isinstance(found, str) and found not in WIDTHS else None


WIDTHS = ("int32", "int64", "float", "double", "byte", "binary", "password")
"""Formats that say how a value is stored or shown."""


def member(value: Any, key: str) -> Any:
    """A member of an object, and None of anything else."""
    return cast("Doc", value).get(key) if isinstance(value, dict) else None


def split_path(text: str) -> tuple[str, list[str]]:
    """The owner and the place of a path such as `request.order_id` or `ticket#/customer/id`."""
    if "#" in text:
        owner, _, rest = text.partition("#")
        return owner, field_way(rest)
    owner, _, rest = text.partition(".")
    return owner, rest.split(".")


def field_way(text: str) -> list[str]:
    """The place of a field that is written as a name, with dots, or as a JSON Pointer."""
    if text.startswith("/"):
        return [token.replace("~1", "/").replace("~0", "~") for token in text.split("/")[1:]]
    return text.split(".")


def leads_to(way: list[str], place: Place) -> bool:
    """Whether a declared place is this one, or the list that it is an item of; `*` stands for any item."""
    return any(
        len(way) == len(each) and all(a in ("*", str(b)) for a, b in zip(way, each, strict=True))
        for each in (place, without_items(place))
    )


def is_class(named: str, owner: str) -> bool:
    """Whether a name stands for a class of evidence, or for the request."""
    return owner in (named, f"{named}_evidence")


def fits(wanted: Kind | None, source: Kind | None) -> bool:
    """Whether a source of this kind may vouch for a parameter of that kind."""
    if wanted is None:
        return True
    if source is None:
        return not wanted.is_declared
    return wanted.name == source.name


ENTITIES = {"email", "uri", "account", "amount", "number", "date", "file", "quoted", "id", "name"}


def entity_fits(wanted: Kind | None, entity: str, value: Any) -> bool:
    """Whether an entity of a sentence may vouch for a parameter."""
    if wanted is None or wanted.name == entity:
        return True
    if entity == "number" and wanted.name in ("amount", "count"):
        return True
    if entity in ("account", "number", "name") and wanted.name == "id":
        return True
    if wanted.name not in ENTITIES and wanted.is_declared:
        return entity in ("id", "name", "quoted")
    return (
        entity == "quoted"
        and wanted.name not in ("amount", "count", "number")
        and is_written_like(wanted.name, value)
    )


SHAPES = {
    "email": r"[^\s@]+@[^\s@]+\.[^\s@]+",
    "uri": r"(https?://|www\.)\S+",
    "account": r"[A-Z]{2}[0-9]{2}[A-Z0-9 ]{10,}",
    "date": r"[0-9]{4}-[0-9]{2}-[0-9]{2}",
    "file": r"\S+\.[A-Za-z0-9]{1,5}",
    "id": r"(?=\S*[0-9_-])\S+",
    "name": r"[A-Z]\S*( [A-Z]\S*)*",
}


def is_written_like(kind: str, value: Any) -> bool:
    """Whether a quoted text is written like a value of a kind."""
    return re.fullmatch(SHAPES.get(kind, r".*"), str(value)) is not None
