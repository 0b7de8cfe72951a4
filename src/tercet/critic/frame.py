"""What rules may read about a run and its plan, as plain values."""

from __future__ import annotations

from typing import Any

from tercet.contracts.effective import EffectiveStep
from tercet.contracts.plan import Step
from tercet.critic.review import Review


def plan_steps(review: Review, read: frozenset[str] | None) -> list[dict[str, Any]]:
    """The steps as rules see them: effective, with known values in place and open ones left out.

    `read` are the only parameters that any rule reads, if that is known: others are not worth converting.
    """
    return [
        _call(review, call, read) if (call := review.call_at.get(index)) is not None else _other(index, step)
        for index, step in enumerate(review.plan.steps)
    ]


def _call(review: Review, call: EffectiveStep, read: frozenset[str] | None) -> dict[str, Any]:
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
        "params": _closed(review, call, read),
    }


def _closed(review: Review, call: EffectiveStep, read: frozenset[str] | None) -> dict[str, Any]:
    """The parameters whose values are known at review."""
    unknown = review.open_parameters.get(call.position, frozenset[str]())
    if read is not None:
        unknown = unknown.union(call.params).difference(read - unknown)
    params = review.arguments(call)
    return {name: value for name, value in params.items() if name not in unknown} if unknown else params


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
