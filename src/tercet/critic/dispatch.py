"""Checks repeated at dispatch on the resolved call: everything that review left open."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from tercet.contracts.context import CompiledContext, RunContext
from tercet.contracts.decision import DecisionSpec
from tercet.contracts.plan import Plan
from tercet.contracts.runs.behaviour import Behaviour
from tercet.contracts.shape import JsonObject
from tercet.contracts.verdict import Refusal
from tercet.critic.checks.arguments import arguments_are_permitted, arguments_fit_schema
from tercet.critic.checks.binding import find_unrelated_result, relations_hold
from tercet.critic.checks.flow import authority_is_bound
from tercet.critic.checks.rules import policies_hold, read_order
from tercet.critic.order import keep_order
from tercet.critic.reading import with_params
from tercet.critic.review import Review


@dataclass(frozen=True, kw_only=True)
class Progress:
    """What is known about the other steps of a plan when one of them is dispatched."""

    params: Mapping[str, JsonObject] = field(default_factory=dict[str, JsonObject])
    """The resolved parameters of the steps that have begun, and of those whose values are already known."""
    left_out: frozenset[str] = frozenset()
    """The steps that will not run."""
    uncertain: frozenset[str] = frozenset()
    """The steps that may not run."""


NO_PROGRESS = Progress()


def recheck(review: Review, step_id: str) -> Refusal | None:
    """Return why the call of a step must not be made, or None. `review` has its resolved parameters."""
    index = review.position[step_id]
    found = chain(
        arguments_fit_schema(review),
        arguments_are_permitted(review),
        relations_hold(review),
        policies_hold(review),
    )
    return next((refusal for refusal in found if refusal.step in (index, None)), None)


def recheck_sources(review: Review, step_id: str) -> Refusal | None:
    """Return why the values of a call lack a trusted source now that people have entered results, or None."""
    index = review.position[step_id]
    return next((refusal for refusal in authority_is_bound(review) if refusal.step == index), None)


def recheck_results(review: Review, step_id: str, results: Mapping[str, Any]) -> Refusal | None:
    """Return why an effect must not be made now that the results that it depends on are known, or None."""
    if not any(relation.tool and relation.field for relation in review.spec.bind):
        return None
    return find_unrelated_result(review, step_id, results)


def resolved_review(
    ctx: RunContext,
    compiled: CompiledContext,
    spec: DecisionSpec,
    plan: Plan,
    step_id: str,
    params: dict[str, Any],
    progress: Progress = NO_PROGRESS,
    planned: Plan | None = None,
) -> Review:
    """Return the review of a plan in which one step is due, with the resolved parameters of it and of other steps.

    `planned` is the plan as proposed, if it differs.
    """
    if not ctx.goes_by(Behaviour.STRICT_CALLS):
        steps = [with_params(step, params) if step.id == step_id else step for step in plan.steps]
        return Review(ctx, compiled, spec, plan.model_copy(update={"steps": steps}), planned=planned or plan)
    known = {**progress.params, step_id: params}
    steps = [with_params(step, known[step.id]) if step.id in known else step for step in plan.steps]
    if read_order(compiled.policies):
        steps = keep_order(plan, steps)
    return Review(
        ctx,
        compiled,
        spec,
        plan.model_copy(update={"steps": steps}),
        due=next(index for index, step in enumerate(steps) if step.id == step_id),
        left_out=frozenset(i for i, step in enumerate(steps) if step.id in progress.left_out),
        uncertain=frozenset(
            i for i, step in enumerate(steps) if step.id in progress.uncertain and step.id != step_id
        ),
        planned=planned or plan,
    )
