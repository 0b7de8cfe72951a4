"""An OpenAPI description, of a known version and with local references only, and its schemas as JSON Schemas.

The target of a reference is put beside the schema, under `$defs`, once; so a recursive schema stays finite. One that
refers to *itself* directly, through references, `allOf` and the like alone, has no meaning and is refused, since no
validator would terminate. A bound beyond 2^53, such as the largest 64-bit number, restricts no JSON number here, and is
omitted.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from graphlib import CycleError, TopologicalSorter
from typing import Any, Literal, NamedTuple, cast
from urllib.parse import unquote

from tercet.contracts.errors import UsageError
from tercet.contracts.shape import JsonObject, as_list, as_object
from tercet.contracts.values import pointer
from tercet.contracts.values.plain import MAX_NUMBER, not_plain
from tercet.tools.strict_json import read_strictly

MAX_HOPS = 16
_METHODS = ("get", "put", "post", "delete", "options", "head", "patch")


class OpenApiError(UsageError):
    """A description, or a part of it, that cannot be used; `place` is a JSON Pointer to it."""

    default_code = "openapi_invalid"

    def __init__(
        self, message: str, *, place: str = "", code: str | None = None, remedy: str | None = None
    ) -> None:
        super().__init__(message, code=code, remedy=remedy)
        self.place = place


class Found(NamedTuple):
    """A part of a description, and its place."""

    value: JsonObject
    place: str


class Described(NamedTuple):
    """One operation, with its path's description."""

    method: str
    path: str
    here: Found
    around: Found

    @property
    def id(self) -> str:
        """Its name: its `operationId`, else its method and path."""
        given = self.here.value.get("operationId")
        if isinstance(given, str) and given and given.isprintable():
            return given
        return f"{self.method.upper()} {self.path}"


class Document:
    """A parsed description."""

    def __init__(self, root: JsonObject) -> None:
        self.root = root
        version = root.get("openapi")
        if not isinstance(version, str) or not version.startswith("3."):
            raise OpenApiError(
                "it is not an OpenAPI 3 description",
                place="/openapi",
                code="openapi_version",
                remedy="convert it to OpenAPI 3.0 or 3.1",
            )
        self.is_old = version.startswith("3.0")
        """Whether schemas follow 3.0, which differ from JSON Schema."""

    def operations(self) -> list[Described]:
        """Return every operation, in the order of the description."""
        found: list[Described] = []
        for path, item in (as_object(self.root.get("paths")) or {}).items():
            if not path.isprintable():
                raise OpenApiError(f"{path!a} is not a path", place="/paths", remedy="spell it in letters")
            around = self.resolve(item, pointer.join(("paths", path)))
            found += [
                Described(method, path, Found(here, f"{around.place}/{method}"), around)
                for method in _METHODS
                if (here := as_object(around.value.get(method))) is not None
            ]
        return found

    def resolve(self, value: Any, place: str) -> Found:
        """Return an object behind its references; raise `OpenApiError` if they are broken, external or circular."""
        for _ in range(MAX_HOPS):
            found = as_object(value)
            if found is None:
                raise OpenApiError("an object is expected here", place=place)
            if "$ref" not in found:
                return Found(found, place)
            value, place = self.follow(found["$ref"], place)
        raise OpenApiError(
            "its references are circular", place=place, code="ref_cycle", remedy="break the cycle"
        )

    def follow(self, ref: Any, place: str) -> tuple[Any, str]:
        """Return the target of a reference, and its place."""
        if not isinstance(ref, str) or not ref.startswith("#"):
            raise OpenApiError(
                f"the reference {str(ref)[:100]!r} points outside the file",
                place=place,
                code="ref_outside",
                remedy="put its target into the same file: nothing is fetched",
            )
        try:
            return pointer.follow(self.root, unquote(ref[1:])), unquote(ref[1:])
        except pointer.PointerError:
            raise OpenApiError(
                f"the reference {ref[:100]!r} has no target",
                place=place,
                code="ref_missing",
                remedy="correct it",
            ) from None


def read_document(text: str, *, is_yaml: bool = False) -> Document:
    """Return the description in a text; raise `OpenApiError`."""
    root = _yaml(text) if is_yaml else _json(text)
    members = as_object(root)
    if members is None:
        raise OpenApiError("a description is one object", remedy='begin with {"openapi": "3.1.0", …}')
    return Document(members)


def _json(text: str) -> Any:
    try:
        return read_strictly(text)
    except ValueError as error:
        raise OpenApiError(f"not usable JSON: {error}", code="json_syntax", remedy="correct it") from None


def _yaml(text: str) -> Any:
    try:
        import yaml  # noqa: PLC0415 - optional
    except ImportError:
        raise OpenApiError(
            "a description in YAML needs PyYAML, which is not installed",
            code="yaml_unavailable",
            remedy="convert it to JSON, or install PyYAML: pip install pyyaml",
        ) from None

    class Loader(yaml.SafeLoader):
        """YAML without aliases: a few lines of them can expand to more than fits into memory."""

        def compose_node(self, parent: Any, index: Any) -> Any:
            if cast("Any", self).check_event(yaml.AliasEvent):
                raise yaml.YAMLError("aliases are not read")
            return super().compose_node(parent, index)

    try:
        # Through JSON and back: keys and dates become strings.
        return _json(json.dumps(yaml.load(text, Loader), default=str))  # noqa: S506 - it is a SafeLoader
    except (yaml.YAMLError, ValueError, TypeError, RecursionError) as error:
        first = str(error).partition("\n")[0]
        raise OpenApiError(f"not usable YAML: {first}", code="yaml_syntax", remedy="correct it") from None


Direction = Literal["request", "answer"]

MAX_NODES = 20_000
MAX_DEPTH = 40
_ONE = (
    "not", "items", "additionalProperties", "contains", "propertyNames", "if", "then", "else",
    "unevaluatedProperties", "unevaluatedItems",
)  # fmt: skip
_SEVERAL = ("allOf", "anyOf", "oneOf", "prefixItems")
_NAMED = ("properties", "patternProperties", "dependentSchemas")
_PLAIN = (
    "type",
    "format",
    "pattern",
    "description",
    "required",
    "uniqueItems",
    "dependentRequired",
    "contentEncoding",
)
_IN_PLACE = ("allOf", "anyOf", "oneOf", "not", "if", "then", "else")
_AT_MOST = ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties", "maxContains")
_AT_LEAST = ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties", "minContains")
_REFUSED = ("$id", "$anchor", "$dynamicRef", "$dynamicAnchor", "$recursiveRef", "$recursiveAnchor")


class SchemaWriter:
    """Writes the schemas of one tool in one direction; shared parts are collected in `definitions`."""

    def __init__(self, document: Document, direction: Direction) -> None:
        self.definitions: dict[str, Any] = {}
        self._document = document
        self._hidden = "readOnly" if direction == "request" else "writeOnly"
        self._names: dict[str, str] = {}
        self._pending: list[tuple[str, Any, str]] = []
        """A queue of referenced definitions that are not written yet; a queue, since they may be deep and circular."""
        self._nodes = 0

    def write(self, schema: Any, place: str, depth: int = 0) -> Any:
        """Return a schema with its references pointing to `#/$defs/…`; raise `OpenApiError`."""
        self._nodes += 1
        if self._nodes > MAX_NODES or depth > MAX_DEPTH:
            what = (
                f"nests deeper than {MAX_DEPTH}"
                if depth > MAX_DEPTH
                else f"has more than {MAX_NODES:,} parts"
            )
            raise OpenApiError(
                f"the schema {what}",
                place=place,
                code="schema_too_large",
                remedy="list fewer operations, or simplify it",
            )
        if isinstance(schema, bool):
            return schema
        given = as_object(schema)
        if given is None:
            raise OpenApiError("a schema is an object", place=place, code="schema_invalid")
        for word in _REFUSED:
            if word in given:
                raise OpenApiError(
                    f"{word} is not understood here",
                    place=place,
                    code="schema_invalid",
                    remedy="use $ref alone",
                )
        if "$ref" in given:
            return self._reference(given, place, depth)
        return self._written(given, place, depth)

    def finish(self) -> dict[str, Any]:
        """Return the definitions that the written schemas refer to; raise `OpenApiError` if one refers only to itself."""
        while self._pending:
            name, target, place = self._pending.pop()
            self.definitions[name] = self.write(target, place)
        try:
            TopologicalSorter(
                {name: set(_in_place(each)) for name, each in self.definitions.items()}
            ).prepare()
        except CycleError as error:
            circle = " → ".join(cast("list[str]", error.args[1]))
            raise OpenApiError(
                f"a schema refers only to itself: {circle}", code="ref_cycle", remedy="break the cycle"
            ) from None
        return {"$defs": dict(sorted(self.definitions.items()))} if self.definitions else {}

    def _reference(self, given: JsonObject, place: str, depth: int) -> Any:
        target, there = self._document.follow(given["$ref"], place)
        name = self._names.get(there)
        if name is None:
            name = self._names[there] = self._free_name(there)
            self.definitions[name] = True
            self._pending.append((name, target, there))
        reference = {"$ref": f"#/$defs/{name}"}
        if self._document.is_old:
            return reference  # siblings of a reference count from version 3.1 on
        beside = {key: value for key, value in given.items() if key != "$ref"}
        return {**self._written(beside, place, depth), **reference}

    def _free_name(self, place: str) -> str:
        plain = "".join(
            c if c.isascii() and (c.isalnum() or c in "_-.") else "_" for c in place.rpartition("/")[2]
        )
        name, number = plain or "schema", 2
        while name in self.definitions:
            name, number = f"{plain}_{number}", number + 1
        return name

    def _written(self, given: JsonObject, place: str, depth: int) -> JsonObject:
        def inner(value: Any, *way: str) -> Any:
            return self.write(value, "/".join((place, *way)), depth + 1)

        out: JsonObject = {word: given[word] for word in _PLAIN if word in given}
        self._write_inner(given, out, inner)
        _write_bounds(given, out)
        _write_values(given, out)
        self._hide(given, out)
        if given.get("nullable") is True and self._document.is_old:
            _allow_null(out)
        return out

    def _write_inner(self, given: JsonObject, out: JsonObject, inner: Callable[..., Any]) -> None:
        for word in _ONE:
            if word in given:
                out[word] = inner(given[word], word)
        for word in _SEVERAL:
            if (items := as_list(given.get(word))) is not None:
                out[word] = [inner(item, word, str(number)) for number, item in enumerate(items)]
        for word in _NAMED:
            if (members := as_object(given.get(word))) is not None:
                out[word] = {key: inner(value, word, key) for key, value in members.items()}

    def _hide(self, given: JsonObject, out: JsonObject) -> None:
        """Remove the properties that are not sent in this direction."""
        properties = as_object(given.get("properties")) or {}
        hidden = {name for name, value in properties.items() if self._is_hidden(value)}
        if hidden:
            out["properties"] = {key: value for key, value in out["properties"].items() if key not in hidden}
            if "required" in out:
                out["required"] = [name for name in as_list(out["required"]) or () if name not in hidden]

    def _is_hidden(self, schema: Any) -> bool:
        found = as_object(schema) or {}
        if "$ref" in found:
            target = as_object(self._document.follow(found["$ref"], "")[0]) or {}
            return target.get(self._hidden) is True or found.get(self._hidden) is True
        return found.get(self._hidden) is True


def _in_place(schema: Any) -> Iterator[str]:
    """Yield the definitions that apply to a value itself, not to a part of it."""
    found = as_object(schema)
    if found is None:
        return
    if "$ref" in found:
        yield str(found["$ref"]).removeprefix("#/$defs/")
    for word in _IN_PLACE:
        for inner in as_list(found.get(word)) or [found.get(word)]:
            yield from _in_place(inner)


def _write_bounds(given: JsonObject, out: JsonObject) -> None:
    """Keep bounds, except for those that no JSON number here can reach."""
    given = _with_exclusive_numbers(given)
    for word in _AT_MOST:
        if (bound := _number(given.get(word))) is not None:
            if bound < -MAX_NUMBER:
                out["not"] = {}  # no number is that small
            elif bound <= MAX_NUMBER:
                out[word] = bound
    for word in _AT_LEAST:
        if (bound := _number(given.get(word))) is not None:
            if bound > MAX_NUMBER:
                out["not"] = {}
            elif bound >= -MAX_NUMBER:
                out[word] = bound
    if (step := _number(given.get("multipleOf"))) is not None:
        out |= {"multipleOf": step} if step <= MAX_NUMBER else {"const": 0}


def _with_exclusive_numbers(given: JsonObject) -> JsonObject:
    """Convert `exclusiveMaximum: true` of version 3.0, which excludes `maximum` itself."""
    changed = dict(given)
    for exclusive, plain in (("exclusiveMaximum", "maximum"), ("exclusiveMinimum", "minimum")):
        if isinstance(changed.get(exclusive), bool) and changed.pop(exclusive) and plain in changed:
            changed[exclusive] = changed.pop(plain)
    return changed


def _number(value: Any) -> Any:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return cast("Any", value) if is_number else None


def _write_values(given: JsonObject, out: JsonObject) -> None:
    """Keep the enumerated values that are JSON here."""
    if (values := as_list(given.get("enum"))) is not None:
        out["enum"] = [value for value in values if not_plain(value) is None]
    if "const" in given:
        out |= {"const": given["const"]} if not_plain(given["const"]) is None else {"not": {}}
    if "default" in given and not_plain(given["default"]) is None:
        out["default"] = given["default"]


def _allow_null(out: JsonObject) -> None:
    if isinstance(out.get("type"), str):
        out["type"] = [out["type"], "null"]
        if "enum" in out:
            out["enum"] = [*out["enum"], None]
        return
    bare = dict(out)
    out.clear()
    out["anyOf"] = [bare, {"type": "null"}]
