"""Arguments: against the tool's schema, within its limits, and as far as they are known at review."""

from __future__ import annotations

from typing import Any

import pytest

from critic import naive
from critic.naive import Case
from tercet.contracts.gate import Gate
from tercet.contracts.plan import Plan
from tercet.contracts.policy import Policy
from tercet.contracts.runs.behaviour import Behaviour
from tercet.critic.approvals import granted_by
from tercet.critic.reading import Reading

from .houses import (
    FILE,
    LOOKUP,
    REFUND,
    SHOP,
    WINDOW,
    House,
    evidence,
    look_up,
    pay,
    plan,
    refused,
    step,
    takes,
    tool,
)

ORDER = tool(
    "shop.order",
    parameters=takes(
        "sku",
        count={"type": "integer", "minimum": 1, "maximum": 9},
        size={"enum": ["s", "m"]},
        address={
            "type": "object",
            "properties": {"city": {"type": "string"}, "zip": {"type": "string"}},
            "required": ["city"],
            "additionalProperties": False,
        },
        tags={"type": "array", "items": {"type": "string"}, "maxItems": 2},
    ),
)
HOUSE = SHOP.with_tools(ORDER).asked(order_id="ord_881", count=3, many=30, word="x", places=["Pune"])


def order(**params: Any) -> Any:
    """The verdict on a plan that places an order after a look-up."""
    return HOUSE.review(plan(look_up(), step("o", ORDER, params=params)))


# ---- the schema ---------------------------------------------------------------------------------------------------


@pytest.mark.req("R93")
@pytest.mark.parametrize(
    ("wrong", "right", "place"),
    [
        ({}, {"sku": "a"}, "/steps/1/params"),
        ({"sku": 5}, {"sku": "5"}, "/steps/1/params/sku"),
        ({"sku": "a", "colour": "red"}, {"sku": "a", "size": "s"}, "/steps/1/params"),
        ({"sku": "a", "count": 10}, {"sku": "a", "count": 9}, "/steps/1/params/count"),
        ({"sku": "a", "count": True}, {"sku": "a", "count": 1}, "/steps/1/params/count"),
        ({"sku": "a", "size": "xl"}, {"sku": "a", "size": "m"}, "/steps/1/params/size"),
        ({"sku": "a", "address": {}}, {"sku": "a", "address": {"city": "Pune"}}, "/steps/1/params/address"),
        (
            {"sku": "a", "address": {"city": 1}},
            {"sku": "a", "address": {"city": "1"}},
            "/steps/1/params/address/city",
        ),
        ({"sku": "a", "tags": ["b", 1]}, {"sku": "a", "tags": ["b", "c"]}, "/steps/1/params/tags/1"),
        ({"sku": "a", "tags": ["b", "c", "d"]}, {"sku": "a", "tags": []}, "/steps/1/params/tags"),
        ({"sku": None}, {"sku": ""}, "/steps/1/params/sku"),
    ],
)
def test_arguments_must_fit_the_schema(wrong: dict[str, Any], right: dict[str, Any], place: str) -> None:
    """A wrong argument is refused where it stands, and the remedy says what the tool takes."""
    verdict = order(**wrong)
    assert refused(verdict) == ("violates_decision_spec", "argument_invalid", 1, place)
    assert verdict.reasons[0].startswith("step 1: ")
    assert verdict.remedy == "shop.order takes address, count, size, sku, tags"
    assert refused(order(**right)) is None


def test_every_wrong_argument_is_listed() -> None:
    """A planner learns of all faults of a call at once."""
    verdict = order(sku=5, count=0, colour="red")
    assert {refusal.place for refusal in verdict.refusals} == {
        "/steps/1/params",
        "/steps/1/params/sku",
        "/steps/1/params/count",
    }


def test_an_alias_counts_under_its_own_name() -> None:
    """A parameter under an alias is checked as the parameter that it means."""
    assert refused(SHOP.review(plan(step("s1", LOOKUP, params={"id": "ord_881"})))) is None
    verdict = SHOP.review(plan(step("s1", LOOKUP, params={"id": 881})))
    assert refused(verdict) == ("violates_decision_spec", "argument_invalid", 0, "/steps/0/params/order_id")


def test_a_parameter_may_not_be_given_twice() -> None:
    """By name and by alias, even with one value, leaves open which was meant."""
    verdict = SHOP.review(plan(step("s1", LOOKUP, params={"id": "ord_881", "order_id": "ord_881"})))
    assert refused(verdict) == ("violates_decision_spec", "argument_invalid", 0, "/steps/0/params/order_id")
    assert verdict.reasons == ("step 0 gives order_id twice, by name and by alias",)
    assert verdict.remedy == "keep order_id"


def test_evidence_in_a_parameter_that_is_given_twice_counts_as_pinned() -> None:
    """Else the plan would be refused for missing evidence, and not for what is wrong with it."""
    read = {"$evidence": f"{WINDOW}#/order_id"}
    twice = plan(step("s1", LOOKUP, params={"id": read, "order_id": "ord_881"}))
    assert Reading(SHOP.compiled, twice).pinned == [(WINDOW,)]


def test_a_tool_whose_schema_is_none_can_be_given_nothing() -> None:
    """A broken schema refuses every call, and does not raise."""
    house = SHOP.with_tools(tool("x.y", parameters={"type": 5}))
    verdict = house.review(plan(step("s1", "x.y")))
    assert (verdict.code, verdict.offending_step) == ("argument_invalid", 0)


# ---- known values -------------------------------------------------------------------------------------------------


@pytest.mark.req("R93")
@pytest.mark.parametrize(
    ("reference", "fits"),
    [
        ({"$from": "request#/count"}, True),
        ({"$from": "request#/many"}, False),
        ({"$from": "request#/word"}, False),
        ({"$literal": 3}, True),
        ({"$literal": {"$from": "request#/count"}}, False),
        ({"$evidence": f"{WINDOW}#/amount"}, False),
    ],
)
def test_what_is_known_at_review_is_checked_at_review(reference: Any, fits: bool) -> None:
    """References to the request and to evidence are resolved before arguments are checked."""
    verdict = order(sku="a", count=reference)
    if fits:
        assert refused(verdict) is None
    else:
        assert refused(verdict) == (
            "violates_decision_spec",
            "argument_invalid",
            1,
            "/steps/1/params/count",
        )


def test_known_values_are_found_inside_lists_and_objects() -> None:
    """A known value deep inside a parameter counts as much as one on top."""
    deep = {"city": {"$from": "request#/places/0"}, "zip": {"$from": "request#/count"}}
    verdict = order(sku="a", address=deep)
    assert (verdict.code, verdict.place) == ("argument_invalid", "/steps/1/params/address/zip")


# ---- open values --------------------------------------------------------------------------------------------------

LATER = {"$from": "s1#/note"}


@pytest.mark.parametrize(
    "params",
    [
        {"sku": LATER},
        {"sku": {"$cel": "s1.note + 'x'"}},
        {"sku": "a", "count": LATER},
        {"sku": "a", "size": LATER},
        {"sku": "a", "address": LATER},
        {"sku": "a", "address": {"city": LATER}},
        {"sku": "a", "tags": [LATER, "b"]},
        {"sku": "a", "tags": LATER},
    ],
)
def test_an_open_value_may_turn_out_to_fit(params: dict[str, Any]) -> None:
    """A fault at or inside a value that is known only at dispatch does not count at review."""
    assert refused(order(**params)) is None


@pytest.mark.parametrize(
    ("params", "place"),
    [
        ({"sku": LATER, "count": 10}, "/steps/1/params/count"),
        ({"count": LATER}, "/steps/1/params"),
        ({"sku": "a", "colour": LATER}, "/steps/1/params"),
        ({"sku": "a", "address": {"zip": LATER}}, "/steps/1/params/address"),
        ({"sku": "a", "address": {"city": "Pune", "street": LATER}}, "/steps/1/params/address"),
        ({"sku": "a", "tags": [LATER, 5]}, "/steps/1/params/tags/1"),
        ({"sku": "a", "tags": [LATER, LATER, LATER]}, "/steps/1/params/tags"),
    ],
)
def test_what_an_open_value_cannot_mend_is_refused(params: dict[str, Any], place: str) -> None:
    """Faults beside an open value, and those about which members are there, stay whatever it turns out to be."""
    verdict = order(**params)
    assert refused(verdict) == ("violates_decision_spec", "argument_invalid", 1, place)


def test_a_choice_that_an_open_value_decides_is_left_to_dispatch() -> None:
    """A fault of the whole that is not about its members may vanish with the open value, and does not count."""
    either = {"type": "object", "anyOf": [{"properties": {"a": {"const": 1}}}, {"required": ["b"]}]}
    house = SHOP.with_tools(tool("x.y", parameters=either))
    assert refused(house.review(plan(look_up(), step("x", "x.y", params={"a": LATER})))) is None
    closed = house.review(plan(look_up(), step("x", "x.y", params={"a": 2})))
    assert closed.code == "argument_invalid"


# ---- limits -------------------------------------------------------------------------------------------------------


@pytest.mark.req("R93")
def test_a_call_beyond_its_limit_is_not_permitted() -> None:
    """A limit is a condition on arguments; the remedy is to keep to it."""
    house = SHOP.with_evidence(evidence(WINDOW, {"payment_id": "pay_8861", "amount": 100_001}))
    verdict = house.review(plan(look_up(), pay()))
    assert refused(verdict) == ("violates_decision_spec", "argument_not_permitted", 1, "/steps/1/params")
    assert verdict.reasons == (
        "step 1: too much money (!has(args.amount) || args.amount <= 100000 is false)",
    )
    assert verdict.remedy == "keep to !has(args.amount) || args.amount <= 100000"
    exact = SHOP.with_evidence(evidence(WINDOW, {"payment_id": "pay_8861", "amount": 100_000}))
    assert refused(exact.review(plan(look_up(), pay()))) is None


@pytest.mark.req("R93")
@pytest.mark.parametrize(
    ("expression", "holds"),
    [
        ("args.amount == 24500", True),
        ("args.payment_id.startsWith('pay_')", True),
        ("request.order_id == 'ord_881'", True),
        ("context.tenant == 'acme' && 'agent' in context.roles && context.actor == 'ada'", True),
        ("decision.id == 'support.refund' && decision.risk_tier == 'high'", True),
        ("context.safety_mode == 'destructive'", True),
        ("args.missing > 0", False),
        ("args.payment_id > 5", False),
        ("args.amount / 0 > 1", False),
        ("args.amount", False),
        ("args.amount >", False),
        ("nonsense", False),
    ],
)
def test_a_limit_that_fails_has_not_held(expression: str, holds: bool) -> None:
    """An expression that errs, does not compile or is no boolean refuses the call as much as one that is false."""
    house = SHOP.with_tool(REFUND, limits=({"expression": expression},))
    verdict = house.review(plan(pay()))
    assert (refused(verdict) is None) == holds
    if not holds:
        assert verdict.code == "argument_not_permitted"
        assert "payments.refund does not permit these arguments" in verdict.reasons[0]


LINE = {"type": "object", "properties": {"cents": {"type": "integer", "default": 7000}}}
DEFAULTED = takes(
    title={"type": "string", "default": "late"},
    cents={"type": "integer", "default": 5000},
    note={"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
    lines={"type": "array", "items": LINE},
    by_name={"type": "object", "additionalProperties": LINE},
)


RULES: list[Any] = [
    ("!has(P.cents) || P.cents < 1000", {}, False),
    ("!has(P.cents) || P.cents < 1000", {"cents": 999}, True),
    ("P.cents == 5000 && P.title == 'late'", {}, True),
    ("P.lines.all(l, !has(l.cents) || l.cents < 1000)", {"lines": [{}]}, False),
    ("P.lines.all(l, l.cents < 1000)", {"lines": [{"cents": 1}]}, True),
    ("!has(P.by_name.k.cents) || P.by_name.k.cents < 1000", {"by_name": {"k": {}}}, False),
    ("!has(P.lines)", {}, True),
    ("!has(P.note) || P.note.size() < 5", {}, True),
    ("!has(P.note) || P.note == null", {"note": None}, True),
]


@pytest.mark.parametrize(("condition", "params", "holds"), RULES)
def test_every_rule_reads_the_defaults_of_what_is_left_out(
    condition: str, params: dict[str, Any], holds: bool
) -> None:
    """Limits, policies of both scopes, grants and conditions of gates; a default of null adds nothing. Both critics agree."""
    mail = FILE.model_copy(update={"parameters": DEFAULTED, "mode": "network", "authority": ()})
    call, shop = step("a", mail, params=params), SHOP.with_tools(mail)
    written = plan(call)
    args, scoped = condition.replace("P.", "args."), condition.replace("P.", "step.params.")
    whole = f"plan.steps.all(step, {scoped})"
    limited = SHOP.with_tool(mail, limits=({"expression": args},))
    houses = [limited, *(shop.holding(policies=(policy,)) for policy in (
        Policy(name="p", expression=scoped, scope="step"), Policy(name="p", expression=whole),
    ))]  # fmt: skip
    for house in houses:
        verdict = house.review(written)
        assert verdict.ok == holds
        naively = naive.first_refusal(house.ctx, house.compiled, house.spec, written)
        assert (None if naively is None else naively.code) == verdict.code

    granting = shop.holding(policies=(Policy(name="p", expression=scoped, scope="step", effect="grant"),))
    assert (grant_of(granting, written, params) == "p") == holds
    gate = Gate(name="LATER", roles=("cfo",), when=args)
    gated = SHOP.with_tool(mail, gates=("LATER",)).with_gates(gate).review(written)
    assert ([each.gate for each in gated.gates] == ["LATER"]) == holds


def test_an_earlier_session_reads_what_the_plan_writes() -> None:
    """Its rules see no default, so that it is replayed as it was judged."""
    limits = ({"expression": "!has(args.cents) || args.cents < 1000"},)
    house = SHOP.with_tool(FILE, parameters=DEFAULTED, limits=limits)
    written = plan(step("a", FILE, params={}))
    assert not house.review(written).ok
    assert house.without(Behaviour.RULES_SEE_DEFAULTS).review(written).ok


def grant_of(house: House, written: Plan, params: dict[str, Any]) -> str | None:
    """The policy that grants the only call of a plan; both critics agree."""
    granted = granted_by(house.ctx, house.compiled, house.spec, written, "a", params)
    case = Case(house.ctx, house.compiled, house.spec, written)
    assert naive.first_grant(case, "a", params) == granted
    return granted


def test_a_limit_on_an_open_value_is_decided_at_dispatch() -> None:
    """What cannot be decided yet is listed, and is not taken to hold."""
    verdict = SHOP.review(plan(look_up(), pay("pay", None, {"$from": "s1#/total"})))
    assert refused(verdict) is None
    assert verdict.deferred == ("limit of payments.refund at step 1",)


def test_a_limit_on_other_parameters_is_decided_at_once() -> None:
    """An open value defers only the limits that read it."""
    limits = ({"expression": "args.amount <= 100"}, {"expression": "args.payment_id != 'pay_1'"})
    house = SHOP.with_tool(REFUND, limits=limits)
    verdict = house.review(plan(look_up(), pay("pay", {"$from": "s1#/payment_id"}, 24_500)))
    assert verdict.code == "argument_not_permitted"
    assert "args.amount <= 100 is false" in verdict.reasons[0]


@pytest.mark.parametrize("expression", ["size(args) < 9", "args['amount'] < 9", "args == {'a': 1} || true"])
def test_a_limit_that_reads_everything_waits_for_everything(expression: str) -> None:
    """Where it cannot be told which parameter a limit reads, any open one defers it."""
    house = SHOP.with_tool(REFUND, limits=({"expression": expression},))
    verdict = house.review(plan(look_up(), pay("pay", {"$from": "s1#/payment_id"}, 24_500)))
    assert verdict.deferred == ("limit of payments.refund at step 1",)


def test_one_bad_call_of_many_is_found() -> None:
    """Limits are tried together; the step that breaks one is still named."""
    house = SHOP.with_tools(tool("x.y", limits=({"expression": "args.n < 3"},)))
    verdict = house.review(plan(*(step(f"s{n}", "x.y", params={"n": n}) for n in range(5))))
    assert [refusal.step for refusal in verdict.refusals] == [3, 4]
    assert refused(verdict) == ("violates_decision_spec", "argument_not_permitted", 3, "/steps/3/params")


def test_many_references_to_a_large_value_are_refused_before_rules_read_them() -> None:
    """A plan of a few lines would otherwise have every rule copy gigabytes."""
    large = evidence("kg:letter:big#snapshot_may", {"text": "x" * 2**21})
    references = [{"$evidence": f"{large.id}#/text"}] * 40
    anything = tool("desk.file", parameters={"type": "object"})
    house = SHOP.with_tools(anything).with_evidence(large)
    verdict = house.review(plan(step("s", anything, params={"texts": references})))
    assert verdict.code == "argument_invalid"
    assert "come to more than" in verdict.reasons[0]
    assert refused(house.review(plan(step("s", anything, params={"texts": references[:20]})))) is None
