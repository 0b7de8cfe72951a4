"""The interface of an operation: its parameters as one schema, where each is sent, and the schema of its answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Literal, cast

from tercet.contracts.shape import JsonObject, as_list, as_object
from tercet.contracts.values import pointer
from tercet.contracts.values.plain import not_plain
from tercet.tools.http.service import RESERVED, Operation, Service
from tercet.tools.openapi.document import Described, Document, Found, OpenApiError, SchemaWriter

Where = Literal["path", "query", "header", "cookie", "body", "whole body"]
Style = Literal["simple", "form", "spaceDelimited", "pipeDelimited"]
_USUAL_STYLE: dict[str, Style] = {"path": "simple", "header": "simple", "query": "form"}
_STYLES: dict[str, tuple[Style, ...]] = {
    "path": ("simple",),
    "header": ("simple",),
    "query": ("form", "spaceDelimited", "pipeDelimited"),
    "cookie": (),
}
WHOLE_BODY = "body"
"""The parameter for a body that is not a plain object."""
_COMBINED = ("allOf", "anyOf", "oneOf", "not", "if", "patternProperties", "discriminator", "dependentSchemas")


@dataclass(frozen=True, kw_only=True)
class Placed:
    """A parameter: its name in plans, and its location and name in the request."""

    name: str
    where: Where
    wire: str
    schema: Any = field(repr=False)
    is_required: bool
    style: Style = "form"
    explode: bool = True

    @property
    def origin(self) -> str:
        """Its name in a pack: `query.id`."""
        return WHOLE_BODY if self.where == "whole body" else f"{self.where}.{self.wire}"


@dataclass(frozen=True, kw_only=True)
class Interface:
    """Everything that a tool needs to know about an operation."""

    method: str
    path: str
    description: str
    placed: tuple[Placed, ...]
    parameters: JsonObject
    result: JsonObject | None


def read_interface(document: Document, operation: Described, service: Service, said: Operation) -> Interface:
    """Return the interface of an operation; raise `OpenApiError`."""
    writer = SchemaWriter(document, "request")
    found = [*_carried(document, operation, service, said, writer), *_body(document, operation, writer)]
    placed = _named(found, operation, said)
    parameters: JsonObject = {
        "type": "object",
        "properties": {each.name: each.schema for each in placed},
        "required": [each.name for each in placed if each.is_required],
        "additionalProperties": False,
        **writer.finish(),
    }
    result = _result(document, operation)
    for schema in (parameters, result):
        if (fault := not_plain(schema)) is not None:
            raise OpenApiError(
                f"a schema contains values that JSON does not have: {fault}",
                place=operation.here.place,
                code="schema_invalid",
            )
    return Interface(
        method=operation.method.upper(),
        path=_path(operation, placed),
        description=_description(operation),
        placed=tuple(placed),
        parameters=parameters,
        result=result,
    )


def _description(operation: Described) -> str:
    said = [operation.here.value.get(word) for word in ("summary", "description")]
    return "\n\n".join(dict.fromkeys(text.strip() for text in said if isinstance(text, str) and text.strip()))


def _path(operation: Described, placed: list[Placed]) -> str:
    """Return the path, if each of its placeholders is a parameter."""
    for each in placed:
        if each.where == "path" and f"{{{each.wire}}}" not in operation.path:
            raise OpenApiError(
                f"{operation.path} has no placeholder for {each.wire}", place=operation.here.place
            )
    bare = operation.path
    for each in placed:
        bare = bare.replace(f"{{{each.wire}}}", "") if each.where == "path" else bare
    if "{" in bare or "}" in bare or not operation.path.startswith("/") or "?" in bare or "#" in bare:
        raise OpenApiError(
            f"{operation.path} has a placeholder without a parameter",
            place=operation.here.place,
            remedy="describe each {name} of the path as a parameter",
        )
    return operation.path


def _carried(
    document: Document, operation: Described, service: Service, said: Operation, writer: SchemaWriter
) -> Iterator[Placed]:
    """Return the parameters in the path, the query and the headers."""
    known: dict[tuple[str, str], Found] = {}
    for source in (operation.around, operation.here):
        for number, item in enumerate(as_list(source.value.get("parameters")) or ()):
            found = document.resolve(item, f"{source.place}/parameters/{number}")
            where, wire = found.value.get("in"), found.value.get("name")
            if not isinstance(wire, str) or not wire or where not in ("path", "query", "header", "cookie"):
                raise OpenApiError("a parameter needs a name and a known location", place=found.place)
            known[where, wire] = found
    for (where, wire), found in known.items():
        # OpenAPI ignores these three as parameters; and plans cannot set the headers that we fill.
        if where == "header" and wire.lower() in {
            "accept",
            "content-type",
            "authorization",
            *service.filled_headers,
        }:
            continue
        is_needed = where == "path" or found.value.get("required") is True
        at = cast("Where", where)
        if f"{where}.{wire}" in said.omit:
            yield Placed(name=wire, where=at, wire=wire, schema=True, is_required=is_needed)
        else:
            yield _parameter(document, found, at, wire, writer)


def _parameter(document: Document, found: Found, where: Where, wire: str, writer: SchemaWriter) -> Placed:
    value = found.value
    style = value.get("style", _USUAL_STYLE.get(where))
    is_odd = where == "cookie" or (where == "header" and wire.lower() in RESERVED)
    if (
        is_odd
        or "schema" not in value
        or style not in _STYLES[where]
        or _is_object(document, value["schema"])
    ):
        raise OpenApiError(
            f"the {where} parameter {wire} is of a kind that cannot be sent",
            place=found.place,
            code="parameter_unsupported",
            remedy=f'leave it out if it may be absent, omit = ["{where}.{wire}"], else leave the operation out',
        )
    schema = writer.write(value["schema"], f"{found.place}/schema")
    said = value.get("description")
    if isinstance(said, str) and (members := as_object(schema)) is not None and "description" not in members:
        schema = {**members, "description": said}
    return Placed(
        name=wire,
        where=where,
        wire=wire,
        schema=schema,
        is_required=where == "path" or value.get("required") is True,
        style=style,
        explode=bool(value.get("explode", style == "form")),
    )


def _is_object(document: Document, schema: Any) -> bool:
    return isinstance(schema, dict) and document.resolve(schema, "").value.get("type") == "object"


def _body(document: Document, operation: Described, writer: SchemaWriter) -> Iterator[Placed]:
    """Return the members of the body as parameters; the body itself if it is not a plain object."""
    if operation.here.value.get("requestBody") is None:
        return
    found = document.resolve(operation.here.value["requestBody"], f"{operation.here.place}/requestBody")
    media = _json_media(document, found)
    is_needed = found.value.get("required") is True
    if media is None or "schema" not in media.value:
        raise OpenApiError(
            "its body has no JSON Schema, so nothing could check what a plan sends",
            place=found.place,
            code="operation_without_schema",
            remedy="describe the body under application/json, or leave this operation out",
        )
    schema, place = media.value["schema"], f"{media.place}/schema"
    behind = document.resolve(schema, place) if isinstance(schema, dict) else Found({}, place)
    properties = as_object(behind.value.get("properties"))
    required = as_list(behind.value.get("required")) or []
    is_plain = (
        properties is not None
        and not any(word in behind.value for word in _COMBINED)
        and behind.value.get("additionalProperties") in (None, True, False)
        and (is_needed or not required)
    )
    if properties is None or not is_plain:
        whole = writer.write(schema, place)
        yield Placed(
            name=WHOLE_BODY, where="whole body", wire=WHOLE_BODY, schema=whole, is_required=is_needed
        )
        return
    written = writer.write({"properties": properties, "required": required}, behind.place)
    for name, inner in written["properties"].items():
        is_required = name in (as_list(written.get("required")) or ())
        yield Placed(name=name, where="body", wire=name, schema=inner, is_required=is_required)


def _json_media(document: Document, found: Found) -> Found | None:
    for kind, media in (as_object(found.value.get("content")) or {}).items():
        bare = kind.partition(";")[0].strip().lower()
        if bare == "application/json" or bare.endswith("+json"):
            place = f"{found.place}{pointer.join(('content', kind))}"
            return document.resolve(media, place)
    return None


def _named(found: list[Placed], operation: Described, said: Operation) -> list[Placed]:
    """Return the parameters under the names that plans use; duplicates are an error."""
    origins = {each.origin: each for each in found}
    for origin in (*said.rename, *said.omit):
        if origin not in origins:
            raise OpenApiError(
                f"{operation.id} has no parameter {origin}", code="parameter_unknown", place=operation.here.place,
                remedy=f"it has {', '.join(origins) or 'none'}",
            )  # fmt: skip
        if origin in said.omit and origins[origin].is_required:
            raise OpenApiError(
                f"{origin} of {operation.id} cannot be left out", code="parameter_required", place=operation.here.place,
                remedy="take it out of omit",
            )  # fmt: skip
    kept = [
        replace(each, name=said.rename.get(each.origin, each.name))
        for each in found
        if each.origin not in said.omit
    ]
    for name, count in Counter(each.name for each in kept).items():
        if count > 1:
            both = [each.origin for each in kept if each.name == name]
            raise OpenApiError(
                f"{operation.id} has {count} parameters named {name}: {', '.join(both)}", code="parameter_collision",
                place=operation.here.place, remedy=f'give one another name: rename = {{ "{both[0]}" = "…" }}',
            )  # fmt: skip
    return kept


def _result(document: Document, operation: Described) -> JsonObject | None:
    """Return the schema of all successful answers; None if one of them is not described."""
    answers = as_object(operation.here.value.get("responses")) or {}
    good = [code for code in answers if str(code).upper().startswith("2")] or [
        c for c in answers if c == "default"
    ]
    writer = SchemaWriter(document, "answer")
    found: list[Any] = []
    for code in sorted(good):
        answer = document.resolve(answers[code], f"{operation.here.place}{pointer.join(('responses', code))}")
        written = _answer(document, answer, writer)
        if written is None:
            return None
        if written not in found:
            found.append(written)
    if not found or operation.method == "head":
        return None
    one = found[0] if len(found) == 1 else {"anyOf": found}
    return {**(one if isinstance(one, dict) else {"allOf": [one]}), **writer.finish()}


def _answer(document: Document, answer: Found, writer: SchemaWriter) -> Any:
    content = as_object(answer.value.get("content"))
    if not content:
        return {"type": "null"}
    media = _json_media(document, answer)
    if media is not None and "schema" in media.value:
        return writer.write(media.value["schema"], f"{media.place}/schema")
    is_text = media is None and all(kind.lower().startswith("text/") for kind in content)
    return {"type": "string"} if is_text else None
