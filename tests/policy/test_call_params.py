"""What a tool is called with: declared defaults filled in, and equal values spelled alike."""

from __future__ import annotations

from typing import Any

import pytest

from tercet.contracts.tool import ToolSpec
from tercet.policy.call_params import (
    canonical_params,
    defaults_in,
    effective_params,
    keeps_spelling,
    uncertain_defaults,
)


def tool(properties: dict[str, Any], **schema: Any) -> ToolSpec:
    """A tool with these parameters."""
    parameters = {"type": "object", "properties": properties, **schema}
    return ToolSpec.model_validate({"name": "pay.it", "mode": "local_write", "parameters": parameters})


DECIMAL = {"anyOf": [{"type": "number"}, {"type": "string"}]}
LINE = {
    "type": "object",
    "properties": {"kind": {"const": "line"}, "cents": {"type": "integer", "default": 9}},
}
OTHER = {
    "type": "object",
    "properties": {"kind": {"const": "other"}, "pence": {"default": 1}},
    "required": ["kind"],
}
ID = {"anyOf": [{"type": "integer"}, {"type": "string"}]}


def text(kind: str) -> dict[str, Any]:
    """The schema of a text of a format."""
    return {"type": "string", "format": kind}


EQUAL: list[Any] = [
    (text("date"), "2026-05-01", "2026-05-01T00:00:00"),
    (text("date-time"), "2026-05-01T00:00:00Z", "2026-05-01T00:00:00+00:00"),
    (text("date-time"), "2026-05-01T00:00:00Z", "2026-05-01 02:00:00.000+02:00"),
    (text("time"), "09:30Z", "09:30:00+00:00"),
    (text("time"), "10:00:00Z", "12:00:00+02:00"),
    (text("time"), "23:00:00Z", "01:00:00+02:00"),
    (text("ipv6"), "::1", "0:0:0:0:0:0:0:1"),
    (text("ipvanyaddress"), "2001:DB8::", "2001:db8::0"),
    (text("duration"), "PT60S", "PT1M"),
    (text("uuid"), "AAAAAAAA-aaaa-4aaa-8aaa-AAAAAAAAAAAA", "aaaaaaaaaaaa4aaa8aaaaaaaaaaaaaaa"),
    ({"anyOf": [text("uuid"), {"type": "null"}]}, "A" * 32, "a" * 32),
    (DECIMAL, 1, "1"),
    (DECIMAL, "1.0", "1"),
    (DECIMAL, 100, "1e2"),
    (DECIMAL, 0, "-0.00"),
    ({"type": ["number", "string"]}, 0.5, "0.50"),
    (ID, 7, "7"),
    ({"type": "number"}, 10**20, 1e20),
    ({"type": "array", "items": text("uuid")}, ["A" * 32], ["a" * 32]),
    ({"type": "object", "properties": {"u": text("uuid")}}, {"u": "A" * 32}, {"u": "a" * 32}),
    ({"$ref": "#/$defs/U"}, "A" * 32, "a" * 32),
    ({"additionalProperties": DECIMAL}, {"a": "100"}, {"a": 100.0}),
    ({"additionalProperties": LINE}, {"a": {}}, {"a": {"cents": 9}}),
    ({"unevaluatedProperties": LINE}, {"a": {}}, {"a": {"cents": 9}}),
    ({"patternProperties": {"^a": DECIMAL}}, {"a": "100"}, {"a": "1e2"}),
    ({"prefixItems": [{"type": "integer"}, LINE]}, [1, {}], [1, {"cents": 9}]),
    ({"prefixItems": [{"type": "integer"}], "items": LINE}, [1, {}], [1, {"cents": 9}]),
    ({"items": [{"type": "integer"}], "additionalItems": LINE}, [1, {}], [1, {"cents": 9}]),
    ({"unevaluatedItems": LINE}, [{}], [{"cents": 9}]),
    (
        {"allOf": [LINE, {"properties": {"u": text("uuid")}}]},
        {"u": "A" * 32},
        {"u": "a" * 32, "cents": 9},
    ),
    ({"anyOf": [LINE, OTHER]}, {"kind": "other"}, {"kind": "other", "pence": 1}),
    ({"oneOf": [{"$ref": "#/$defs/Other"}, LINE]}, {"cents": 9}, {}),
    ({"items": {"anyOf": [LINE, {"type": "string"}]}}, ["a", {}], ["a", {"cents": 9}]),
    ({"if": {"required": ["k"]}, "then": LINE, "else": OTHER}, {"k": 1}, {"k": 1, "cents": 9}),
    (
        {"if": {"required": ["k"]}, "then": LINE, "else": {"properties": {"n": DECIMAL}}},
        {"n": 1},
        {"n": "1"},
    ),
    (LINE, {"cents": 3, "n": 1}, {"cents": 3}),
    ({"items": {"properties": {"o": LINE}}}, [{"o": {"n": 1}, "m": 2}], [{"o": {}}]),
    ({"dependentSchemas": {"k": LINE}}, {"k": 1}, {"k": 1, "cents": 9}),
    ({"uniqueItems": True, "items": {"type": "string"}}, ["a", "b"], ["b", "a"]),
    ({"uniqueItems": True, "items": DECIMAL}, ["1", 2], [2, 1.0, "1"]),
]


@pytest.mark.parametrize(("schema", "first", "second"), EQUAL)
def test_equal_values_are_spelled_alike(schema: dict[str, Any], first: Any, second: Any) -> None:
    """Two spellings that a tool receives as one value compare as one."""
    spec = tool({"x": schema}, **{"$defs": {"U": text("uuid"), "Other": OTHER}})
    one, other = canonical_params(spec, {"x": first}), canonical_params(spec, {"x": second})
    assert one == other
    assert canonical_params(spec, one) == one


def test_a_default_is_the_value_that_a_call_leaves_out() -> None:
    """A call without a parameter is the same as one with its default, whatever its other values are."""
    spec = tool({"x": {"type": "string"}, "n": {"type": "integer", "default": 7}})
    assert (
        canonical_params(spec, {"x": "a"}) == canonical_params(spec, {"x": "a", "n": 7}) == {"x": "a", "n": 7}
    )


OTHERS: list[Any] = [
    (text("date"), "2026-05-01", "2026-05-02"),
    (text("date-time"), "2026-05-01T00:00:00", "2026-05-01T00:00:00Z"),
    (text("date-time"), "soon", "Soon"),
    (text("time"), "10:00:00", "10:00:00Z"),
    (text("ipv4"), "127.0.0.1", "localhost"),
    ({"type": "array", "items": {"type": "string"}}, ["a", "b"], ["b", "a"]),
    ({"additionalProperties": LINE}, {"a": {}}, {"b": {}}),
    ({"properties": {"a": {}}, "additionalProperties": LINE}, {"a": {}}, {"a": {"cents": 9}}),
    ({"patternProperties": {"^a": {}}, "additionalProperties": LINE}, {"a": {}}, {"a": {"cents": 9}}),
    ({"patternProperties": {"(?=a)": LINE, "(": LINE}}, {"b": {}}, {"b": {"cents": 9}}),
    ({"anyOf": [LINE, OTHER]}, {"kind": "third"}, {"kind": "third", "cents": 9}),
    ({"uniqueItems": True}, ["a", 1], ["a", True]),
    (text("date-time"), "9999-12-31T23:59:59-14:00", "9999-12-31T23:59:58-14:00"),
    ({"type": "string"}, "A" * 32, "a" * 32),
    ({"type": "string"}, "1", "1.0"),
    (ID, "007", "7"),
    (DECIMAL, "1" * 40, "1" * 39 + "2"),
    (DECIMAL, "NaN", "Infinity"),
    (DECIMAL, 1, True),
    (DECIMAL, "9" * 5_000, "9" * 4_999),
    ({"$ref": "#/nowhere"}, "a", "A"),
    (True, "a", "A"),
]


@pytest.mark.parametrize(("schema", "first", "second"), OTHERS)
def test_other_values_stay_apart(schema: Any, first: Any, second: Any) -> None:
    """What a tool may tell apart compares as two values."""
    spec = tool({"x": schema})
    one, other = canonical_params(spec, {"x": first}), canonical_params(spec, {"x": second})
    assert repr(one) != repr(other)


def test_declared_defaults_are_filled_in_at_every_level() -> None:
    """A default counts as if it had been written, also inside objects and lists; of a union, the first that fits."""
    line = {"type": "object", "properties": {"cents": {"type": "integer", "default": 9900}}}
    either = {"anyOf": [line, {"type": "object", "properties": {"other": {"default": 1}}}]}
    spec = tool(
        {"to": {"type": "string"}, "line": line, "lines": {"type": "array", "items": line}, "either": either,
         "cur": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None}}
    )  # fmt: skip
    params: dict[str, Any] = {"to": "a", "line": {}, "lines": [{"cents": 1}, {}], "either": {}}
    effective = effective_params(spec, params)
    assert effective == {
        "to": "a", "line": {"cents": 9900}, "lines": [{"cents": 1}, {"cents": 9900}], "either": {"cents": 9900},
        "cur": None,
    }  # fmt: skip
    assert defaults_in(params, effective) == ("/line/cents", "/lines/1/cents", "/either/cents", "/cur")
    assert uncertain_defaults(spec, params) == ("/either",)
    earlier = effective_params(spec, params, reads_all=False)
    assert earlier == {**effective, "either": {}}
    assert canonical_params(spec, effective) == canonical_params(spec, params)


def test_a_schema_that_refers_to_itself_comes_to_an_end() -> None:
    """Defaults inside defaults, references in circles and very deep values are cut off."""
    node: dict[str, Any] = {"type": "object", "properties": {"child": {"$ref": "#/$defs/N", "default": {}}}}
    loop = {"$ref": "#/$defs/L"}
    spec = tool({"x": {"$ref": "#/$defs/N"}, "y": loop}, **{"$defs": {"N": node, "L": loop}})
    assert effective_params(spec, {"x": {}}) == {"x": {"child": {"child": {}}}}
    deep: Any = 1.0
    for _ in range(500):
        deep = [deep]
    assert canonical_params(spec, {"y": deep})["y"]
    assert canonical_params(tool({"x": DECIMAL}), {"x": 10**5_000}) == {"x": 10**5_000}


@pytest.mark.parametrize(
    ("root", "first", "second"),
    [
        ({"additionalProperties": text("uuid")}, {"x": "A" * 32}, {"x": "a" * 32}),
        ({"patternProperties": {"x": text("uuid")}}, {"x": "A" * 32}, {"x": "a" * 32}),
        ({"anyOf": [{"properties": {"x": text("uuid")}}]}, {"x": "A" * 32}, {"x": "a" * 32}),
        ({"allOf": [{"properties": {"x": {"default": "a"}}}]}, {"x": "a"}, {}),
    ],
)
def test_parameters_may_be_declared_beside_properties(
    root: dict[str, Any], first: dict[str, Any], second: dict[str, Any]
) -> None:
    """The whole of the parameters is read as any object is, and no shorter way takes two spellings for two values."""
    spec = tool({"other": {"type": "string"}}, **root)
    assert canonical_params(spec, first) == canonical_params(spec, second)
    assert not keeps_spelling(spec, "x")


def test_an_alternative_is_uncertain_only_where_it_has_defaults() -> None:
    """Of `required` alone, or of a text beside an object, nothing can be added."""
    places = {
        "either": {"anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
        "line": {"anyOf": [LINE, {"type": "string"}]},
        "both": {"anyOf": [{"items": LINE}, {"items": {"properties": {"n": {"default": 1}}}}]},
    }
    spec = tool(places)
    assert uncertain_defaults(spec, {"either": {"a": 1, "b": 1}, "line": {}, "both": [{}]}) == ("/both",)
