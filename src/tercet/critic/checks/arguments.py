"""Checks the arguments of each call against the tool's schema and the pack's limits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tercet.contracts.errors import UsageError
from tercet.contracts.steps.effective import EffectiveStep
from tercet.contracts.tool import ToolSpec
from tercet.contracts.values import pointer
from tercet.contracts.values.references import Place, Reference
from tercet.contracts.verdict import Code, Refusal
from tercet.critic.reading import Reading, is_open
from tercet.critic.review import Refusals, Review
from tercet.policy import schemas
from tercet.policy.expressions import (
    CALL,
    ExpressionError,
    Outcome,
    Rule,
    compile_rule,
    compile_together,
    read_by_limits,
)
from tercet.policy.resolution import MAX_RESOLVED_BYTES, measure

# Keywords about an object or list as a whole, which an open value inside it cannot change.
_STRUCTURAL = frozenset(
    {
        "required",
        "additionalProperties",
        "minProperties",
        "maxProperties",
        "minItems",
        "maxItems",
        "dependentRequired",
    }
)


_NOTHING: frozenset[str] = frozenset()


def find_oversized_arguments(review: Review) -> Refusal | None:
    """Return a refusal if the evidence and request values that a plan refers to are too large together.

    Such values are shared in memory, but every rule that reads them gets a copy.
    """
    left = MAX_RESOLVED_BYTES
    for call in review.calls:
        if call.position not in review.reading.resolvable:
            continue
        for found in review.found[call.position]:
            known = review.known(found) if type(found) is Reference and not is_open(found) else None
            left -= 0 if known is None else measure(known.value, left)
            if left < 0:
                return review.refuse(
                    Code.ARGUMENT_INVALID,
                    f"the evidence and request values that the plan refers to come to more than {MAX_RESOLVED_BYTES:,} bytes",
                    "refer to the parts that are needed",
                    step=call.position,
                    place=pointer.join(("params", *found.place)),
                )
    return None


def arguments_fit_schema(review: Review) -> Refusals:
    """Each call's arguments satisfy its tool's schema, as far as they are known at review."""
    for call in review.calls:
        for name in call.doubled:
            yield review.refuse(
                Code.ARGUMENT_INVALID,
                f"{review.label(call.position)} gives {name} twice, by name and by alias",
                f"keep {name}",
                step=call.position,
                place=pointer.join(("params", name)),
            )
        for fault in find_faults(review.reading, call):
            yield review.refuse(
                Code.ARGUMENT_INVALID,
                f"{review.label(call.position)}: {fault.text}"
                if review.names_causes
                else f"{review.label(call.position)} {_named(fault.place)}: {fault.message}",
                f"{call.tool.name} takes {review.parameters_of(call.tool)}",
                step=call.position,
                place=pointer.join(("params", *fault.place)),
            )


def find_faults(reading: Reading, call: EffectiveStep) -> list[schemas.Fault]:
    """Return the certain schema violations of a call's arguments, computed once per reading."""
    position, known = call.position, reading.faults
    faults = known.get(position)
    if faults is None:
        open_places = reading.open_places.get(position, ())
        faults = known[position] = certain_faults(call.tool, reading.arguments(call), open_places)
    return faults


def fit_schemas(reading: Reading) -> bool:
    """Return True if the arguments of every call satisfy its tool's schema; False means undecided."""
    checks: dict[tuple[str, frozenset[str]], Callable[[Any], bool] | None] = {}
    known, names_at = reading.faults, reading.open_parameters
    if any(len(place) > 1 for places in reading.open_places.values() for place in places):
        return False  # a parameter with an open value in it is checked around that
    for call in reading.calls:
        tool, names = call.tool, names_at.get(call.position, _NOTHING)
        key = vars(tool)["name"], names
        if key not in checks:
            is_named = not names or names.issubset(tool.parameter_names)
            checks[key] = schemas.find_check(tool.parameters_text, names) if is_named else None
        check = checks[key]
        try:
            if check is None or not check(reading.arguments(call)):
                return False
        except ValueError:
            return False
        known.setdefault(call.position, [])
    return True


def certain_faults(
    tool: ToolSpec, arguments: dict[str, Any], open_places: Sequence[Place]
) -> list[schemas.Fault]:
    """Return the violations of a tool's schema that no resolution of open values can remove."""
    # An unknown name is still checked: it may be one too many, whatever its value.
    whole = [str(place[0]) for place in open_places if len(place) == 1] if open_places else ()
    unchecked = frozenset(whole).intersection(tool.parameter_names) if whole else _NOTHING
    try:
        faults = schemas.faults(tool.parameters_text, arguments, unchecked)
    except UsageError as error:  # an invalid schema matches nothing
        return [schemas.Fault((), "", f"the schema of {tool.name} cannot be used: {error}")]
    return [fault for fault in faults if _is_certain(fault, open_places)] if faults else faults


def _is_certain(fault: schemas.Fault, open_places: Sequence[Place]) -> bool:
    """Return whether a violation remains whatever the open values turn out to be."""
    for place in open_places:
        if fault.place[: len(place)] == place:
            return False
        if place[: len(fault.place)] == fault.place and fault.keyword not in _STRUCTURAL:
            return False
    return True


def _named(place: Place) -> str:
    return pointer.join(place)[1:] if place else "arguments"


def arguments_are_permitted(review: Review) -> Refusals:
    """Each call's arguments satisfy its tool's limits; limits that read an open value are checked at dispatch."""
    limited = [call for call in review.calls if call.tool.limits]
    if not limited:
        return
    calls = limited_arguments(review)
    together = None if calls is None else compile_together((), tuple(calls))
    if calls is not None and together is not None:
        values = {**review.frame, "calls": [*calls.values()]}
        if together.evaluate(together.scope.activation(values)).holds:
            return
    for call in limited:
        for limit in call.tool.limits:
            yield from _limit(review, call, limit.expression, limit.message)


def limited_arguments(review: Review) -> dict[tuple[str, ...], list[dict[str, Any]]] | None:
    """Return the arguments that limits read, by the limits of a tool and for each of its calls.

    None if a limit does not compile or reads an open value.
    """
    by_tool: dict[str, list[EffectiveStep]] = {}
    for call in review.calls:
        if call.tool.limits:
            by_tool.setdefault(call.tool.name, []).append(call)
    found: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for calls in by_tool.values():
        limits = tuple([limit.expression for limit in calls[0].tool.limits])
        is_usable, names = read_by_limits(limits)
        if not is_usable:
            return None
        read = found.setdefault(limits, [])
        for call in calls:
            unknown, given = review.open_parameters.get(call.position), review.ruled_arguments(call)
            if unknown is not None and (names is None or not names.isdisjoint(unknown)):
                return None
            read.append(given if names is None else {name: given[name] for name in names if name in given})
    return found


def reads_open(review: Review, rule: Rule, position: int) -> bool:
    """Return whether a rule reads a parameter of a call whose value is known only at dispatch."""
    unknown = review.open_parameters.get(position) if rule.reads is None or rule.reads else None
    return unknown is not None and (rule.reads is None or not rule.reads.isdisjoint(unknown))


def _limit(review: Review, call: EffectiveStep, expression: str, message: str) -> Refusals:
    outcome = condition(review, call, expression, f"limit of {call.tool.name} at step {call.position}")
    if outcome is None or outcome.holds:
        return
    why = f"the limit fails: {outcome.error}" if outcome.error else f"{expression} is false"
    yield review.refuse(
        Code.ARGUMENT_NOT_PERMITTED,
        f"{review.label(call.position)}: {message or f'{call.tool.name} does not permit these arguments'} ({why})",
        f"keep to {expression}",
        step=call.position,
        place="/params",
    )


def condition(review: Review, call: EffectiveStep, expression: str, name: str) -> Outcome | None:
    """Return the result of a condition on a call's arguments; None if it reads an open value and is decided at
    dispatch.
    """
    try:
        rule = compile_rule(expression, CALL)
    except ExpressionError as error:
        return Outcome(error=f"it does not compile: {error}")
    if reads_open(review, rule, call.position):
        review.deferred.append(name)
        return None
    values: dict[str, Any] = {**review.frame, "args": review.ruled_arguments(call)}
    return rule.evaluate(CALL.activation(values))
