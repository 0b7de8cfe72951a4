"""Goals and primitive tasks against the rest of the pack: intents, outputs, parameters, results, gates and evidence."""

from __future__ import annotations

from tercet.contracts import references
from tercet.contracts.references import Reference
from tercet.contracts.tool import ToolSpec
from tercet.packs.checks import Check, Problems, unknown_gate
from tercet.packs.checks.method_values import bound
from tercet.packs.checks.step_values import classes_exist, parameters_fit, results_have
from tercet.packs.checks.templates import decision_of, output_missing, unknown_intent
from tercet.packs.parts import Parts


def goals_are_asked_for(parts: Parts) -> Problems:
    """The intent of each goal is one that some decision answers, and the goal produces what that requires."""
    if parts.is_partial("decision"):
        return
    for goal in parts.library.goals:
        decision = decision_of(parts, goal.intent)
        if decision is None:
            yield unknown_intent(parts, f"goal {goal.intent}, intent", goal.intent)
            continue
        given = (*goal.outputs, *goal.declared_outputs)
        for name in decision.required_outputs:
            if name not in given:
                yield output_missing(parts, f"goal {goal.intent}, outputs", decision, name, given)


def tasks_fit_their_tools(parts: Parts) -> Problems:
    """What a primitive task hands to its tool, waits for and pins is such as there is."""
    for task in parts.library.tasks:
        place = f"task {task.name}, params"
        if task.tool is not None:
            yield from parameters_fit(parts, place, task.tool, bound(dict(task.params), task.args))
        for name in task.gates or ():
            if parts.lacks_gate(name):
                yield unknown_gate(parts, f"task {task.name}, gates", name)
        yield from classes_exist(
            parts, f"task {task.name}, evidence_refs", task.evidence_refs, task.requires_evidence
        )


def results_are_described(parts: Parts) -> Problems:
    """What goals and subtasks read of results are fields that the tools behind them describe."""
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
    """The tool whose result is that of a task; None where that is not one and the same by every method."""
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
