"""A plan's steps as rules see them: plain values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tercet.contracts.effective import EffectiveStep
from tercet.contracts.plan import Step
from tercet.critic.review import Review

# Converting values for CEL is most of what a policy costs, so only what some rule reads is handed over.
_CALL: dict[str, Callable[[Review, EffectiveStep], Any]] = {
    "id": lambda _, call: call.step.id,
    "index": lambda _, call: call.position,
    "kind": lambda _, call: call.step.kind,
    "tool": lambda _, call: call.tool.name,
    "mode": lambda _, call: str(call.mode),
    "reversibility": lambda _, call: str(call.reversibility),
    "gates": lambda _, call: list(call.gates),
    "evidence": lambda review, call: list(review.pinned[call.position]),
}


def plan_steps(
    review: Review, fields: frozenset[str] | None, params: frozenset[str] | None
) -> list[dict[str, Any]]:
    """The steps, effective, with known parameters in place and open ones left out.

    `fields` and `params` are all that any rule reads of a step and of its parameters; None means everything.
    """
    wanted = [(name, get) for name, get in _CALL.items() if fields is None or name in fields]
    has_params = fields is None or "params" in fields
    steps: list[dict[str, Any]] = []
    for index, step in enumerate(review.plan.steps):
        call = review.call_at.get(index)
        if call is None:
            steps.append(_other(review, index, step))
            continue
        seen = {name: get(review, call) for name, get in wanted}
        if has_params:
            seen["params"] = _closed(review, call, params)
        steps.append(seen)
    return steps


def _closed(review: Review, call: EffectiveStep, read: frozenset[str] | None) -> dict[str, Any]:
    """The parameters that rules read and whose values are known at review."""
    unknown = review.open_parameters.get(call.position, frozenset[str]())
    return {
        name: value
        for name, value in review.arguments(call).items()
        if name not in unknown and (read is None or name in read)
    }


def _other(review: Review, index: int, step: Step) -> dict[str, Any]:
    return {
        "id": step.id,
        "index": index,
        "kind": step.kind,
        "tool": step.tool or "",
        "mode": str(step.approval_mode or "read_only"),
        "reversibility": str(step.reversibility or "pure"),
        "gates": list(step.gates or ()),
        "evidence": list(review.pinned[index]),
        "params": {},
    }
