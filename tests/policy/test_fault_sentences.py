"""Violations of a tool's schema are sentences: the parameter, what it must be, and what it is."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from tercet.contracts.context import CompiledContext, RunContext
from tercet.contracts.decision import DecisionSpec
from tercet.contracts.plan import Plan
from tercet.contracts.runs.behaviour import CURRENT, Behaviour
from tercet.critic.verify import verify
from tercet.policy.schemas import faults

LINE = {
    "type": "object",
    "properties": {"cents": {"type": "integer"}},
    "required": ["cents"],
    "additionalProperties": False,
}


def sentences(schema: dict[str, Any], value: Any) -> list[str]:
    """The sentences for a parameter `to` with this schema and this value."""
    whole = {"type": "object", "properties": {"to": schema}}
    return [fault.text for fault in faults(orjson.dumps(whole).decode(), {"to": value})]


@pytest.mark.parametrize(
    ("schema", "value", "sentence"),
    [
        ({"type": "string"}, 5, "the parameter 'to' must be a string, and is 5"),
        ({"type": ["integer", "null"]}, "x", 'the parameter \'to\' must be a whole number or null, and is "x"'),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "x", 'the parameter \'to\' must be a whole number or null, and is "x"'),
        ({"anyOf": [{"minLength": 3}, {"type": "null"}]}, "x", 'the parameter \'to\' must have at least 3 characters or be null, and is "x"'),
        ({"enum": ["eur", "usd"]}, "inr", 'the parameter \'to\' must be "eur" or "usd", and is "inr"'),
        ({"enum": list(range(20))}, 99, "the parameter 'to' must be 0, 1, 2, 3, 4, 5, 6, 7, 8, 9 or 10 more, and is 99"),
        ({"const": "eur"}, "inr", 'the parameter \'to\' must be "eur", and is "inr"'),
        ({"minimum": 1}, 0, "the parameter 'to' must be at least 1, and is 0"),
        ({"exclusiveMaximum": 9}, 9, "the parameter 'to' must be less than 9, and is 9"),
        ({"multipleOf": 0.5}, 0.3, "the parameter 'to' must be a multiple of 0.5, and is 0.3"),
        ({"minLength": 1}, "", "the parameter 'to' must have at least 1 character, and is \"\""),
        ({"maxItems": 1}, [1, 2], "the parameter 'to' must have at most 1 item, and is [1,2]"),
        ({"uniqueItems": True}, [1, 1], "the parameter 'to' must hold no item twice, and is [1,1]"),
        ({"pattern": "^acct_"}, "x", 'the parameter \'to\' must match the pattern ^acct_, and is "x"'),
        (LINE, {}, "the parameter 'to' lacks 'cents'"),
        (LINE, {"cents": 1, "tip": 2}, "the parameter 'to' takes no 'tip'"),
        ({"type": "array", "items": LINE}, [{"cents": "x"}], "the parameter 'to/0/cents' must be a whole number, and is \"x\""),
        ({"type": "string"}, list(range(99)), "the parameter 'to' must be a string, and is [0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22…"),
        ({"not": {"type": "string"}}, "x", 'to: {"type":"string"} is not allowed for "x"'),
    ],
)  # fmt: skip
def test_a_violation_is_a_sentence(schema: dict[str, Any], value: Any, sentence: str) -> None:
    """What there are no words for is said as the validator says it."""
    assert sentences(schema, value) == [sentence]


@pytest.mark.parametrize(
    ("params", "sentence", "before"),
    [
        ({"to": 5}, "step 0: the parameter 'to' must be a string, and is 5", 'step 0 to: 5 is not of type "string"'),
        ({}, "step 0: the parameter 'to' is missing", 'step 0 arguments: "to" is a required property'),
        ({"to": "x", "too": 1, "tow": 2}, "step 0: there are no parameters 'too' and 'tow'",
         "step 0 arguments: Additional properties are not allowed ('too', 'tow' were unexpected)"),
    ],
)  # fmt: skip
def test_a_plan_is_refused_in_sentences(params: dict[str, Any], sentence: str, before: str) -> None:
    """Sessions under earlier rules keep the words of the validator."""
    schema = {"type": "object", "properties": {"to": {"type": "string"}}, "required": ["to"], "additionalProperties": False}  # fmt: skip
    declared = {"name": "bank.pay", "mode": "read_only", "parameters": schema}
    entry = {
        "adapter_id": "bank",
        "capability_id": "pay",
        "approval_mode": "read_only",
        "declaration": declared,
    }
    compiled = CompiledContext.model_validate({"manifests": {"tool_manifest": [entry]}})
    plan = Plan.model_validate({"steps": [{"id": "pay", "tool": "bank.pay", "params": params}]})
    earlier = tuple(number for number in CURRENT if number != Behaviour.CAUSES_NAMED)
    for rules, expected in ((CURRENT, sentence), (earlier, before)):
        context = RunContext(behaviour=rules)
        verdict = verify(context, compiled, DecisionSpec(id="d"), plan)
        assert expected in [each.reason for each in verdict.refusals]
