"""Approval by policy: the only approval that no person gives.

A grant stands in for the unnamed approval that every network or delegated call waits for. It opens no named gate, and
nothing destructive or irreversible is granted, whatever its mode. It is decided on the resolved call, and an expression
that fails grants nothing. Whether a grant may be used at all is the runtime's to say: a step that waits for a gate by
name still waits, and an effect that a re-plan adds is approved by a person.
"""

from __future__ import annotations

from typing import Any

from tercet.contracts.context import CompiledContext, RunContext
from tercet.contracts.decision import DecisionSpec
from tercet.contracts.effective import EffectiveStep
from tercet.contracts.errors import PlanError
from tercet.contracts.mode import ApprovalMode
from tercet.contracts.plan import Plan
from tercet.contracts.policy import Policy
from tercet.critic.dispatch import resolved_review
from tercet.critic.gates import gravity
from tercet.critic.review import Review
from tercet.critic.rules import PlanViews
from tercet.critic.uncertain import find_uncertain, possible_absences
from tercet.policy.expressions import STEP, ExpressionError, compile_rule

GRANTABLE = frozenset({ApprovalMode.NETWORK, ApprovalMode.DELEGATED})


def granted_by(
    ctx: RunContext,
    compiled: CompiledContext,
    spec: DecisionSpec,
    plan: Plan,
    step_id: str,
    params: dict[str, Any],
) -> str | None:
    """The first policy that grants a call with these parameters; None if none does, or if none may."""
    policies = [policy for policy in compiled.policies if _is_grant(policy)]
    if not policies or not any(step.id == step_id for step in plan.steps):
        return None
    try:
        review = resolved_review(ctx, compiled, spec, plan, step_id, params)
    except PlanError:  # parameters that no plan could hold
        return None
    call = review.call_at.get(review.position[step_id])
    if call is None or not is_grantable(call):
        return None
    views = PlanViews(review, None, None)
    return next(
        (policy.name for policy in policies if does_grant(policy, review, views, call.position)), None
    )


def is_grantable(call: EffectiveStep) -> bool:
    """Whether a policy may approve a call at all."""
    return call.mode in GRANTABLE and gravity(call.mode, call.reversibility) is None


def _is_grant(policy: Policy) -> bool:
    """Whether a policy grants; one over the plan, or with a gate, is refused when a pack is loaded and grants nothing."""
    return policy.effect == "grant" and policy.scope == "step" and policy.gate is None


def does_grant(policy: Policy, review: Review, views: PlanViews, index: int) -> bool:
    """Return whether a policy that grants holds for a step; one that reads the order of steps must also hold without each
    set of steps that may not run."""
    try:
        rule = compile_rule(policy.expression, STEP)
    except ExpressionError:
        return False
    if not rule.evaluate(views.step(index)).holds:
        return False
    if not rule.reads_order:
        return True
    names = find_uncertain(review.plan, review.compiled.surface)
    uncertain = frozenset(review.position[name] for name in names) - {index}
    absences = possible_absences(review.plan, uncertain)
    return all(rule.evaluate(views.step(index, absent)).holds for absent in absences)
