"""`consolidate` combines both verdicts into a report with a one-line rationale; `finalize` builds the record of a run."""

from __future__ import annotations

from typing import Any

from tercet.contracts.context import CompiledContext, RunContext
from tercet.contracts.decision import DecisionSpec
from tercet.contracts.plan import Plan
from tercet.contracts.runs.record import DecisionRecord
from tercet.contracts.runs.run import Run
from tercet.contracts.runs.scorecard import FLOORS
from tercet.contracts.verdict import CriticReport, ScoreVerdict, Verdict, VerifyPassed, VerifyRefused
from tercet.critic.reading import pinned


def consolidate(
    *,
    trace_id: str,
    decision_key: str,
    verify: Verdict | VerifyPassed | VerifyRefused,
    decided_at: str,
    score: ScoreVerdict | None = None,
) -> CriticReport:
    """Return the report of a run; the caller passes `decided_at` (ISO 8601), since this package has no clock."""
    published = verify.published() if isinstance(verify, Verdict) else verify
    if isinstance(published, VerifyRefused):
        # Refused before execution: nothing ran, so any score that the caller passes is ignored.
        score, status = None, "refused_by_critic"
        rationale = f"verify failed: {published.kind} — {'; '.join(published.reasons)}"
    elif score is None:
        status, rationale = "partial", "verify passed; no score (no execution)"
    elif not score.ok:
        status, rationale = "refused_by_critic", _broken_floors(score)
    else:
        status, rationale = "completed", "verify and score passed"
    return CriticReport(
        trace_id=trace_id,
        decision_key=decision_key,
        verify=published,
        score=score,
        status=status,
        rationale=rationale,
        decided_at=decided_at,
    )


def _broken_floors(score: ScoreVerdict) -> str:
    scores = score.scorecard.scores
    reasons = [
        f"{name} fail: {', '.join(finding.message for finding in scores[name].findings)}"
        for name in FLOORS
        if name in scores and scores[name].status == "fail"
    ]
    return "; ".join(reasons) or "score failed (unknown reason)"


def finalize(
    ctx: RunContext,
    compiled: CompiledContext,
    spec: DecisionSpec,
    plan: Plan,
    report: CriticReport,
    *,
    verdicts: tuple[Verdict, ...] = (),
    run: Run | None = None,
) -> DecisionRecord:
    """Return the decision record; `run` is None if the plan was refused."""
    return DecisionRecord(**record_fields(ctx, compiled, spec, plan, report, verdicts, run))


def record_fields(
    ctx: RunContext,
    compiled: CompiledContext,
    spec: DecisionSpec,
    plan: Plan,
    report: CriticReport,
    verdicts: tuple[Verdict, ...],
    run: Run | None,
) -> dict[str, Any]:
    """Return the fields of the decision record: all but those that are absent from most."""
    refs = dict.fromkeys(ref for step in plan.steps for ref in pinned(step))
    controls = [f"safety_mode:{ctx.safety_mode}", f"risk_tier:{spec.risk_tier}"]
    controls += [f"gate:{gate.name}" for gate in compiled.gates]
    controls += [f"policy:{policy.name}" for policy in compiled.policies]
    return {
        "version": 1,
        "decision_id": spec.id,
        "trace_id": ctx.trace_id,
        "run_id": ctx.run_id,
        "plan_id": plan.plan_id,
        "plan_hash": plan.hash,
        "outputs": run.outputs if run else {},
        "evidence_refs": tuple(refs),
        "approvals": run.approvals if run else (),
        "controls_active": tuple(controls),
        "verdicts": verdicts,
        "report": report,
        "transcript": run.transcript if run else (),
        "memory_proposals": (),
        "pack": compiled.pack,
        "pack_hash": compiled.pack_hash,
        "context_hash": compiled.hash,
    }
