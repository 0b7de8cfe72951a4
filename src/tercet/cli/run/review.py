"""Reviewing a plan from the command line.

This is the I/O around the pure `verify`: it finds the decision, the user and the evidence, and provides ids and time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Literal
from uuid import uuid4

from tercet.cli.journals import open_library, read_evidence
from tercet.cli.sessions.people import local_actor
from tercet.contracts.context import CompiledContext, RunContext
from tercet.contracts.decision import DecisionSpec
from tercet.contracts.evidence import parse_ref
from tercet.contracts.mode import ApprovalMode
from tercet.contracts.plan import Plan
from tercet.contracts.request import Request
from tercet.contracts.shape import JsonObject
from tercet.contracts.verdict import Code, CriticReport, ValidationResult, Verdict
from tercet.core.config import RunConfig
from tercet.critic.consolidate import consolidate
from tercet.critic.verify import validate
from tercet.critic.waits import Wait, find_waits
from tercet.engine import preview
from tercet.engine.evidence.library import Library
from tercet.engine.models.planners import fill_template
from tercet.engine.preview import request_for
from tercet.engine.sessions import build_run_config
from tercet.executor.clock import SystemClock
from tercet.packs import Pack
from tercet.planner.template import is_template
from tercet.view.terminal.text import listed


@dataclass(frozen=True, kw_only=True)
class Case:
    """A reviewed plan, with the inputs and results of the review."""

    context: RunContext
    compiled: CompiledContext
    spec: DecisionSpec
    plan: Plan
    reviewed: Plan
    """The reviewed plan, with placeholders for evidence that only a run can look up."""
    verdict: Verdict
    report: CriticReport

    @property
    def waits(self) -> tuple[Wait, ...]:
        """Every approval that the plan waits for, or may wait for."""
        return find_waits(self.context, self.compiled, self.spec, self.reviewed, self.verdict)

    @property
    def validation(self) -> ValidationResult:
        """The feasibility of the plan as issues."""
        return validate(self.context, self.compiled, self.spec, self.reviewed, verdict=self.verdict)


def review_plan(
    pack: Pack,
    plan: Plan,
    *,
    intent: str | None = None,
    request_input: JsonObject | None = None,
    snapshot: str | None = None,
    safety_mode: ApprovalMode | None = None,
    store: str = "",
) -> Case:
    """Compile the context of a run, and let the critic review the plan or the filled template. Nothing is run.

    The evidence queries of a template are executed, as in a run; those of a caller's own plan are not, since such a plan
    is never changed.
    """
    request = request_for(pack, intent or plan.intent, request_input)

    async def review() -> Case:
        async with open_library(store) as library:
            # The caller sees the refusals; no planner is asked for another plan.
            config = await run_config_for(
                pack, request, library, snapshot=snapshot, safety_mode=safety_mode, origin="caller"
            )
            if not is_template(plan):
                has_request = request_input is not None
                return await review_in(config, plan, library, is_planned=False, has_request=has_request)
            filled = fill_template(plan, request, config)
            return case_for_input(await review_in(config, filled, library, is_planned=True))

    return asyncio.run(review())


def case_for_input(case: Case) -> Case:
    """Return the review of a filled template with remedies for the person who typed the input."""
    return replace(case, verdict=verdict_for_input(case.verdict, case.compiled.evidence))


async def run_config_for(
    pack: Pack,
    request: Request,
    library: Library | None,
    *,
    snapshot: str | None,
    safety_mode: ApprovalMode | None,
    origin: Literal["planner", "caller"],
) -> RunConfig:
    """Return the configuration of a run by the local user, with the evidence that a store adds to the pack."""
    context = pack.run_context(
        trace_id=f"trace_{uuid4().hex}",
        run_id=f"run_{uuid4().hex}",
        actor=local_actor(pack),
        safety_mode=safety_mode,
        started_at=datetime.now(UTC),
        plan_origin=origin,
    )
    library_evidence = await read_evidence(library, pack.decision_for(request.intent), request)
    return build_run_config(pack, context, request, snapshot, library_evidence)


async def review_in(
    config: RunConfig, plan: Plan, library: Library | None, *, is_planned: bool, has_request: bool = True
) -> Case:
    """Return the critic's review of a plan, with the evidence that a run would retrieve for it; without a request,
    relations to it are not checked."""
    now = SystemClock().now()
    found, verdict = await preview.review_plan(
        plan, config, library, now, is_planned=is_planned, has_request=has_request
    )
    config = found.config
    report = consolidate(
        trace_id=config.ctx.trace_id,
        decision_key=config.spec.decision_key,
        verify=verdict,
        decided_at=datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
    )
    return Case(
        context=config.ctx,
        compiled=config.compiled,
        spec=config.spec,
        plan=found.real,
        reviewed=found.plan,
        verdict=verdict,
        report=report,
    )


_MOST_NAMED = 5


def verdict_for_input(verdict: Verdict, evidence: Iterable[str]) -> Verdict:
    """Return the verdict with a remedy for the person who typed the input, who cannot pin missing evidence."""
    if verdict.code is not Code.EVIDENCE_UNRESOLVED or not verdict.refusals:
        return verdict
    first, *others = verdict.refusals
    remedy = _remedy_for(first.reason, evidence)
    if remedy is None:
        return verdict
    told = (first.model_copy(update={"remedy": remedy}), *others)
    return verdict.model_copy(update={"remedy": remedy, "refusals": told})


def _remedy_for(reason: str, evidence: Iterable[str]) -> str | None:
    wanted = next((ref for word in reason.split() if (ref := parse_ref(word.rstrip(",")))), None)
    if wanted is None:
        return None
    refs = filter(None, map(parse_ref, evidence))
    same = sorted(
        ref.key
        for ref in refs
        if (ref.classification, ref.snapshot) == (wanted.classification, wanted.snapshot)
    )
    if not same:
        return f"there is no {wanted.classification} in the snapshot: add such evidence to the pack, or name a snapshot with --snapshot"
    return (
        f"there is no {wanted.classification} for {wanted.key}; the snapshot has: {listed(same, _MOST_NAMED)}"
    )
