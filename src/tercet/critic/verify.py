"""`verify`: the review of a plan before anything happens.

An ordinary plan is decided in one pass (`critic/fast_path.py`), all others by the checks. Each check is a generator of
refusals. The five published checks come first, then the rest of the feasibility matrix, ordered so that each check may
rely on those before it: nothing asks a cyclic graph for an order. The first refusal decides; the others are kept, so
that a planner can fix everything at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from itertools import islice
from typing import Any, TypeAlias

from tercet.contracts.context import Check, CompiledContext, RunContext
from tercet.contracts.decision import DecisionSpec
from tercet.contracts.plan import Plan
from tercet.contracts.shape import unchecked
from tercet.contracts.steps.effective import EffectiveStep
from tercet.contracts.verdict import (
    Code,
    Refusal,
    Severity,
    StepEffect,
    ValidationIssue,
    ValidationResult,
    Verdict,
)
from tercet.critic.checks.arguments import (
    arguments_are_permitted,
    arguments_fit_schema,
    find_oversized_arguments,
)
from tercet.critic.checks.binding import relations_hold
from tercet.critic.checks.compensation import compensations_are_permitted
from tercet.critic.checks.delivery import deliveries_are_possible
from tercet.critic.checks.feasibility import (
    actions_are_not_repeated,
    branches_are_within_limit,
    budget_is_left,
    checkpoints_are_bound,
    concurrency_is_within_limit,
    conditions_are_kept,
    latency_is_within_budget,
    preconditions_are_met,
)
from tercet.critic.checks.flow import authority_is_bound, literal_sources
from tercet.critic.checks.gates import (
    compensation_is_recorded,
    demand_gates,
    gates_are_present,
    modes_are_not_understated,
    own_compensations_fit,
    owner_is_authorised,
)
from tercet.critic.checks.optional_steps import optional_effects_are_certain
from tercet.critic.checks.published import FIVE_CHECKS
from tercet.critic.checks.rules import policies_hold, uncertain_at_review
from tercet.critic.checks.structure import (
    graph_is_acyclic,
    kinds_are_available,
    plan_is_not_empty,
    references_resolve,
)
from tercet.critic.fast_path import certainly_passes
from tercet.critic.judge import review_outcome
from tercet.critic.lanes import lanes_are_permitted
from tercet.critic.reading import Reading
from tercet.critic.review import Refusals, Review
from tercet.critic.value_trust import ValueTrust

MAX_REFUSALS = 50
"""The maximum number of refusals in a verdict. A plan with more needs another planner, not a longer list."""

MAX_REVIEWED_STEPS = 500
"""A plan that exceeds both this number of steps and its budget is refused after the five checks."""

CheckFunction: TypeAlias = Callable[[Review], Refusals]

MATRIX: tuple[tuple[CheckFunction, Check | None], ...] = (
    *((check, None) for check in FIVE_CHECKS),
    (plan_is_not_empty, None),
    (kinds_are_available, None),
    (lanes_are_permitted, None),
    (graph_is_acyclic, None),
    (references_resolve, None),
    (deliveries_are_possible, None),
    (arguments_fit_schema, None),
    (arguments_are_permitted, None),
    (modes_are_not_understated, None),
    (owner_is_authorised, None),
    (authority_is_bound, None),
    (relations_hold, None),
    (optional_effects_are_certain, None),
    (gates_are_present, None),
    (compensation_is_recorded, "compensation"),
    (own_compensations_fit, None),
    (preconditions_are_met, "preconditions"),
    (conditions_are_kept, "preconditions"),
    (budget_is_left, None),
    (latency_is_within_budget, "latency"),
    (concurrency_is_within_limit, "concurrency"),
    (branches_are_within_limit, None),
    (policies_hold, None),
    (compensations_are_permitted, None),
    (checkpoints_are_bound, "checkpoints"),
    (actions_are_not_repeated, "duplicates"),
)
"""All checks in order. The risk tier may omit a check with a name; one without a name always runs."""


def verify(
    ctx: RunContext,
    compiled: CompiledContext,
    spec: DecisionSpec,
    plan: Plan,
    *,
    reading: Reading | None = None,
) -> Verdict:
    """Return whether a plan may run, and if not, why and what to do about it. Never raises for a plan that parses.

    `reading` is an earlier reading of this plan, to avoid another.
    """
    uncertain = uncertain_at_review(ctx, compiled, plan)
    review = Review(ctx, compiled, spec, plan, reading, uncertain=uncertain)
    value_trust = ValueTrust(review)
    refusals = () if certainly_passes(value_trust) else tuple(islice(_refusals(review), MAX_REFUSALS))
    if not refusals:
        demand_gates(review)
        return unchecked(
            Verdict,
            {
                **_passed(),
                "reasons": (
                    f"{len(plan.steps)} steps, {len(spec.required_outputs)} required outputs covered",
                ),
                "gates": tuple(review.demands),
                "deferred": tuple(review.deferred),
                "sources": literal_sources(value_trust),
                "unchecked": review.relations.unchecked(),
                "effects": tuple([_effect(call) for call in review.calls if not call.leaves_nothing]),
            },
        )
    first = refusals[0]
    return Verdict(
        stage="review",
        outcome=review_outcome(ctx, first.kind, first.code),
        reasons=(first.reason,),
        kind=first.kind,
        code=first.code,
        offending_step=first.step,
        step_id=first.step_id,
        place=first.place,
        remedy=first.remedy,
        sources=first.sources,
        refusals=refusals,
    )


@cache
def _passed() -> dict[str, Any]:
    """Return the fields that the verdicts on all accepted plans have in common."""
    return vars(Verdict(stage="review", outcome="ok", reasons=()))


def _effect(call: EffectiveStep) -> StepEffect:
    fields = {
        "step_id": call.step.id,
        "mode": call.mode,
        "reversibility": call.reversibility,
        "compensate": call.compensate,
        "no_compensation": "" if call.compensate else call.tool.no_compensation,
    }
    return unchecked(StepEffect, fields)


def validate(
    ctx: RunContext,
    compiled: CompiledContext,
    spec: DecisionSpec,
    plan: Plan,
    *,
    verdict: Verdict | None = None,
) -> ValidationResult:
    """Return the feasibility of a plan as issues with the published codes and severities.

    A cyclic plan has that one issue. Exceeded token and latency budgets are warnings here, and `verify` refuses them.
    `verdict` is what `verify` said of this plan, to avoid another review.
    """
    if cyclic := tuple(graph_is_acyclic(Review(ctx, compiled, spec, plan))):
        return ValidationResult(valid=False, issues=tuple(map(_issue, cyclic)))
    verdict = verdict or verify(ctx, compiled, spec, plan)
    issues = [
        *map(_issue, verdict.refusals),
        *(
            ValidationIssue(
                severity="WARNING", code="decided_at_dispatch", message=f"{rule} is decided at dispatch"
            )
            for rule in verdict.deferred
        ),
    ]
    return ValidationResult(valid=all(issue.severity == "WARNING" for issue in issues), issues=tuple(issues))


def _refusals(review: Review) -> Iterator[Refusal]:
    wanted = review.checks
    is_strict = review.is_strict
    is_oversized = is_strict and len(review.plan.steps) > max(
        review.ctx.run_budget.max_steps, MAX_REVIEWED_STEPS
    )
    for check, name in MATRIX:
        if is_oversized and check not in FIVE_CHECKS:
            return  # already refused, and the remaining checks take time for every step
        if name is not None and name not in wanted:
            continue
        if is_strict and check is arguments_fit_schema and (refusal := find_oversized_arguments(review)):
            yield refusal
            return
        yield from check(review)
        if check is graph_is_acyclic and not review.graph.is_acyclic:
            return


_PUBLISHED: dict[Code, tuple[Severity, str]] = {
    Code.CYCLIC_DEPENDENCY: ("CRITICAL", "cyclic_dependency_detected"),
    Code.TOOL_NOT_SURFACED: ("ERROR", "tool_unavailable"),
    Code.UNMET_PRECONDITION: ("ERROR", "unmet_preconditions"),
    Code.TOKENS_EXCEEDED: ("WARNING", "token_budget_exceeded"),
    Code.LATENCY_EXCEEDED: ("WARNING", "latency_budget_exceeded"),
    Code.AUTHORIZATION_REQUIRED: ("BLOCKED", "authorization_required"),
    Code.GATE_MISSING: ("BLOCKED", "gate_missing"),
    Code.MODE_EXCEEDED: ("BLOCKED", "mode_exceeded"),
}
"""The published severities and codes of issues; any other refusal is an error under its own code."""


def _issue(refusal: Refusal) -> ValidationIssue:
    severity, code = _PUBLISHED.get(refusal.code, ("ERROR", str(refusal.code)))
    return ValidationIssue(
        severity=severity, code=code, message=refusal.reason, remedy=refusal.remedy, step=refusal.step
    )
