"""Checks templates: the plans of a pack. Placeholders and references may become any value, so what depends on them is
left open; parameters, results and evidence are checked.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from tercet.contracts.decision import DecisionSpec
from tercet.contracts.evidence import meets, parse_ref
from tercet.contracts.plan import Plan, find_late_outputs, find_unknown_outputs
from tercet.contracts.problem import Problem
from tercet.contracts.shape import JsonObject, as_list, as_object
from tercet.contracts.steps.effective import unaliased
from tercet.contracts.tool import ToolSpec
from tercet.contracts.values import pointer, references
from tercet.contracts.values.references import Place, Reference
from tercet.critic.checks.arguments import certain_faults
from tercet.critic.reading import pinned
from tercet.packs.checks import (
    Check,
    Problems,
    did_you_mean,
    fields_of,
    missing_field,
    named_fields,
    offers,
    unknown_parameter,
    unknown_tool,
)
from tercet.packs.parts import Parts
from tercet.planner.sources import PLACEHOLDER
from tercet.policy.expressions import ExpressionError, compile_planner, yields_boolean


def parameters_fit(parts: Parts, place: str, name: str, params: JsonObject) -> Problems:
    """The parameters of a call fit the tool's schema, whatever the open values turn out to be."""
    tool = parts.tool.get(name)
    if tool is None:
        return
    given = unaliased(params, tool.aliases)[0]
    known = named_fields(tool.parameters)
    strange = [each for each in given if known is not None and each not in known]
    for each in strange:
        yield unknown_parameter(
            parts, "step_argument", f"{place}/{each}", each, (*(known or ()), *tool.aliases)
        )
    open_places: list[Place] = []
    arguments = {key: _settled(value, (key,), open_places) for key, value in given.items()}
    for fault in certain_faults(tool, arguments, open_places):
        if not strange or fault.keyword != "additionalProperties":
            takes = ", ".join(tool.parameter_names) or "no parameters"
            yield parts.problem(
                "step_argument", f"{place}{pointer.join(fault.place)}", fault.message, f"{name} takes {takes}"
            )


def _settled(value: Any, place: Place, open_places: list[Place]) -> Any:
    """Return a value as the tool would get it, with the places that are open."""
    if (members := as_object(value)) is not None:
        if references.LITERAL in members:
            return members[references.LITERAL]
        if references.as_reference(members) is not None:
            open_places.append(place)
            return None
        return {key: _settled(member, (*place, key), open_places) for key, member in members.items()}
    if (items := as_list(value)) is not None:
        return [_settled(item, (*place, index), open_places) for index, item in enumerate(items)]
    if isinstance(value, str) and "${" in value:
        open_places.append(place)
    return value


def results_have(parts: Parts, place: str, item: Reference, tools: Mapping[str, ToolSpec | None]) -> Problems:
    """The field that is read of a step's result is one that its tool describes."""
    for name, where in ((read.name, pointer.join(read.place)) for read in references.reads_of(item)):
        tool = tools.get(name)
        if tool is None or tool.result is None or "${" in where:
            continue
        field = missing_field(tool.result, where)
        if field is not None:
            known = fields_of(tool.result) or ()
            yield parts.problem(
                "result_field_unknown",
                place,
                f"the result of {tool.name} has no field {field}",
                did_you_mean(field, known) or f"it has {', '.join(known) or 'none'}",
            )


def classes_exist(
    parts: Parts, place: str, refs: Iterable[str], required: Iterable[str], looked_up: Iterable[str] = ()
) -> Problems:
    """Pinned and required evidence is of classes that the pack's files have, or that are looked up."""
    if parts.is_partial("evidence"):
        return
    classes = {*(fact.classification for fact in parts.evidence), *looked_up}
    wanted = [
        found.classification
        for ref in refs
        if (found := parse_ref(ref)) is not None and "${" not in found.classification
    ]
    for name in dict.fromkeys([*wanted, *required]):
        if not any(meets(name, each) for each in classes):
            short = name.removesuffix("_evidence")
            yield parts.warning(
                "evidence_class_unknown",
                place,
                f"no evidence file of the pack has the class {short}",
                did_you_mean(short, classes)
                or "add such a fact, or make sure that evidence of this class is retrieved",
            )


_OUTSIDE = (references.REQUEST, references.EVIDENCE)
_WAY_BACK = (references.SELF, references.PARAMS)
_DELIVERED = (references.OUTPUTS,)


def templates_are_asked_for(parts: Parts) -> Problems:
    """The intent of each template belongs to a decision, and the template produces the outputs that it requires."""
    if parts.is_partial("decision"):
        return
    for plan in parts.templates:
        decision = decision_of(parts, plan.intent)
        if decision is None:
            yield unknown_intent(parts, f"template {plan.intent}, /intent", plan.intent or "")
            continue
        for name in decision.planned_outputs:
            if name not in plan.output_names:
                yield output_missing(parts, f"template {plan.intent}, /outputs", decision, name, plan.outputs)


def unknown_intent(parts: Parts, place: str, intent: str) -> Problem:
    """Return the problem of an intent that no decision answers."""
    known = [name for each in parts.decisions for name in (each.id, *each.intents)]
    remedy = did_you_mean(intent, known) or f"name one of {', '.join(dict.fromkeys(known)) or 'none'}"
    return parts.problem("unknown_intent", place, f"no decision answers the intent {intent}", remedy)


def output_missing(
    parts: Parts, place: str, decision: DecisionSpec, name: str, given: Iterable[str]
) -> Problem:
    """Return the problem of a required output that a plan does not have."""
    near = did_you_mean(name, given, "instead of {}")
    return parts.problem(
        "output_missing",
        place,
        f"decision {decision.id} requires the output {name}, which is not there",
        f"add {name}{f' {near}' if near else ''}, bound to the step that produces it",
    )


def templates_call_tools(parts: Parts) -> Problems:
    """The tools of a template exist, and its decision may use them."""
    for plan in parts.templates:
        decision = decision_of(parts, plan.intent)
        for place, name in _tools(plan):
            where = f"template {plan.intent}, {pointer.join(place)}"
            if parts.lacks_tool(name):
                yield unknown_tool(parts, where, name)
            elif decision is not None and not offers(decision, name) and "compensate" not in place:
                yield parts.problem(
                    "step_tool_withheld",
                    where,
                    f"decision {decision.id} may not use {name}",
                    "add it to the tools of the decision",
                )


def _tools(plan: Plan) -> Iterator[tuple[Place, str]]:
    for index, step in enumerate(plan.steps):
        if step.tool is not None:
            yield ("steps", index, "tool"), step.tool
        if step.compensate is not None:
            yield ("steps", index, "compensate", "tool"), step.compensate.tool
        for number, query in enumerate(step.evidence_queries):
            if query.tool is not None:
                yield ("steps", index, "evidence_queries", number, "tool"), query.tool


def template_steps_exist(parts: Parts) -> Problems:
    """The dependencies, references and bindings of a template name its steps, and fields of their results."""
    for plan in parts.templates:
        tools = {step.id: parts.tool.get(step.tool or "") for step in plan.steps}
        for place, name in _waits(plan):
            if name not in tools and not _is_open(name):
                yield _unknown_step(parts, plan, place, name)
        for held in _references(plan):
            where = f"template {plan.intent}, {pointer.join(held.place)}"
            yield from _named(parts, plan, held)
            if held.item.kind == "cel":
                yield from _compiled(parts, where, held)
            yield from results_have(parts, where, held.item, tools)
        yield from _deliveries(parts, plan)
        if cycle := plan.graph.cycle():
            ids = " → ".join(plan.steps[index].id for index in (*cycle, cycle[0]))
            yield parts.problem(
                "step_cycle",
                f"template {plan.intent}, /steps/{min(cycle)}",
                f"steps wait for each other: {ids}",
                "drop one of these dependencies or references",
            )


def _deliveries(parts: Parts, plan: Plan) -> Problems:
    """Yield the problems of steps that take outputs of the run."""
    decision = decision_of(parts, plan.intent)
    required = (*decision.required_outputs, *decision.rendered_outputs) if decision else ()
    names = sorted({*plan.output_names, *required})
    for found in find_unknown_outputs(plan, names):
        yield parts.problem(
            "unknown_output",
            f"template {plan.intent}, {pointer.join(('steps', found.step, *found.place))}",
            f"there is no output {found.name}" if found.name else "it names no output",
            did_you_mean(found.name, names) or f"the outputs are {', '.join(names) or 'none'}",
        )
    for late in find_late_outputs(plan):
        source = f"step {late.step}, which waits for accepted outputs" if late.step else "the outputs"
        yield parts.problem(
            "step_cycle",
            f"template {plan.intent}, {pointer.join(late.place)}",
            f"it comes from {source}",
            "take it from a step that neither takes an output nor waits for a step that does",
        )


class _Held(NamedTuple):
    """A reference of a plan, with its place in the plan."""

    place: Place
    item: Reference
    extra: tuple[str, ...] = ()
    """Additional names that are valid here."""
    is_condition: bool = False


def _references(plan: Plan) -> Iterator[_Held]:
    for index, step in enumerate(plan.steps):
        yield from _scanned(("steps", index, "params"), step.params, _DELIVERED)
        if step.when is not None:
            condition = Reference("cel", step.when, (), "", "", references.names(step.when))
            yield _Held(("steps", index, "when"), condition, _DELIVERED, is_condition=True)
        if step.compensate is not None:
            names = _WAY_BACK + (_DELIVERED if index in plan.graph.delivery else ())
            yield from _scanned(("steps", index, "compensate", "params"), step.compensate.params, names)
        for number, query in enumerate(step.evidence_queries):
            yield from _scanned(("steps", index, "evidence_queries", number, "params"), query.params)
    yield from _scanned(("outputs",), plan.outputs, _DELIVERED)
    yield from _scanned(("memory",), plan.memory, _DELIVERED)


def _scanned(place: Place, value: Any, extra: tuple[str, ...] = ()) -> Iterator[_Held]:
    for item in references.scan(value):
        if isinstance(item, Reference):
            yield _Held((*place, *item.place), item, extra)


def _waits(plan: Plan) -> Iterator[tuple[Place, str]]:
    for index, step in enumerate(plan.steps):
        yield from ((("steps", index, "depends_on"), name) for name in step.depends_on)
    for number, point in enumerate(plan.decision_checkpoints):
        yield ("decision_checkpoints", number, "after_step"), point.after_step


def _named(parts: Parts, plan: Plan, held: _Held) -> Problems:
    known = {*(step.id for step in plan.steps), *_OUTSIDE, *held.extra}
    for name in held.item.names:
        if name not in known and not _is_open(held.item.text):
            yield _unknown_step(parts, plan, held.place, name)


def _unknown_step(parts: Parts, plan: Plan, place: Place, name: str) -> Problem:
    ids = [step.id for step in plan.steps]
    remedy = did_you_mean(name, ids) or f"the steps are {', '.join(ids) or 'none'}"
    where = f"template {plan.intent}, {pointer.join(place)}"
    return parts.problem("unknown_step", where, f"there is no step {name}", remedy)


def _compiled(parts: Parts, place: str, held: _Held) -> Problems:
    text = held.item.text
    fault, remedy = (
        None,
        "write a short CEL expression without comprehensions over steps, request and evidence",
    )
    if PLACEHOLDER.search(text):
        fault, remedy = "text of a request must not become code", "read it as request.order_id instead"
    else:
        try:
            program = compile_planner(text, frozenset(held.item.names))
            is_boolean = yields_boolean(program)
            fault = "it yields no boolean" if held.is_condition and not is_boolean else None
        except ExpressionError as error:
            fault, remedy = error.message, error.remedy or remedy
    if fault is not None:
        yield parts.problem("expression_invalid", place, f"{fault}, in: {text[:80]}", remedy)


def template_decisions_exist(parts: Parts) -> Problems:
    """The decisions of a template's checkpoints are in the pack."""
    known = [decision.id for decision in parts.decisions]
    for plan in parts.templates if not parts.is_partial("decision") else ():
        for number, point in enumerate(plan.decision_checkpoints):
            if point.decision_id not in known:
                yield parts.problem(
                    "unknown_decision",
                    f"template {plan.intent}, /decision_checkpoints/{number}/decision_id",
                    f"there is no decision {point.decision_id}",
                    did_you_mean(point.decision_id, known) or f"name one of {', '.join(known) or 'none'}",
                )


def template_values_fit(parts: Parts) -> Problems:
    """The parameters of a template fit its tools, and its evidence is of existing classes."""
    for plan in parts.templates:
        for index, step in enumerate(plan.steps):
            place = f"template {plan.intent}, /steps/{index}"
            if step.tool is not None:
                yield from parameters_fit(parts, f"{place}/params", step.tool, step.params)
            if step.compensate is not None:
                way_back = step.compensate
                yield from parameters_fit(parts, f"{place}/compensate/params", way_back.tool, way_back.params)
            refs = pinned(step)
            looked_up = [query.classification for query in step.evidence_queries]
            yield from classes_exist(parts, place, refs, step.requires_evidence, looked_up)


def placeholders_are_filled(parts: Parts) -> Problems:
    """Every text in the form of a placeholder is one: others would be sent to a tool unchanged."""
    for plan in parts.templates:
        for text in dict.fromkeys(_texts(plan.model_dump(mode="json", exclude_defaults=True))):
            for found in re.findall(r"\$\{[^}]*\}?", text):
                if not PLACEHOLDER.fullmatch(found):
                    yield parts.warning(
                        "placeholder_malformed",
                        f"template {plan.intent}",
                        f"{found} is not a placeholder, and would be sent unchanged",
                        "write ${input.field} or ${snapshot}",
                    )


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    members = as_object(value)
    for member in members.values() if members is not None else as_list(value) or ():
        yield from _texts(member)


def _is_open(text: str) -> bool:
    return "${" in text


def decision_of(parts: Parts, intent: str | None) -> DecisionSpec | None:
    """Return the decision that answers an intent, or None."""
    found = (each for each in parts.decisions if intent == each.id or intent in each.intents)
    return next(found, None)


TEMPLATE_CHECKS: tuple[Check, ...] = (
    templates_are_asked_for,
    templates_call_tools,
    template_steps_exist,
    template_decisions_exist,
    template_values_fit,
    placeholders_are_filled,
)
