"""Whether a plan certainly passes review, found in one pass over its steps.

Most plans pass, and each check of the matrix goes through a plan again to explain what is wrong with it. This asks the same
of an ordinary plan at once: every step calls a tool and comes after the steps that it needs, nothing is conditional or
computed, and all rules of the pack hold together. A yes means that no check would refuse, defer or demand anything. A no
means nothing: the checks decide.
"""

from __future__ import annotations

from itertools import chain

from tercet.contracts import references
from tercet.contracts.effective import EffectiveStep
from tercet.contracts.mode import MODE_RANK, ApprovalMode
from tercet.contracts.references import Leaf, Reference
from tercet.critic.arguments import find_faults
from tercet.critic.checks import outputs_are_covered, tokens_are_within_budget
from tercet.critic.conditions import start_conditions
from tercet.critic.feasibility import (
    budget_is_left,
    concurrency_is_within_limit,
    differ_by_text,
    find_decision,
    latency_is_within_budget,
)
from tercet.critic.flow import find_unbound
from tercet.critic.gates import gates_of, gravity, is_compensated, is_gated, may_use
from tercet.critic.review import Review
from tercet.critic.rules import hold_together
from tercet.critic.structure import find_fault
from tercet.critic.worth import Worth
from tercet.policy.resolution import MAX_RESOLVED_BYTES, measure

_PLAN_CHECKS = (
    outputs_are_covered,
    tokens_are_within_budget,
    budget_is_left,
    latency_is_within_budget,
    concurrency_is_within_limit,
)


def certainly_passes(worth: Worth) -> bool:
    """Whether no check of the matrix would refuse, defer or demand anything; no is only a reason to look closer."""
    review = worth.review
    plan, ctx = review.plan, review.ctx
    if review.conditions or plan.memory or review.spec.bind or ctx.earlier or not review.is_strict:
        return False
    if not 0 < len(plan.steps) == len(review.calls) <= ctx.run_budget.max_steps:
        return False
    return (
        _are_steps_sound(review)
        and not any([find_faults(review.reading, call) for call in review.calls])
        and not any(any(find_unbound(worth, call)) for call in review.calls)
        and _are_outputs_sound(review)
        and _is_evidence_pinned(review)
        and not any(chain.from_iterable(check(review) for check in _PLAN_CHECKS))
        and hold_together(review)
    )


def _are_steps_sound(review: Review) -> bool:
    """Whether each step, after the steps that it needs, is as it has to be."""
    evidence = review.compiled.evidence
    held_after: list[frozenset[str]] = []
    at_start = start_conditions(review)
    effects: dict[str, list[EffectiveStep]] = {}
    permitted: set[tuple[object, ...]] = set()
    read_only = ApprovalMode.READ_ONLY
    left = MAX_RESOLVED_BYTES
    for index, call in enumerate(review.calls):
        _, step, tool, mode, reversibility, gates, _, _, doubled = call
        if step.optional or step.compensate is not None or doubled:
            return False
        form = (tool.name, mode, step.approval_mode, reversibility, gates)
        if form not in permitted:
            if not _is_permitted(review, call):
                return False
            permitted.add(form)
        needed = step.depends_on
        for item in review.found[index]:
            if type(item) is Leaf:
                continue
            if type(item) is not Reference or item.kind == "cel" or item.kind == "select":
                return False
            if find_fault(review, item) is not None:
                return False
            if item.kind == "from" and item.target != references.REQUEST:
                needed = (*needed, item.target)
            elif (known := review.known(item)) is not None:
                left -= measure(known.value, left)
        held = at_start
        for name in needed:
            before = review.position.get(name, index)
            if before >= index:  # unknown, or perhaps on a cycle
                return False
            held |= held_after[before]
        held_after.append(held.union(tool.establishes) if tool.establishes else held)
        if not held.issuperset((*step.preconditions, *tool.preconditions)):
            return False
        refs = review.pinned[index]
        for ref in refs:
            if ref not in evidence:
                return False
        for required in (*step.requires_evidence, *tool.requires_evidence):
            if not any(review.satisfies(required, ref, index=index) for ref in refs):
                return False
        if mode is not read_only and tool.name not in review.spec.repeatable:
            effects.setdefault(tool.name, []).append(call)
    return left >= 0 and all(differ_by_text(calls, is_strict=True) for calls in effects.values())


def _is_permitted(review: Review, call: EffectiveStep) -> bool:
    """Whether this run may make calls of this tool, mode and reversibility with these gates."""
    declared, gates = call.step.approval_mode, review.compiled.gates_by_name
    return (
        MODE_RANK[call.mode] <= MODE_RANK[review.ctx.safety_mode]
        and (declared is None or declared is call.mode)
        and may_use(review, call.tool)
        and all(name in gates for name in gates_of(review, call))
        and (gravity(call.mode, call.reversibility) is None or is_gated(review, call))
        and is_compensated(call)
        and not call.tool.revokes
    )


def _are_outputs_sound(review: Review) -> bool:
    """Whether every output is a literal, or refers to something that is there."""
    for item in review.plan.found_outputs:
        if type(item) is Leaf:
            continue
        if type(item) is not Reference or item.kind == "cel" or item.kind == "select":
            return False
        if find_fault(review, item) is not None or not all(
            name in review.position or name == references.REQUEST for name in item.names
        ):
            return False
    return True


def _is_evidence_pinned(review: Review) -> bool:
    """Whether the evidence that decisions require is pinned: by any step, or by the very step of a checkpoint."""
    spec, plan = review.spec, review.plan
    for needed in spec.required_evidence:
        if not any(review.satisfies(needed, ref) for refs in review.pinned for ref in refs):
            return False
    for checkpoint in plan.decision_checkpoints:
        decision, step = find_decision(review, checkpoint), review.position.get(checkpoint.after_step)
        if decision is None or step is None:
            return False
        for needed in decision.required_evidence:
            if not any(review.satisfies(needed, ref, decision) for ref in review.pinned[step]):
                return False
    return True
