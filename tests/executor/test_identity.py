"""What an action is: the key under which it happens once."""

from __future__ import annotations

from typing import Any

import pytest

from tercet.contracts.plan import Step
from tercet.contracts.steps.effective import effective
from tercet.contracts.tool import ToolSpec
from tercet.contracts.values.canonical import digest
from tercet.core.prepared_call import (
    PreparedCall,
    call_hash,
    idempotency_key,
    params_digest,
    print_identity,
)
from tercet.policy.call_params import identity_params

PAYMENT = {
    "properties": {"to": {"type": "string"}, "amount": {"type": "integer"}, "memo": {"type": "string"}}
}
PARAMS = {"to": "bob", "amount": 5, "memo": "thanks"}


def key_of(tenant: str, session: str, spec: ToolSpec, params: dict[str, Any], occurrence: int) -> str:
    """The key of a call of this tool."""
    identity = print_identity(identity_params(spec, params))
    return idempotency_key(tenant, session, spec.name, identity, occurrence)


def tool(**declared: Any) -> ToolSpec:
    """A tool that pays."""
    return ToolSpec.model_validate({"name": "pay.it", "mode": "local_write", **declared})


@pytest.mark.req("R111")
@pytest.mark.parametrize(
    ("declared", "expected"),
    [
        ({"identity": ("to",), "authority": ("to", "amount")}, {"to": "bob"}),
        ({"authority": ("to", "amount"), "parameters": PAYMENT}, {"to": "bob", "amount": 5}),
        ({"authority": ("to",), "parameters": PAYMENT}, PARAMS),
        ({"authority": ("to",)}, {"to": "bob"}),
        ({}, PARAMS),
        ({"identity": ("order",)}, {"order": None}),
    ],
    ids=[
        "identity",
        "authority with a number",
        "authority without a number",
        "authority without a type",
        "all",
        "absent",
    ],
)
def test_identity_is_declared_or_authority_or_all(declared: dict[str, Any], expected: dict[str, Any]) -> None:
    """The careful default: without a declaration, every parameter says what the action is. Authority parameters do so
    alone only if one of them is a number."""
    assert identity_params(tool(**declared), PARAMS) == expected


@pytest.mark.parametrize(
    "amount",
    [
        {"type": "number"},
        {"type": ["integer", "null"]},
        {"anyOf": [{"type": "string"}, {"type": "number"}]},
        {"$ref": "#/$defs/Cents"},
    ],
    ids=["number", "list", "alternatives", "reference"],
)
def test_a_number_is_recognised_however_the_schema_says_it(amount: dict[str, Any]) -> None:
    """A memo does not make another payment."""
    schema = {
        "properties": {"to": {"type": "string"}, "amount": amount},
        "$defs": {"Cents": {"type": "integer"}},
    }
    declared = tool(authority=("to", "amount"), parameters=schema)
    assert identity_params(declared, PARAMS) == {"to": "bob", "amount": 5}


def test_under_earlier_rules_authority_parameters_are_enough() -> None:
    """A session that started before goes on with the keys that it had."""
    message = tool(authority=("to",), parameters=PAYMENT)
    assert identity_params(message, PARAMS, is_strict=False) == {"to": "bob"}


@pytest.mark.req("R111")
def test_a_key_says_what_and_in_which_session() -> None:
    """Tenant, session, tool, identity and occurrence each make another key; what is no identity does not."""
    base: dict[str, Any] = {
        "tenant": "t", "session": "s", "spec": tool(identity=("to",)), "params": PARAMS, "occurrence": 0,
    }  # fmt: skip

    def key(**other: Any) -> str:
        return key_of(**{**base, **other})

    keys = {
        key(),
        key(tenant="u"),
        key(session="r"),
        key(spec=tool(identity=("to",), name="pay.other")),
        key(params={**PARAMS, "to": "eve"}),
        key(occurrence=1),
    }
    assert len(keys) == 6
    assert key(params={**PARAMS, "memo": "other"}) == key()
    assert key(params=dict(reversed(PARAMS.items()))) == key()


def test_parts_of_a_key_do_not_run_into_each_other() -> None:
    """A tenant and a session that read the same together are still two."""
    spec = tool()
    assert key_of("ab", "c", spec, {}, 0) != key_of("a", "bc", spec, {}, 0)


@pytest.mark.parametrize(
    "params",
    [{}, {"b": 1, "a": [1.0, 0.5, None, True]}, {"é": "ü", "\U0001f600": {"z": 1e-7}}, {"n": -(2**53) + 1}],
    ids=["none", "nested", "beyond ASCII", "the largest integer"],
)
def test_a_key_is_the_hash_of_canonical_json(params: dict[str, Any]) -> None:
    """It is put together from parts that are printed once: it must stay what it was in every earlier journal."""
    whole = digest(["tenant é", "s", "pay.it", params, 3])
    assert key_of("tenant é", "s", tool(), params, 3) == whole
    assert params_digest("pay.it", params) == digest(["pay.it", params])


def test_a_call_has_a_second_key_where_earlier_rules_gave_it_another() -> None:
    """A session may have been migrated, and what it did then must not be done again."""
    spec = tool(authority=("to",), parameters=PAYMENT)
    step = effective(0, Step.model_validate({"id": "pay", "tool": "pay.it", "params": PARAMS}), spec)
    key, earlier = PreparedCall(step, PARAMS, is_strict=True).keys("t", "s", 0)
    assert (key, earlier) == (
        key_of("t", "s", spec, PARAMS, 0),
        digest(["t", "s", "pay.it", {"to": "bob"}, 0]),
    )
    assert PreparedCall(step, PARAMS, is_strict=False).keys("t", "s", 0) == (earlier,)
    whole = effective(0, step.step, tool())
    assert len(PreparedCall(whole, PARAMS, is_strict=True).keys("t", "s", 0)) == 1


def test_a_call_has_the_key_of_each_earlier_rule() -> None:
    """Members that no property names have compared by value since rule 22."""
    amounts = {"additionalProperties": {"type": ["number", "string"]}}
    spec = tool(parameters={"properties": {"n": {"type": "integer", "default": 1}, "amounts": amounts}})
    params: dict[str, Any] = {"amounts": {"a": "100"}}
    step = effective(0, Step.model_validate({"id": "pay", "tool": "pay.it", "params": params}), spec)
    earlier = PreparedCall(step, params, is_strict=True, reads_all=False).keys("t", "s", 0)
    assert earlier == (
        digest(["t", "s", "pay.it", {**params, "n": 1}, 0]),
        digest(["t", "s", "pay.it", params, 0]),
    )
    keys = PreparedCall(step, params, is_strict=True).keys("t", "s", 0)
    other = PreparedCall(step, {"amounts": {"a": 100.0}}, is_strict=True).keys("t", "s", 0)
    assert keys == (other[0], *earlier)


def test_numbers_without_canonical_json_still_have_a_key() -> None:
    """An integer beyond 2^53 can stand in a call that was computed, and must not break its key."""
    keys = {key_of("t", "s", tool(), {"n": n}, 0) for n in (2**60, 2**60 + 1)}
    assert len(keys) == 2
    assert call_hash("pay.it", {"n": 2**60}) != call_hash("pay.it", {"n": 2**60 + 1})
