"""What is checked again at dispatch, on the resolved call: everything that review had to leave open."""

from __future__ import annotations

from itertools import chain
from typing import Any

from tercet.contracts.context import CompiledContext, RunContext
from tercet.contracts.decision import DecisionSpec
from tercet.contracts.plan import Plan
from tercet.contracts.references import LITERAL
from tercet.contracts.verdict import Refusal
from tercet.critic.arguments import arguments_are_permitted, arguments_fit_schema
from tercet.critic.flow import authority_is_bound
from tercet.critic.reading import pinned
from tercet.critic.review import Review
from tercet.critic.rules import policies_hold


def recheck(
    ctx: RunContext,
    compiled: CompiledContext,
    spec: DecisionSpec,
    plan: Plan,
    step_id: str,
    params: dict[str, Any],
) -> Refusal | None:
    """Why a call must not be made with these parameters; None if nothing speaks against it."""
    review = resolved_review(ctx, compiled, spec, plan, step_id, params)
    index = review.position[step_id]
    found = chain(arguments_fit_schema(review), arguments_are_permitted(review), policies_hold(review))
    return next((refusal for refusal in found if refusal.step in (index, None)), None)


def recheck_sources(
    ctx: RunContext, compiled: CompiledContext, spec: DecisionSpec, plan: Plan, step_id: str
) -> Refusal | None:
    """Return why the values of a call lack a trusted source now that results are known which people typed, or None."""
    review = Review(ctx, compiled, spec, plan)
    index = review.position[step_id]
    return next((refusal for refusal in authority_is_bound(review) if refusal.step == index), None)


def resolved_review(
    ctx: RunContext,
    compiled: CompiledContext,
    spec: DecisionSpec,
    plan: Plan,
    step_id: str,
    params: dict[str, Any],
) -> Review:
    """The review of a plan in which one step has the parameters that it will run with; what it pinned stays pinned."""
    resolved = {name: {LITERAL: value} for name, value in params.items()}
    steps = [
        s.model_copy(update={"params": resolved, "evidence_refs": pinned(s)}) if s.id == step_id else s
        for s in plan.steps
    ]
    return Review(ctx, compiled, spec, plan.model_copy(update={"steps": steps}))
