"""`step.sources`: policies that read where the values of a step came from."""

from __future__ import annotations

from typing import Any

import pytest

from tercet.contracts.context import EarlierCall
from tercet.contracts.gate import Policy
from tercet.critic import frame
from tercet.critic.approvals import granted_by
from tercet.critic.dispatch import recheck, resolved_review
from tercet.critic.frame import plan_steps
from tercet.critic.review import Review

from .houses import EVIL, LETTER, SHOP, WINDOW, codes, look_up, pay, plan, refused, step, ticket, tool


def rule(expression: str, scope: str = "step", **fields: Any) -> Policy:
    """A policy that denies where its expression does not hold."""
    return Policy.model_validate({"name": "origin", "scope": scope, "expression": expression, **fields})


ANY = rule("step.tool == '' || step.sources.size() >= 0")
LISTING = tool("orders.list", parameters={"type": "object", "properties": {"ids": {"type": "array"}}})
OPEN = SHOP.holding(policies=(ANY,)).deciding(unbound_gate="FINANCE")


def sources(drafted: Any, house: Any = OPEN, at: int = -1) -> dict[str, Any]:
    """What policies read of one step of a plan."""
    review = Review(house.ctx, house.compiled, house.spec, drafted)
    return plan_steps(review, None, None)[at]["sources"]


@pytest.mark.parametrize(
    ("value", "source", "trust"),
    [
        ({"$evidence": f"{WINDOW}#/payment_id"}, "evidence", "trusted"),
        ("pay_8861", "evidence", "trusted"),
        ({"$from": "request#/order_id"}, "request", "trusted"),
        ("ord_881", "request", "trusted"),
        ({"$from": "s1#/payment_id"}, "result", "trusted"),
        ({"$from": "s1#/note"}, "result", "untrusted"),
        ({"$from": "n#/held"}, "evidence", "trusted"),
        (
            {"$select": {"from": {"$evidence": f"{WINDOW}#/rows"}, "field": "payment_id"}},
            "evidence",
            "trusted",
        ),
        ({"$cel": "s1.payment_id"}, "computed", "trusted"),
        ({"$cel": "s1.payment_id + 'x'"}, "computed", "untrusted"),
        ({"$evidence": f"{LETTER}#/account"}, "evidence", "untrusted"),
        (EVIL, "literal", "untrusted"),
    ],
)
def test_a_policy_reads_source_and_trust_of_each_parameter(value: Any, source: str, trust: str) -> None:
    """However a value is written, its source is where it came from; the kind is that of the parameter."""
    note = step("n", params={"held": {"$evidence": f"{WINDOW}#/payment_id"}}, evidence_refs=(WINDOW,))
    found = sources(plan(look_up(), note, pay("pay", value)))
    assert found["payment_id"] == {"source": source, "trust": trust, "kind": "id"}
    assert found["amount"] == {"source": "evidence", "trust": "trusted", "kind": "amount"}
    assert "memo" not in found


def test_of_several_values_the_first_untrusted_one_counts() -> None:
    """A list is as trusted as its least trusted member, and has that one's source."""
    house = OPEN.with_tools(LISTING)
    found = sources(plan(step("s", LISTING, params={"ids": ["ord_881", EVIL]})), house)
    assert found["ids"] == {"source": "literal", "trust": "untrusted", "kind": "id"}
    found = sources(plan(step("s", LISTING, params={"ids": ["ord_881", "ord_881"]})), house)
    assert (found["ids"]["source"], found["ids"]["trust"]) == ("request", "trusted")


def test_a_sentence_is_a_source_of_its_own() -> None:
    """What a sentence of the request names came from a sentence."""
    spec: dict[str, Any] = {"fields": ({"of": "request.task", "kind": "sentence"},)}
    house = OPEN._replace(spec=type(OPEN.spec).model_validate({"id": "support.refund", **spec}))
    house = house.asked(task="look up ord_777 please")
    found = sources(plan(step("s1", "orders.lookup", params={"order_id": "ord_777"})), house)
    assert found["order_id"] == {"source": "sentence", "trust": "trusted", "kind": "id"}


def test_a_policy_over_sources_denies_and_demands_gates() -> None:
    """Over a step and over the plan, with deny and with gate."""
    expression = "step.tool != 'payments.refund' || step.sources.amount.source == 'evidence'"
    house = SHOP.holding(policies=(rule(expression),))
    assert refused(house.review(plan(look_up(), pay()))) is None
    assert codes(house.review(plan(look_up(), pay("pay", None, {"$from": "s1#/total"})))) == [
        "policy_invariant"
    ]
    asking = SHOP.holding(policies=(rule(expression, effect="gate", gate="SUPPORT"),))
    verdict = asking.review(plan(look_up(), pay("pay", None, {"$from": "s1#/total"})))
    assert "SUPPORT" in [demand.gate for demand in verdict.gates]
    whole = "plan.steps.all(s, s.tool != 'payments.refund' || s.sources.amount.trust == 'trusted')"
    assert refused(SHOP.holding(policies=(rule(whole, "plan"),)).review(plan(look_up(), pay()))) is None


@pytest.mark.parametrize(
    "expression",
    [
        "step.sources.nothing.trust == 'trusted'",
        "step.sources.title.colour == 'red'",
        "step['sou' + 'rces'].size() > 0",
    ],
)
def test_a_rule_over_a_source_that_is_not_there_fails_closed(expression: str) -> None:
    """What cannot be read is a failure of the rule, and the plan is refused."""
    assert codes(SHOP.holding(policies=(rule(expression),)).review(plan(ticket()))) == ["policy_invariant"]


def test_a_resolved_call_keeps_the_sources_of_its_plan() -> None:
    """At dispatch a value stands in place of its reference, and is still not a literal."""
    expression = "step.tool != 'payments.refund' || step.sources.amount.source == 'result'"
    house = SHOP.holding(policies=(rule(expression),))
    drafted = plan(look_up(), pay("pay", None, {"$from": "s1#/total"}))
    params = {"payment_id": "pay_8861", "amount": 77}
    case = (house.ctx, house.compiled, house.spec)
    assert recheck(resolved_review(*case, drafted, "pay", params), "pay") is None
    literal = plan(look_up(), pay("pay", None, 24_500))
    refusal = recheck(resolved_review(*case, literal, "pay", {**params, "amount": 24_500}), "pay")
    assert refusal is not None
    assert refusal.code == "policy_invariant"


def test_a_grant_may_depend_on_sources() -> None:
    """A policy grants only what came from where it says."""
    mail = tool(
        "mail.send", "network", parameters={"type": "object", "properties": {"to": {"type": "string"}}}
    )
    policy = rule("step.sources.to.trust == 'trusted'", effect="grant")
    house = SHOP.with_tools(mail).holding(policies=(policy,))
    for value, granted in (({"$evidence": f"{WINDOW}#/payment_id"}, "origin"), (EVIL, None)):
        drafted = plan(step("m", mail, params={"to": value}))
        assert granted_by(house.ctx, house.compiled, house.spec, drafted, "m", {"to": "pay_8861"}) == granted


def test_sources_are_worked_out_only_where_a_rule_reads_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other policies cost nothing for it."""

    def refuse(_: Review) -> Any:
        raise AssertionError("nobody reads sources")

    monkeypatch.setattr(frame, "Provenance", refuse)
    house = SHOP.holding(policies=(rule("step.tool != 'x'"), rule("plan.steps.size() < 9", "plan")))
    assert refused(house.review(plan(look_up(), pay()))) is None


def test_a_proposed_compensation_has_the_sources_of_what_it_undoes() -> None:
    """`self` is a result, and `params` came from where the step took them."""
    seen = "step.tool != 'payments.cancel' || (step.sources.refund_id.source == 'result' && step.sources.refund_id.trust == 'trusted')"
    way = {"tool": "payments.cancel", "params": {"refund_id": {"$from": "self#/refund_id"}}}
    house = SHOP.holding(policies=(rule(seen),))
    assert refused(house.review(plan(pay("pay", compensate=way)))) is None


@pytest.mark.parametrize(("payment", "is_met"), [("pay_8861", True), (EVIL, False)])
def test_a_policy_over_the_plan_reads_the_sources_of_earlier_calls(payment: str, *, is_met: bool) -> None:
    """Their values are literals by now, and something vouches for each of them or nothing does."""
    whole = "plan.steps.all(s, s.tool != 'payments.refund' || s.sources.payment_id.trust == 'trusted')"
    made = pay("x", payment, 24_500)
    house = SHOP.holding(policies=(rule(whole, "plan"),)).running(earlier=(EarlierCall(step=made, place=0),))
    assert codes(house.review(plan(look_up()))) == ([] if is_met else ["policy_invariant"])
