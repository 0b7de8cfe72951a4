"""The pack's policies over the plan and over each of its steps.

A step policy is first tried over all steps at once, as one comprehension: if that is true, each step passed. Only
otherwise is it evaluated step by step, to find out where it failed.
"""

from __future__ import annotations

from typing import Any

from tercet.contracts.gate import GateDemand
from tercet.contracts.policy import Policy
from tercet.contracts.verdict import Code, Refusal
from tercet.critic.frame import frame, plan_steps
from tercet.critic.review import Refusals, Review
from tercet.policy.expressions import (
    PLAN,
    STEP,
    ExpressionError,
    Outcome,
    Rule,
    compile_everywhere,
    compile_rule,
)


def policies_hold(review: Review) -> Refusals:
    """Every policy holds for the plan, and for each step of it."""
    if not review.compiled.policies:
        return
    steps = plan_steps(review)
    values = {
        **frame(review),
        "plan.intent": review.plan.intent or "",
        "plan.outputs": list(review.plan.output_names),
        "plan.steps": steps,
    }
    activation = PLAN.activation(values)
    for policy in review.compiled.policies:
        try:
            rule = compile_rule(policy.expression, PLAN if policy.scope == "plan" else STEP)
        except ExpressionError as error:
            yield _refusal(review, policy, Outcome(error=f"it does not compile: {error}"), None)
            continue
        if policy.scope == "plan":
            yield from _plan_policy(review, policy, rule, activation)
        elif (
            _reads_open(review, rule, None)
            or not compile_everywhere(policy.expression).evaluate(activation).holds
        ):
            yield from _step_policy(review, policy, rule, values, steps)


def _plan_policy(review: Review, policy: Policy, rule: Rule, activation: Any) -> Refusals:
    if _reads_open(review, rule, None):
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
        if _reads_open(review, rule, index):
            review.deferred.append(f"policy {policy.name} at step {index}")
            continue
        outcome = rule.evaluate(
            STEP.activation(shared | {f"step.{name}": value for name, value in step.items()})
        )
        if not outcome.holds:
            yield from _broken(review, policy, outcome, index)


def _reads_open(review: Review, rule: Rule, index: int | None) -> bool:
    """Whether a rule reads a parameter, of one step or of any, whose value is known only at dispatch."""
    if rule.reads is not None and not rule.reads:
        return False
    unknown = review.open_parameters
    names = unknown.values() if index is None else [unknown[index]] if index in unknown else []
    return any(rule.reads is None or rule.reads & parameters for parameters in names)


def _broken(review: Review, policy: Policy, outcome: Outcome, index: int | None) -> Refusals:
    gate = policy.gate
    if policy.effect == "deny" or gate is None or gate not in review.compiled.gates_by_name:
        yield _refusal(review, policy, outcome, index)
        return
    affected = [call for call in review.calls if index is None or call.index == index]
    for call in affected:
        review.demands.append(
            GateDemand(
                step=call.index,
                step_id=call.step.id,
                gate=gate,
                reason=policy.message or f"policy {policy.name} asks for it",
            )
        )


def _refusal(review: Review, policy: Policy, outcome: Outcome, index: int | None) -> Refusal:
    where = "plan" if index is None else f"step {index}"
    why = policy.message or f"{policy.expression} does not hold"
    failed = f" (it fails: {outcome.error})" if outcome.error else ""
    return review.refuse(
        Code.POLICY_INVARIANT,
        f"{where} violates policy {policy.name}: {why}{failed}",
        policy.remedy or f"change the plan so that {policy.expression}",
        step=index,
    )
