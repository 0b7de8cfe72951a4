"""Evidence by look-up: a read_only tool that a plan names is asked before the plan is reviewed.

That is safe only within limits, so the call is reviewed by itself first, as a plan of one step: the tool must be on the
surface, read_only and declared to attest the class, its arguments must fit and have trusted sources, and no person may have to approve it. What is
refused is not asked, and the plan is then judged without that evidence.
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
    """The look-up as a plan of one step."""
    return Plan(steps=(Step(id=_STEP, tool=query.tool, params=query.params),))


def resolved(setting: RunConfig, query: EvidenceQuery) -> dict[str, Any] | None:
    """The parameters of a look-up that may be made; None where it may not."""
    spec = setting.surface.get(query.tool or "")
    if spec is None or spec.mode is not ApprovalMode.READ_ONLY or query.classification not in spec.attests:
        return None
    bare = DecisionSpec(
        id=setting.spec.id,
        risk_tier=setting.spec.risk_tier,
        untrusted_inputs=setting.spec.untrusted_inputs,
        untrusted_evidence=setting.spec.untrusted_evidence,
        bind=setting.spec.bind,
        fields=setting.spec.fields,
    )
    if not verify(setting.ctx, setting.compiled, bare, plan_of(query)).ok:
        return None
    course = ExecutionPlan.of(plan_of(query), setting.surface)
    call = course.calls[_STEP]
    try:
        params = resolve(call.params, {"request": setting.compiled.input()}, setting.evidence)
    except ResolutionError:
        return None
    # Nobody can be asked here: what waits for a gate is called by a step, or not at all.
    if needs_approval(call, gates_of(setting, course, _STEP, params)):
        return None
    called = resolved_review(setting.ctx, setting.compiled, bare, course.plan, _STEP, params)
    refusal = recheck(called, _STEP)
    return params if refusal is None else None


def shortage(used: Used, setting: RunConfig, tool: ToolSpec, spent: Spent) -> Shortage | None:
    """Return what the budget has too little of for another look-up, after those that were made for the same plan."""
    also = {"tool_calls": spent.calls, "cost_microcents": spent.cost}
    return find_shortage(used, setting.limits, needs_of_look_up(tool), also=also)


def fact_of(setting: RunConfig, query: EvidenceQuery, params: dict[str, Any], value: Any) -> Fact:
    """What a look-up brought, as evidence: trusted if the tool and all its arguments are."""
    spec = setting.surface[query.tool or ""]
    review = setting.review(plan_of(query))
    is_related = review.relations.explain_result(spec.name, value, None) is None
    is_trusted = bool(trusted_results(review)) and not spec.untrusted and is_related
    key = digest([query.tool, params]).removeprefix("sha256:")[:16]
    ref = EvidenceRef(
        query.classification, key, setting.library_snapshot or setting.compiled.snapshot or "live"
    )
    evidence = Evidence(
        id=str(ref),
        classification=query.classification,
        content=value,
        trust=Trust.TRUSTED if is_trusted else Trust.UNTRUSTED,
        source=f"{query.tool} {params}",
    )
    return Fact(evidence, Citation(evidence=evidence.id, content_hash=evidence.hash, query=query.tool))
