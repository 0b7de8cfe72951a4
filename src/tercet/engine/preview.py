"""RETRIEVE without a session: the evidence that a run of a plan would have when the plan is reviewed.

Searches and pins by id are answered by the same store and snapshot as in a run. A look-up by a tool is not made. Where a run
would make it, its place is taken by a fact without content, and the look-up is reported as deferred.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, replace

from tercet.contracts.decision import DecisionSpec
from tercet.contracts.plan import EvidenceQuery, Plan
from tercet.contracts.relations import is_of_class
from tercet.core.config import RunConfig
from tercet.core.retrieval import steps_asking, with_refs
from tercet.core.state import Used
from tercet.engine.evidence import lookups as looking_up
from tercet.engine.evidence.library import Library
from tercet.engine.evidence.retrieval import Spent, retrieve
from tercet.evidence.store import Fact


@dataclass(frozen=True, kw_only=True)
class Preview:
    """A plan as it would come to review, and what it would be reviewed in."""

    plan: Plan
    """With a stand-in for each fact that a tool would look up."""
    real: Plan
    """The same without the stand-ins."""
    setting: RunConfig
    deferred: tuple[str, ...] = ()
    """The look-ups that a run would make first."""


async def preview_retrieval(
    plan: Plan, setting: RunConfig, library: Library | None, now: int, *, is_planned: bool
) -> Preview:
    """Retrieve what a plan names and asks for; queries are asked for planned plans only, since a caller's never changes."""
    deferred: dict[str, str] = {}
    standing_in: set[str] = set()

    async def look_up(step: str, query: EvidenceQuery, spent: Spent) -> Fact | None:
        params = looking_up.resolved(setting, query)
        tool = setting.surface.get(query.tool or "")
        if params is None or tool is None or looking_up.shortage(Used(), setting, tool, spent) is not None:
            return None
        spent.calls, spent.cost = spent.calls + 1, spent.cost + tool.cost_microcents
        deferred[f"step {step}: {tool.name} looks up {query.classification}"] = query.classification
        fact = looking_up.fact_of(setting, query, params, None)
        standing_in.add(fact.evidence.id)
        return fact

    steps = steps_asking(plan) if is_planned else []
    found = await retrieve(plan, steps, setting, library, look_up, now)
    after = setting.with_facts(found.facts) if found.facts else setting
    if deferred:
        after = replace(after, spec=_without_relations(after.spec, frozenset(deferred.values())))
    retrieved = plan if found.refs is None else with_refs(plan, found.refs)
    return Preview(
        plan=retrieved,
        real=_without_refs(retrieved, standing_in) if standing_in else retrieved,
        setting=after,
        deferred=tuple(deferred),
    )


def _without_refs(plan: Plan, refs: Container[str]) -> Plan:
    steps = tuple(
        step.model_copy(update={"evidence_refs": tuple(r for r in step.evidence_refs if r not in refs)})
        for step in plan.steps
    )
    return plan.model_copy(update={"steps": steps})


def _without_relations(spec: DecisionSpec, classes: frozenset[str]) -> DecisionSpec:
    """The decision without the relations to evidence whose content is not known before the run."""

    def is_known(name: str | None) -> bool:
        return name is None or not any(is_of_class(name, each) for each in classes)

    kept = tuple(
        relation
        for relation in spec.bind
        if is_known(relation.evidence) and is_known(relation.target.owner if relation.target else None)
    )
    return spec.model_copy(update={"bind": kept})
