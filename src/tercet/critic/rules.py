"""The pack's policies over the plan and over each of its steps.

All policies are first tried at once, a step policy as one comprehension over the steps: if that is true, each of them
holds. Only otherwise are they evaluated one by one and step by step, to find out which failed, and where.
"""

from __future__ import annotations

from typing import Any

from tercet.contracts.gate import GateDemand
from tercet.contracts.policy import Policy
from tercet.contracts.verdict import Code, Refusal
from tercet.critic.arguments import reads_open
from tercet.critic.frame import plan_steps
from tercet.critic.review import Refusals, Review
from tercet.policy.expressions import (
    PLAN,
    STEP,
    ExpressionError,
    Outcome,
    Rule,
    compile_rule,
    compile_together,
    union,
)


def policies_hold(review: Review) -> Refusals:
    """Every policy holds for the plan, and for each step of it."""
    policies = [policy for policy in review.compiled.policies if policy.effect != "grant"]
    if not policies:
        return
    rules = [_compiled(policy) for policy in policies]
    compiled = [rule for rule in rules if isinstance(rule, Rule)]
    steps = plan_steps(
        review, union(rule.fields for rule in compiled), union(rule.reads for rule in compiled)
    )
    values = {
        **review.frame,
        "plan.intent": review.plan.intent or "",
        "plan.outputs": list(review.plan.output_names),
        "plan.steps": steps,
    }
    activation = PLAN.activation(values)
    ready = tuple(rule for rule in rules if isinstance(rule, Rule) and not _reads_open(review, rule))
    together = compile_together(ready)
    is_passed = together is not None and together.evaluate(activation).holds
    for policy, rule in zip(policies, rules, strict=True):
        if isinstance(rule, Outcome):
            yield _refusal(review, policy, rule, None)
        elif is_passed and rule in ready:
            continue
        elif policy.scope == "plan":
            yield from _plan_policy(review, policy, rule, activation)
        else:
            yield from _step_policy(review, policy, rule, values, steps)


def _compiled(policy: Policy) -> Rule | Outcome:
    try:
        return compile_rule(policy.expression, PLAN if policy.scope == "plan" else STEP)
    except ExpressionError as error:
        return Outcome(error=f"it does not compile: {error}")


def _plan_policy(review: Review, policy: Policy, rule: Rule, activation: Any) -> Refusals:
    if _reads_open(review, rule):
        review.deferred.append(f"policy {policy.name}")
        return
    outcome = rule.evaluate(activation)
    if not outcome.holds:
        yield from _broken(review, policy, outcome, None)


def _step_policy(
    review: Review, policy: Policy, rule: Rule, values: dict[str, Any], steps: list[dict[str, Any]]
) -> Refusals:
    shared = {name: value for name, value in values.items() if name in STEP.variables}
    for index, step in enumerate(steps):
        if reads_open(review, rule, index):
            review.deferred.append(f"policy {policy.name} at step {index}")
            continue
        values_here = shared | {f"step.{name}": value for name, value in step.items()}
        outcome = rule.evaluate(STEP.activation(values_here))
        if not outcome.holds:
            yield from _broken(review, policy, outcome, index)


def _reads_open(review: Review, rule: Rule) -> bool:
    """Whether a rule reads, of any call, a parameter whose value is known only at dispatch."""
    return any(reads_open(review, rule, position) for position in review.open_parameters)


def _broken(review: Review, policy: Policy, outcome: Outcome, index: int | None) -> Refusals:
    gate = policy.gate
    if policy.effect == "deny" or gate is None or gate not in review.compiled.gates_by_name:
        yield _refusal(review, policy, outcome, index)
        return
    affected = [call for call in review.calls if index is None or call.position == index]
    for call in affected:
        review.demands.append(
            GateDemand(
                step=call.position,
                step_id=call.step.id,
                gate=gate,
                reason=policy.message or f"policy {policy.name} asks for it",
            )
        )


def _refusal(review: Review, policy: Policy, outcome: Outcome, index: int | None) -> Refusal:
    why = policy.message or f"{policy.expression} does not hold"
    failed = f" (it fails: {outcome.error})" if outcome.error else ""
    return review.refuse(
        Code.POLICY_INVARIANT,
        f"{review.label(index)} violates policy {policy.name}: {why}{failed}",
        policy.remedy or f"change the plan so that {policy.expression}",
        step=index,
    )
