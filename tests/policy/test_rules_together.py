"""Many rules in one evaluation: a yes for all of them is a yes of each."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tercet.policy.expressions import (
    CALL,
    PLAN,
    STEP,
    Rule,
    Scope,
    compile_rule,
    compile_together,
    read_by_limits,
    union,
)

FRAME: dict[str, Any] = {
    "request": {"amount": 5, "who": "u1"},
    "context.tenant": "acme",
    "context.actor": "u1",
    "context.roles": ["agent"],
    "context.safety_mode": "network",
    "decision.id": "d",
    "decision.risk_tier": "high",
}

PLAN_RULES = [
    "size(plan.steps) < 3",
    "plan.steps.all(s, s.mode != 'destructive')",
    "plan.steps.exists(step, step.tool == 'x.pay')",
    "plan.steps.exists(s, s.params.amount > 3)",
    "plan.intent != '' // a comment at the end",
    "plan.outputs == ['total'] || true",
    "request.amount == 5",
    "request.missing == 5",
]
STEP_RULES = [
    "step.mode != 'destructive'",
    "!has(step.params.amount) || step.params.amount <= 3",
    "step.params.amount <= 3",
    "size(step.gates) > 0 || step.index == 0",
    "step.gates.all(step, step != '')",
    "context.roles.exists(r, r == 'agent') // ) || (true",
    "step.tool.matches('x[.].*')",
    "1 / step.index >= 0",
]
LIMITS = [
    "args.amount < 4",
    "has(args.amount)",
    "args.to != 'evil'",
    "!has(args.to) || args.to.size() < 5 // c",
    "10 / args.amount > 1",
]

steps = st.fixed_dictionaries(
    {
        "id": st.just("a"),
        "kind": st.just("tool"),
        "tool": st.sampled_from(["x.pay", "y.read"]),
        "mode": st.sampled_from(["read_only", "destructive"]),
        "reversibility": st.just("pure"),
        "gates": st.sampled_from([[], ["G"]]),
        "evidence": st.just([]),
        "params": st.dictionaries(
            st.sampled_from(["amount", "to"]), st.integers(0, 5) | st.just("evil"), max_size=2
        ),
    }
)
plans = st.lists(steps, max_size=4).map(
    lambda found: [{**step, "index": index} for index, step in enumerate(found)]
)
rule_sets = st.lists(
    st.sampled_from(PLAN_RULES).map(lambda text: (text, PLAN))
    | st.sampled_from(STEP_RULES).map(lambda text: (text, STEP)),
    max_size=4,
)


def holds_for(rule: Rule, plan: list[dict[str, Any]]) -> bool:
    """Whether a rule holds for a plan, looked at step by step if it is about steps."""
    if rule.scope is not STEP:
        values = {**FRAME, "plan.intent": "i", "plan.outputs": ["total"], "plan.steps": plan}
        return rule.evaluate(rule.scope.activation(values)).holds
    activations = [
        STEP.activation(
            {**FRAME, "plan.intent": "i", **{f"step.{name}": value for name, value in step.items()}}
        )
        for step in plan
    ]
    return all(rule.evaluate(activation).holds for activation in activations)


@settings(deadline=None, max_examples=250)
@given(rule_sets, plans)
def test_together_is_each_of_them(texts: list[tuple[str, Scope]], plan: list[dict[str, Any]]) -> None:
    """One evaluation of all rules holds exactly if each rule holds for itself, failures included."""
    rules = tuple(compile_rule(text, scope) for text, scope in texts)
    together = compile_together(rules)
    assert together is not None
    assert holds_for(together, plan) == all(holds_for(rule, plan) for rule in rules)


@settings(deadline=None, max_examples=100)
@given(
    st.lists(
        st.tuples(
            st.lists(st.sampled_from(LIMITS), min_size=1, max_size=3),
            st.lists(
                st.dictionaries(
                    st.sampled_from(["amount", "to"]), st.integers(0, 5) | st.sampled_from(["evil", "me"])
                ),
                max_size=3,
            ),
        ),
        max_size=3,
    ),
)
def test_limits_hold_for_all_calls_of_their_tools(
    limits: list[tuple[list[str], list[dict[str, Any]]]],
) -> None:
    """One evaluation over all calls holds exactly if each limit of a tool holds for each of its calls."""
    together = compile_together((), tuple(tuple(texts) for texts, _ in limits))
    assert together is not None
    values = {**FRAME, "calls": [calls for _, calls in limits]}
    outcome = together.evaluate(together.scope.activation(values))
    one_by_one = [
        compile_rule(text, CALL).evaluate(CALL.activation({**FRAME, "args": args})).holds
        for texts, calls in limits
        for text in texts
        for args in calls
    ]
    assert outcome.holds == all(one_by_one)


def test_no_rules_hold() -> None:
    """A pack without policies refuses nothing."""
    together = compile_together(())
    assert together is not None
    assert holds_for(together, [])


def test_rules_that_are_too_large_together_are_left_apart() -> None:
    """What cannot be compiled as one is no error: the caller looks at each."""
    deepest = compile_rule("step.index" + " + 1" * 29 + " < 99", STEP)
    assert compile_together((deepest,)) is None
    assert read_by_limits(("args.a <",)) == (False, None)
    many = compile_together(tuple(compile_rule(f"size(plan.steps) < {n + 1}", PLAN) for n in range(200)))
    assert many is not None
    assert holds_for(many, [])


@pytest.mark.parametrize(
    ("sets", "expected"),
    [([], set[str]()), ([{"a"}, {"b"}], {"a", "b"}), ([{"a"}, None], None), ([None], None)],
)
def test_what_rules_read_together(sets: list[set[str] | None], expected: set[str] | None) -> None:
    """All that any of them reads; if that cannot be told of one, it cannot be told of all."""
    assert union(None if found is None else frozenset(found) for found in sets) == expected
