"""The order in which steps run, as policies see it; the order in which a plan lists them decides nothing."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from critic.naive import Case
from critic.strategies import cases, continued_cases, examples, mutated_refunds, refund
from tercet.contracts.context import EarlierCall
from tercet.contracts.gate import Policy
from tercet.contracts.plan import Plan, Step
from tercet.contracts.plan_formats import load_plan
from tercet.contracts.verdict import Refusal, Verdict
from tercet.critic.approvals import granted_by
from tercet.critic.dispatch import Progress, recheck, resolved_review
from tercet.critic.order import MAX_LISTED
from tercet.critic.reading import with_params
from tercet.critic.verify import verify

from .houses import SHOP, House, look_up, pay, plan, refused, step, ticket, tool

READ_FIRST = (
    "plan.steps.all(pay, pay.tool != 'payments.refund'"
    " || plan.steps.exists(look, look.tool == 'orders.lookup' && look.id in pay.before))"
)
"""Over the plan: the order is looked up before the payment."""
READ_FIRST_BY_TOOL = "step.tool != 'payments.refund' || 'orders.lookup' in step.before_tools"
"""The same over each step."""
BOTH = pytest.mark.parametrize(
    ("expression", "scope"), [(READ_FIRST, "plan"), (READ_FIRST_BY_TOOL, "step")], ids=["plan", "step"]
)
PAID = {"payment_id": "pay_8861", "amount": 24_500}


def under(expression: str, scope: str = "plan", **fields: Any) -> House:
    """The shop with one policy."""
    made = Policy.model_validate({"name": "rule", "expression": expression, "scope": scope, **fields})
    return SHOP.holding(policies=(made,))


def due(house: House, shown: Plan, step_id: str, params: dict[str, Any], /, **known: Any) -> Refusal | None:
    """Return why a call that is due is refused."""
    review = resolved_review(house.ctx, house.compiled, house.spec, shown, step_id, params, Progress(**known))
    return recheck(review, step_id)


# ---- what runs first ------------------------------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize(
    ("steps", "passes"),
    [
        ((look_up(depends_on=("pay",)), pay()), False),
        ((look_up(), pay()), False),
        ((pay(depends_on=("s1",)), look_up()), True),
        ((pay(depends_on=("n",)), step("n", depends_on=("s1",)), look_up()), True),
        ((pay("pay", None, {"$from": "s1#/total"}), look_up()), True),
        ((pay(when="s1.total > 5"), look_up()), True),
    ],
    ids=[
        "listed first, run last",
        "at the same time",
        "waits",
        "waits through another",
        "refers",
        "condition",
    ],
)
def test_a_look_up_comes_first_only_if_the_payment_waits_for_it(
    expression: str, scope: str, steps: tuple[Step, ...], passes: bool
) -> None:
    """`depends_on`, references and conditions make the order; the place in the list does not."""
    verdict = under(expression, scope).review(plan(*steps))
    if passes:
        assert "policy_invariant" not in [refusal.code for refusal in verdict.refusals]
    else:
        assert verdict.code == "policy_invariant"


def test_a_positional_plan_keeps_its_implied_order() -> None:
    """A step without an id and without `depends_on` waits for the one before it."""
    looks = {"adapter_id": "orders", "capability_id": "lookup", "args": {"order_id": "ord_881"}}
    pays: dict[str, Any] = {"adapter_id": "payments", "capability_id": "refund", "args": pay().params}
    pays["evidence_refs"] = list(pay().evidence_refs)
    house = under(READ_FIRST)
    assert refused(house.review(load_plan({"steps": [looks, pays]}))) is None
    assert house.review(load_plan({"steps": [pays, looks]})).code == "policy_invariant"


@pytest.mark.parametrize(
    "expression",
    [
        "plan.steps.exists(s, s.id == 'b' && s.before == ['a', 's1'] && s.after == ['c'])",
        "plan.steps.exists(s, s.id == 'b' && s.before_tools == ['orders.lookup', 'tickets.file'])",
        "plan.steps.exists(s, s.id == 's1' && s.before == [] && s.after_tools == ['tickets.file'])",
        "plan.steps.exists(s, s.id == 'b' && s.optional && s.when == 'request.order_id != \"\"')",
        "plan.steps.exists(s, s.id == 'a' && !s.optional && s.when == '')",
    ],
)
def test_a_policy_reads_what_runs_before_and_after_each_step(expression: str) -> None:
    """Ids and tools, sorted and each once; a step without a condition has an empty `when`."""
    steps = (
        step("c", depends_on=("b",)),
        ticket("b", "two", depends_on=("a",), optional=True, when='request.order_id != ""'),
        ticket("a", "one", depends_on=("s1",)),
        look_up(),
    )
    assert "policy_invariant" not in [r.code for r in under(expression).review(plan(*steps)).refusals]
    assert under(f"!({expression})").review(plan(*steps)).code == "policy_invariant"


# ---- steps that may not run -----------------------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("fields", [{"optional": True}, {"when": "request.order_id == ''"}])
def test_a_look_up_that_may_not_run_satisfies_no_order(
    expression: str, scope: str, fields: dict[str, Any]
) -> None:
    """It is decided before the payment, when it is known whether the look-up ran."""
    house, shown = under(expression, scope), plan(look_up(**fields), pay(depends_on=("s1",)))
    verdict = house.review(shown)
    assert refused(verdict) is None
    assert verdict.deferred == ("policy rule" if scope == "plan" else "policy rule at step 1",)
    assert due(house, shown, "pay", PAID) is None
    for known in ({"left_out": frozenset({"s1"})}, {"uncertain": frozenset({"s1"})}):
        refusal = due(house, shown, "pay", PAID, **known)
        assert refusal is not None
        assert refusal.code == "policy_invariant"


@BOTH
def test_a_resolved_call_still_runs_after_the_steps_that_it_referred_to(expression: str, scope: str) -> None:
    """At dispatch its values stand in place of the references, and the order is the same."""
    house = under(expression, scope)
    shown = plan(look_up(), pay("pay", None, {"$from": "s1#/total"}))
    assert due(house, shown, "pay", PAID, params={"s1": {"order_id": "ord_881"}}) is None


def test_a_grant_by_order_needs_steps_that_certainly_run() -> None:
    """An optional look-up before a message grants nothing; a required one does."""
    post = tool("chat.post", "network", parameters={}, no_compensation="said is said")
    made = Policy(
        name="known", scope="step", effect="grant", expression="'orders.lookup' in step.before_tools"
    )
    house = SHOP.with_tools(post).holding(policies=(made,))
    case = house.ctx, house.compiled, house.spec

    def granted(looked: Step, **fields: Any) -> str | None:
        return granted_by(*case, plan(looked, step("post", "chat.post", **fields)), "post", {})

    assert granted(look_up(), depends_on=("s1",)) == "known"
    assert granted(look_up(), params={"text": {"$from": "s1#/note"}}) == "known"
    assert granted(look_up()) is None
    assert granted(look_up(optional=True), depends_on=("s1",)) is None


# ---- what the run has already done ----------------------------------------------------------------------------------


def made(done: Step, place: int | None = 0) -> EarlierCall:
    """A call that an earlier plan of the run made."""
    return EarlierCall(step=with_params(done, {"order_id": "ord_881"}), place=place)


@BOTH
def test_calls_of_earlier_plans_come_before_every_step(expression: str, scope: str) -> None:
    """A look-up whose outcome is not known does not count."""
    house = under(expression, scope)
    assert refused(house.running(earlier=(made(look_up()),)).review(plan(pay()))) is None
    assert house.running(earlier=(made(look_up(), None),)).review(plan(pay())).code == "policy_invariant"


def test_a_step_does_not_come_first_because_an_earlier_call_had_its_id() -> None:
    """The ids of earlier calls are none that a step can have."""
    house = under(READ_FIRST).running(earlier=(made(ticket("s1")),))
    assert house.review(plan(pay(), look_up("s1"))).code == "policy_invariant"


@pytest.mark.parametrize(
    "expression",
    [
        "plan.steps.exists(s, s.id == 'a@-3' && s.before == [] && s.after == ['b@-2', 'c@-1', 's1'])",
        "plan.steps.exists(s, s.id == 'b@-2' && s.before == ['a@-3'] && s.after == ['c@-1', 's1'])",
        "plan.steps.exists(s, s.id == 'c@-1' && s.before == ['a@-3', 'b@-2'] && s.after == [])",
        "plan.steps.exists(s, s.id == 's1' && s.before == ['a@-3', 'b@-2'] && s.after == [])",
    ],
)
def test_earlier_calls_are_ordered_by_their_completion(expression: str) -> None:
    """What is after a call of unknown outcome cannot be said."""
    earlier = (made(ticket("a"), 0), made(ticket("b"), 1), made(ticket("c"), None))
    assert refused(under(expression).running(earlier=earlier).review(plan(look_up()))) is None


# ---- compensations and long plans -----------------------------------------------------------------------------------


def test_a_proposed_compensation_runs_after_its_step() -> None:
    """A policy over closing tickets sees what ran before the ticket that is closed."""
    close = {"tool": "tickets.close", "params": {"id": {"$from": "self#/id"}}}
    house = under("step.tool != 'tickets.close' || 'orders.lookup' in step.before_tools", "step")
    waits = plan(look_up(), ticket(depends_on=("s1",), compensate=close))
    assert refused(house.review(waits)) is None
    assert house.review(plan(look_up(), ticket(compensate=close))).code == "policy_invariant"


def chain(length: int) -> Plan:
    """A look-up, and tickets that wait for each other."""
    steps = [look_up("s0")]
    steps += [ticket(f"s{n}", f"ticket {n}", depends_on=(f"s{n - 1}",)) for n in range(1, length)]
    return plan(*steps)


def test_a_long_plan_is_judged_by_the_tools_before_each_step() -> None:
    """Lists of ids would grow with the square of the plan: beyond a limit they are missing, and rules over them fail."""
    roomy = {"max_steps": 5_000, "tool_calls": 9_000, "wall_clock_ms": None, "cost_microcents": None}
    by_tool = under("step.tool == 'orders.lookup' || 'orders.lookup' in step.before_tools", "step")
    by_id = under("step.id == 's0' || 's0' in step.before", "step")
    for length, passes in ((MAX_LISTED, True), (MAX_LISTED + 1, False)):
        assert by_tool.allowing(**roomy).review(chain(length)).ok
        assert by_id.allowing(**roomy).review(chain(length)).ok == passes


# ---- no permutation of the list matters -----------------------------------------------------------------------------


def reads_positions(case: Case) -> bool:
    """Whether a policy of the case asks where the plan lists its steps."""
    return any("index" in p.expression or "steps[" in p.expression for p in case.compiled.policies)


def may_happen(verdict: Verdict) -> Any:
    """What a plan that passes may do: its effects, and the gates that each step waits for."""
    gates = {(demand.step_id, demand.gate, demand.reason) for demand in verdict.gates}
    return verdict.ok, gates, {effect.step_id: effect for effect in verdict.effects}


@examples(200)
@given(st.one_of(cases(), mutated_refunds(), continued_cases()), st.data())
def test_no_permutation_changes_whether_a_plan_passes_or_what_it_may_do(case: Case, data: Any) -> None:
    """Named steps run by `depends_on` and references alone."""
    assume(not reads_positions(case))
    shuffled = data.draw(st.permutations(case.plan.steps))
    first = verify(*case)
    again = verify(*case._replace(plan=case.plan.model_copy(update={"steps": tuple(shuffled)})))
    assert may_happen(again) == may_happen(first)


def test_the_property_holds_for_plans_that_pass() -> None:
    """The refund that the cases are made from passes in reverse as well."""
    case = refund().parsed()
    assert verify(*case._replace(plan=case.plan.model_copy(update={"steps": case.plan.steps[::-1]}))).ok
