"""Checks tools with effects: who must approve them, and how they are compensated."""

from __future__ import annotations

from collections.abc import Iterator

from tercet.contracts.mode import ApprovalMode, Reversibility
from tercet.contracts.plan import Compensation
from tercet.contracts.shape import as_list
from tercet.contracts.steps.effective import effective
from tercet.contracts.tool import ToolSpec
from tercet.contracts.values import pointer, references
from tercet.contracts.values.plain import not_json
from tercet.contracts.values.references import Leaf, Malformed, Reference
from tercet.critic.checks.gates import named_gates
from tercet.critic.irreversible import find_early_effects
from tercet.packs.checks import Check, Problems, fields_of, missing_field, offers
from tercet.packs.checks.templates import decision_of
from tercet.packs.parts import Parts
from tercet.policy.expressions import ExpressionError, compile_planner, return_type


def effects_are_gated(parts: Parts) -> Problems:
    """A destructive or irreversible tool waits for a gate without a condition, in every decision that offers it."""
    for tool in parts.tools:
        is_irreversible = tool.effective_reversibility is Reversibility.IRREVERSIBLE
        if tool.mode is not ApprovalMode.DESTRUCTIVE and not is_irreversible:
            continue
        if _holds_back(parts, tool.gates) or _decisions_hold_back(parts, tool):
            continue
        what = tool.mode if tool.mode is ApprovalMode.DESTRUCTIVE else Reversibility.IRREVERSIBLE
        yield parts.problem(
            "ungated",
            f"tool {tool.name}, gates",
            f"it is {what} and waits for no gate without a condition",
            "name a gate that has no 'when'",
        )


def _holds_back(parts: Parts, gates: tuple[str, ...]) -> bool:
    """Return whether one of these gates has no condition; a missing gate is reported by another check."""
    return any(name not in parts.gate or parts.gate[name].when is None for name in gates)


def _decisions_hold_back(parts: Parts, tool: ToolSpec) -> bool:
    """Return whether every decision that offers a tool gates it; gates of a decision do not apply to read_only tools."""
    offering = [decision for decision in parts.decisions if offers(decision, tool.name)]
    if tool.mode is ApprovalMode.READ_ONLY or not offering:
        return False
    return all(_holds_back(parts, decision.gates) for decision in offering)


def compensations_are_recorded(parts: Parts) -> Problems:
    """A tool with an effect declares its compensation, or that there is none."""
    for tool in parts.tools:
        place = f"tool {tool.name}, compensate"
        is_pure = tool.effective_reversibility is Reversibility.PURE
        if not is_pure and tool.compensate is None and not tool.no_compensation.strip():
            yield parts.problem(
                "compensation_missing",
                place,
                f"it is {tool.effective_reversibility} and does not say how its effect is compensated",
                'give compensate={"tool": …, "params": …}, or no_compensation="why there is none"',
            )
        if tool.compensate is not None and tool.no_compensation.strip():
            yield parts.problem(
                "compensation_contradicts",
                place,
                "it names a compensation and states that there is none",
                "keep one of compensate and no_compensation",
            )


def compensations_fit(parts: Parts) -> Problems:
    """The compensating tool exists, and gets the parameters that it takes."""
    for tool in parts.tools:
        if tool.compensate is None:
            continue
        place = f"tool {tool.name}, compensate"
        target = parts.tool.get(tool.compensate.tool)
        if target is not None:
            yield from _parameters_fit(parts, place, tool.compensate, target)
        elif parts.lacks_tool(tool.compensate.tool):
            yield parts.problem(
                "compensation_unknown_tool",
                place,
                f"there is no tool {tool.compensate.tool}",
                "name a tool of this pack, or state that there is no compensation",
            )
        for message in _references_fit(tool, tool.compensate):
            yield parts.problem(
                "compensation_malformed",
                place,
                message,
                'write {"$from": "self#/field"} for the result, {"$from": "params#/name"} for a parameter',
            )


def _parameters_fit(parts: Parts, place: str, compensation: Compensation, target: ToolSpec) -> Problems:
    names = fields_of(target.parameters)
    if names is None:
        return
    given = {target.aliases.get(name, name) for name in compensation.params}
    required = [str(name) for name in as_list(target.parameters.get("required")) or []]
    absent = [name for name in required if name not in given]
    for name in sorted(given.difference(names)):
        yield parts.problem(
            "compensation_unknown_parameter",
            place,
            f"{target.name} has no parameter {name}",
            f"it takes {', '.join(names) or 'none'}",
        )
    if absent:
        yield parts.problem(
            "compensation_incomplete",
            place,
            f"{target.name} also needs {', '.join(absent)}",
            "give every required parameter",
        )


_VISIBLE = frozenset({references.SELF, references.PARAMS, references.REQUEST, references.EVIDENCE})


def _references_fit(tool: ToolSpec, compensation: Compensation) -> Iterator[str]:
    """Yield why references of a compensation cannot be resolved. A tool knows no plan, so it can refer to no steps."""
    for found in references.scan(compensation.params):
        if isinstance(found, Malformed):
            yield found.message
        elif isinstance(found, Leaf):
            yield from filter(None, [not_json(found.value)])
        else:
            strange = [name for name in found.names if name not in _VISIBLE]
            if strange:
                yield f"{found.text} refers to {strange[0]!r}: a tool sees self, params and request, but no steps"
            elif found.kind == "cel":
                yield from _expression_fits(found)
            else:
                yield from _pointer_fits(tool, found)


def _expression_fits(found: Reference) -> Iterator[str]:
    try:
        return_type(compile_planner(found.text, frozenset(found.names)))
    except ExpressionError as error:
        yield f"{found.text[:80]!r} does not compile: {error.message}"


def _pointer_fits(tool: ToolSpec, found: Reference) -> Iterator[str]:
    for name, place in references.reads_of(found):
        schema = {references.SELF: tool.result, references.PARAMS: tool.parameters}.get(name)
        field = None if schema is None else missing_field(schema, pointer.join(place))
        if field is not None:
            lacks = "the result has" if name == references.SELF else "the parameters have"
            yield f"{found.text} leads nowhere: {lacks} no {field!r}"


def irreversible_steps_come_last(parts: Parts) -> Problems:
    """No irreversible step of a template may run before another of its steps is denied at a gate."""
    sequences = [gate.name for gate in parts.gates if gate.covers == "sequence"]
    for plan in parts.templates:
        decision = decision_of(parts, plan.intent)
        calls = [
            effective(index, step, tool)
            for index, step in enumerate(plan.steps)
            if (tool := parts.tool.get(step.tool or "")) is not None
        ]
        if decision is None or not plan.graph.is_acyclic:
            continue
        waiting = {call.position: gates for call in calls if (gates := named_gates(decision, call))}
        for found in find_early_effects(plan, calls, waiting, sequences):
            index = next(i for i, step in enumerate(plan.steps) if step.id == found.step)
            yield parts.problem(
                "irreversible_before_gate",
                f"template {plan.intent}, /steps/{index}",
                found.message,
                found.remedy,
                severity="warning",
            )


EFFECT_CHECKS: tuple[Check, ...] = (
    effects_are_gated,
    compensations_are_recorded,
    compensations_fit,
    irreversible_steps_come_last,
)
