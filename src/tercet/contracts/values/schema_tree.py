"""A JSON Schema prepared for reading alongside a value: references resolved, alternatives collected, each part once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tercet.contracts.shape import JsonObject, as_list, as_object
from tercet.contracts.values import pointer

MAX_OPTIONS = 50
"""The maximum number of alternatives that are read."""
NUMBERS = frozenset({"number", "integer"})
"""The numeric types."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SchemaNode:
    """The declarations of a part of a schema, including its alternatives."""

    options: list[JsonObject]
    """The part itself, the targets of its references, and its alternatives."""
    types: frozenset[str]
    formats: tuple[str, ...]
    is_number_or_text: bool
    properties: JsonObject
    """The schemas of members; empty if several options declare some, which is ambiguous."""
    defaults: dict[str, Any]
    """The default values of these members."""
    item: Any
    """The schema of items; None if there are several."""


class SchemaTree:
    """A schema, which must not change, and its parts as far as they have been read."""

    def __init__(self, schema: JsonObject) -> None:
        self._schema = schema
        self._nodes: dict[int, tuple[Any, SchemaNode]] = {}
        """Keyed by the identity of the part, which is checked again on lookup: a copy of the tree holds other objects."""

    @cached_property
    def root(self) -> SchemaNode:
        """The declarations of the whole schema."""
        return self.node(self._schema)

    @cached_property
    def plain(self) -> frozenset[str]:
        """The declared members without a format, and not both number and text: their texts and integers have one spelling."""
        nodes = ((name, self.node(schema)) for name, schema in self.root.properties.items())
        return frozenset(name for name, node in nodes if not node.formats and not node.is_number_or_text)

    def node(self, schema: Any) -> SchemaNode:
        """Return the declarations of a part of the schema."""
        known = self._nodes.get(id(schema))
        if known is None or known[0] is not schema:
            known = self._nodes[id(schema)] = schema, self._read(schema)
        return known[1]

    def _read(self, schema: Any) -> SchemaNode:
        options = self._options(schema)
        types = frozenset(kind for option in options for kind in _types(option) if isinstance(kind, str))
        formats = (option.get("format") for option in options)
        properties = (
            as_object(_only(option["properties"] for option in options if "properties" in option)) or {}
        )
        found = ((name, _default(self._options(each))) for name, each in properties.items())
        return SchemaNode(
            options=options,
            types=types,
            formats=tuple(name for name in formats if isinstance(name, str)),
            is_number_or_text="string" in types and not types.isdisjoint(NUMBERS),
            properties=properties,
            defaults={name: option["default"] for name, option in found if option is not None},
            item=_only(option["items"] for option in options if "items" in option),
        )

    def _options(self, schema: Any) -> list[JsonObject]:
        found: list[JsonObject] = []
        waiting: list[Any] = [schema]
        while waiting and len(found) < MAX_OPTIONS:
            each = as_object(waiting.pop(0))
            if each is None or each in found:
                continue
            found.append(each)
            if isinstance(ref := each.get("$ref"), str):
                waiting.append(self._target(ref))
            for word in ("allOf", "anyOf", "oneOf"):
                waiting += as_list(each.get(word)) or ()
        return found

    def _target(self, ref: str) -> Any:
        try:
            return pointer.follow(self._schema, ref.removeprefix("#"))
        except pointer.PointerError:  # a remote schema, which is not available
            return None


def _types(option: JsonObject) -> list[Any]:
    kind = option.get("type")
    return as_list(kind) or [kind]


def _default(options: list[JsonObject]) -> JsonObject | None:
    return next((each for each in options if "default" in each), None)


def _only(found: Iterable[Any]) -> Any:
    """Return the only item; None if there are several, which is ambiguous."""
    several = list(found)
    return several[0] if len(several) == 1 else None
