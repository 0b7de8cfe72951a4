"""The steps of a plan, and the earlier calls of the run, as plain values that rules read."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, TypeAlias

from tercet.contracts.mode import ApprovalMode, Reversibility
from tercet.contracts.plan import Plan, Step
from tercet.contracts.steps.effective import EffectiveStep, effective
from tercet.critic.order import earlier_id
from tercet.critic.provenance import SOURCES, Provenance, StepSources, read_sources
from tercet.critic.reading import pinned
from tercet.critic.review import Review
from tercet.policy.call_params import ruled_params

Refs: TypeAlias = tuple[str, ...]
Names: TypeAlias = frozenset[str] | None
"""The names that rules read; None means all."""

# Converting values for CEL is most of the cost of a policy, so only values that some rule reads are passed.
_CALL: dict[str, Callable[[EffectiveStep, Refs], Any]] = {
    "id": lambda call, _: call.step.id,
    "index": lambda call, _: call.position,
    "kind": lambda call, _: call.step.kind,
    "tool": lambda call, _: call.tool.name,
    "mode": lambda call, _: str(call.mode),
    "reversibility": lambda call, _: str(call.reversibility),
    "gates": lambda call, _: list(call.gates),
    "evidence": lambda _, refs: list(refs),
    "when": lambda call, _: call.step.when or "",
    "optional": lambda call, _: call.step.optional,
}

_OF_STEP = frozenset({"id", "index", "evidence", "when", "optional"})
"""The fields in which calls of the same tool, mode, reversibility and gates may differ."""


def plan_steps(review: Review, fields: Names, params: Names) -> list[dict[str, Any]]:
    """Return the effective steps, with known parameters filled in and open ones omitted; `Order` adds which run before
    which.

    `fields` and `params` are all that any rule reads of a step and of its parameters.
    """
    steps: list[dict[str, Any]] = []
    by_form: dict[tuple[object, ...], dict[str, Any]] = {}
    getters = _getters(fields, _OF_STEP)
    provenance = _provenance(review, fields)
    for index, step in enumerate(review.plan.steps):
        call = review.call_at.get(index)
        if call is None:
            steps.append(_other(index, step, review.pinned[index]))
            continue
        form = (call.tool.name, call.mode, call.reversibility, call.gates)
        if form in by_form:  # calls of the same form differ in few fields
            seen = by_form[form].copy()
            for name, get in getters:
                seen[name] = get(call, review.pinned[index])
        else:
            seen = by_form[form] = _call_fields(call, review.pinned[index], fields)
        if fields is None or "params" in fields:
            unknown = review.open_parameters.get(index, frozenset[str]())
            seen["params"] = {
                name: value
                for name, value in review.ruled_arguments(call).items()
                if name not in unknown and (params is None or name in params)
            }
        if provenance is not None:
            seen[SOURCES] = provenance.of_step(step.id)
        steps.append(seen)
    return steps


def _provenance(review: Review, fields: Names) -> Provenance | None:
    """Return the provenance of values if a rule reads it."""
    is_read = (fields is None or SOURCES in fields) and read_sources(review.compiled.policies)
    return Provenance(review) if is_read else None


def earlier_calls(review: Review, fields: Names, params: Names) -> list[dict[str, Any]]:
    """Return the calls that the run made under earlier plans, like steps; their indexes are negative, the last is -1."""
    earlier = review.ctx.earlier
    shown: list[dict[str, Any]] = []
    is_read = _provenance(review, fields) is not None
    for index, made in enumerate(earlier, -len(earlier)):
        step, refs = made.step, pinned(made.step)
        made_with = {name: review.resolved(value) for name, value in step.params.items()}
        tool = review.compiled.surface.get(step.tool or "")
        if tool is None:  # the session was moved to a pack without this tool, so its mode is unknown
            worst = {"mode": str(ApprovalMode.DESTRUCTIVE), "reversibility": str(Reversibility.IRREVERSIBLE)}
            seen = {**_other(index, step, refs), **worst, "params": made_with}
        else:
            seen = _call_fields(effective(index, step, tool), refs, fields)
            if fields is None or "params" in fields:
                made_with = ruled_params(tool, made_with) if review.fills_defaults else made_with
                seen["params"] = {n: value for n, value in made_with.items() if params is None or n in params}
            if is_read:
                seen[SOURCES] = _earlier_sources(review, step)
        shown.append({**seen, "id": earlier_id(step, index)})
    return shown


def _earlier_sources(review: Review, step: Step) -> StepSources:
    """Return the sources of the values of an earlier call, which are literals by now."""
    alone = Plan.model_construct(None, **{**dict(review.plan), "steps": (step,)})
    return Provenance(Review(review.ctx, review.compiled, review.spec, alone)).of_step(step.id)


def _call_fields(call: EffectiveStep, refs: Refs, fields: Names) -> dict[str, Any]:
    return {name: get(call, refs) for name, get in _getters(fields, None)}


@lru_cache(maxsize=256)
def _getters(fields: Names, among: Names) -> tuple[tuple[str, Callable[[EffectiveStep, Refs], Any]], ...]:
    return tuple(
        (name, get)
        for name, get in _CALL.items()
        if (fields is None or name in fields) and (among is None or name in among)
    )


def _other(index: int, step: Step, refs: Refs) -> dict[str, Any]:
    return {
        "id": step.id,
        "index": index,
        "kind": step.kind,
        "tool": step.tool or "",
        "mode": str(step.approval_mode or "read_only"),
        "reversibility": str(step.reversibility or "pure"),
        "gates": list(step.gates or ()),
        "evidence": list(refs),
        "params": {},
        "when": step.when or "",
        "optional": step.optional,
        SOURCES: {},
    }
