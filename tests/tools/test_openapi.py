"""Operations of a description as tools: their names, modes, schemas, and what cannot be one."""

from __future__ import annotations

import copy
import json
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tercet.contracts.mode import ApprovalMode, Trust
from tercet.contracts.shape import as_object
from tercet.contracts.values.plain import MAX_NUMBER, not_plain
from tercet.policy import schemas
from tercet.tools import Tool
from tercet.tools.openapi import Document, OpenApiError, Service, openapi_tools, read_document
from tercet.tools.openapi.document import SchemaWriter

TEXT = {"type": "string"}
OK = {"responses": {"200": {"description": "fine"}}}


def service(**changes: Any) -> Service:
    """A service that is allowed."""
    fields = {
        "name": "shop",
        "description": "shop.json",
        "base_url": "https://api.example.test/v1",
        "egress": ["api.example.test:443"],
        "operations": "all",
    }
    return Service.model_validate({**fields, **changes})


def document(paths: dict[str, Any], version: str = "3.1.0", **components: Any) -> Document:
    """A description with these paths and schemas."""
    return Document({"openapi": version, "paths": paths, "components": {"schemas": components}})


def tools(
    paths: dict[str, Any], said: list[dict[str, Any]] | None = None, **components: Any
) -> dict[str, Tool]:
    """The tools of a description by their names."""
    version = components.pop("version", "3.1.0")
    made = openapi_tools(service(), document(paths, version, **components), said or [])
    return {tool.name: tool for tool in made}


def with_body(schema: Any, *, required: bool = True, **more: Any) -> dict[str, Any]:
    """A path with one operation that takes a body."""
    content = {"application/json": {"schema": schema}}
    operation = {
        "operationId": "send",
        "requestBody": {"required": required, "content": content},
        **OK,
        **more,
    }
    return {"/things": {"post": operation}}


def fault(paths: dict[str, Any], said: list[dict[str, Any]] | None = None, **components: Any) -> OpenApiError:
    """Why a description gives no tools."""
    with pytest.raises(OpenApiError) as caught:
        tools(paths, said, **components)
    assert caught.value.remedy or caught.value.place
    return caught.value


def write(schema: Any, version: str = "3.1.0", **components: Any) -> Any:
    """A schema of a description, standing alone."""
    writer = SchemaWriter(document({}, version, **components), "request")
    written: dict[str, Any] = writer.write(schema, "")
    return {**written, **writer.finish()}


# --- names and modes ---


@pytest.mark.parametrize(
    ("method", "mode"),
    [
        ("get", "read_only"),
        ("head", "read_only"),
        ("options", "read_only"),
        ("post", "destructive"),
        ("put", "destructive"),
        ("patch", "destructive"),
        ("delete", "destructive"),
    ],
)
def test_a_method_has_a_usual_mode(method: str, mode: str) -> None:
    """What may change something is destructive until the pack says otherwise, and no answer is trusted."""
    [tool] = tools({"/a": {method: {"operationId": "it", **OK}}}).values()
    assert (tool.name, tool.mode, tool.adapter) == ("shop.it", ApprovalMode(mode), "http")
    assert tool.result_trust is Trust.UNTRUSTED


def test_a_pack_says_what_a_tool_is() -> None:
    """Mode, authority, limits, name: everything that `@tool` can say, but for what the description says."""
    said = {
        "operation": "POST /a", "name": "make", "mode": "network", "authority": [], "trust": "trusted",
        "limits": ["size(args) < 3"], "idempotent": True, "timeout_ms": 1234, "gates": ["G"],
    }  # fmt: skip
    [tool] = tools({"/a": {"post": OK}}, [said]).values()
    assert (tool.name, tool.mode, tool.authority, tool.timeout_ms) == ("shop.make", "network", (), 1234)
    assert (tool.result_trust, tool.idempotent, tool.limits[0].expression) == (
        "trusted",
        True,
        "size(args) < 3",
    )


@pytest.mark.parametrize(
    ("said", "trust"),
    [({}, "untrusted"), ({"untrusted": ["note"]}, "trusted"), ({"untrusted": []}, "trusted"),
     ({"untrusted": ["note"], "trust": "untrusted"}, "untrusted")],
)  # fmt: skip
def test_naming_what_is_untrusted_trusts_the_rest(said: dict[str, Any], trust: str) -> None:
    """An answer is untrusted until the pack says which fields are."""
    [tool] = tools({"/a": {"get": {"operationId": "it", **OK}}}, [{"operation": "it", **said}]).values()
    assert tool.result_trust == trust


def test_an_operation_without_an_id_is_called_by_its_method_and_path() -> None:
    """In letters that a tool's name may have."""
    assert list(tools({"/a/b-c": {"get": OK}})) == ["shop.GET_a_b-c"]


def test_only_listed_operations_are_tools() -> None:
    """Unless the service says that all are."""
    paths: dict[str, Any] = {
        "/a": {"get": {"operationId": "one", **OK}, "post": {"operationId": "two", **OK}}
    }
    listed = openapi_tools(service(operations="listed"), document(paths), [{"operation": "one"}])
    assert [tool.name for tool in listed] == ["shop.one"]
    assert fault(paths, [{"operation": "three"}]).code == "operation_unknown"


def test_a_service_must_be_where_calls_may_go() -> None:
    """A base URL that the allow-list does not name gives no tools."""
    with pytest.raises(OpenApiError) as caught:
        openapi_tools(service(egress=["api.example.test:80"]), document({}))
    assert caught.value.code == "egress_missing"


# --- parameters ---


def test_parameters_of_all_places_are_one_schema() -> None:
    """Those of the path and of the operation, of the query, the headers and the body; what we fill is left out."""
    paths = with_body(
        {"type": "object", "properties": {"total": {"type": "integer"}, "id": {"readOnly": True}}, "required": ["total"]},
        parameters=[
            {"name": "page", "in": "query", "schema": {"type": "integer"}, "description": "Which page."},
            {"name": "X-Shop", "in": "header", "required": True, "schema": {"type": "string"}},
            {"name": "Idempotency-Key", "in": "header", "required": True, "schema": {"type": "string"}},
            {"name": "Authorization", "in": "header", "schema": {"type": "string"}},
        ],
    )  # fmt: skip
    [tool] = tools(paths).values()
    assert tool.parameters == {
        "type": "object",
        "properties": {
            "page": {"type": "integer", "description": "Which page."},
            "X-Shop": {"type": "string"},
            "total": {"type": "integer"},
        },
        "required": ["X-Shop", "total"],
        "additionalProperties": False,
    }


def test_two_parameters_of_one_name_need_another_one() -> None:
    """The error says how one of them gets it, and then both are there."""
    paths: dict[str, Any] = {
        "/a/{id}": {
            "parameters": [{"name": "id", "in": "path", "required": True, "schema": {"type": "string"}}],
            "get": {"operationId": "it", "parameters": [{"name": "id", "in": "query", "schema": {}}], **OK},
        }
    }
    error = fault(paths)
    assert (error.code, "path.id" in (error.remedy or "")) == ("parameter_collision", True)
    [tool] = tools(paths, [{"operation": "it", "rename": {"query.id": "version"}}]).values()
    assert tool.parameter_names == ("id", "version")
    [tool] = tools(paths, [{"operation": "it", "omit": ["query.id"]}]).values()
    assert tool.parameter_names == ("id",)
    assert fault(paths, [{"operation": "it", "omit": ["path.id"]}]).code == "parameter_required"
    assert fault(paths, [{"operation": "it", "omit": ["query.no"]}]).code == "parameter_unknown"


@pytest.mark.parametrize(
    "parameter",
    [
        {"name": "a", "in": "cookie", "schema": {"type": "string"}},
        {"name": "a", "in": "query", "content": {"application/json": {}}},
        {"name": "a", "in": "query", "style": "deepObject", "schema": {"type": "object"}},
        {"name": "a", "in": "query", "schema": {"type": "object"}},
        {"name": "Host", "in": "header", "schema": {"type": "string"}},
    ],
)
def test_a_parameter_that_cannot_be_sent_is_named(parameter: dict[str, Any]) -> None:
    """It is an error with its place, and may be left out where it may be absent."""
    paths: dict[str, Any] = {"/a": {"get": {"operationId": "it", "parameters": [parameter], **OK}}}
    error = fault(paths)
    assert (error.code, error.place) == ("parameter_unsupported", "/paths/~1a/get/parameters/0")
    omitted = f"{parameter['in']}.{parameter['name']}"
    [tool] = tools(paths, [{"operation": "it", "omit": [omitted]}]).values()
    assert tool.parameter_names == ()


@pytest.mark.parametrize(
    ("schema", "required"),
    [
        ({"type": "array", "items": {"type": "string"}}, True),
        ({"oneOf": [{"type": "object", "properties": {"a": TEXT}}]}, True),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, True),
        ({"type": "object", "properties": {"a": TEXT}, "required": ["a"]}, False),
    ],
)
def test_a_body_that_is_no_plain_object_is_one_parameter(schema: Any, required: bool) -> None:
    """Its members cannot stand beside other parameters without changing what it says."""
    [tool] = tools(with_body(schema, required=required)).values()
    assert tool.parameter_names == ("body",)
    assert (tool.parameters["required"] == ["body"]) == required


def test_a_body_without_a_schema_is_no_tool() -> None:
    """Nothing could check what a plan sends."""
    paths: dict[str, Any] = {"/a": {"post": {"requestBody": {"content": {"application/xml": {}}}, **OK}}}
    assert fault(paths).code == "operation_without_schema"


@pytest.mark.parametrize("path", ["/a/{id}", "/a?b=c", "/a#b", "a"])
def test_a_path_is_filled_by_its_parameters(path: str) -> None:
    """A place that no parameter fills, or a path that is none, is an error."""
    assert fault({path: {"get": OK}}).code == "openapi_invalid"


# --- answers ---


@pytest.mark.parametrize(
    ("responses", "result"),
    [
        ({"200": {"content": {"application/json": {"schema": {"type": "integer"}}}}}, {"type": "integer"}),
        ({"201": {"content": {"application/hal+json": {"schema": {"type": "integer"}}}}}, {"type": "integer"}),
        ({"2XX": {"content": {"text/plain": {}}}}, {"type": "string"}),
        ({"204": {"description": "gone"}}, {"type": "null"}),
        ({"default": {"content": {"application/json": {"schema": True}}}}, {"allOf": [True]}),
        ({"200": {"content": {"application/pdf": {}}}}, None),
        ({"404": {"description": "no"}}, None),
        (
            {"200": {"content": {"application/json": {"schema": {"type": "integer"}}}}, "204": {"description": "none"}},
            {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        ),
    ],
)  # fmt: skip
def test_the_result_is_what_a_yes_may_say(responses: dict[str, Any], result: Any) -> None:
    """Every 2xx answer counts; one that is not described leaves the result open."""
    [tool] = tools({"/a": {"get": {"responses": responses}}}).values()
    assert tool.result == result


# --- references ---


def test_a_schema_may_contain_itself() -> None:
    """A tree is described once, and checked at every depth."""
    tree = {
        "type": "object",
        "properties": {"next": {"$ref": "#/components/schemas/Tree"}, "n": {"type": "integer"}},
    }
    [tool] = tools(with_body({"$ref": "#/components/schemas/Tree"}), Tree=tree).values()
    assert list(tool.parameters["$defs"]) == ["Tree"]
    assert schemas.faults(tool.parameters_text, {"next": {"next": {"n": 1}}}) == []
    assert schemas.faults(tool.parameters_text, {"next": {"next": {"n": "one"}}}) != []


@pytest.mark.parametrize(
    "components",
    [
        {"A": {"$ref": "#/components/schemas/A"}},
        {"A": {"$ref": "#/components/schemas/B"}, "B": {"$ref": "#/components/schemas/A"}},
        {"A": {"allOf": [{"$ref": "#/components/schemas/B"}]}, "B": {"anyOf": [{"not": {"$ref": "#/components/schemas/A"}}]}},
    ],
)  # fmt: skip
def test_a_schema_that_is_itself_is_refused(components: dict[str, Any]) -> None:
    """No validator would come to an end with it."""
    paths = with_body({"type": "array", "items": {"$ref": "#/components/schemas/A"}})
    assert fault(paths, **components).code == "ref_cycle"


@pytest.mark.parametrize(
    ("ref", "code"),
    [
        ("other.json#/A", "ref_outside"),
        ("https://example.test/a.json", "ref_outside"),
        ("file:///etc/passwd", "ref_outside"),
        ("#/components/schemas/No", "ref_missing"),
        (7, "ref_outside"),
    ],
)
def test_a_reference_stays_in_the_file(ref: Any, code: str) -> None:
    """Nothing is fetched; the error names the place."""
    error = fault(with_body({"type": "array", "items": {"$ref": ref}}))
    assert (error.code, error.place) == (
        code,
        "/paths/~1things/post/requestBody/content/application~1json/schema/items",
    )


def test_a_schema_without_measure_is_refused() -> None:
    """Neither depth nor breadth is read without a limit, and a long row of references is no depth."""
    deep: Any = {"type": "string"}
    for _ in range(60):
        deep = {"type": "array", "items": deep}
    assert fault(with_body(deep)).code == "schema_too_large"
    broad = {"type": "array", "prefixItems": [{"type": "string"}] * 30_000}
    assert fault(with_body(broad)).code == "schema_too_large"
    row: dict[str, Any] = {
        f"S{n}": {"type": "object", "properties": {"x": {"$ref": f"#/components/schemas/S{n + 1}"}}}
        for n in range(2_000)
    }
    [tool] = tools(with_body({"$ref": "#/components/schemas/S0"}), **row, S2000={"type": "string"}).values()
    assert len(tool.parameters["$defs"]) == 2_000


# --- schemas ---


def test_bounds_of_64_bits_bind_nothing_and_are_left_out() -> None:
    """What they allow and what they forbid stays the same for every number that can come up."""
    assert write({"type": "integer", "format": "int64", "minimum": -(2**63), "maximum": 2**63 - 1}) == {
        "type": "integer",
        "format": "int64",
    }
    assert write({"maximum": 1.7976931348623157e308, "minimum": 3}) == {"minimum": 3}
    assert write({"maxLength": 2**64, "minLength": 1}) == {"minLength": 1}
    assert write({"enum": [1, 2**60, "a"], "default": 2**60}) == {"enum": [1, "a"]}
    for never in ({"minimum": 2**60}, {"maximum": -(2**60)}, {"const": 2**60}):
        assert schemas.faults(json.dumps(write(never)), 5) != []


numbers = st.integers(-(2**70), 2**70) | st.floats(allow_nan=False)


@given(numbers, numbers, st.integers(-MAX_NUMBER, MAX_NUMBER))
def test_clipped_bounds_mean_the_same(low: float, high: float, value: int) -> None:
    """A number fits the written schema exactly where it lies within the bounds that were given."""
    written = write({"minimum": low, "maximum": high})
    assert not_plain(written) is None
    assert (schemas.faults(json.dumps(written), value) == []) == (low <= value <= high)


def test_schemas_of_version_3_0_become_json_schemas() -> None:
    """`nullable`, exclusive bounds as truth values, and what stands beside a reference."""
    old = "3.0.3"
    assert write({"type": "string", "nullable": True, "enum": ["a"]}, old) == {
        "type": ["string", "null"],
        "enum": ["a", None],
    }
    assert write({"allOf": [{"type": "string"}], "nullable": True}, old) == {
        "anyOf": [{"allOf": [{"type": "string"}]}, {"type": "null"}]
    }
    assert write({"maximum": 5, "exclusiveMaximum": True, "minimum": 1, "exclusiveMinimum": False}, old) == {
        "exclusiveMaximum": 5,
        "minimum": 1,
    }
    beside = {"$ref": "#/components/schemas/A", "minimum": 3}
    assert "minimum" not in write(beside, old, A={"type": "integer"})
    assert write(beside, A={"type": "integer"})["minimum"] == 3


def test_what_only_travels_the_other_way_is_left_out() -> None:
    """An id that the service gives is not asked for; a password that it takes is not expected back."""
    account = {
        "type": "object",
        "required": ["id", "password"],
        "properties": {
            "id": {"type": "string", "readOnly": True},
            "password": {"type": "string", "writeOnly": True},
        },
    }
    answer = {"200": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/A"}}}}}
    [tool] = tools(with_body({"$ref": "#/components/schemas/A"}, responses=answer), A=account).values()
    assert tool.parameter_names == ("password",)
    assert schemas.faults(tool.result_text, {"id": "a"}) == []


@pytest.mark.parametrize(
    "schema", [{"type": 2**60}, {"properties": {"\ud800": {}}, "allOf": []}, {"pattern": "\ud800"}]
)
def test_a_schema_that_cannot_be_hashed_is_refused(schema: Any) -> None:
    """Numbers beyond 2^53 where no bound stands, and letters that are none."""
    assert fault(with_body(schema)).code == "schema_invalid"


@pytest.mark.parametrize("word", ["$id", "$anchor", "$dynamicRef"])
def test_words_that_would_mean_something_else_are_refused(word: str) -> None:
    """A schema that names itself could be led anywhere."""
    assert fault(with_body({"type": "array", "items": {word: "x"}})).code == "schema_invalid"


# --- files ---


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("{", "json_syntax"),
        ('{"openapi": "3.1.0", "openapi": "3.0.0"}', "json_syntax"),
        ("[" * 100_000, "json_syntax"),
        ("[]", "openapi_invalid"),
        ('{"swagger": "2.0"}', "openapi_version"),
        ('{"openapi": 3}', "openapi_version"),
    ],
)
def test_a_file_that_is_no_description_is_named(text: str, code: str) -> None:
    """Each kind of wrong file has its code."""
    with pytest.raises(OpenApiError) as caught:
        read_document(text)
    assert caught.value.code == code


def test_a_description_may_be_yaml() -> None:
    """Keys become texts; aliases are refused, since a few of them can stand for more than fits into memory."""
    pytest.importorskip("yaml")
    text = "openapi: 3.0.1\npaths:\n  /a:\n    get:\n      operationId: it\n      responses:\n        200: {description: ok}\n"
    found = read_document(text, is_yaml=True)
    assert [each.id for each in found.operations()] == ["it"]
    for wrong in ("a: &a [1]\nb: *a\n", "a: [", "a: !!python/object/apply:os.system ['true']"):
        with pytest.raises(OpenApiError) as caught:
            read_document(wrong, is_yaml=True)
        assert caught.value.code == "yaml_syntax"


def test_without_a_reader_for_yaml_the_answer_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is no part of the core."""
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(OpenApiError) as caught:
        read_document("openapi: 3.0.0", is_yaml=True)
    assert caught.value.code == "yaml_unavailable"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from(["$ref", "properties", "items", "allOf", "type", "enum", "maximum", "nullable", "x", "not"]), inner, max_size=4
    ),
    max_leaves=20,
)  # fmt: skip


@given(json_values)
def test_whatever_stands_for_a_schema_it_is_written_or_refused(schema: Any) -> None:
    """No description makes the writer raise anything else, and it changes nothing of what it was given."""
    before = copy.deepcopy(schema)
    with suppress(OpenApiError):
        tools(with_body(schema))
    assert schema == before


EXAMPLE = json.loads(
    (Path(__file__).parents[2] / "examples/http/billing.openapi.json").read_text(encoding="utf-8")
)
odd_values: st.SearchStrategy[Any] = json_values | st.sampled_from(
    ["\ud800", "#", {"$ref": "#"}, {"$ref": "#/paths"}, {"$ref": "#/components/schemas/Invoice"}, [1], 2**60]
)


def places(value: Any) -> list[tuple[Any, Any]]:
    """Every container of a document, with each of its keys."""
    found: list[tuple[Any, Any]] = []
    stack: list[Any] = [value]
    while stack:
        item: Any = stack.pop()
        members = as_object(item)
        keys: list[Any] = list(range(len(item))) if members is None else list(members)
        found += [(item, key) for key in keys]
        stack += [item[key] for key in keys if isinstance(item[key], dict | list)]
    return found


@given(st.lists(st.tuples(st.integers(0, 10_000), odd_values), min_size=1, max_size=3))
def test_a_description_that_was_damaged_is_read_or_refused(damages: list[tuple[int, Any]]) -> None:
    """Whatever part of a good description is replaced by something else, the answer is tools or a typed error."""
    damaged = copy.deepcopy(EXAMPLE)
    for number, value in damages:
        found = places(damaged)
        if found:
            container, key = found[number % len(found)]
            container[key] = copy.deepcopy(value)
    with suppress(OpenApiError):
        openapi_tools(service(), read_document(json.dumps(damaged)))
