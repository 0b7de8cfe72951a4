"""Checks decisions and goals: their tools, their outputs, and their intents."""

from __future__ import annotations

from collections import Counter, defaultdict

from tercet.contracts.decision import DecisionSpec
from tercet.contracts.evidence import meets
from tercet.contracts.tool import ToolSpec
from tercet.contracts.values import references
from tercet.contracts.values.references import Reference
from tercet.packs.checks import Check, Problems, fields_of, unknown_tool
from tercet.packs.checks.methods import bound
from tercet.packs.checks.templates import (
    classes_exist,
    decision_of,
    output_missing,
    parameters_fit,
    results_have,
    unknown_intent,
)
from tercet.packs.parts import PACK, Parts


def there_is_something_to_ask_for(parts: Parts) -> Problems:
    """A pack has a decision, else it can answer no request, and a tool, else it can do nothing."""
    if not parts.decisions and not parts.is_partial("decision"):
        yield parts.problem(
            "no_decisions",
            "decisions",
            "the pack has no decision, so nothing can be asked of it",
            "add one to decisions.toml",
        )
    if not parts.tools and not parts.is_partial("tool"):
        yield parts.warning(
            "no_tools",
            "tools",
            "the pack has no tools, so its plans can do nothing",
            "add tools.py",
        )


def decisions_name_tools(parts: Parts) -> Problems:
    """The tools that a decision allows, prohibits or lets repeat exist."""
    for decision in parts.decisions:
        fields = {
            "tools": decision.tools or (),
            "prohibited_tools": decision.prohibited_tools,
            "repeatable": decision.repeatable,
        }
        for field, names in fields.items():
            for name in names:
                if parts.lacks_tool(name):
                    yield unknown_tool(parts, f"decision {decision.id}, {field}", name)


def outputs_are_described(parts: Parts) -> Problems:
    """Each required output is in the outputs' schema."""
    for decision in parts.decisions:
        known = None if decision.outputs_schema is None else fields_of(decision.outputs_schema)
        for name in decision.required_outputs:
            if known is not None and name not in known:
                yield parts.problem(
                    "output_unknown",
                    f"decision {decision.id}, required_outputs",
                    f"outputs_schema does not describe {name}",
                    f"describe it there, or require one of {', '.join(known) or 'no outputs'}",
                )


def intents_are_unambiguous(parts: Parts) -> Problems:
    """Each intent maps to one decision."""
    claims: defaultdict[str, list[DecisionSpec]] = defaultdict(list)
    for decision in parts.decisions:
        for intent in dict.fromkeys((decision.id, *decision.intents)):
            claims[intent].append(decision)
    for intent, decisions in claims.items():
        for decision in decisions[1:]:
            yield parts.problem(
                "intent_claimed_twice",
                f"decision {decision.id}, intents",
                f"the intent {intent} already belongs to decision {decisions[0].id}",
                "give one of them another intent",
            )


def evidence_can_be_found(parts: Parts) -> Problems:
    """Required evidence classes are in the pack's files, or a tool or a query of a template provides them."""
    if parts.is_partial("evidence") or parts.is_partial("tool"):
        return
    classes = {fact.classification for fact in parts.evidence}
    classes.update(name for tool in parts.tools for name in tool.attests)
    classes.update(
        query.classification
        for plan in parts.templates
        for step in plan.steps
        for query in step.evidence_queries
    )
    required = {
        f"decision {decision.id}, required_evidence": decision.required_evidence
        for decision in parts.decisions
    }
    required |= {f"tool {tool.name}, requires_evidence": tool.requires_evidence for tool in parts.tools}
    for place, names in required.items():
        for name in names:
            if not any(meets(name, classification) for classification in classes):
                yield parts.warning(
                    "evidence_class_unknown",
                    place,
                    f"no evidence file, tool or query of the pack brings the class {name.removesuffix('_evidence')}",
                    "add such a fact, or make sure that evidence of this class is retrieved",
                )


def untrusted_inputs_are_places(parts: Parts) -> Problems:
    """Every marked request field can exist: a mark that no field can match protects nothing."""
    for decision in parts.decisions:
        for name in decision.untrusted_inputs:
            steps = name[1:].split("/") if name.startswith("/") else name.split(".")
            if not all(steps):
                yield parts.problem(
                    "untrusted_input_invalid",
                    f"decision {decision.id}, untrusted_inputs",
                    f"{name!r} names no field of a request",
                    "write a name, a path such as order.note, or a JSON Pointer such as /order/note",
                )


def untrusted_evidence_is_required(parts: Parts) -> Problems:
    """A class that untrusted facts may satisfy is required by the decision, a tool or a template."""
    if parts.is_partial("tool"):
        return
    by_calls = [name for tool in parts.tools for name in tool.requires_evidence]
    by_calls += [name for plan in parts.templates for step in plan.steps for name in step.requires_evidence]
    for decision in parts.decisions:
        required = {name.removesuffix("_evidence") for name in (*decision.required_evidence, *by_calls)}
        for name in decision.untrusted_evidence:
            if name.removesuffix("_evidence") not in required:
                yield parts.warning(
                    "untrusted_evidence_unknown",
                    f"decision {decision.id}, untrusted_evidence",
                    f"neither the decision nor a tool or template requires evidence of the class {name}",
                    f"leave it out, or name one of {', '.join(sorted(required)) or 'no classes'}",
                )


def thresholds_are_distinct(parts: Parts) -> Problems:
    """A decision sets each quality limit once."""
    for decision in parts.decisions:
        for name, count in Counter(threshold.name for threshold in decision.thresholds).items():
            if count > 1:
                yield parts.problem(
                    "threshold_duplicate",
                    f"decision {decision.id}, thresholds",
                    f"{name} is set {count} times",
                    "keep one",
                )


def replans_have_a_reason(parts: Parts) -> Problems:
    """More than two re-plans are allowed only if the pack says why."""
    if parts.budget.max_replans > USUAL_REPLANS and not parts.budget.replans_rationale.strip():
        yield parts.problem(
            "replans_unexplained",
            f"{PACK}, budget.max_replans",
            f"{parts.budget.max_replans} re-plans are allowed, over the usual {USUAL_REPLANS}",
            "say why in replans_rationale, or lower it",
        )


USUAL_REPLANS = 2

DECISION_CHECKS: tuple[Check, ...] = (
    there_is_something_to_ask_for,
    decisions_name_tools,
    outputs_are_described,
    intents_are_unambiguous,
    evidence_can_be_found,
    untrusted_inputs_are_places,
    untrusted_evidence_is_required,
    thresholds_are_distinct,
    replans_have_a_reason,
)


def goals_are_asked_for(parts: Parts) -> Problems:
    """The intent of each goal belongs to a decision, and the goal produces the outputs that it requires."""
    if parts.is_partial("decision"):
        return
    for goal in parts.library.goals:
        decision = decision_of(parts, goal.intent)
        if decision is None:
            yield unknown_intent(parts, f"goal {goal.intent}, intent", goal.intent)
            continue
        given = (*goal.outputs, *goal.declared_outputs)
        for name in decision.planned_outputs:
            if name not in given:
                yield output_missing(parts, f"goal {goal.intent}, outputs", decision, name, given)


def tasks_fit_their_tools(parts: Parts) -> Problems:
    """A primitive task's parameters, evidence and dependencies fit its tool."""
    for task in parts.library.tasks:
        place = f"task {task.name}, params"
        if task.tool is not None:
            yield from parameters_fit(parts, place, task.tool, bound(dict(task.params), task.args))
        yield from classes_exist(
            parts, f"task {task.name}, evidence_refs", task.evidence_refs, task.requires_evidence
        )


def results_are_described(parts: Parts) -> Problems:
    """The result fields that goals and subtasks read are described by the tools behind them."""
    for goal in parts.library.goals:
        tools = {goal.task: _tool_behind(parts, goal.task)}
        for item in references.scan(dict(goal.outputs)):
            if isinstance(item, Reference):
                yield from results_have(parts, f"goal {goal.intent}, outputs", item, tools)
    for method in parts.library.methods:
        tools = {each.label: _tool_behind(parts, each.task) for each in method.subtasks}
        for subtask in method.subtasks:
            for item in references.scan(bound(dict(subtask.args))):
                if isinstance(item, Reference):
                    yield from results_have(parts, f"method {method.name}, subtasks", item, tools)


def _tool_behind(parts: Parts, name: str, seen: frozenset[str] = frozenset()) -> ToolSpec | None:
    """Return the tool that produces the result of a task; None if it depends on the method."""
    task = parts.library.task.get(name)
    if task is None or name in seen:
        return None
    if task.tool is not None:
        return parts.tool.get(task.tool)
    found: list[ToolSpec | None] = []
    for method in parts.library.methods_of.get(name, ()):
        chosen = next((each.task for each in method.subtasks if each.label == method.result), "")
        found.append(_tool_behind(parts, chosen, seen | {name}))
    return found[0] if found and all(each is found[0] for each in found) else None


GOAL_CHECKS: tuple[Check, ...] = (goals_are_asked_for, tasks_fit_their_tools, results_are_described)
