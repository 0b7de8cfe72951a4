"""The review of a plan without a session, with the evidence that a run of the plan would have.

Searches and pins by id are answered by the same store and snapshot as in a run. Tools are not called: where a run would
look up evidence with one, a fact without content is used instead, and the look-up is reported as deferred.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from tercet.contracts.context import RunContext
from tercet.contracts.decision import DecisionSpec
from tercet.contracts.errors import InternalError
from tercet.contracts.plan import EvidenceQuery, Plan
from tercet.contracts.relations import is_of_class
from tercet.contracts.request import Request
from tercet.contracts.shape import JsonObject
from tercet.contracts.verdict import ValidationResult, Verdict
from tercet.core.config import RunConfig
from tercet.core.retrieval import steps_asking, with_refs
from tercet.core.state import Used
from tercet.critic.verify import validate, verify
from tercet.engine.evidence import lookups as looking_up
from tercet.engine.evidence.library import Library
from tercet.engine.evidence.retrieval import Spent, retrieve
from tercet.engine.models.planners import fill_template
from tercet.engine.sessions import build_run_config
from tercet.evidence.store import Fact
from tercet.packs.pack import Pack
from tercet.planner.template import is_template


@dataclass(frozen=True, kw_only=True)
class Preview:
    """A plan as a run would review it, and the configuration of the review."""

    plan: Plan
    """The plan with a placeholder for each fact that a tool would look up."""
    real: Plan
    """The plan without placeholders."""
    config: RunConfig
    deferred: tuple[str, ...] = ()
    """The look-ups that a run would make first."""


def verify_plan(
    pack: Pack, plan: Plan, request: Request | None = None, context: RunContext | None = None
) -> Verdict:
    """Return the verdict on a caller's plan, or on a template filled for the request, without an evidence store."""
    return _review(pack, plan, request, context)[1]


def validate_plan(
    pack: Pack, plan: Plan, request: Request | None = None, context: RunContext | None = None
) -> ValidationResult:
    """Return the feasibility of the same plan as issues."""
    found, verdict = _review(pack, plan, request, context)
    config = found.config
    return validate(config.ctx, config.compiled, config.spec, found.plan, verdict=verdict)


def _review(
    pack: Pack, plan: Plan, request: Request | None, context: RunContext | None
) -> tuple[Preview, Verdict]:
    now = datetime.now(UTC)
    asked = request_for(pack, plan.intent) if request is None else request
    ctx = context or pack.run_context(started_at=now, plan_origin="caller")
    config = build_run_config(pack, ctx, asked, None)
    is_planned = is_template(plan)
    proposed = fill_template(plan, asked, config) if is_planned else plan
    now_ms = int(now.timestamp() * 1000)
    reviewing = review_plan(
        proposed, config, None, now_ms, is_planned=is_planned, has_request=request is not None
    )
    try:  # without a store nothing is awaited, so this also works inside an event loop
        reviewing.send(None)
    except StopIteration as done:
        return done.value
    raise InternalError("a review without a store waited for something")


def request_for(pack: Pack, intent: str | None, request_input: JsonObject | None = None) -> Request:
    """Return the request for an intent; without one, for the pack's only decision."""
    spec = pack.decision_for(intent)
    return Request(intent=intent or (*spec.intents, spec.id)[0], input=request_input or {})


async def review_plan(
    plan: Plan,
    config: RunConfig,
    library: Library | None,
    now: int,
    *,
    is_planned: bool,
    has_request: bool = True,
) -> tuple[Preview, Verdict]:
    """Return the critic's verdict on a plan, with the evidence that a run would retrieve for it; without a request,
    relations to it are not checked."""
    found = await preview_retrieval(plan, config, library, now, is_planned=is_planned)
    if not has_request:
        compiled = found.config.compiled.model_copy(update={"request": None})
        found = replace(found, config=replace(found.config, compiled=compiled))
    verdict = verify(found.config.ctx, found.config.compiled, found.config.spec, found.plan)
    if verdict.ok and found.deferred:
        verdict = verdict.model_copy(update={"deferred": (*verdict.deferred, *found.deferred)})
    return found, verdict


async def preview_retrieval(
    plan: Plan, config: RunConfig, library: Library | None, now: int, *, is_planned: bool
) -> Preview:
    """Retrieve the evidence that a plan pins and, for planned plans, queries; a caller's plan never changes."""
    deferred: dict[str, str] = {}
    standing_in: set[str] = set()

    async def look_up(step: str, query: EvidenceQuery, spent: Spent) -> Fact | None:
        params = looking_up.resolved(config, query)
        tool = config.surface.get(query.tool or "")
        if params is None or tool is None or looking_up.shortage(Used(), config, tool, spent) is not None:
            return None
        spent.calls, spent.cost = spent.calls + 1, spent.cost + tool.cost_microcents
        deferred[f"step {step}: {tool.name} looks up {query.classification}"] = query.classification
        fact = looking_up.fact_of(config, query, params, None)
        standing_in.add(fact.evidence.id)
        return fact

    steps = steps_asking(plan) if is_planned else []
    found = await retrieve(plan, steps, config, library, look_up, now)
    after = config.with_facts(found.facts) if found.facts else config
    if deferred:
        after = replace(after, spec=_without_relations(after.spec, frozenset(deferred.values())))
    retrieved = plan if found.refs is None else with_refs(plan, found.refs)
    return Preview(
        plan=retrieved,
        real=_without_refs(retrieved, standing_in) if standing_in else retrieved,
        config=after,
        deferred=tuple(deferred),
    )


def _without_refs(plan: Plan, refs: Container[str]) -> Plan:
    steps = tuple(
        step.model_copy(update={"evidence_refs": tuple(r for r in step.evidence_refs if r not in refs)})
        for step in plan.steps
    )
    return plan.model_copy(update={"steps": steps})


def _without_relations(spec: DecisionSpec, classes: frozenset[str]) -> DecisionSpec:
    """Return the decision without relations to evidence whose content is not known before the run."""

    def is_known(name: str | None) -> bool:
        return name is None or not any(is_of_class(name, each) for each in classes)

    kept = tuple(
        relation
        for relation in spec.bind
        if is_known(relation.evidence) and is_known(relation.target.owner if relation.target else None)
    )
    return spec.model_copy(update={"bind": kept})
