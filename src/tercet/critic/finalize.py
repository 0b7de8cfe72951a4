"""`finalize`: the record that is left of a run, completed or refused."""

from __future__ import annotations

from tercet.contracts.context import CompiledContext, RunContext
from tercet.contracts.decision import DecisionSpec
from tercet.contracts.plan import Plan
from tercet.contracts.record import DecisionRecord
from tercet.contracts.run import Run
from tercet.contracts.verdict import CriticReport, Verdict
from tercet.critic.reading import pinned


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
    """The decision record; `run` is what the executor left, and is absent where the plan was refused."""
    refs = dict.fromkeys(ref for step in plan.steps for ref in pinned(step))
    controls = [f"safety_mode:{ctx.safety_mode}", f"risk_tier:{spec.risk_tier}"]
    controls += [f"gate:{gate.name}" for gate in compiled.gates]
    controls += [f"policy:{policy.name}" for policy in compiled.policies]
    return DecisionRecord(
        decision_id=spec.id,
        trace_id=ctx.trace_id,
        run_id=ctx.run_id,
        plan_id=plan.plan_id,
        plan_hash=plan.hash,
        outputs=run.outputs if run else {},
        evidence_refs=tuple(refs),
        approvals=run.approvals if run else (),
        controls_active=tuple(controls),
        verdicts=verdicts,
        report=report,
        transcript=run.transcript if run else (),
        pack=compiled.pack,
        pack_hash=compiled.pack_hash,
        context_hash=compiled.hash,
    )
