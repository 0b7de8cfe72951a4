"""Every approval that a reviewed plan needs or may need, and why.

A verdict lists the gates that are demanded at review. The person who starts a run also wants to know about those that
are decided later: conditional gates and policies that read a value which is not known yet, the approval that every
network call needs, the gates of compensations, and the approval of the outputs. And which irreversible steps may run before
a person has denied another step of the same plan.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from tercet.contracts.context import CompiledContext, RunContext
from tercet.contracts.decision import DecisionSpec
from tercet.contracts.gate import Gate
from tercet.contracts.mode import MODE_RANK, ApprovalMode, Reversibility
from tercet.contracts.plan import Plan
from tercet.contracts.policy import Policy
from tercet.contracts.steps.effective import EffectiveStep
from tercet.contracts.verdict import Verdict
from tercet.critic.approvals import is_grantable
from tercet.critic.checks.arguments import condition, reads_open
from tercet.critic.checks.compensation import compensation_demands
from tercet.critic.checks.gates import gates_of
from tercet.critic.checks.rules import find_undecided, uncertain_at_review
from tercet.critic.review import Review
from tercet.policy.expressions import STEP, ExpressionError, compile_rule


@dataclass(frozen=True, kw_only=True)
class Wait:
    """An approval that a run waits for before it goes on."""

    step: int | None
    """The position of the step; None if the outputs wait."""
    step_id: str | None
    gate: str
    """The gate of the pack; empty if anyone but the owner may approve."""
    is_certain: bool
    """Whether the run always waits here; otherwise the reason says what that depends on."""
    reason: str


def find_waits(
    ctx: RunContext, compiled: CompiledContext, spec: DecisionSpec, plan: Plan, verdict: Verdict
) -> tuple[Wait, ...]:
    """Return the approvals that a plan needs or may need after review, by step; empty for a refused plan."""
    if not verdict.ok:
        return ()
    review = Review(ctx, compiled, spec, plan, uncertain=uncertain_at_review(ctx, compiled, plan))
    undecided = frozenset(find_undecided(review))
    found = [wait for call in review.calls for wait in _before_call(review, call, verdict, undecided)]
    found += _compensations(review)
    found += _outputs(spec)
    return tuple(dict.fromkeys(found))


def _before_call(
    review: Review, call: EffectiveStep, verdict: Verdict, undecided: frozenset[str]
) -> Iterator[Wait]:
    waits = [*_named_gates(review, call, verdict), *_deferred_policies(review, call, undecided)]
    if call.needs_person and not any(wait.is_certain for wait in waits):
        waits += _unnamed(review, call)
    for wait in waits:
        if call.step.when is None:
            yield wait
        else:
            reason = f"{wait.reason}; the step runs only if {call.step.when}"
            yield replace(wait, is_certain=False, reason=reason)


def _named_gates(review: Review, call: EffectiveStep, verdict: Verdict) -> Iterator[Wait]:
    """Yield the gates that the verdict demands for a call; one whose condition is decided at dispatch is not certain."""
    own = gates_of(review, call)
    for demand in verdict.gates:
        if demand.step == call.position:
            gate = review.compiled.gates_by_name[demand.gate]
            is_open = demand.gate in own and _is_open(review, call, gate)
            yield _wait(call, demand.gate, demand.reason, is_certain=not is_open)


def _is_open(review: Review, call: EffectiveStep, gate: Gate) -> bool:
    """Return whether the condition of a gate reads a value that is known only at dispatch."""
    return gate.when is not None and condition(review, call, gate.when, gate.name) is None


def _deferred_policies(review: Review, call: EffectiveStep, undecided: frozenset[str]) -> Iterator[Wait]:
    """Yield the gates of policies that are decided at dispatch; `undecided` names those that depend on other steps."""
    for policy in review.compiled.policies:
        is_gate = policy.effect == "gate" and policy.gate in review.compiled.gates_by_name
        if is_gate and policy.gate and _is_deferred(review, call, policy, undecided):
            reason = f"if policy {policy.name} does not hold, which is decided at dispatch"
            yield _wait(call, policy.gate, reason, is_certain=False)


def _is_deferred(review: Review, call: EffectiveStep, policy: Policy, undecided: frozenset[str]) -> bool:
    if policy.scope == "plan":
        return call.mode is not ApprovalMode.READ_ONLY and policy.name in undecided
    try:
        rule = compile_rule(policy.expression, STEP)
        return (rule.reads_order and policy.name in undecided) or reads_open(review, rule, call.position)
    except ExpressionError:
        return False


def _unnamed(review: Review, call: EffectiveStep) -> Iterator[Wait]:
    grants = [policy.name for policy in review.compiled.policies if policy.effect == "grant"]
    reason = f"{call.tool.name} is {call.mode}"
    if grants and is_grantable(call):
        names = " or ".join(grants)
        yield _wait(call, "", f"{reason}, unless policy {names} grants it at dispatch", is_certain=False)
    else:
        yield _wait(call, "", reason, is_certain=True)


def _wait(call: EffectiveStep, gate: str, reason: str, *, is_certain: bool) -> Wait:
    return Wait(step=call.position, step_id=call.step.id, gate=gate, is_certain=is_certain, reason=reason)


def _compensations(review: Review) -> Iterator[Wait]:
    """Yield the gates of proposed compensations, which run only if the run does not succeed."""
    for call, tool, gates in compensation_demands(review):
        for gate in gates or ("",):
            reason = f"if the run fails and {tool} compensates the step"
            yield _wait(call, gate, reason, is_certain=False)


def _outputs(spec: DecisionSpec) -> Iterator[Wait]:
    gate = spec.output_gate or ""
    if spec.requires_human_approval:
        reason = "the decision commits no outputs that a person has not accepted"
        yield Wait(step=None, step_id=None, gate=gate, is_certain=True, reason=reason)
    elif spec.quality is not None or spec.confidence is not None:
        reason = "if the outputs' quality or confidence calls for a person"
        yield Wait(step=None, step_id=None, gate=gate, is_certain=False, reason=reason)


class EarlyEffect(NamedTuple):
    """An irreversible step, a step that it does not wait for, and the gates at which that one may be denied."""

    step: str
    waiting: str
    gates: tuple[str, ...]
    """Empty if anyone may approve or deny it."""

    @property
    def message(self) -> str:
        """The warning."""
        gates = " and ".join(self.gates) or "the approval that it needs"
        return f"{self.step} cannot be undone, and may run before {self.waiting} is denied at {gates}"

    @property
    def remedy(self) -> str:
        """How to prevent it."""
        return f"let {self.step} depend on {self.waiting}, if it should happen only after that was approved"


def find_early_effects(
    plan: Plan,
    calls: Iterable[EffectiveStep],
    waiting: Mapping[int, tuple[str, ...]],
    sequences: Collection[str] = (),
) -> tuple[EarlyEffect, ...]:
    """Return each irreversible call that does not wait for a step which may be denied, with the first such step.

    `waiting` are the gates of the steps that wait for an approval, by position. Of two irreversible steps one has to
    come first: that may be the one of the stronger mode. If two steps share a gate of `sequences`, one approval covers
    both.
    """
    irreversible = {
        call.position: MODE_RANK[call.mode]
        for call in calls
        if call.reversibility is Reversibility.IRREVERSIBLE
    }
    found: list[EarlyEffect] = []
    for index, rank in irreversible.items():
        before = plan.graph.ancestors(index)
        own = set(waiting.get(index, ())).intersection(sequences)
        for other in sorted(waiting):
            may_follow = other in irreversible and irreversible[other] <= rank
            if other != index and other not in before and not may_follow and own.isdisjoint(waiting[other]):
                found.append(EarlyEffect(plan.steps[index].id, plan.steps[other].id, waiting[other]))
                break
    return tuple(found)
