"""A JSON Schema prepared for reading alongside a value: references resolved, alternatives collected, each part once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

from tercet.contracts.shape import JsonObject, as_list, as_object
from tercet.contracts.values import pointer
from tercet.contracts.values.canonical import canonical

MAX_OPTIONS = 50
"""The maximum number of alternatives that are read."""
NUMBERS = frozenset({"number", "integer"})
"""The numeric types."""

Schemas: TypeAlias = tuple[Any, ...]
"""The schemas that all apply to one value."""
Accepts: TypeAlias = Callable[[str, Any], bool]
"""Returns whether a schema, given as text, accepts a value."""

_DEFINITIONS = ("$schema", "$defs", "definitions", "components")
_ALTERNATIVES = ("anyOf", "oneOf")
_OTHER_MEMBERS = (
    "allOf", "anyOf", "oneOf", "if", "then", "else", "$ref", "dependentSchemas",
    "patternProperties", "additionalProperties", "unevaluatedProperties",
)  # fmt: skip
"""The keywords by which members other than `properties` may be declared."""


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
        self.schema = schema
        """The whole schema."""
        self._nodes: dict[int, tuple[Any, SchemaNode]] = {}
        """Keyed by the identity of the part, which is checked again on lookup: a copy of the tree holds other objects."""
        self._texts: dict[int, tuple[Any, str]] = {}

    @cached_property
    def root(self) -> SchemaNode:
        """The declarations of the whole schema."""
        return self.node(self.schema)

    @cached_property
    def plain(self) -> frozenset[str]:
        """The declared members without a format, and not both number and text: their texts and integers have one spelling."""
        nodes = ((name, self.node(schema)) for name, schema in self.root.properties.items())
        return frozenset(name for name, node in nodes if not node.formats and not node.is_number_or_text)

    @cached_property
    def is_flat(self) -> bool:
        """Whether `properties` declares all members of the whole schema that are declared at all."""
        return not any(self.schema.get(word) not in (None, True, False, {}) for word in _OTHER_MEMBERS)

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
        found = ((name, self.default(each)) for name, each in properties.items())
        return SchemaNode(
            options=options,
            types=types,
            formats=tuple(name for name in formats if isinstance(name, str)),
            is_number_or_text="string" in types and not types.isdisjoint(NUMBERS),
            properties=properties,
            defaults={name: option["default"] for name, option in found if option is not None},
            item=_only(option["items"] for option in options if "items" in option),
        )

    def default(self, schema: Any) -> JsonObject | None:
        """Return the part of a schema that declares its default, or None."""
        return next((each for each in self._options(schema) if "default" in each), None)

    def may_have_defaults(self, schema: Any) -> bool:
        """Return whether a part of the schema may declare defaults for members or items."""
        return any(
            "'default'" in repr(option) or "'$ref'" in repr({**option, "$ref": None}.values())
            for option in self._options(schema)
        )

    def text(self, schema: Any) -> str:
        """Return a part of the schema as a schema of its own."""
        known = self._texts.get(id(schema))
        if known is None or known[0] is not schema:
            definitions = {name: self.schema[name] for name in _DEFINITIONS if name in self.schema}
            written = canonical({**definitions, "allOf": [schema]}).decode()
            known = self._texts[id(schema)] = schema, written
        return known[1]

    def node_of(self, schemas: Schemas) -> SchemaNode:
        """Return the declarations of schemas that apply together."""
        return self.node(schemas[0]) if len(schemas) == 1 else self._read({"allOf": [*schemas]})

    def _options(self, schema: Any) -> list[JsonObject]:
        found: list[JsonObject] = []
        waiting: list[Any] = [schema]
        while waiting and len(found) < MAX_OPTIONS:
            each = as_object(waiting.pop(0))
            if each is None or each in found:
                continue
            found.append(each)
            if isinstance(ref := each.get("$ref"), str):
                waiting.append(self.target(ref))
            for word in ("allOf", "anyOf", "oneOf"):
                waiting += as_list(each.get(word)) or ()
        return found

    def target(self, ref: str) -> Any:
        """Return what a reference refers to; None if it is not in the schema."""
        try:
            return pointer.follow(self.schema, ref.removeprefix("#"))
        except pointer.PointerError:  # a remote schema, which is not available
            return None


class SchemaReader:
    """Reads which schemas apply to a value and to each of its members and items."""

    def __init__(self, tree: SchemaTree, accepts: Accepts) -> None:
        self._tree = tree
        self._accepts = accepts

    def parts(self, schemas: Schemas, value: Any) -> tuple[list[JsonObject], bool]:
        """Return the parts of these schemas that apply to a value, and whether they are sure to have all its defaults.

        Of alternatives the first one applies that accepts the value; if several do, or none, other defaults may apply.
        """
        found: list[JsonObject] = []
        waiting, is_certain = [*schemas], True
        while waiting and len(found) < MAX_OPTIONS:
            part = as_object(waiting.pop(0))
            if part is None or any(part is each for each in found):
                continue
            found.append(part)
            if isinstance(ref := part.get("$ref"), str):
                waiting.append(self._tree.target(ref))
            waiting += as_list(part.get("allOf")) or ()
            waiting += self._conditional(part, value)
            for word in _ALTERNATIVES:
                options = as_list(part.get(word)) or []
                accepting = [each for each in options if self._fits(each, value)]
                waiting += accepting[:1]
                if len(accepting) != 1 and any(map(self._tree.may_have_defaults, options)):
                    is_certain = False
        return found, is_certain

    def _fits(self, schema: Any, value: Any) -> bool:
        return self._accepts(self._tree.text(schema), value)

    def _conditional(self, part: JsonObject, value: Any) -> Iterator[Any]:
        if "if" in part:
            yield part.get("then" if self._fits(part["if"], value) else "else")
        for name, schema in (as_object(part.get("dependentSchemas")) or {}).items():
            if name in (as_object(value) or {}):
                yield schema

    def member(self, parts: Iterable[JsonObject], name: str) -> Schemas:
        """Return the schemas of a member of a value to which these parts apply."""
        return tuple(schema for part in parts for schema in self._members(part, name))

    def _members(self, part: JsonObject, name: str) -> Schemas:
        properties = as_object(part.get("properties")) or {}
        if name in properties:
            return (properties[name],)
        patterns = as_object(part.get("patternProperties")) or {}
        matching = tuple(
            each
            for key, each in patterns.items()
            if self._accepts(canonical({"pattern": key}).decode(), name)
        )
        return matching or _rest(part, "additionalProperties", "unevaluatedProperties")

    def item(self, parts: Iterable[JsonObject], index: int) -> Schemas:
        """Return the schemas of an item of a list to which these parts apply."""
        return tuple(schema for part in parts for schema in _items(part, index))

    def defaults(self, parts: Iterable[JsonObject]) -> dict[str, Any]:
        """Return the defaults of the members that these parts name."""
        names = {
            name: schema
            for part in parts
            for name, schema in (as_object(part.get("properties")) or {}).items()
        }
        found = ((name, self._tree.default(schema)) for name, schema in names.items())
        return {name: option["default"] for name, option in found if option is not None}


def _items(part: JsonObject, index: int) -> Schemas:
    items, first = part.get("items"), as_list(part.get("prefixItems"))
    if first is None and (first := as_list(items)) is not None:  # drafts before 2020-12
        items = part.get("additionalItems")
    if first is not None and index < len(first):
        return (first[index],)
    return (items,) if as_object(items) is not None else _rest(part, "unevaluatedItems")


def _rest(part: JsonObject, *words: str) -> Schemas:
    return tuple(part[word] for word in words if as_object(part.get(word)) is not None)[:1]


def _types(option: JsonObject) -> list[Any]:
    kind = option.get("type")
    return as_list(kind) or [kind]


def _only(found: Iterable[Any]) -> Any:
    """Return the only item; None if there are several, which is ambiguous."""
    several = list(found)
    return several[0] if len(several) == 1 else None
