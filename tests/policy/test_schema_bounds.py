"""A schema that a validator could take without end over is refused before it is compiled."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tercet.contracts.errors import UsageError
from tercet.packs.checking import check
from tercet.packs.pack import Pack
from tercet.policy import schemas
from tercet.tools.tool import Tool


def doubling(keyword: str, levels: int) -> dict[str, Any]:
    """Each definition refers twice to the next: 2^levels subschemas for one value."""
    defs: dict[str, Any] = {f"d{n}": {keyword: [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(levels)}
    return {"$ref": "#/$defs/d0", "$defs": {**defs, f"d{levels}": {"type": "string"}}}


def nested(levels: int, keyword: str, **beside: Any) -> dict[str, Any]:
    """A schema inside of a schema, so many times."""
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(levels):
        schema = {keyword: schema if keyword == "not" else [schema], **beside}
    return schema


def by_level(levels: int) -> dict[str, Any]:
    """Twice as many subschemas with each level of the value."""
    defs = {
        f"d{n}": {"properties": {"x": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2}}} for n in range(levels)
    }
    return {"$ref": "#/$defs/d0", "$defs": {**defs, f"d{levels}": {"type": "string"}}}


BY_ID: dict[str, Any] = {
    "$ref": "d0.json",
    "$defs": {
        f"d{n}": {"$id": f"d{n}.json", "allOf": [{"$ref": f"d{n + 1}.json"}] * 2 if n < 30 else []}
        for n in range(31)
    },
}
BY_ANCHOR: dict[str, Any] = {
    "$ref": "#d0",
    "$defs": {
        f"d{n}": {"$anchor": f"d{n}", "allOf": [{"$ref": f"#d{n + 1}"}] * 2 if n < 30 else []}
        for n in range(31)
    },
}


@pytest.mark.parametrize(
    "schema",
    [
        *(doubling(keyword, 30) for keyword in ("allOf", "anyOf", "oneOf")),
        nested(200, "allOf"),
        nested(200, "not"),
        nested(30, "allOf", unevaluatedProperties=False),
        by_level(30),
        {"allOf": [{"$ref": "#"}]},
        {"properties": {f"p{n}": {"enum": [n]} for n in range(30_000)}},
        BY_ID,
        BY_ANCHOR,
    ],
    ids=[
        "allOf",
        "anyOf",
        "oneOf",
        "deep",
        "not",
        "unevaluated",
        "levels",
        "itself",
        "large",
        "ids",
        "anchors",
    ],
)
def test_a_schema_that_expands_too_far_is_refused(schema: dict[str, Any]) -> None:
    """As a typed error with a remedy."""
    with pytest.raises(UsageError, match="too complex") as refused:
        schemas.faults(json.dumps(schema), {"x": {"x": 1}})
    assert refused.value.code == "schema_invalid"


@pytest.mark.parametrize("keyword", ["parameters", "result"])
def test_a_tool_with_such_a_schema_is_a_problem_of_its_pack(keyword: str) -> None:
    """Found by `tercet check`, and before anything is judged by it."""
    tool = Tool.model_validate(
        {"name": "a.b", "mode": "read_only", "call": len, keyword: doubling("allOf", 30)}
    )
    pack = Pack(name="p", version="1.0.0", tools=(tool,))
    assert any("too complex" in problem.message for problem in check(pack))


def test_a_schema_that_refers_to_itself_may_check_shallow_values() -> None:
    """Where the work doubles with each level, a value of forty levels is refused; a tree that does not is any depth."""
    twice = json.dumps(
        {"type": "object", "properties": {"x": {"anyOf": [{"$ref": "#"}, {"$ref": "#"}, {"type": "null"}]}}}
    )
    once = json.dumps(
        {"type": "object", "properties": {side: {"$ref": "#"} for side in ("left", "right", "x")}}
    )
    deep: dict[str, Any] = {"x": {}}
    for _ in range(40):
        deep = {"x": deep}
    assert schemas.faults(twice, {"x": {"x": {"x": None}}}) == []
    assert [fault.keyword for fault in schemas.faults(twice, deep)] == ["maxDepth"]
    assert schemas.faults(once, deep) == []


def test_ordinary_schemas_are_not_refused() -> None:
    """A union of many models, each with members, and definitions that many refer to."""
    models = {
        f"M{n}": {
            "type": "object",
            "properties": {"kind": {"const": n}, "money": {"$ref": "#/$defs/Money"}},
            "additionalProperties": False,
        }
        for n in range(100)
    }
    money = {"type": "object", "properties": {"amount": {"type": "integer"}}}
    union = [{"$ref": f"#/$defs/{name}"} for name in models]
    schema = json.dumps({"oneOf": union, "$defs": {**models, "Money": money}})
    assert schemas.faults(schema, {"kind": 7, "money": {"amount": 5}}) == []
    assert schemas.faults(schema, {"kind": 7, "money": {"amount": "five"}}) != []
