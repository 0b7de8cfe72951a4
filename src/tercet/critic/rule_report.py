"""Reports which rules of a pack apply to a plan, at which steps and with what outcome, and why others do not apply."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from tercet.contracts.context import CompiledContext, RunContext
from tercet.contracts.decision import DecisionSpec
from tercet.contracts.evidence import meets, parse_ref
from tercet.contracts.gate import Gate
from tercet.contracts.mode import ApprovalMode
from tercet.contracts.plan import Plan
from tercet.contracts.policy import Policy
from tercet.contracts.relations import is_of_class
from tercet.contracts.shape import Shape
from tercet.contracts.steps.effective import EffectiveStep
from tercet.critic.approvals import does_grant, is_grantable
from tercet.critic.checks.arguments import condition, reads_open
from tercet.critic.checks.flow import authority_is_bound
from tercet.critic.checks.gates import demand_gates, gates_of
from tercet.critic.checks.rules import PlanViews, policies_hold, uncertain_at_review
from tercet.critic.review import Review, exhaust
from tercet.critic.waits import EarlyEffect, find_early_effects
from tercet.policy.comparisons import named_tools
from tercet.policy.expressions import STEP, ExpressionError, compile_rule

RuleKind = Literal["gate", "policy", "grant", "limit", "evidence", "relation"]
RuleOutcome = Literal["holds", "refuses", "waits", "grants", "later", "applies", "undecided"]
"""`later`: decided at dispatch. `applies`: checked together with the values of the step, not separately. `undecided`: the
step reads evidence that is not in the snapshot."""


class RuleAtStep(Shape):
    """The outcome of a rule at a step, or for the plan as a whole if `step` is empty."""

    step: str
    outcome: RuleOutcome
    detail: str = ""


class RuleUse(Shape):
    """A rule, and where it applies; `not_applied` says why it applies nowhere."""

    kind: RuleKind
    name: str
    applied: tuple[RuleAtStep, ...] = ()
    not_applied: str = ""


class RuleReport(Shape):
    """All rules that a plan was reviewed by, and the irreversible steps that may run before a denial."""

    rules: tuple[RuleUse, ...] = ()
    early_effects: tuple[EarlyEffect, ...] = ()


def report_rules(ctx: RunContext, compiled: CompiledContext, spec: DecisionSpec, plan: Plan) -> RuleReport:
    """Return which rules apply to a plan. For information only: `verify` decides. A plan with a cycle has no report."""
    if not plan.graph.is_acyclic:
        return RuleReport()
    review = _review(ctx, compiled, spec, plan)
    exhaust(authority_is_bound(review))
    exhaust(policies_hold(review))
    demand_gates(review)
    policies = [_policy(review, policy) for policy in compiled.policies]
    return RuleReport(
        rules=(
            *(_gate(review, gate, policies) for gate in compiled.gates),
            *policies,
            *_limits(review),
            *_evidence(review),
            *_relations(review),
        ),
        early_effects=_early_effects(review),
    )


def _review(ctx: RunContext, compiled: CompiledContext, spec: DecisionSpec, plan: Plan) -> Review:
    return Review(ctx, compiled, spec, plan, uncertain=uncertain_at_review(ctx, compiled, plan))


def _early_effects(review: Review) -> tuple[EarlyEffect, ...]:
    """Return the irreversible steps that may run before another one is denied, at a gate or by anyone who may approve."""
    waiting: dict[int, tuple[str, ...]] = {}
    for demand in review.demands:
        waiting[demand.step] = tuple(dict.fromkeys((*waiting.get(demand.step, ()), demand.gate)))
    if not any(policy.effect == "grant" for policy in review.compiled.policies):
        for call in review.calls:
            if call.needs_person:
                waiting.setdefault(call.position, ())
    sequences = [gate.name for gate in review.compiled.gates if gate.covers == "sequence"]
    return find_early_effects(review.plan, review.calls, waiting, sequences)


# ---- gates ----------------------------------------------------------------------------------------------------------


def _gate(review: Review, gate: Gate, policies: Iterable[RuleUse]) -> RuleUse:
    applied = [
        RuleAtStep(step=demand.step_id, outcome="waits", detail=demand.reason)
        for demand in review.demands
        if demand.gate == gate.name
    ]
    if gate.name == review.spec.output_gate and review.spec.requires_human_approval:
        applied.append(RuleAtStep(step="", outcome="waits", detail="before outputs are committed"))
    return _use("gate", gate.name, applied, "; ".join(_why_no_gate(review, gate, policies)))


def _why_no_gate(review: Review, gate: Gate, policies: Iterable[RuleUse]) -> Iterator[str]:
    if any(gate.name in gates_of(review, call) for call in review.calls):
        yield f"its condition is false: {gate.when}"
    elif tools := [tool.name for tool in review.compiled.surface.values() if gate.name in tool.gates]:
        yield _no_call(tools)
    if gate.name in review.spec.gates and not _effects(review):
        yield "no step is above read_only"
    if gate.name == review.spec.unbound_gate:
        yield "no authority value lacks a trusted source"
    if gate.name == review.spec.output_gate:
        yield "it is asked about outputs only if their review calls for a person"
    asking = {policy.name for policy in review.compiled.policies if policy.gate == gate.name}
    for use in policies:
        if use.kind == "policy" and use.name in asking:
            is_later = any(each.outcome == "later" for each in use.applied)
            yield f"policy {use.name} " + (
                "is decided at dispatch"
                if is_later
                else f"holds{': ' * bool(use.not_applied)}{use.not_applied}"
            )


def _effects(review: Review) -> list[EffectiveStep]:
    return [call for call in review.calls if call.mode is not ApprovalMode.READ_ONLY]


# ---- policies -------------------------------------------------------------------------------------------------------


def _policy(review: Review, policy: Policy) -> RuleUse:
    if policy.effect == "grant":
        return _grant(review, policy)
    alone = _review(
        review.ctx, review.compiled.model_copy(update={"policies": (policy,)}), review.spec, review.plan
    )
    refused = {refusal.step: refusal.reason for refusal in policies_hold(alone)}
    waits = {demand.step for demand in alone.demands}
    named = named_tools(policy.expression)
    called = {made.step.tool for made in review.ctx.earlier} | {call.tool.name for call in review.calls}
    if policy.scope == "plan" or None in refused:
        outcome: RuleOutcome = (
            "refuses" if refused else "waits" if waits else "later" if alone.deferred else "holds"
        )
        is_concerned = not named or not named.isdisjoint(called) or outcome != "holds"
        applied = [_at("", outcome, policy.message)] if is_concerned else []
    else:
        applied = [
            _at(review.plan.steps[index].id, outcome, policy.message)
            for index in range(len(review.plan.steps))
            if (outcome := _outcome_at(alone, policy, index, refused, waits)) in ("refuses", "waits")
            or not named
            or review.plan.steps[index].tool in named
        ]
    return _use("policy", policy.name, applied, _no_call(named) if named else "the plan has no steps")


def _outcome_at(
    review: Review, policy: Policy, index: int, refused: Iterable[int | None], waits: Iterable[int]
) -> RuleOutcome:
    """Return the outcome of a step policy, the only one under review, at a step."""
    if index in refused:
        return "undecided" if missing_evidence(review, index) else "refuses"
    if index in waits:
        return "waits"
    rule = compile_rule(policy.expression, STEP)
    is_undecided = rule.reads_order and policy.name in review.undecided
    return "later" if is_undecided or reads_open(review, rule, index) else "holds"


def _grant(review: Review, policy: Policy) -> RuleUse:
    try:
        rule = compile_rule(policy.expression, STEP)
    except ExpressionError:
        return RuleUse(kind="grant", name=policy.name, not_applied="it does not compile")
    views = PlanViews(review, None, None)
    unnamed = [
        call
        for call in review.calls
        if is_grantable(call) and all(demand.step != call.position for demand in review.demands)
    ]
    applied = [
        RuleAtStep(step=call.step.id, outcome="later" if is_open else "grants", detail=policy.message)
        for call in unnamed
        if (is_open := reads_open(review, rule, call.position))
        or does_grant(policy, review, views, call.position)
    ]
    named = named_tools(policy.expression)
    is_called = any(call.tool.name in named for call in review.calls)
    why = _no_call(named) if named and not is_called else "no step waits for an approval that it could give"
    return _use("grant", policy.name, applied, why)


# ---- limits, evidence and relations ---------------------------------------------------------------------------------


def _limits(review: Review) -> Iterator[RuleUse]:
    for tool in review.compiled.surface.values():
        calls = [call for call in review.calls if call.tool.name == tool.name]
        for limit in tool.limits:
            applied = [
                _at(call.step.id, _limit_outcome(review, call, limit.expression), limit.message)
                for call in calls
            ]
            yield _use("limit", f"{tool.name}: {limit.expression}", applied, _no_call([tool.name]))


def _limit_outcome(review: Review, call: EffectiveStep, expression: str) -> RuleOutcome:
    outcome = condition(review, call, expression, expression)
    if outcome is None:
        return "later"
    if outcome.holds:
        return "holds"
    return "undecided" if missing_evidence(review, call.position) else "refuses"


def missing_evidence(review: Review, index: int) -> frozenset[str]:
    """Return the evidence that a step pins or reads and that is not in the snapshot: what depends on it is not decided."""
    return frozenset(ref for ref in review.pinned[index] if ref not in review.compiled.evidence)


def _evidence(review: Review) -> Iterator[RuleUse]:
    required: dict[str, list[RuleAtStep]] = {}
    every = [ref for refs in review.pinned for ref in refs]
    for needed in review.spec.required_evidence:
        required.setdefault(needed, []).append(_pinned(review, None, needed, every))
    for index, step in enumerate(review.plan.steps):
        call = review.call_at.get(index)
        by_tool = () if call is None else call.tool.requires_evidence
        for needed in dict.fromkeys((*step.requires_evidence, *by_tool)):
            required.setdefault(needed, []).append(_pinned(review, index, needed, review.pinned[index]))
    for needed, applied in required.items():
        yield _use("evidence", needed, applied, "")
    demanding: dict[str, list[str]] = {}
    for tool in review.compiled.surface.values():
        for needed in tool.requires_evidence:
            demanding.setdefault(needed, []).append(tool.name)
    for needed, tools in demanding.items():
        if needed not in required:
            yield _use("evidence", needed, (), _no_call(tools))


def _pinned(review: Review, index: int | None, needed: str, refs: Sequence[str]) -> RuleAtStep:
    step = "" if index is None else review.plan.steps[index].id
    ref = next((ref for ref in refs if review.satisfies(needed, ref, index=index)), None)
    for absent in refs if ref is None else ():
        parts = None if absent in review.compiled.evidence else parse_ref(absent)
        if parts is not None and meets(needed, parts.classification):
            return RuleAtStep(step=step, outcome="undecided", detail=f"{absent} is not in the snapshot")
    if ref is None:
        return RuleAtStep(step=step, outcome="refuses", detail="nothing that satisfies it is pinned")
    return RuleAtStep(step=step, outcome="holds", detail=ref)


def _relations(review: Review) -> Iterator[RuleUse]:
    evidence = review.compiled.evidence
    for relation in review.spec.bind:
        if relation.tool is not None:
            steps = [call.position for call in review.calls if call.tool.name == relation.tool]
            why = _no_call([relation.tool])
        else:
            wanted = relation.evidence or ""
            steps = [
                index
                for index, refs in enumerate(review.pinned)
                if any(ref in evidence and is_of_class(wanted, evidence[ref].classification) for ref in refs)
            ]
            why = f"no step pins {wanted}"
        applied = [
            RuleAtStep(
                step=review.plan.steps[index].id,
                outcome="undecided" if missing_evidence(review, index) else "applies",
            )
            for index in steps
        ]
        yield _use("relation", str(relation), applied, why)


def _at(step: str, outcome: RuleOutcome, message: str) -> RuleAtStep:
    """Return the outcome of a rule at a step; its message is about calls for which it does not hold."""
    return RuleAtStep(step=step, outcome=outcome, detail="" if outcome == "holds" else message)


def _use(kind: RuleKind, name: str, applied: Iterable[RuleAtStep], why_not: str) -> RuleUse:
    at = tuple(applied)
    return RuleUse(kind=kind, name=name, applied=at, not_applied="" if at else why_not or "nothing names it")


def _no_call(tools: Iterable[str]) -> str:
    return f"no step calls {' or '.join(sorted(tools))}"
