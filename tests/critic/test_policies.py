"""Policies: rules of the house over a plan and over each of its steps."""

from __future__ import annotations

from typing import Any

import pytest

from tercet.contracts.context import EarlierCall
from tercet.contracts.plan import Plan, Step
from tercet.contracts.policy import Policy
from tercet.contracts.runs.behaviour import CURRENT, Behaviour
from tercet.contracts.verdict import Refusal
from tercet.critic.dispatch import Progress, recheck, resolved_review
from tercet.critic.reading import with_params

from .houses import LOOKUP, SHOP, WINDOW, House, evidence, look_up, pay, plan, refused, step, ticket


def under(*expressions: str, house: House = SHOP, **fields: Any) -> House:
    """A house with these policies."""
    named = [
        Policy.model_validate({"name": f"p{number}", "expression": expression, **fields})
        for number, expression in enumerate(expressions)
    ]
    return house.holding(policies=tuple(named))


# ---- over the plan ------------------------------------------------------------------------------------------------


@pytest.mark.req("R95")
def test_a_plan_that_breaks_an_invariant_is_rejected() -> None:
    """A policy that does not hold refuses the plan before anything runs, and no re-plan is asked for."""
    expression = "plan.steps.filter(s, s.tool == 'payments.refund').size() <= 1"
    house = SHOP.holding(
        policies=(
            Policy(
                name="one_refund",
                expression=expression,
                message="one refund for each case",
                remedy="open a second case",
            ),
        )
    )
    twice = plan(pay("a"), pay("b", "pay_8861", 24_500))
    verdict = house.review(twice)
    assert refused(verdict) == ("violates_decision_spec", "policy_invariant", None, "")
    assert verdict.reasons == ("plan violates policy one_refund: one refund for each case",)
    assert verdict.remedy == "open a second case"
    assert verdict.outcome == "reject"
    assert refused(house.review(plan(pay("a")))) is None


def test_a_policy_without_words_speaks_by_its_expression() -> None:
    """Reason and remedy are there even if the pack's author wrote none."""
    verdict = under("plan.intent == 'x'").review(plan(look_up()))
    assert verdict.reasons == ("plan violates policy p0: plan.intent == 'x' does not hold",)
    assert verdict.remedy == "change the plan so that plan.intent == 'x'"


@pytest.mark.req("R95")
@pytest.mark.parametrize(
    "expression",
    [
        "plan.intent == 'support.refund'",
        "plan.outputs == ['amount', 'note']",
        "plan.steps.size() == 3",
        "plan.steps[1].id == 'pay'",
        "plan.steps.all(s, s.index < 3)",
        "plan.steps.exists(s, s.mode == 'destructive' && s.gates == ['FINANCE'])",
        "plan.steps.exists(s, s.reversibility == 'compensable')",
        f"plan.steps.exists(s, '{WINDOW}' in s.evidence)",
        "plan.steps.exists(s, s.kind == 'note' && s.tool == '')",
        "plan.steps.exists(s, has(s.params.amount) && s.params.amount == 24500)",
        "request.order_id == 'ord_881'",
        "context.tenant == 'acme' && context.actor == 'ada' && context.roles == ['agent']",
        "context.safety_mode == 'destructive'",
        "decision.id == 'support.refund' && decision.risk_tier == 'high'",
    ],
)
def test_a_plan_policy_sees_the_effective_plan(expression: str) -> None:
    """Steps are shown as they are judged: with inherited modes and gates, and with known values in place."""
    shown = plan(
        look_up(),
        pay("pay"),
        step("n"),
        intent="support.refund",
        outputs={"amount": {"$from": "pay#/amount"}},
        declared_outputs=("note",),
    )
    assert refused(under(expression).review(shown)) is None
    assert under(f"!({expression})").review(shown).code == "policy_invariant"


# ---- over each step -----------------------------------------------------------------------------------------------


@pytest.mark.req("R95")
def test_a_step_policy_names_the_step_that_breaks_it() -> None:
    """A policy over steps is asked of each of them, and the one that breaks it is to blame."""
    house = under("step.mode == 'read_only' || 'FINANCE' in step.gates", scope="step")
    verdict = house.review(plan(look_up(), ticket(), pay()))
    assert refused(verdict) == ("violates_decision_spec", "policy_invariant", 1, "/steps/1")
    assert verdict.reasons[0].startswith("step 1 violates policy p0: ")
    assert len(verdict.refusals) == 1
    assert refused(house.review(plan(look_up(), ticket(gates=("FINANCE",)), pay()))) is None


def test_the_policy_that_failed_is_told_from_those_that_held() -> None:
    """Policies are tried together, and still only the broken one is named."""
    house = under("true", "plan.steps.size() < 2", "plan.steps.size() < 9", "plan.steps.size() < 1")
    verdict = house.review(plan(look_up(), look_up("s2")))
    assert [refusal.reason.split(":")[0] for refusal in verdict.refusals] == [
        "plan violates policy p1",
        "plan violates policy p3",
    ]


# ---- failing closed -----------------------------------------------------------------------------------------------


@pytest.mark.req("R95")
@pytest.mark.parametrize(
    ("expression", "scope", "why"),
    [
        ("request.missing == 1", "plan", "it fails: "),
        ("plan.steps[7].id == 'x'", "plan", "it fails: "),
        ("1 / 0 == 1", "plan", "it fails: "),
        ("step.params.amount > 0", "step", "it fails: "),
        ("plan.steps.size()", "plan", "it does not compile: "),
        ("plan.", "plan", "it does not compile: "),
        ("nobody.knows", "step", "it does not compile: "),
        ("plan.steps.all(a, plan.steps.all(b, plan.steps.all(c, true)))", "plan", "it does not compile: "),
    ],
)
def test_a_policy_that_fails_has_not_held(expression: str, scope: str, why: str) -> None:
    """An error in a rule is a refusal that says so, and never a pass."""
    verdict = under(expression, scope=scope).review(plan(look_up()))
    assert verdict.code == "policy_invariant"
    assert why in verdict.reasons[0]


def test_a_bomb_in_a_policy_ends() -> None:
    """A comprehension over a comprehension of everything runs into the evaluator's bound, and is refused."""
    house = under("plan.steps.all(a, plan.steps.all(b, size(a.id + b.id) < 9999))")
    many = plan(*(look_up(f"s{n}") for n in range(500)))
    verdict = house.allowing(max_steps=500, tool_calls=500).review(many)
    assert verdict.code == "policy_invariant"


# ---- values that are known late -----------------------------------------------------------------------------------


def test_a_policy_on_an_open_value_is_decided_at_dispatch() -> None:
    """A step policy that reads an open parameter waits for that step only."""
    house = under("!has(step.params.amount) || step.params.amount < 100", scope="step")
    later = plan(look_up(), pay("a", None, {"$from": "s1#/total"}))
    verdict = house.review(later)
    assert refused(verdict) is None
    assert "policy p0 at step 1" in verdict.deferred
    known = house.review(plan(look_up(), pay("a", {"$from": "s1#/payment_id"})))
    assert (known.code, known.offending_step) == ("policy_invariant", 1)


@pytest.mark.parametrize(
    "expression",
    [
        "plan.steps.all(s, !has(s.params.amount) || s.params.amount < 100)",
        "plan.steps.all(s, !('amount' in s['params']) || s['params'].amount < 100)",
        "plan.steps.all(s, size(s.params) < 100)",
        "plan.steps[1].params.amount < 100",
        "plan.steps[1]['params']['amount'] < 100",
    ],
)
def test_a_plan_policy_on_an_open_value_is_not_decided_too_early(expression: str) -> None:
    """However a rule reaches a parameter, one that is still open is not taken to be absent."""
    later = plan(look_up(), pay("a", None, {"$from": "s1#/total"}))
    verdict = under(expression).review(later)
    assert refused(verdict) is None
    assert "policy p0" in verdict.deferred


def test_a_plan_policy_that_reads_no_open_value_is_decided_at_once() -> None:
    """An open amount does not put off a rule about tools, or about another parameter."""
    later = plan(look_up(), pay("a", None, {"$from": "s1#/total"}))
    tools = under("plan.steps.all(s, s.tool != 'payments.refund')")
    assert tools.review(later).code == "policy_invariant"
    payment = under("plan.steps.all(s, !has(s.params.payment_id) || s.params.payment_id == 'pay_1')")
    assert payment.review(later).code == "policy_invariant"


def test_known_references_are_read_by_policies_at_review() -> None:
    """A value from evidence or the request is known, and decides now."""
    house = under("plan.steps.all(s, !has(s.params.amount) || s.params.amount < 100)")
    assert house.review(plan(pay())).code == "policy_invariant"
    small = house.with_evidence(evidence(WINDOW, {"payment_id": "pay_8861", "amount": 99}))
    assert refused(small.review(plan(pay()))) is None


def test_aliases_and_literals_do_not_hide_a_value_from_a_policy() -> None:
    """A policy sees a parameter under its own name and without its wrapper."""
    house = under("step.params.order_id != 'ord_1'", scope="step")
    for params in ({"id": "ord_1"}, {"order_id": {"$literal": "ord_1"}}, {"id": {"$from": "request#/other"}}):
        asked = house.asked(order_id="ord_881", other="ord_1")
        assert asked.review(plan(step("s1", LOOKUP, params=params))).code == "policy_invariant"


# ---- policies that ask for a gate ---------------------------------------------------------------------------------


def test_a_gating_policy_adds_its_gate_where_it_does_not_hold() -> None:
    """Instead of refusing, the step waits for a person; where the policy holds nothing is asked."""
    house = under(
        "step.mode == 'read_only'", scope="step", effect="gate", gate="SUPPORT", message="an effect"
    )
    verdict = house.review(plan(look_up(), ticket(), step("n")))
    assert refused(verdict) is None
    assert [(d.step, d.gate, d.reason) for d in verdict.gates] == [(1, "SUPPORT", "an effect")]


def test_a_gating_policy_about_the_plan_adds_its_gate_to_every_call() -> None:
    """What is wrong with the whole is asked about each of its calls, and not of notes."""
    house = under("plan.steps.size() < 3", effect="gate", gate="SUPPORT")
    verdict = house.review(plan(look_up(), ticket(), step("n")))
    assert [(d.step, d.gate) for d in verdict.gates] == [(0, "SUPPORT"), (1, "SUPPORT")]
    assert house.review(plan(look_up(), ticket())).gates == ()


@pytest.mark.parametrize("gate", [None, "GHOST"])
def test_a_gating_policy_without_a_gate_refuses(gate: str | None) -> None:
    """A gate that is not there cannot be waited for, so the policy denies."""
    house = under("plan.steps.size() < 1", effect="gate", gate=gate)
    assert house.review(plan(look_up())).code == "policy_invariant"


def test_a_gating_policy_that_fails_asks_for_its_gate() -> None:
    """An error counts as not holding here too: a person looks at it."""
    house = under("request.missing", effect="gate", gate="SUPPORT")
    assert [(d.step, d.gate) for d in house.review(plan(look_up())).gates] == [(0, "SUPPORT")]


# ---- at dispatch --------------------------------------------------------------------------------------------------

SMALL = "plan.steps.all(s, s.tool != 'payments.refund' || s.params.amount < 100)"
LATER = plan(look_up(), pay("a", None, {"$from": "s1#/total"}), pay("b", None, {"$from": "a#/amount"}))


def dispatched(
    house: House, shown: Plan, step_id: str, params: dict[str, Any], /, **known: Any
) -> Refusal | None:
    """What is said of a call that is due, where these parameters of other steps are known."""
    review = resolved_review(house.ctx, house.compiled, house.spec, shown, step_id, params, Progress(**known))
    return recheck(review, step_id)


def test_a_policy_that_depends_on_a_later_value_refuses_an_effect_and_no_read() -> None:
    """The look-up is how values become known; the payment before the last value is known is refused."""
    house = under(SMALL)
    assert dispatched(house, LATER, "s1", {"order_id": "ord_881"}) is None
    first = {"payment_id": "pay_8861", "amount": 10}
    refusal = dispatched(house, LATER, "a", first)
    assert refusal is not None
    assert (refusal.code, refusal.step) == ("policy_invariant", None)
    assert refusal.reason == "policy p0 cannot be decided before this call: amount of step 2 is not known yet"
    assert "scope step" in refusal.remedy


def test_known_parameters_of_other_steps_decide_a_policy() -> None:
    """What another step has begun with, or will run with, is what the policy sees of it."""
    house, first = under(SMALL), {"payment_id": "pay_8861", "amount": 10}
    small, large = {"payment_id": "pay_8861", "amount": 99}, {"payment_id": "pay_8861", "amount": 100}
    assert dispatched(house, LATER, "a", first, params={"b": small}) is None
    refusal = dispatched(house, LATER, "a", first, params={"b": large})
    assert refusal is not None
    assert refusal.reason.startswith("plan violates policy p0")


def test_a_step_that_will_not_run_is_not_seen_by_a_policy() -> None:
    """Neither its open values nor its being in the plan count."""
    first = {"payment_id": "pay_8861", "amount": 10}
    left_out = {"left_out": frozenset({"b"})}
    assert dispatched(under(SMALL), LATER, "a", first, **left_out) is None
    both = under("plan.steps.filter(s, s.tool == 'payments.refund').size() == 2")
    assert dispatched(both, LATER, "a", first) is None
    assert dispatched(both, LATER, "a", first, **left_out) is not None


def test_a_run_under_the_earlier_rules_is_judged_as_before() -> None:
    """A session that does not go by the rule defers such a policy, also at dispatch."""
    numbers = tuple(number for number in CURRENT if number != Behaviour.STRICT_CALLS)
    house = under(SMALL).running(behaviour=numbers)
    assert dispatched(house, LATER, "a", {"payment_id": "pay_8861", "amount": 10}) is None


# ---- what the run has already done --------------------------------------------------------------------------------


def made(done: Step, place: int | None = 0, **params: Any) -> EarlierCall:
    """A call that an earlier plan of the run made."""
    return EarlierCall(step=with_params(done, params), place=place)


@pytest.mark.parametrize("place", [0, None], ids=["completed", "unknown"])
def test_a_policy_over_the_plan_counts_earlier_calls(place: int | None) -> None:
    """One payment was made, or may have been: a second one is one too many."""
    house = under("plan.steps.filter(s, s.tool == 'payments.refund').size() <= 1")
    after = house.running(earlier=(made(pay("x"), place, payment_id="pay_1", amount=5),))
    assert refused(house.review(plan(pay()))) is None
    assert after.review(plan(pay())).code == "policy_invariant"
    assert refused(after.review(plan(look_up()))) is None


@pytest.mark.parametrize(
    "expression",
    [
        "plan.steps[0].id == 's1' && plan.steps.size() == 3",
        "plan.steps.map(s, s.index) == [0, -2, -1]",
        "plan.steps.exists(s, s.index == -1 && s.id == 'x@-1' && s.params == {'amount': 5})",
        "plan.steps.exists(s, s.id == 'x@-1' && s.mode == 'destructive' && s.gates == ['FINANCE'])",
        "plan.steps.exists(s, s.id == 'x@-1' && s.reversibility == 'compensable' && s.kind == 'tool')",
        f"plan.steps.exists(s, s.id == 'x@-1' && s.evidence == ['{WINDOW}'])",
        "plan.steps.exists(s, s.tool == 'shop.gone' && s.mode == 'destructive' && s.params.n == 1)",
    ],
)
def test_an_earlier_call_looks_like_a_step(expression: str) -> None:
    """It stands behind the plan's own steps, effective, with the parameters that it was made with."""
    done = step("x", "payments.refund", evidence_refs=(WINDOW,))
    earlier = (made(step("g", "shop.gone"), 0, n=1), made(done, 1, amount=5))
    assert refused(under(expression).running(earlier=earlier).review(plan(look_up()))) is None


def test_a_step_policy_is_not_asked_about_earlier_calls() -> None:
    """They were judged when they were made."""
    house = under("step.tool != 'payments.refund'", scope="step")
    assert refused(house.running(earlier=(made(pay("x"), amount=5),)).review(plan(look_up()))) is None
