"""Values that an approver sets in a call: which ones may be set, and the resulting plan.

Only the parameters that a gate shows can be set, since the digest covers exactly these. The step is rewritten only at the
place of the value: its other values stay references and keep their sources, and it still depends on the same steps and
evidence as before.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tercet.contracts.errors import UsageError
from tercet.contracts.plan import Plan, Step, malformed
from tercet.contracts.shape import as_list, as_object
from tercet.contracts.steps.effective import unaliased
from tercet.contracts.tool import ToolSpec
from tercet.contracts.values import pointer, references
from tercet.contracts.values.canonical import canonical
from tercet.contracts.values.references import LITERAL, Leaf, Reference
from tercet.contracts.values.trust import overlaps
from tercet.core.state import Change, OpenGate, SetValue
from tercet.critic.reading import pinned
from tercet.policy import schemas
from tercet.policy.schemas import Fault

SETTABLE = "settable"
"""The key under which a gate stores what is needed to check values: the tool's schema and the computed parameters."""
NOT_SETTABLE = "not_settable"
"""The code for a place at which no value can be set."""


def place_of(name: str) -> str:
    """Return the JSON Pointer to a parameter: given as such, or by the parameter's name."""
    return name if name.startswith("/") else pointer.join((name,))


def is_replaced(value: SetValue, places: Iterable[str]) -> bool:
    """Return whether a value that was set before lies within one of these places."""
    way = pointer.parts(value.place)
    return any(way[: len(outer)] == outer for outer in map(pointer.parts, places))


def settable(call_params: Mapping[str, Any], tool: ToolSpec, *, is_delivered: bool = False) -> dict[str, Any]:
    """Return the part of a call that its gate stores, so that values can be checked without the pack; `is_delivered`
    means that the outputs are accepted."""
    found = [each for each in references.scan(dict(call_params)) if type(each) is Reference]
    computed = [pointer.join(each.place) for each in found if each.kind == "cel"]
    accepted = [pointer.join(each.place) for each in found if references.OUTPUTS in each.names]
    return {
        "schema": tool.parameters,
        **({"computed": computed} if computed else {}),
        **({"accepted": accepted} if accepted and is_delivered else {}),
    }


def faults_at(gate: OpenGate, place: str, value: Any) -> list[Fault]:
    """Return the schema violations of a value in the gate's call, at its place or below."""
    changed = with_values(gate.shown.get("params", {}), {place: value})
    parts = pointer.parts(place)
    found = _schema_faults(gate, changed)
    return [fault for fault in found if tuple(map(str, fault.place))[: len(parts)] == parts]


def demand_settable(gate: OpenGate, changes: Mapping[str, Any]) -> None:
    """Raise `UsageError` for values that cannot be set in the call that a gate shows."""
    params: dict[str, Any] = gate.shown.get("params", {})
    for place, value in changes.items():
        _demand_place(gate, params, place)
        if problems := malformed({LITERAL: value}, pointer.parts(place)):
            raise _invalid(place, problems[0].message, params)
    places = [pointer.parts(place) for place in changes]
    for place in places:
        if outer := next((p for p in places if p != place and place[: len(p)] == p), None):
            raise UsageError(
                f"{pointer.join(place)} is a part of {pointer.join(outer)}, which is set as well",
                code=NOT_SETTABLE,
                remedy=f"set {pointer.join(outer)} to the whole value",
            )
    changed = with_values(params, changes)
    if faults := _schema_faults(gate, changed):
        raise _invalid(pointer.join(faults[0].place), faults[0].message, params)
    if canonical(changed) == canonical(params):
        raise UsageError(
            f"gate {gate.id} shows these values already",
            code="nothing_changed",
            remedy="approve the call as it is, or set another value",
        )


def _demand_place(gate: OpenGate, params: dict[str, Any], place: str) -> None:
    """Raise `UsageError` if a gate shows nothing at a place, or if only the value around it can be set."""
    parts = pointer.parts(place)
    try:
        pointer.follow(params, place)
    except pointer.PointerError:
        raise UsageError(
            f"gate {gate.id} shows no parameter {place}",
            code="unknown_parameter",
            remedy=f"set one of {_names(params)}; a part of one by its JSON Pointer, such as /lines/0/cents",
        ) from None
    for each in gate.shown.get(SETTABLE, {}).get("accepted", ()):
        if overlaps(each, parts):
            raise UsageError(
                f"{each} is an output that was judged and accepted as it is",
                code=NOT_SETTABLE,
                remedy="approve the call as it is; or deny it, and run again",
            )
    holders = [pointer.follow(params, pointer.join(parts[:depth])) for depth in range(1, len(parts))]
    if any(name.startswith("$") for holder in holders for name in as_object(holder) or {}):
        raise UsageError(
            f"{place} is a part of a value with names that begin with '$'",
            code=NOT_SETTABLE,
            remedy=f"set {pointer.join(parts[:1])} to the whole value",
        )
    for each in gate.shown.get(SETTABLE, {}).get("computed", ()):
        outer = pointer.parts(each)
        if len(parts) > len(outer) and parts[: len(outer)] == outer:
            raise UsageError(
                f"{each} is computed as a whole, and {place} is a part of it",
                code=NOT_SETTABLE,
                remedy=f"set {each} to the whole value",
            )


def _schema_faults(gate: OpenGate, params: dict[str, Any]) -> list[Fault]:
    schema = gate.shown.get(SETTABLE, {}).get("schema")
    return schemas.faults(canonical(schema).decode(), params) if schema else []


def _invalid(place: str, why: str, params: dict[str, Any]) -> UsageError:
    return UsageError(
        f"{place or 'the parameters'} cannot have this value: {why}",
        code="wrong_value",
        remedy=f"set values that the tool's schema allows; the parameters are {_names(params)}",
    )


def _names(params: dict[str, Any]) -> str:
    return ", ".join(params) or "none: the call has no parameters"


def with_values(params: dict[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return plain parameters with other values at these places."""
    for place, value in changes.items():
        params = _replace_at(params, pointer.parts(place), value)
    return params


def _replace_at(holder: Any, parts: tuple[str, ...], value: Any) -> Any:
    if not parts:
        return value
    if (items := as_list(holder)) is not None:
        index = int(parts[0])
        return [*items[:index], _replace_at(items[index], parts[1:], value), *items[index + 1 :]]
    members = as_object(holder) or {}
    return {**members, parts[0]: _replace_at(members.get(parts[0]), parts[1:], value)}


# --- the changed plan ---


def changed_plan(plan: Plan, change: Change, tool: ToolSpec | None) -> Plan:
    """Return the next revision of a plan, with the values that an approver has set in one of its calls."""
    position = next(index for index, step in enumerate(plan.steps) if step.id == change.step)
    step = plan.steps[position]
    params: Any = unaliased(step.params, tool.aliases if tool else {})[0]
    for each in change.values:
        params = _rewritten(params, change.params, (), pointer.parts(each.place), each.value, change.defaults)
    before = tuple(plan.steps[index].id for index in plan.graph.predecessors[position])
    changed = _still_bound(step.model_copy(update={"params": params}), step, before)
    return plan.revise(steps=(*plan.steps[:position], changed, *plan.steps[position + 1 :]))


def _still_bound(changed: Step, before: Step, predecessors: Iterable[str]) -> Step:
    """Return a changed step that waits for the same steps, and pins the same evidence, as before."""
    referenced = {
        name
        for found in changed.found
        if type(found) is Reference and found.kind != "evidence"
        for name in found.names
    }
    waits = [name for name in predecessors if name not in referenced and name not in changed.depends_on]
    held = pinned(changed)
    refs = [ref for ref in pinned(before) if ref not in held]
    return changed.model_copy(
        update={"depends_on": (*changed.depends_on, *waits), "evidence_refs": (*changed.evidence_refs, *refs)}
    )


def _rewritten(
    written: Any,
    shown: Any,
    at: tuple[str, ...],
    rest: tuple[str, ...],
    value: Any,
    defaults: tuple[str, ...],
) -> Any:
    """Return a step's value at a place with a nested value replaced; `shown` is the resolved value."""
    if not rest:
        return _as_literal(value)
    members = as_object(written)
    if members is not None and LITERAL in members:
        return {LITERAL: _replace_at(members[LITERAL], rest, value)}
    if members is not None and (reference := references.as_reference(members)) is not None:
        written = _split_reference(reference, shown, at, defaults)
    token, inner = rest[0], (*at, rest[0])
    below = pointer.follow(shown, pointer.join((token,)))
    if (items := as_list(written)) is not None:
        index = int(token)
        part = _rewritten(items[index], below, inner, rest[1:], value, defaults)
        return [*items[:index], part, *items[index + 1 :]]
    known = as_object(written) or {}
    if token in known:
        return {**known, token: _rewritten(known[token], below, inner, rest[1:], value, defaults)}
    return {**known, token: _as_literal(_replace_at(below, rest[1:], value))}  # it is a default of the tool


def _split_reference(reference: Reference, shown: Any, at: tuple[str, ...], defaults: tuple[str, ...]) -> Any:
    """Return a reference to a list or an object as one reference for each of its members."""

    def member(token: str | int) -> dict[str, str]:
        key = "$evidence" if reference.kind == "evidence" else "$from"
        return {key: f"{reference.target}#{reference.pointer}{pointer.join((token,))}"}

    if (items := as_list(shown)) is not None:
        return [member(index) for index in range(len(items))]
    names = as_object(shown) or {}
    return {name: member(name) for name in names if pointer.join((*at, name)) not in defaults}


def _as_literal(value: Any) -> Any:
    """Return a value as a plan writes it: wrapped only where its own keys would be read as references."""
    is_plain = all(type(found) is Leaf for found in references.scan(value, ("",)))
    return value if is_plain else {LITERAL: value}
