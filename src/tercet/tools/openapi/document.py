"""An OpenAPI description: read, of a version that is known, and followed by its own references only."""

from __future__ import annotations

import json
from typing import Any, NamedTuple, cast
from urllib.parse import unquote

from tercet.contracts import pointer
from tercet.contracts.errors import UsageError
from tercet.contracts.shape import JsonObject, as_object
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
    """A part of a description, and where it stands."""

    value: JsonObject
    place: str


class Described(NamedTuple):
    """One operation: its own description, and that of the path it stands under."""

    method: str
    path: str
    here: Found
    around: Found

    @property
    def id(self) -> str:
        """What it is called: its `operationId`, else its method and path."""
        given = self.here.value.get("operationId")
        if isinstance(given, str) and given and given.isprintable():
            return given
        return f"{self.method.upper()} {self.path}"


class Document:
    """A description as it was read."""

    def __init__(self, root: JsonObject) -> None:
        self.root = root
        version = root.get("openapi")
        if not isinstance(version, str) or not version.startswith("3."):
            raise OpenApiError(
                "it is no OpenAPI description of version 3",
                place="/openapi",
                code="openapi_version",
                remedy="convert it to OpenAPI 3.0 or 3.1",
            )
        self.is_old = version.startswith("3.0")
        """Whether schemas are those of 3.0, which are no JSON Schemas yet."""

    def operations(self) -> list[Described]:
        """Every operation, in the order of the description."""
        found: list[Described] = []
        for path, item in (as_object(self.root.get("paths")) or {}).items():
            if not path.isprintable():
                raise OpenApiError(f"{path!a} is no path", place="/paths", remedy="spell it in letters")
            around = self.resolve(item, pointer.join(("paths", path)))
            found += [
                Described(method, path, Found(here, f"{around.place}/{method}"), around)
                for method in _METHODS
                if (here := as_object(around.value.get(method))) is not None
            ]
        return found

    def resolve(self, value: Any, place: str) -> Found:
        """An object behind its references; raises `OpenApiError` where they lead nowhere, outside, or in a circle."""
        for _ in range(MAX_HOPS):
            found = as_object(value)
            if found is None:
                raise OpenApiError("an object is expected here", place=place)
            if "$ref" not in found:
                return Found(found, place)
            value, place = self.follow(found["$ref"], place)
        raise OpenApiError(
            "its references lead in a circle", place=place, code="ref_cycle", remedy="break the circle"
        )

    def follow(self, ref: Any, place: str) -> tuple[Any, str]:
        """What a reference leads to, and where that stands."""
        if not isinstance(ref, str) or not ref.startswith("#"):
            raise OpenApiError(
                f"the reference {str(ref)[:100]!r} leads out of the file",
                place=place,
                code="ref_outside",
                remedy="put what it names into the same file: nothing is fetched",
            )
        try:
            return pointer.follow(self.root, unquote(ref[1:])), unquote(ref[1:])
        except pointer.PointerError:
            raise OpenApiError(
                f"the reference {ref[:100]!r} leads nowhere",
                place=place,
                code="ref_missing",
                remedy="correct it",
            ) from None


def read_document(text: str, *, is_yaml: bool = False) -> Document:
    """The description that a text holds; raises `OpenApiError`."""
    root = _yaml(text) if is_yaml else _json(text)
    members = as_object(root)
    if members is None:
        raise OpenApiError("a description is one object", remedy='begin with {"openapi": "3.1.0", …}')
    return Document(members)


def _json(text: str) -> Any:
    try:
        return read_strictly(text)
    except ValueError as error:
        raise OpenApiError(
            f"not JSON that can be used: {error}", code="json_syntax", remedy="mend it"
        ) from None


def _yaml(text: str) -> Any:
    try:
        import yaml  # noqa: PLC0415 - no part of the core
    except ImportError:
        raise OpenApiError(
            "a description in YAML needs PyYAML, which is not installed",
            code="yaml_unavailable",
            remedy="convert it to JSON, or install PyYAML",
        ) from None

    class Loader(yaml.SafeLoader):
        """YAML without aliases: a few lines of them can stand for more than fits into memory."""

        def compose_node(self, parent: Any, index: Any) -> Any:
            if cast("Any", self).check_event(yaml.AliasEvent):
                raise yaml.YAMLError("aliases are not read")
            return super().compose_node(parent, index)

    try:
        # Through JSON and back: keys become texts, and so do dates.
        return _json(json.dumps(yaml.load(text, Loader), default=str))  # noqa: S506 - it is a SafeLoader
    except (yaml.YAMLError, ValueError, TypeError, RecursionError) as error:
        first = str(error).partition("\n")[0]
        raise OpenApiError(
            f"not YAML that can be used: {first}", code="yaml_syntax", remedy="mend it"
        ) from None
