"""Checks compensations that a plan proposes as the calls that they are.

Each becomes an additional step after the plan's steps: its id is its step's id with a `~` prefix, it has no gates of
its own and the evidence of its step. The checks of ordinary calls run over that longer plan, so no rule for calls is
written twice. A compensation that a tool declares comes from the pack, and is not checked here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pydantic import field_validator

from tercet.contracts.context import Check
from tercet.contracts.plan import COMPENSATES, Compensation, Plan, Step
from tercet.contracts.shape import as_list, as_object
from tercet.contracts.steps.effective import EffectiveStep, unaliased
from tercet.contracts.values import pointer, references
from tercet.contracts.verdict import Refusal
from tercet.critic.checks.arguments import arguments_are_permitted
from tercet.critic.checks.binding import relations_hold
from tercet.critic.checks.feasibility import actions_are_not_repeated, preconditions_are_met
from tercet.critic.checks.gates import demand_gates, gates_are_present
from tercet.critic.checks.published import evidence_is_pinned
from tercet.critic.checks.rules import policies_hold
from tercet.critic.review import Refusals, Review

_CHECKS: tuple[tuple[Callable[[Review], Refusals], Check | None], ...] = (
    (evidence_is_pinned, None),
    (arguments_are_permitted, None),
    (relations_hold, None),
    (gates_are_present, None),
    (preconditions_are_met, "preconditions"),
    (policies_hold, None),
    (actions_are_not_repeated, "duplicates"),
)
"""The checks of a proposed compensation besides `own_compensations_fit` and the information flow."""


class CompensatingStep(Step):
    """A step that represents the compensation of another. Its id is not valid in a plan, so no planner can propose it."""

    @field_validator("id")
    @classmethod
    def _id_is_a_name(cls, value: str) -> str:
        if not value.startswith(COMPENSATES):
            raise ValueError(f"the id of a compensating step begins with {COMPENSATES!r}")
        return value


def _proposed(review: Review) -> list[tuple[EffectiveStep, Compensation]]:
    """Return the calls with a compensation proposed by the plan."""
    return [
        (call, own)
        for call in review.calls
        if (own := call.step.compensate) is not None and own.tool in review.compiled.surface
    ]


def compensation_demands(review: Review) -> list[tuple[EffectiveStep, str, tuple[str, ...]]]:
    """Return the proposed compensations that need approval: the step, the tool, and the gates (empty if anyone but the
    owner may approve).
    """
    proposed = _proposed(review)
    if not proposed:
        return []
    extended = _extended_review(review, proposed)
    for _ in policies_hold(extended):
        pass  # for the gates that it demands
    demand_gates(extended)
    found: list[tuple[EffectiveStep, str, tuple[str, ...]]] = []
    for position, host in extended.hosts.items():
        call = extended.call_at[position]
        gates = tuple(dict.fromkeys(each.gate for each in extended.demands if each.step == position))
        if gates or call.needs_person:
            found.append((review.call_at[review.position[host]], call.tool.name, gates))
    return found


def compensations_are_permitted(review: Review) -> Refusals:
    """A proposed compensation passes the checks of every call, together with the calls of the plan."""
    if not review.is_strict:
        return
    proposed = _proposed(review)
    if not proposed:
        return
    extended = _extended_review(review, proposed)
    for check, name in _CHECKS:
        if name is not None and name not in review.checks:
            continue
        for refusal in check(extended):
            if refusal.step in extended.hosts:
                yield _at_host(review, refusal, review.position[extended.hosts[refusal.step]])
            elif refusal.step is None and check is policies_hold and not _is_refused_without(review):
                yield refusal


def _at_host(review: Review, refusal: Refusal, host: int) -> Refusal:
    """Return the refusal of a compensation at the step that proposes it."""
    place = refusal.place.removeprefix(f"/steps/{refusal.step}")
    inner = place if place.startswith("/params") else ""
    return review.refuse(refusal.code, refusal.reason, refusal.remedy, step=host, place=f"/compensate{inner}")


def _is_refused_without(review: Review) -> bool:
    """Return whether a policy over the plan already fails without the compensations, which is reported separately."""
    plain = Review(review.ctx, review.compiled, review.spec, review.plan, review.reading)
    return any(refusal.step is None for refusal in policies_hold(plain))


def _extended_review(review: Review, proposed: list[tuple[EffectiveStep, Compensation]]) -> Review:
    """Return the review of the plan with one more step at its end for each proposed compensation."""
    plan, surface = review.plan, review.compiled.surface
    steps = [
        compensating_step(
            call.step.id,
            own.tool,
            _with_own_params(unaliased(own.params, surface[own.tool].aliases)[0], call.params),
            review.pinned[call.position],
        )
        for call, own in proposed
    ]
    return Review(review.ctx, review.compiled, review.spec, with_steps(plan, (*plan.steps, *steps)))


def compensating_step(host: str, tool: str, params: dict[str, Any], evidence: tuple[str, ...]) -> Step:
    """Return the step that represents the compensation of `host`; the suffix `#2` marks the second time that `host` ran."""
    # Not validated here: a review never raises for a plan that parses, whatever its compensations contain.
    return CompensatingStep.model_construct(
        None,
        id=f"{COMPENSATES}{host}",
        tool=tool,
        params=params,
        depends_on=(host.partition("#")[0],),
        evidence_refs=tuple(dict.fromkeys(evidence)),
        optional=True,
    )


def with_steps(plan: Plan, steps: tuple[Step, ...]) -> Plan:
    """Return a plan with other steps, which may exceed the limit for planners."""
    fields = {name: getattr(plan, name) for name in Plan.model_fields}
    return Plan.model_construct(None, **{**fields, "steps": steps})


def _with_own_params(value: Any, params: dict[str, Any]) -> Any:
    """Return a compensation's value with references to `params` replaced by what the plan spells out.

    References in the step's parameters stay open, and are checked when the compensation is due.
    """
    members = as_object(value)
    if members is not None:
        reference = references.as_reference(members)
        if reference is None:
            return (
                value
                if references.LITERAL in members
                else {key: _with_own_params(member, params) for key, member in members.items()}
            )
        if reference.target != references.PARAMS or "$" in reference.pointer:
            return value
        try:
            return pointer.follow(params, reference.pointer)
        except pointer.PointerError:
            return value
    items = as_list(value)
    return value if items is None else [_with_own_params(item, params) for item in items]
