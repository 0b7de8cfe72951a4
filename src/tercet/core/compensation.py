"""Binding of compensations: the compensation of a call is resolved when the call is dispatched, and stored in its INTENT.

From then on nothing can change it: a later plan may redefine its steps, but the compensation already holds values. Only
references to the result of its own step are resolved later, once that result is known.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tercet.contracts.mode import Reversibility
from tercet.contracts.shape import as_list, as_object
from tercet.contracts.steps.effective import EffectiveStep, unaliased
from tercet.contracts.values import references
from tercet.core.config import ExecutionPlan, RunConfig
from tercet.core.events import BoundCompensation
from tercet.critic.checks.flow import compensation_origins, describe_origins
from tercet.critic.reading import pinned
from tercet.policy.resolution import ResolutionError, Resolver, resolve


def bind_compensation(
    config: RunConfig,
    execution_plan: ExecutionPlan,
    call: EffectiveStep,
    params: dict[str, Any],
    results: Mapping[str, Any],
) -> BoundCompensation | None:
    """Return the compensation of a call that is about to be made with these parameters; None if it has none.

    Raises `ResolutionError` if one that the plan proposes cannot be resolved. One that the tool declares is then kept with
    the reason: the pack may allow calls that it cannot undo.
    """
    way = call.compensate
    is_final = call.leaves_nothing or call.reversibility is Reversibility.IRREVERSIBLE
    if way is None or is_final or not config.is_strict:
        return None
    tool = execution_plan.tools.get(way.tool)
    given = way.params if tool is None else unaliased(way.params, tool.aliases)[0]
    if call.step.compensate is None:
        try:
            return BoundCompensation(
                tool=way.tool, params=_bind_params(given, params, results, config.evidence)
            )
        except ResolutionError as error:
            return BoundCompensation(tool=way.tool, error=error.message)
    review = config.review(execution_plan.plan)
    origins, is_trusted = compensation_origins(review, call.step.id)
    unbound = config.spec.unbound_gate
    return BoundCompensation(
        tool=way.tool,
        params=_bind_params(given, params, results, config.evidence),
        proposed=True,
        evidence=pinned(call.step),
        gates=() if is_trusted or unbound is None else (unbound,),
        sources=describe_origins(origins),
    )


def _bind_params(
    value: dict[str, Any], params: dict[str, Any], results: Mapping[str, Any], evidence: Mapping[str, Any]
) -> Any:
    """Return parameters with each reference replaced by its value, except those to the step's own result."""
    scanned = (found for found in references.scan(value) if isinstance(found, references.Reference))
    names = {name for found in scanned for name in found.names if name in results}
    sources = {**{name: results[name] for name in names}, references.PARAMS: params}
    return _replace_references(value, Resolver(sources, evidence))


def _replace_references(value: Any, resolver: Resolver) -> Any:
    members = as_object(value)
    if members is not None:
        reference = references.as_reference(members)
        if reference is not None:
            is_own = references.SELF in reference.names
            return value if is_own else {references.LITERAL: resolver.resolve(members)}
        if references.LITERAL in members:
            return value
        return {name: _replace_references(member, resolver) for name, member in members.items()}
    items = as_list(value)
    return value if items is None else [_replace_references(item, resolver) for item in items]


def is_complete(bound: BoundCompensation) -> bool:
    """Return whether every value of a bound compensation is known before its step has a result."""
    return not bound.error and not any(
        isinstance(found, references.Reference) for found in references.scan(bound.params)
    )


def reads_own_result(params: dict[str, Any]) -> bool:
    """Return whether the parameters of a compensation read the result of its step."""
    return any(_own_references(params))


def entered_sources(bound: BoundCompensation, step: str, by: str) -> dict[str, str]:
    """Return the sources of a compensation whose step has a result that a person entered, without being trusted for it."""
    found: dict[str, list[str]] = {}
    for own in _own_references(bound.params):
        source = f"{_WORKED_OUT[own.kind]}: {own.text}" if own.kind in _WORKED_OUT else own.text
        found.setdefault(str(own.place[0]), []).append(source)
    entered = {
        name: f"{'; '.join(sources)}, untrusted: the result of step {step} was entered by {by}"
        for name, sources in found.items()
    }
    return {**bound.sources, **entered}


_WORKED_OUT = {"cel": "computed", "select": "selected"}


def _own_references(params: dict[str, Any]) -> Iterator[references.Reference]:
    scanned = (found for found in references.scan(params) if isinstance(found, references.Reference))
    return (found for found in scanned if references.SELF in found.names)


def resolved_params(
    bound: BoundCompensation, own: Mapping[str, Any], evidence: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the parameters of a bound compensation; `own` holds its step's parameters and result.

    Raises `ResolutionError` if they cannot be resolved.
    """
    if bound.error:
        raise ResolutionError(bound.error)
    return resolve(bound.params, own, evidence)


def shown_params(value: Any) -> Any:
    """Return bound parameters as approvers see them: values, and references where they read the step's own result."""
    members = as_object(value)
    if members is not None:
        if references.LITERAL in members:
            return members[references.LITERAL]
        return {name: shown_params(member) for name, member in members.items()}
    items = as_list(value)
    return value if items is None else [shown_params(item) for item in items]
