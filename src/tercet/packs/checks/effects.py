"""Checks tools with effects (who approves and compensates them), and the handling of personal values."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from tercet.contracts.mode import ApprovalMode, Reversibility
from tercet.contracts.plan import Compensation
from tercet.contracts.shape import JsonObject, as_list, as_object
from tercet.contracts.steps.effective import effective
from tercet.contracts.tool import ToolSpec
from tercet.contracts.values import pointer, references
from tercet.contracts.values.plain import not_json
from tercet.contracts.values.references import Leaf, Malformed, Reference
from tercet.critic.checks.gates import named_gates
from tercet.critic.waits import find_early_effects
from tercet.packs.checks import Check, Problems, dereferenced, fields_of, missing_field, offers, unknown_tool
from tercet.packs.checks.templates import decision_of
from tercet.packs.parts import PACK, Parts
from tercet.policy.comparisons import may_match_tool
from tercet.policy.expressions import ExpressionError, compile_planner, return_type

_PYTHON = "python"
"""The adapter of tools that are declared in Python; all others are declared in TOML."""


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
            _gate_remedy(parts, tool),
        )


def _gate_remedy(parts: Parts, tool: ToolSpec) -> str:
    """Return how to hold back a tool: by a gate of the pack, or by a mode that needs none, if that is the right one."""
    name = next((gate.name for gate in parts.gates if gate.when is None), "NAME")
    equals = "=" if tool.adapter == _PYTHON else " = "
    lower = (
        "; or declare a lower mode, if the call destroys nothing"
        if tool.mode is ApprovalMode.DESTRUCTIVE
        else ""
    )
    return f"add gates{equals}[\"{name}\"], a gate that has no 'when'{lower}"


def _holds_back(parts: Parts, gates: tuple[str, ...]) -> bool:
    """Return whether one of these gates has no condition; a missing gate is reported by another check."""
    return any(name not in parts.gate or parts.gate[name].when is None for name in gates)


def _decisions_hold_back(parts: Parts, tool: ToolSpec) -> bool:
    """Return whether every decision that offers a tool gates it; gates of a decision do not apply to read_only tools."""
    offering = [decision for decision in parts.decisions if offers(decision, tool.name)]
    if tool.mode is ApprovalMode.READ_ONLY or not offering:
        return False
    return all(_holds_back(parts, decision.gates) for decision in offering)


def final_calls_are_not_granted(parts: Parts) -> Problems:
    """No policy may grant a call that cannot be compensated, unless its tool says itself how reversible it is."""
    for policy in parts.policies:
        if policy.effect != "grant":
            continue
        for tool in parts.tools:
            is_granted = tool.mode in _GRANTABLE and may_match_tool(policy.expression, tool.name)
            is_silent = tool.reversibility is None and bool(tool.no_compensation.strip())
            is_held_back = _holds_back(parts, tool.gates) or _decisions_hold_back(parts, tool)
            if is_granted and is_silent and not is_held_back:
                yield parts.warning(
                    "final_call_granted",
                    f"policy {policy.name}, effect",
                    f"it may grant {tool.name}, which has no compensation, so that no person is asked: without a "
                    "reversibility the tool counts as compensable",
                    f'give {tool.name} reversibility = "irreversible", which is never granted, '
                    'or "compensable" if the grant is meant',
                )


_GRANTABLE = (ApprovalMode.NETWORK, ApprovalMode.DELEGATED)


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
                'give compensate={"tool": …, "params": …}, or no_compensation="why there is none"'
                if tool.adapter == _PYTHON
                else 'give compensate = { tool = "…", params = { … } }, or no_compensation = "why there is none"',
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
                'write {"$from": "self#/field"} for the result, {"$from": "params#/name"} for a parameter'
                if tool.adapter == _PYTHON
                else 'write { "$from" = "self#/field" } for the result, { "$from" = "params#/name" } for a parameter',
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
            yield parts.warning(
                "irreversible_before_gate",
                f"template {plan.intent}, /steps/{index}",
                found.message,
                found.remedy,
            )


EFFECT_CHECKS: tuple[Check, ...] = (
    effects_are_gated,
    final_calls_are_not_granted,
    compensations_are_recorded,
    compensations_fit,
    irreversible_steps_come_last,
)


# --- personal ---


_PLACE = f"{PACK}, personal"
_HARMLESS = frozenset(
    [
        "type",
        "title",
        "description",
        "default",
        "examples",
        "properties",
        "required",
        "additionalProperties",
        "items",
        "anyOf",
        "$ref",
        "$defs",
        "$schema",
        "deprecated",
        "readOnly",
        "writeOnly",
    ]
)
_TEXTS = ("string", "null", "object", "array")


def personal_values_have_a_subject(parts: Parts) -> Problems:
    """Personal values of a run have a subject."""
    marks = parts.personal
    needs = marks.request or any(call.params or call.result for call in marks.tools.values())
    if needs and marks.subject is None:
        yield parts.problem(
            "subject_missing",
            _PLACE,
            "nothing says whose the personal values are",
            'name the field of the request that does: subject = "customer_id"',
        )


def personal_fields_are_texts(parts: Parts) -> Problems:
    """Marked parameters and result fields exist, and are texts of any form."""
    for name, marks in parts.personal.tools.items():
        place = f"{_PLACE}.tools.{name}"
        tool = parts.tool.get(name)
        if tool is None:
            if parts.lacks_tool(name):
                yield unknown_tool(parts, place, name)
            continue
        for schema, paths in ((tool.parameters, marks.params), (tool.result or {}, marks.result)):
            for path in paths:
                yield from _check_field(parts, place, schema, path)


def _check_field(parts: Parts, place: str, schema: JsonObject, path: str) -> Problems:
    if (missing := missing_field(schema, "/" + path.replace(".", "/"))) is not None:
        yield parts.problem(
            "personal_field_unknown",
            place,
            f"there is no field {missing} of {path}",
            "name a field that it has",
        )
        return
    if fault := _find_fault(schema, _schema_at(schema, path)):
        yield parts.problem(
            "personal_not_text",
            place,
            f"the personal field {path} {fault}, and the critic sees a token in its place",
            "declare it as a text of any form, and check the value in the tool",
        )


def _schema_at(root: JsonObject, path: str) -> JsonObject | None:
    current: JsonObject | None = root
    for name in path.split("."):
        current = dereferenced(root, current)
        if current is not None and "items" in current:
            current = dereferenced(root, as_object(current["items"]))
        current = as_object((as_object((current or {}).get("properties")) or {}).get(name))
    return current


def _find_fault(root: JsonObject, schema: JsonObject | None, depth: int = 0) -> str:
    """Return what a schema demands of a value that a token does not meet; empty if nothing."""
    found = dereferenced(root, schema)
    if found is None or depth > 8:
        return ""
    if others := sorted(set(found) - _HARMLESS):
        return f"has {', '.join(others)} in its schema"
    kinds = as_list(found.get("type")) or ([found["type"]] if "type" in found else [])
    if wrong := [str(kind) for kind in kinds if kind not in _TEXTS]:
        return f"is of type {', '.join(wrong)}"
    inside = [*(as_list(found.get("anyOf")) or ()), found.get("items")]
    inside += (as_object(found.get("properties")) or {}).values()
    return next((fault for each in inside if (fault := _find_fault(root, as_object(each), depth + 1))), "")


def rules_read_no_personal_values(parts: Parts) -> Problems:
    """No rule reads a marked field: it would see a token, and might let pass what it should refuse."""
    marks = parts.personal
    paths = [*marks.request]
    paths += [path for call in marks.tools.values() for path in (*call.params, *call.result)]
    paths += [path for each in marks.evidence.values() for path in each.fields]
    names = sorted({name for path in paths for name in path.split(".")[-1:]})
    if not names:
        return
    read = re.compile(rf"""[.\["']({"|".join(map(re.escape, names))})\b""")
    for place, expression in _expressions(parts):
        if (found := read.search(expression)) is not None:
            yield parts.problem(
                "rule_reads_personal",
                place,
                f"it reads {found.group(1)}, which is personal: a run has a token in its place",
                "write the rule without it, or check the value in the tool",
            )


def _expressions(parts: Parts) -> Iterator[tuple[str, str]]:
    for policy in parts.policies:
        yield f"policy {policy.name}, expression", policy.expression
    for gate in parts.gates:
        yield f"gate {gate.name}, when", gate.when or ""
    for tool in parts.tools:
        for limit in tool.limits:
            yield f"tool {tool.name}, limits", limit.expression
    for method in parts.library.methods:
        yield f"method {method.name}", f"{method.applies or ''} {method.when or ''}"
    for plan in parts.templates:
        for step in plan.steps:
            yield f"template {plan.intent}", step.when or ""


def packs_with_lanes_mark_nothing(parts: Parts) -> Problems:
    """A lane is a session of its own, whose request is made by a plan: nothing says whose its values are."""
    if parts.personal.has_marks and parts.lanes:
        yield parts.problem(
            "personal_lanes",
            _PLACE,
            "a pack with personal values cannot have lanes",
            "leave the lanes out, or put them into a pack that gets no personal values",
        )


def marked_evidence_exists(parts: Parts) -> Problems:
    """Marked classes of evidence say whose each fact is."""
    for fact in parts.evidence:
        marks = parts.personal.evidence.get(fact.classification)
        content: Any = as_object(fact.content)
        if marks is not None and (content is None or not content.get(marks.subject.split(".")[0])):
            yield parts.problem(
                "subject_missing",
                f"{_PLACE}.evidence.{fact.classification}",
                f"the fact {fact.id} has no {marks.subject}",
                "add it to the fact, or name the field that says whose it is",
            )


PERSONAL_CHECKS: tuple[Check, ...] = (
    personal_values_have_a_subject,
    personal_fields_are_texts,
    rules_read_no_personal_values,
    packs_with_lanes_mark_nothing,
    marked_evidence_exists,
)
