"""Turning the references of a call into values, once the results that they point at are there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tercet.contracts import pointer, references
from tercet.contracts.errors import TercetError
from tercet.contracts.shape import as_list, as_object
from tercet.policy.expressions import evaluate_planner


class ResolutionError(TercetError):
    """A reference whose value is not there, or an expression that fails."""

    default_code = "unresolved"


def resolve(value: Any, results: Mapping[str, Any], evidence: Mapping[str, Any]) -> Any:
    """A JSON value with every reference replaced.

    `results` holds what each name stands for: steps by id, `request`, and inside a compensation `self` and `params`;
    `evidence` holds the content of each pinned fact by its id.
    """
    members = as_object(value)
    if members is not None:
        reference = references.as_reference(members)
        if reference is not None:
            return look_up(reference, results, evidence)
        if len(members) == 1 and references.LITERAL in members:
            return members[references.LITERAL]
        return {key: resolve(member, results, evidence) for key, member in members.items()}
    items = as_list(value)
    return value if items is None else [resolve(item, results, evidence) for item in items]


def look_up(reference: references.Reference, results: Mapping[str, Any], evidence: Mapping[str, Any]) -> Any:
    """The value that one reference stands for."""
    match reference.kind:
        case "cel":
            return evaluate(reference.text, results, evidence)
        case "evidence":
            return _follow(evidence, reference)
        case "from":
            return _follow(results, reference)


def evaluate(expression: str, results: Mapping[str, Any], evidence: Mapping[str, Any]) -> Any:
    """What a planner's expression yields over the names that it mentions."""
    values: dict[str, Any] = {}
    for name in references.names(expression):
        if name != references.EVIDENCE and name not in results:
            raise ResolutionError(f"{expression!r} needs {name}, which has no result")
        values[name] = dict(evidence) if name == references.EVIDENCE else results[name]
    outcome = evaluate_planner(expression, values)
    if outcome.error is not None:
        raise ResolutionError(f"{expression!r} fails: {outcome.error}")
    return outcome.value


def _follow(sources: Mapping[str, Any], reference: references.Reference) -> Any:
    if reference.target not in sources:
        raise ResolutionError(f"{reference.text} points at {reference.target}, which is not there")
    try:
        return pointer.follow(sources[reference.target], reference.pointer)
    except pointer.PointerError as error:
        raise ResolutionError(f"{reference.text} leads nowhere: {error}") from error
