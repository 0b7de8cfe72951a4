"""What rules may read about a run and its plan, as plain values."""

from __future__ import annotations

from typing import Any

from tercet.contracts.effective import EffectiveStep
from tercet.contracts.plan import Step
from tercet.critic.review import Review


def frame(review: Review) -> dict[str, Any]:
    """The variables of every scope."""
    ctx, spec = review.ctx, review.spec
    return {
        "request": review.compiled.input(),
        "context.tenant": ctx.tenant,
        "context.actor": ctx.actor.id,
        "context.roles": list(ctx.actor.roles),
        "context.safety_mode": str(ctx.safety_mode),
        "decision.id": spec.id,
        "decision.risk_tier": str(spec.risk_tier),
    }


def plan_steps(review: Review) -> list[dict[str, Any]]:
    """The steps as rules see them: effective, with known values in place and open ones left out."""
    return [
        _call(review, call) if (call := review.call_at.get(index)) is not None else _other(index, step)
        for index, step in enumerate(review.plan.steps)
    ]


def _call(review: Review, call: EffectiveStep) -> dict[str, Any]:
    params = review.arguments(call)
    unknown = review.open_parameters.get(call.position)
    if unknown:
        params = {name: value for name, value in params.items() if name not in unknown}
    step = call.step
    return {
        "id": step.id,
        "index": call.position,
        "kind": step.kind,
        "tool": call.tool.name,
        "mode": str(call.mode),
        "reversibility": str(call.reversibility),
        "gates": list(call.gates),
        "evidence": list(review.pinned[call.position]),
        "params": params,
    }


def _other(index: int, step: Step) -> dict[str, Any]:
    return {
        "id": step.id,
        "index": index,
        "kind": step.kind,
        "tool": step.tool or "",
        "mode": str(step.approval_mode or "read_only"),
        "reversibility": str(step.reversibility or "pure"),
        "gates": list(step.gates or ()),
        "evidence": list(step.evidence_refs),
        "params": {},
    }
