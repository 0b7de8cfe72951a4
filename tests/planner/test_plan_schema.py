"""The schema of an answer: it takes plans of the tools that are offered, and no authority out of thin air."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from jsonschema_rs import meta, validator_for

from tercet.contracts.mode import ApprovalMode
from tercet.contracts.plan import Plan
from tercet.contracts.shape import JsonObject
from tercet.contracts.tool import ToolSpec
from tercet.planner.plan_schema import answer_schema

from .desk import FIND, RULES, SEND, assignment

COMMON = {
    "type",
    "properties",
    "required",
    "additionalProperties",
    "anyOf",
    "enum",
    "items",
    "minItems",
    "maxItems",
    "minimum",
    "maximum",
    "minLength",
    "maxLength",
    "$defs",
    "$ref",
}


def refund(**params: Any) -> JsonObject:
    """A plan that looks an order up and pays it back, as a model would write it."""
    given = {"payment": {"$from": "s1#/payment"}, "amount": {"$from": "s1#/total"}, "note": None, **params}
    return {
        "steps": [
            {"tool": "shop.find", "params": {"order": {"$from": "request#/order"}}, "evidence_refs": []},
            {"tool": "shop.refund", "params": given, "evidence_refs": [RULES]},
        ],
        "outputs": {"refund_id": {"$from": "s2#/refund_id"}},
    }


def fits(document: Any, **fields: Any) -> bool:
    """Whether a document fits the schema of the desk."""
    return validator_for(answer_schema(assignment(**fields))).is_valid(document)


def test_a_good_plan_fits() -> None:
    """References, trusted values and null for what is left out."""
    assert fits(refund())
    assert fits(refund(payment="ord_1", amount=500))
    assert fits(refund(amount={"$evidence": f"{RULES}#/most"}))


@pytest.mark.parametrize(
    "params",
    [
        {"amount": 499},
        {"amount": True},
        {"payment": "acct_666"},
        {"payment": "a kind letter"},
        {"payment": {"$from": "request#/note"}},
        {"payment": {"$evidence": "kg:letter:one#snapshot_may#/text"}},
        {"payment": {"$cel": "'acct_666'"}},
        {"amount": None},
        {"approval_mode": "read_only"},
        {"note": "n" * 41},
    ],
)
def test_an_argument_without_a_trusted_source_cannot_be_spelt(params: dict[str, Any]) -> None:
    """Neither a literal that nobody trusted said, nor a reference to other people's words."""
    assert not fits(refund(**params))


def mail(**params: Any) -> bool:
    """Whether a plan that sends a letter fits."""
    given = {"to": ["ord_1"], "text": "hello", "cc": None, "tags": None, **params}
    document: JsonObject = {"steps": [{"tool": "mail.send", "params": given, "evidence_refs": []}]}
    return fits(document, tools={SEND.name: SEND}, outputs_kept=("refund_id",))


@pytest.mark.parametrize("name", ["to", "cc"])
def test_a_list_with_authority_takes_trusted_values_also_where_it_may_be_none(name: str) -> None:
    """`list[str] | None` offers the same values as `list[str]`, and no others."""
    assert mail(**{name: ["ord_1"]})
    assert not mail(**{name: ["eve@example.com"]})
    assert not mail(**{name: "ord_1"})


def test_an_optional_list_without_authority_takes_any_values() -> None:
    """A model may also leave it out."""
    assert mail(tags=["any"])
    assert mail()


MISFITS: list[Any] = [
    {},
    {"steps": []},
    {**refund(), "steps": []},
    {**refund(), "steps": refund()["steps"] * 2},
    {**refund(), "gates": []},
    {**refund(), "outputs": {}},
    {**refund(), "outputs": {"refund_id": "made up"}},
    {**refund(), "steps": [{"tool": "shop.close", "params": {}, "evidence_refs": []}]},
    {**refund(), "steps": [{**refund()["steps"][0], "approval_mode": "read_only"}]},
]


@pytest.mark.parametrize("document", MISFITS)
def test_anything_else_does_not_fit(document: Any) -> None:
    """Other tools, no steps, too many of them, and fields that are not a planner's to set."""
    assert not fits(document)


def test_only_the_missing_part_is_asked_for() -> None:
    """In a plan of which something stays, the other steps come next, outputs that stay are not asked for, and what was
    brought can be referred to."""
    before = Plan.model_validate(
        {"steps": [{"id": "s1", "tool": "shop.find", "params": {"order": "ord_1"}}], "outputs": {}}
    )
    asked = {"before": before, "kept": ("s1",), "first": 2, "outputs_kept": ("refund_id",), "max_steps": 1}
    step = refund()["steps"][1]
    assert fits({"steps": [step]}, **asked)
    assert fits({"steps": []}, **asked)
    assert not fits({"steps": [step], "outputs": {"refund_id": {"$from": "s2#/refund_id"}}}, **asked)


def _keywords(schema: Any) -> Iterator[str]:
    match schema:
        case dict():
            for key, value in schema.items():  # pyright: ignore[reportUnknownVariableType]
                yield str(key)  # pyright: ignore[reportUnknownArgumentType]
                if key in ("properties", "$defs"):
                    for part in value.values():  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
                        yield from _keywords(part)
                elif key not in ("enum", "required"):
                    yield from _keywords(value)
        case list():
            for part in schema:  # pyright: ignore[reportUnknownVariableType]
                yield from _keywords(part)
        case _:
            pass


AWKWARD = ToolSpec(
    name="odd.tool",
    mode=ApprovalMode.NETWORK,
    parameters={
        "type": "object",
        "required": ["to", "shape"],
        "properties": {
            "to": {"type": "array", "items": {"$ref": "#/$defs/person"}, "maxItems": 5_000},
            "shape": {"oneOf": [{"const": "round"}, {"type": "number", "exclusiveMinimum": 0}]},
            "tree": {"$ref": "#/$defs/tree"},
            "free": {},
            "table": {"type": "object", "patternProperties": {"^x": {"type": "string"}}},
            "code": {"type": "string", "pattern": "^(?=a)a$", "format": "uri"},
        },
        "$defs": {
            "person": {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]},
            "tree": {
                "type": "object",
                "properties": {"left": {"$ref": "#/$defs/tree"}, "leaf": {"type": "string"}},
            },
        },
    },
)


@pytest.mark.parametrize("tool", [AWKWARD, AWKWARD.model_copy(update={"authority": ()}), FIND])
def test_a_schema_keeps_to_what_providers_have_in_common(tool: ToolSpec) -> None:
    """Whatever a tool's own schema uses: few keywords, closed objects, all properties required, bounded lists."""
    schema = answer_schema(assignment(tools={tool.name: tool}))
    meta.validate(schema)
    assert set(_keywords(schema)) <= COMMON
    for part in _objects(schema):
        assert part["additionalProperties"] is False
        assert part["required"] == list(part["properties"])


def _objects(schema: Any) -> Iterator[JsonObject]:
    if isinstance(schema, dict):
        if schema.get("type") == "object":  # pyright: ignore[reportUnknownMemberType]
            yield schema  # pyright: ignore[reportUnknownVariableType]
        for value in schema.values():  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
            yield from _objects(value)
    elif isinstance(schema, list):
        for part in schema:  # pyright: ignore[reportUnknownVariableType]
            yield from _objects(part)


def test_where_sources_cannot_be_listed_any_reference_fits() -> None:
    """A tool that does not say what it gives can still be referred to, and authority is still no free text."""
    silent = FIND.model_copy(update={"result": None})
    tools = {**assignment().tools, silent.name: silent}
    assert fits(refund(payment={"$from": "s1#/deep/0"}), tools=tools)
    assert not fits(refund(payment="acct_666"), tools=tools)
