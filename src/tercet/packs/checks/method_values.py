"""Checks the values and expressions of a method library: references resolve, and expressions compile."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tercet.contracts.problem import Problem
from tercet.contracts.shape import JsonObject
from tercet.contracts.tasks import ARGS, Goal, Method, MethodTask
from tercet.contracts.values import references
from tercet.packs.checks import Check, Problems
from tercet.packs.parts import Parts
from tercet.planner.binding import bind, express
from tercet.planner.knowledge import scope_of
from tercet.planner.sources import PlanningError
from tercet.policy.expressions import (
    ExpressionError,
    compile_amount,
    compile_planner,
    compile_rule,
    return_type,
    yields_boolean,
)

OUTSIDE = frozenset({references.REQUEST, references.EVIDENCE})
WAY_BACK = frozenset({references.SELF, references.PARAMS})
NO_LABELS = OUTSIDE | WAY_BACK | {ARGS}
"""Reserved names."""


def names_read(subtask: MethodTask) -> set[str]:
    """Return the names that a subtask reads in its arguments and its condition."""
    found = references.scan(bound(dict(subtask.args)))
    named = {name for item in found if isinstance(item, references.Reference) for name in item.names}
    return named if subtask.when is None else named | set(references.names(subtask.when))


class _Whatever(dict[str, Any]):
    """Placeholder arguments, of which only the existence is known."""

    def __missing__(self, key: str) -> Any:
        return {"$from": references.REQUEST}


def bound(value: Any, args: tuple[str, ...] = ()) -> Any:
    """Return a value with references in place of the task's arguments."""
    stand_in = _Whatever({name: {"$from": references.REQUEST} for name in args})
    try:
        return bind(value, stand_in, {})
    except PlanningError:
        return value  # nested too deep, which another check reports


def values_lead_somewhere(parts: Parts) -> Problems:
    """References are well-formed, and refer to the request, to evidence or to a subtask with a result."""
    for fact in parts.library.facts:
        yield from _value(parts, f"fact {fact.name}, value", fact.value, (), OUTSIDE)
    for task in parts.library.tasks:
        yield from _value(parts, f"task {task.name}, params", dict(task.params), task.args, OUTSIDE)
        if task.compensate is not None:
            place = f"task {task.name}, compensate"
            yield from _value(parts, place, dict(task.compensate.params), task.args, OUTSIDE | WAY_BACK)
    for goal in parts.library.goals:
        yield from _value(parts, f"goal {goal.intent}, args", dict(goal.args), (), OUTSIDE)
        yield from _goal_values(parts, goal, "outputs", dict(goal.outputs))
        yield from _goal_values(parts, goal, "memory", dict(goal.memory))
    for method in parts.library.methods:
        yield from _subtask_values(parts, method)


def _goal_values(parts: Parts, goal: Goal, member: str, values: JsonObject) -> Problems:
    place = f"goal {goal.intent}, {member}"
    yield from _value(parts, place, values, (), OUTSIDE | {goal.task})
    found = references.scan(values)
    named = {name for item in found if isinstance(item, references.Reference) for name in item.names}
    if goal.task in named:
        yield from _result(parts, place, goal.task)


def _subtask_values(parts: Parts, method: Method) -> Problems:
    place = f"method {method.name}, subtasks"
    args = parts.library.task[method.task].args if method.task in parts.library.task else ()
    tasks = {subtask.label: subtask.task for subtask in method.subtasks}
    for subtask in method.subtasks:
        yield from _value(parts, place, dict(subtask.args), args, OUTSIDE | set(tasks))
        for name in sorted(names_read(subtask) & set(tasks)):
            yield from _result(parts, place, tasks[name])


def _result(parts: Parts, place: str, name: str) -> Problems:
    """A result that is read comes from one step, whichever method is chosen."""
    task = parts.library.task.get(name)
    if task is None or task.is_primitive:
        return
    for method in parts.library.methods_of.get(name, ()):
        if method.result is None or method.when is not None:
            why = "names no result" if method.result is None else "is followed only when it is found to apply"
            yield parts.problem(
                "task_without_result", place, f"the task {name} has no result: its method {method.name} {why}",
                "let each of its methods name the subtask whose result it is",
            )  # fmt: skip


def _value(parts: Parts, place: str, value: Any, args: tuple[str, ...], names: frozenset[str]) -> Problems:
    for item in references.scan(bound(value, args)):
        if isinstance(item, references.Malformed):
            yield parts.problem(
                "task_value", place, item.message,
                'write a value, {"$arg": "<name>"}, {"$from": "<subtask>#/field"}, {"$evidence": "<ref>#/field"} '
                'or {"$cel": "…"}',
            )  # fmt: skip
        elif isinstance(item, references.Reference):
            yield from _reference(parts, place, item, names)


def _reference(parts: Parts, place: str, item: references.Reference, names: frozenset[str]) -> Problems:
    strange = [name for name in item.names if name not in names]
    if strange:
        known = ", ".join(sorted(names))
        yield parts.problem(
            "unknown_subtask", place, f"there is no {strange[0]} to read here", f"it may read {known}"
        )
    elif item.kind == "cel":
        try:
            return_type(compile_planner(item.text, frozenset(item.names)))
        except ExpressionError as error:
            yield _invalid(parts, place, item.text, error)


def method_rules_compile(parts: Parts) -> Problems:
    """Conditions and costs compile, type-check, and read only what they may."""
    scope = scope_of(parts.library)
    for method in parts.library.methods:
        task = parts.library.task.get(method.task)
        args = _Whatever({name: {"$from": references.REQUEST} for name in task.args}) if task else _Whatever()
        try:
            if method.applies is not None:
                compile_rule(method.applies, scope)
        except ExpressionError as error:
            yield _invalid(parts, f"method {method.name}, applies", method.applies or "", error)
        try:
            if isinstance(method.cost, str):
                compile_amount(method.cost, scope)
        except ExpressionError as error:
            yield _invalid(parts, f"method {method.name}, cost", str(method.cost), error)
        if method.when is not None:
            yield from _observed(parts, f"method {method.name}, when", method.when, args, OUTSIDE)
        names = OUTSIDE | {subtask.label for subtask in method.subtasks}
        for subtask in method.subtasks:
            if subtask.when is not None:
                yield from _observed(parts, f"method {method.name}, subtasks", subtask.when, args, names)


def _observed(
    parts: Parts, place: str, text: str, args: Mapping[str, Any], names: frozenset[str]
) -> Problems:
    """A condition that is evaluated when the plan runs."""
    written = express(text, args, {})
    read = references.names(written)
    strange = [name for name in read if name not in names]
    if strange:
        readable = f"it may read the task's own args.<name>, {', '.join(sorted(names))}"
        yield _invalid(
            parts, place, text, ExpressionError(f"there is no {strange[0]} to read here", remedy=readable)
        )
        return
    try:
        is_condition = yields_boolean(compile_planner(written, frozenset(read)))
    except ExpressionError as error:
        yield _invalid(parts, place, text, error)
        return
    if not is_condition:
        yield _invalid(
            parts, place, text, ExpressionError("it yields no boolean", remedy="write a condition")
        )


def _invalid(parts: Parts, place: str, text: str, error: ExpressionError) -> Problem:
    column = f", column {error.column}" if error.column else ""
    shown = f"{text[:80]}{'…' * (len(text) > 80)}"
    remedy = error.remedy or "read request, the task's args.<name>, and facts as state.<name>"
    return parts.problem("expression_invalid", place, f"{error.message}{column}, in: {shown}", remedy)


VALUE_CHECKS: tuple[Check, ...] = (values_lead_somewhere, method_rules_compile)
