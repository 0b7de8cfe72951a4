"""Decides in one pass over the steps whether a plan certainly passes review.

Most plans pass, and each check of the matrix iterates over the plan again to explain what is wrong with it. This asks
the same of an ordinary plan at once: every step calls a tool and comes after the steps that it needs, nothing is
conditional or computed, and all rules of the pack hold together. True means that no check would refuse, defer or demand
anything. False means nothing: the checks decide.
"""

from __future__ import annotations

from tercet.contracts.mode import MODE_RANK, ApprovalMode
from tercet.contracts.plan import DecisionCheckpoint
from tercet.contracts.steps.effective import EffectiveStep
from tercet.contracts.values import references
from tercet.contracts.values.references import Found, Leaf, Reference
from tercet.critic.checks.arguments import find_faults, find_oversized_arguments, fit_schemas
from tercet.critic.checks.feasibility import (
    budget_is_left,
    concurrency_is_within_limit,
    differ_by_name,
    find_decision,
    latency_is_within_budget,
    start_conditions,
)
from tercet.critic.checks.flow import find_unbound
from tercet.critic.checks.gates import gates_of, gravity, is_compensated, is_gated, may_use
from tercet.critic.checks.published import outputs_are_covered, tokens_are_within_budget
from tercet.critic.checks.rules import hold_together
from tercet.critic.checks.structure import find_fault
from tercet.critic.review import Review
from tercet.critic.value_trust import ValueTrust

_PLAN_CHECKS = (
    outputs_are_covered,
    tokens_are_within_budget,
    budget_is_left,
    latency_is_within_budget,
    concurrency_is_within_limit,
)


def certainly_passes(value_trust: ValueTrust) -> bool:
    """Return True if no check of the matrix would refuse, defer or demand anything; False means undecided."""
    review = value_trust.review
    plan, ctx = review.plan, review.ctx
    if review.conditions or plan.memory or review.spec.bind or ctx.earlier or not review.is_strict:
        return False
    if not 0 < len(plan.steps) == len(review.calls) <= ctx.run_budget.max_steps:
        return False
    if references.OUTPUTS in review.position:
        return False
    if review.compiled.lanes and any(call.tool.reserves for call in review.calls):
        return False
    return (
        _are_steps_sound(review)
        and _find_needed(review, plan.found_outputs) is not None
        and _is_evidence_pinned(review)
        and find_oversized_arguments(review) is None
        and _are_arguments_sound(value_trust)
        and not any(refusal for check in _PLAN_CHECKS for refusal in check(review))
        and hold_together(review)
    )


def _are_steps_sound(review: Review) -> bool:
    """Return whether each step is permitted, comes after those that it needs, and repeats no action."""
    position, read_only = review.position, ApprovalMode.READ_ONLY
    at_start = start_conditions(review)
    held_after: list[frozenset[str]] = []
    effects: dict[str, list[EffectiveStep]] = {}
    permitted: set[tuple[object, ...]] = set()
    repeatable = review.spec.repeatable
    for index, call in enumerate(review.calls):
        _, step, tool, mode, reversibility, gates, _, _, doubled = call
        # Reading a field of a contract by its name takes several times as long.
        said, declared = vars(step), vars(tool)
        name, establishes = declared["name"], declared["establishes"]
        form = (name, mode, said["approval_mode"], reversibility, gates)
        if form not in permitted and not _is_permitted(review, call):
            return False
        permitted.add(form)
        is_plain = call.params is said["params"] and said.get("is_written_out", False)
        needed = () if is_plain else _find_needed(review, review.found[index])
        if needed is None or doubled or said["optional"] or said["compensate"] is not None:
            return False
        held = at_start
        for required in (*said["depends_on"], *needed) if needed else said["depends_on"]:
            before = position.get(required, index)
            if before >= index:  # unknown, or perhaps on a cycle
                return False
            if (after := held_after[before]) is not at_start:
                held |= after
        held_after.append(held.union(establishes) if establishes else held)
        for wanted in (said["preconditions"], declared["preconditions"]):
            if wanted and not held.issuperset(wanted):
                return False
        if mode is not read_only and name not in repeatable:
            effects.setdefault(name, []).append(call)
    return all(differ_by_name(calls, is_strict=True) for calls in effects.values())


def _are_arguments_sound(value_trust: ValueTrust) -> bool:
    """Return whether the arguments of every call fit its tool's schema, and authority values are trusted."""
    reading = value_trust.review.reading
    if not fit_schemas(reading):
        for call in reading.calls:
            if find_faults(reading, call):
                return False
    for call in reading.calls:
        tool = call.tool
        if tool.authority_parameters or tool.has_authority_everywhere:
            for _ in find_unbound(value_trust, call):
                return False
    return True


def _find_needed(review: Review, scanned: list[Found]) -> list[str] | None:
    """Return the steps that values refer to; None if one is computed or refers to something missing."""
    needed: list[str] = []
    for item in scanned:
        if type(item) is Leaf:
            continue
        if type(item) is not Reference or item.kind == "cel" or item.kind == "select":
            return None
        if find_fault(review, item) is not None:
            return None
        if item.kind == "from" and item.target != references.REQUEST:
            if item.target not in review.position:
                return None
            needed.append(item.target)
    return needed


def _is_permitted(review: Review, call: EffectiveStep) -> bool:
    """Return whether this run may make calls of this tool, mode and reversibility with these gates."""
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


def _is_evidence_pinned(review: Review) -> bool:
    """Return whether the required evidence and all pinned evidence is available."""
    evidence = review.compiled.evidence
    for call, refs in zip(review.calls, review.pinned, strict=True):
        for ref in refs:
            if ref not in evidence:
                return False
        for required in (vars(call.step)["requires_evidence"], vars(call.tool)["requires_evidence"]):
            for needed in required:
                if not any(review.satisfies(needed, ref, index=call.position) for ref in refs):
                    return False
    for needed in review.spec.required_evidence:
        if not any(review.satisfies(needed, ref) for refs in review.pinned for ref in refs):
            return False
    return all(_is_bound(review, each) for each in review.plan.decision_checkpoints)


def _is_bound(review: Review, checkpoint: DecisionCheckpoint) -> bool:
    """Return whether the step of a checkpoint itself pins what its decision requires."""
    decision, step = find_decision(review, checkpoint), review.position.get(checkpoint.after_step)
    return (
        decision is not None
        and step is not None
        and all(
            any(review.satisfies(needed, ref, decision) for ref in review.pinned[step])
            for needed in decision.required_evidence
        )
    )
