"""Every approval that a plan waits for or may wait for: which gate, at which step, and why."""

from __future__ import annotations

from typing import Any

from tercet.contracts.gate import Gate, Policy
from tercet.contracts.plan import Plan
from tercet.critic.waits import Wait, find_waits

from .houses import EVIL, SHOP, House, look_up, pay, plan, step, ticket, tool

TOTAL = {"$from": "s1#/total"}
MAIL = tool(
    "mail.send", "network", parameters={"type": "object"}, authority=(), no_compensation="sent is sent"
)


def waits(house: House, drafted: Plan) -> list[Wait]:
    """The waits of a plan that passes review."""
    verdict = house.review(drafted)
    assert verdict.ok, verdict.reasons
    return list(find_waits(house.ctx, house.compiled, house.spec, drafted, verdict))


def told(house: House, drafted: Plan) -> list[tuple[str | None, str, bool]]:
    """Step, gate, and whether it is certain."""
    return [(each.step_id, each.gate, each.is_certain) for each in waits(house, drafted)]


def policy(expression: str, scope: str = "step", effect: str = "gate") -> Policy:
    """A policy that asks support, or grants."""
    gate = "SUPPORT" if effect == "gate" else None
    fields: dict[str, Any] = {"scope": scope, "effect": effect, "gate": gate, "expression": expression}
    return Policy.model_validate({"name": "p", **fields})


def test_gates_of_tools_and_of_the_decision_are_certain() -> None:
    """A decision's gates apply to each call above read_only."""
    house = SHOP.deciding(gates=("SUPPORT",))
    assert told(house, plan(look_up(), ticket("t1"), pay())) == [
        ("t1", "SUPPORT", True),
        ("pay", "FINANCE", True),
        ("pay", "SUPPORT", True),
    ]


def test_a_conditional_gate_is_certain_only_if_its_condition_is_known() -> None:
    """One that holds waits, one that does not is left out, and one that reads a result may wait."""
    house = SHOP.with_gates(Gate(name="MUCH", roles=("boss",), when="args.amount > 20000"))
    house = house.deciding(gates=("MUCH",))
    assert ("pay", "MUCH", True) in told(house, plan(look_up(), pay()))
    assert ("pay", "MUCH", False) in told(house, plan(look_up(), pay("pay", None, TOTAL)))
    less = SHOP.with_gates(Gate(name="MUCH", roles=("boss",), when="args.amount > 30000"))
    assert "MUCH" not in [gate for _, gate, _ in told(less.deciding(gates=("MUCH",)), plan(look_up(), pay()))]


def test_policies_that_are_decided_at_dispatch_may_wait() -> None:
    """Over a step and over the plan; one that is broken at review is certain."""
    drafted = plan(look_up(), pay("pay", None, TOTAL))
    over_step = "step.tool != 'payments.refund' || step.params.amount < 5"
    over_plan = "plan.steps.all(s, s.tool != 'payments.refund' || s.params.amount < 5)"
    for rule in (policy(over_step), policy(over_plan, "plan")):
        house = SHOP.holding(policies=(rule,))
        found = [each for each in waits(house, drafted) if each.gate == "SUPPORT"]
        assert [(each.step_id, each.is_certain) for each in found] == [("pay", False)]
        assert found[0].reason == "if policy p does not hold, which is decided at dispatch"
    assert ("pay", "SUPPORT", True) in told(
        SHOP.holding(policies=(policy(over_step),)), plan(look_up(), pay())
    )


def test_a_value_without_a_source_waits_for_the_unbound_gate() -> None:
    """It is listed with where the value came from."""
    house = SHOP.deciding(unbound_gate="SUPPORT")
    (found,) = [each for each in waits(house, plan(pay("pay", EVIL))) if each.gate == "SUPPORT"]
    assert (found.step, found.is_certain) == (0, True)
    assert "payment_id" in found.reason


def test_a_network_call_waits_for_anybody_unless_a_policy_grants_it() -> None:
    """No gate names the approver; a grant is decided at dispatch."""
    house = SHOP.with_tools(MAIL)
    drafted = plan(step("m", MAIL, params={}))
    assert told(house, drafted) == [("m", "", True)]
    granting = house.holding(policies=(policy("true", effect="grant"),))
    (found,) = waits(granting, drafted)
    assert (found.gate, found.is_certain) == ("", False)
    assert found.reason == "mail.send is network, unless policy p grants it at dispatch"


def test_a_step_with_a_condition_may_wait() -> None:
    """It waits only if it runs."""
    (found,) = waits(SHOP, plan(look_up(), pay(when="s1.total > 5")))
    assert (found.gate, found.is_certain) == ("FINANCE", False)
    assert found.reason == "payments.refund is destructive; the step runs only if s1.total > 5"


def test_the_gates_of_a_proposed_compensation_may_wait() -> None:
    """They wait if the run fails after the step."""
    way = {"tool": "payments.cancel", "params": {"refund_id": {"$from": "self#/refund_id"}}}
    first, second = waits(SHOP, plan(pay("pay", compensate=way)))
    assert (first.gate, first.is_certain, first.reason) == ("FINANCE", True, "payments.refund is destructive")
    assert (second.step, second.gate, second.is_certain) == (0, "FINANCE", False)
    assert second.reason == "if the run fails and payments.cancel compensates the step"


def test_outputs_wait_where_the_decision_asks_for_a_person() -> None:
    """At its output gate, or at anybody's."""
    assert told(SHOP.deciding(requires_human_approval=True), plan(look_up())) == [(None, "", True)]
    house = SHOP.deciding(requires_human_approval=True, output_gate="SUPPORT")
    assert told(house, plan(look_up())) == [(None, "SUPPORT", True)]


def test_a_refused_plan_waits_for_nothing() -> None:
    """It does not run."""
    drafted = plan(pay("pay", EVIL))
    assert find_waits(SHOP.ctx, SHOP.compiled, SHOP.spec, drafted, SHOP.review(drafted)) == ()
