"""Which rules apply to a plan, at which steps, and why the others do not; and irreversible steps before a denial."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from critic.naive import Case
from critic.strategies import cases, cyclic_cases, examples, mutated_refunds, nonsense
from tercet.contracts.gate import Gate
from tercet.contracts.plan import Plan
from tercet.contracts.policy import Policy
from tercet.critic.rule_report import RuleUse, report_rules
from tercet.critic.verify import verify

from .houses import CANCEL, REFUND, SHOP, WINDOW, House, look_up, pay, plan, step, ticket, tool


def uses(house: House, shown: Plan) -> dict[str, RuleUse]:
    """The rules by kind and name."""
    report = report_rules(house.ctx, house.compiled, house.spec, shown)
    return {f"{use.kind} {use.name}": use for use in report.rules}


def outcomes(use: RuleUse) -> dict[str, str]:
    """What a rule comes to at each step."""
    return {each.step: each.outcome for each in use.applied}


def policies(*rules: dict[str, Any]) -> House:
    """The shop with policies p0, p1 and so on."""
    named = (Policy.model_validate({"name": f"p{n}", **rule}) for n, rule in enumerate(rules))
    return SHOP.holding(policies=tuple(named))


def test_a_gate_is_listed_with_the_steps_that_wait_for_it() -> None:
    """One that nothing waits for says which calls would."""
    large = Gate(name="LARGE", roles=("boss",), when="args.amount > 100000")
    house = SHOP.with_gates(large).with_tool(REFUND, gates=("FINANCE", "LARGE"))
    found = uses(house, plan(look_up(), pay(depends_on=("s1",))))
    assert outcomes(found["gate FINANCE"]) == {"pay": "waits"}
    assert found["gate LARGE"].not_applied == "its condition is false: args.amount > 100000"
    assert found["gate SUPPORT"].not_applied == "nothing names it"
    found = uses(house, plan(look_up()))
    assert found["gate FINANCE"].not_applied == f"no step calls {CANCEL.name} or {REFUND.name}"


def test_a_gate_of_the_decision_or_of_a_policy_says_why_nothing_waits_for_it() -> None:
    """It is the decision's for effects, for unbound values or for outputs, or that of a policy that holds."""
    rule = {"expression": "step.tool != 'tickets.file'", "scope": "step", "effect": "gate", "gate": "SUPPORT"}
    for fields, why in (
        ({"gates": ("SUPPORT",)}, "no step is above read_only"),
        ({"unbound_gate": "SUPPORT"}, "no authority value lacks a trusted source"),
        ({"output_gate": "SUPPORT"}, "it is asked about outputs only if their review calls for a person"),
    ):
        assert uses(SHOP.deciding(**fields), plan(look_up()))["gate SUPPORT"].not_applied == why
    asked = SHOP.deciding(output_gate="SUPPORT", requires_human_approval=True)
    assert outcomes(uses(asked, plan(look_up()))["gate SUPPORT"]) == {"": "waits"}
    found = uses(policies(rule), plan(look_up()))
    assert found["gate SUPPORT"].not_applied == "policy p0 holds: no step calls tickets.file"
    found = uses(policies(rule), plan(look_up(), ticket()))
    assert outcomes(found["gate SUPPORT"]) == {"t1": "waits"}
    assert outcomes(found["policy p0"]) == {"t1": "waits"}


def test_a_rule_about_missing_evidence_is_not_decided() -> None:
    """A fact that is not in the snapshot is one problem: the rules that would read it neither hold nor refuse."""
    lost = {"$evidence": "kg:window:lost#snapshot_may#/payment_id"}
    limited = SHOP.with_tools(
        tool("payments.refund", "network", limits=[{"expression": "args.payment_id == 'p'"}])
    )
    house = limited.deciding(required_evidence=("window",))
    found = uses(house, plan(look_up(), pay("pay", lost)))
    assert outcomes(found["limit payments.refund: args.payment_id == 'p'"]) == {"pay": "undecided"}
    assert outcomes(found["evidence window"]) == {"": "undecided"}


def test_a_policy_is_listed_with_the_steps_that_it_is_about() -> None:
    """These are the calls of the tools that it names; without any, it is about every step."""
    house = policies(
        {"expression": "step.tool != 'payments.refund' || step.params.amount < 9", "scope": "step"},
        {"expression": "step.mode != 'network'", "scope": "step"},
        {"expression": "plan.steps.filter(s, s.tool == 'payments.refund').size() <= 1"},
        {"expression": "plan.steps.exists(s, s.tool == 'tickets.file')"},
        {"expression": "step.", "scope": "step"},
    )
    found = uses(house, plan(look_up(), pay()))
    assert outcomes(found["policy p0"]) == {"pay": "refuses"}
    assert outcomes(found["policy p1"]) == {"s1": "holds", "pay": "holds"}
    assert outcomes(found["policy p2"]) == {"": "holds"}
    assert outcomes(found["policy p3"]) == {"": "refuses"}
    assert outcomes(found["policy p4"]) == {"": "refuses"}
    found = uses(house, plan(look_up()))
    assert found["policy p0"].not_applied == "no step calls payments.refund"
    assert found["policy p2"].not_applied == "no step calls payments.refund"
    found = uses(house, plan(look_up(), pay("pay", None, {"$from": "s1#/total"})))
    assert outcomes(found["policy p0"]) == {"pay": "later"}


def test_a_policy_about_the_order_is_decided_later_where_a_step_may_not_run() -> None:
    house = policies(
        {
            "expression": "step.tool != 'payments.refund' || 'orders.lookup' in step.before_tools",
            "scope": "step",
        }
    )
    sure, unsure = (
        plan(look_up(), pay(depends_on=("s1",))),
        plan(look_up(optional=True), pay(depends_on=("s1",))),
    )
    assert outcomes(uses(house, sure)["policy p0"]) == {"pay": "holds"}
    assert outcomes(uses(house, unsure)["policy p0"]) == {"pay": "later"}


def test_a_grant_is_listed_with_the_steps_that_it_approves() -> None:
    post = tool("chat.post", "network", no_compensation="said is said")
    house = policies(
        {"expression": "step.tool == 'chat.post' && step.params.n < 5", "scope": "step", "effect": "grant"},
        {"expression": "step.tool == 'payments.refund'", "scope": "step", "effect": "grant"},
    ).with_tools(post)
    found = uses(house, plan(step("a", post, params={"n": 1}), step("b", post, params={"n": 9}), pay()))
    assert outcomes(found["grant p0"]) == {"a": "grants"}
    assert found["grant p1"].not_applied == "no step waits for an approval that it could give"
    assert uses(house, plan(look_up()))["grant p0"].not_applied == "no step calls chat.post"


def test_limits_and_evidence_are_listed_with_their_steps() -> None:
    found = uses(
        SHOP.deciding(required_evidence=("refund_window",)), plan(look_up(), pay("pay", None, 10**6))
    )
    [limit] = [use for name, use in found.items() if name.startswith("limit payments.refund: ")]
    assert outcomes(limit) == {"pay": "refuses"}
    assert found["evidence refund_window_evidence"].applied[0].detail == WINDOW
    assert outcomes(found["evidence refund_window"]) == {"": "holds"}
    bare = uses(SHOP, plan(pay("pay", "pay_8861", 5, evidence_refs=())))
    assert outcomes(bare["evidence refund_window_evidence"]) == {"pay": "refuses"}
    idle = uses(SHOP, plan(look_up()))
    assert idle["evidence refund_window_evidence"].not_applied == "no step calls payments.refund"


def test_relations_are_listed_with_the_steps_that_they_bind() -> None:
    binding = SHOP.deciding(
        bind=(
            {"evidence": "refund_window", "field": "order_id", "equals": "request.order_id"},
            {"tool": "orders.lookup", "param": "order_id", "equals": "request.order_id"},
            {"tool": "tickets.file", "param": "title", "equals": "request.order_id"},
        )
    )
    found = [
        use for name, use in uses(binding, plan(look_up(), pay())).items() if name.startswith("relation")
    ]
    assert [outcomes(use) for use in found] == [{"pay": "applies"}, {"s1": "applies"}, {}]
    assert found[2].not_applied == "no step calls tickets.file"
    [first, *_] = [use for name, use in uses(binding, plan(look_up())).items() if name.startswith("relation")]
    assert first.not_applied == "no step pins refund_window"


# ---- irreversible steps before a denial -----------------------------------------------------------------------------

MAIL = tool("mail.send", "network", reversibility="irreversible", gates=("SUPPORT",))


def warned(*steps: Any, house: House = SHOP) -> list[tuple[str, str, tuple[str, ...]]]:
    """The irreversible steps that may run too early, what they do not wait for, and its gates."""
    held = house.with_tools(MAIL)
    return [
        (early.step, early.waiting, early.gates)
        for early in report_rules(held.ctx, held.compiled, held.spec, plan(*steps)).early_effects
    ]


def test_an_irreversible_step_that_does_not_wait_for_a_gated_one_is_reported() -> None:
    """Listed before or after it: what counts is whether it waits."""
    mail = step("mail", MAIL, params={"n": 1})
    after = step("mail", MAIL, params={"n": 1}, depends_on=("pay",))
    assert warned(mail, pay()) == [("mail", "pay", ("FINANCE",))]
    assert warned(pay(), mail) == [("mail", "pay", ("FINANCE",))]
    assert warned(mail, pay(depends_on=("mail",))) == [("mail", "pay", ("FINANCE",))]
    assert warned(after, pay()) == []
    assert warned(mail, look_up()) == []
    assert warned(mail, ticket()) == []


def test_an_approval_that_anybody_may_give_can_be_denied_as_well() -> None:
    """Unless a policy may grant it."""
    post = tool("chat.post", "network", no_compensation="x", reversibility="compensable")
    house = SHOP.with_tools(post)
    steps = step("mail", MAIL, params={"n": 1}), step("post", "chat.post")
    assert warned(*steps, house=house) == [("mail", "post", ())]
    grant = Policy(name="g", expression="true", scope="step", effect="grant")
    assert warned(*steps, house=house.holding(policies=(grant,))) == []


def test_of_two_irreversible_steps_the_stronger_may_come_first() -> None:
    """One of them has to; a gate that covers a sequence is answered for both at once."""
    wipe = tool("disk.wipe", "destructive", reversibility="irreversible", gates=("FINANCE",))
    house = SHOP.with_tools(wipe)
    mail, wiped = step("mail", MAIL, params={"n": 1}), step("wipe", "disk.wipe")
    assert warned(wiped, mail.waiting_for(("wipe",)), house=house) == []
    assert warned(mail, wiped.waiting_for(("mail",)), house=house) == [("mail", "wipe", ("FINANCE",))]
    both = Gate(name="BOTH", roles=("boss",), covers="sequence")
    shared = house.with_gates(both).deciding(gates=("BOTH",))
    assert warned(mail, wiped.waiting_for(("mail",)), house=shared) == []


# ---- whatever the plan ----------------------------------------------------------------------------------------------


@examples(100)
@given(st.one_of(cases(), mutated_refunds(), nonsense(), cyclic_cases()))
def test_every_rule_is_listed_and_each_either_applies_or_says_why_not(case: Case) -> None:
    """The report raises for no plan, and lists the gates that a passed plan waits for."""
    report = report_rules(*case)
    for use in report.rules:
        assert bool(use.applied) != bool(use.not_applied)
    verdict = verify(*case)
    if verdict.ok:
        listed = {(each.step, use.name) for use in report.rules if use.kind == "gate" for each in use.applied}
        assert {(demand.step_id, demand.gate) for demand in verdict.gates} <= listed
        assert not any(each.outcome == "refuses" for use in report.rules for each in use.applied)
