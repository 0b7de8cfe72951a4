"""Evidence look-ups: calls of read_only tools that a plan requests before it is reviewed.

Each call is first reviewed by itself, as a plan of one step: the tool must be on the surface, read_only and declared to
attest the class, its arguments must fit and have trusted sources, and it must not need an approval. A refused look-up
is not made, and the plan is reviewed without that evidence.
"""

from __future__ import annotations

from typing import Any

from tercet.contracts.decision import DecisionSpec
from tercet.contracts.evidence import Citation, Evidence, EvidenceRef
from tercet.contracts.mode import ApprovalMode, Trust
from tercet.contracts.plan import EvidenceQuery, Plan, Step
from tercet.contracts.tool import ToolSpec
from tercet.contracts.values.canonical import digest
from tercet.core.budget import Shortage, find_shortage, needs_of_look_up
from tercet.core.config import ExecutionPlan, RunConfig
from tercet.core.decide import needs_approval
from tercet.core.required_gates import gates_of
from tercet.core.state import Used
from tercet.critic.checks.flow import trusted_results
from tercet.critic.dispatch import recheck, resolved_review
from tercet.critic.verify import verify
from tercet.engine.evidence.retrieval import Spent
from tercet.evidence.store import Fact
from tercet.policy.resolution import ResolutionError, resolve

_STEP = "look_up"


def plan_of(query: EvidenceQuery) -> Plan:
    """Return the look-up as a plan of one step."""
    return Plan(steps=(Step(id=_STEP, tool=query.tool, params=query.params),))


def resolved(config: RunConfig, query: EvidenceQuery) -> dict[str, Any] | None:
    """Return the parameters of a look-up; None if it is not allowed."""
    spec = config.surface.get(query.tool or "")
    if spec is None or spec.mode is not ApprovalMode.READ_ONLY or query.classification not in spec.attests:
        return None
    bare = DecisionSpec(
        id=config.spec.id,
        risk_tier=config.spec.risk_tier,
        untrusted_inputs=config.spec.untrusted_inputs,
        untrusted_evidence=config.spec.untrusted_evidence,
        bind=config.spec.bind,
        fields=config.spec.fields,
    )
    if not verify(config.ctx, config.compiled, bare, plan_of(query)).ok:
        return None
    execution_plan = ExecutionPlan.of(plan_of(query), config.surface)
    call = execution_plan.calls[_STEP]
    try:
        params = resolve(call.params, {"request": config.compiled.input()}, config.evidence)
    except ResolutionError:
        return None
    # No one can be asked for approval here: a call behind a gate can only be made by a step.
    if needs_approval(call, gates_of(config, execution_plan, _STEP, params)):
        return None
    called = resolved_review(config.ctx, config.compiled, bare, execution_plan.plan, _STEP, params)
    refusal = recheck(called, _STEP)
    return params if refusal is None else None


def shortage(used: Used, config: RunConfig, tool: ToolSpec, spent: Spent) -> Shortage | None:
    """Return the budget shortage that prevents another look-up, after those already made for the same plan."""
    also = {"tool_calls": spent.calls, "cost_microcents": spent.cost}
    return find_shortage(used, config.limits, needs_of_look_up(tool), also=also)


def fact_of(config: RunConfig, query: EvidenceQuery, params: dict[str, Any], value: Any) -> Fact:
    """Return the result of a look-up as evidence, trusted if the tool and all its arguments are."""
    spec = config.surface[query.tool or ""]
    review = config.review(plan_of(query))
    is_related = review.relations.explain_result(spec.name, value, None) is None
    is_trusted = bool(trusted_results(review)) and not spec.untrusted and is_related
    key = digest([query.tool, params]).removeprefix("sha256:")[:16]
    ref = EvidenceRef(
        query.classification, key, config.library_snapshot or config.compiled.snapshot or "live"
    )
    evidence = Evidence(
        id=str(ref),
        classification=query.classification,
        content=value,
        trust=Trust.TRUSTED if is_trusted else Trust.UNTRUSTED,
        source=f"{query.tool} {params}",
    )
    return Fact(evidence, Citation(evidence=evidence.id, content_hash=evidence.hash, query=query.tool))
