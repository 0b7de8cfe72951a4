"""Checks the method library: names exist, arguments fit, orders are acyclic, and tasks terminate."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tercet.contracts.problem import Problem
from tercet.contracts.shape import JsonObject, as_list, as_object
from tercet.contracts.steps.graph import topological_order
from tercet.contracts.tasks import ARG, ARGS, Goal, Method, MethodTask, Task
from tercet.contracts.values import references
from tercet.packs.checks import Check, Problems, unknown_tool
from tercet.packs.parts import Parts
from tercet.planner.knowledge import ordering_of, scope_of
from tercet.planner.sources import PlanningError
from tercet.planner.template import bind, express
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


# --- methods ---


def tasks_are_whole(parts: Parts) -> Problems:
    """A task has either a tool or methods."""
    methods = parts.library.methods_of
    for task in parts.library.tasks:
        place = f"task {task.name}"
        if task.tool is not None and parts.lacks_tool(task.tool):
            yield unknown_tool(parts, f"{place}, tool", task.tool)
        if task.is_primitive and methods.get(task.name):
            yield parts.problem(
                "task_kind", place, "it has a tool, and methods as well", "drop the tool, or the methods"
            )
        if not task.is_primitive and (task.params or task.compensate is not None):
            yield parts.problem("task_kind", place, "it has no tool that takes its parameters", "name a tool")
        if not task.is_primitive and not methods.get(task.name) and not parts.is_partial("method"):
            yield parts.problem(
                "task_without_method",
                place,
                "it has neither a tool nor a method",
                f'name a tool, or add a [[method]] with task = "{task.name}"',
            )


def tasks_exist(parts: Parts) -> Problems:
    """Goals, methods and subtasks name existing tasks."""
    if parts.is_partial("task"):
        return
    for place, name in _named(parts):
        if name not in parts.library.task:
            known = ", ".join(parts.library.task) or "none"
            yield parts.problem(
                "unknown_task", place, f"there is no task {name}", f"declare it; there are: {known}"
            )


def _named(parts: Parts) -> Iterator[tuple[str, str]]:
    for goal in parts.library.goals:
        yield f"goal {goal.intent}, task", goal.task
    for method in parts.library.methods:
        yield f"method {method.name}, task", method.task
        for subtask in method.subtasks:
            yield f"method {method.name}, subtasks", subtask.task


def subtasks_have_names(parts: Parts) -> Problems:
    """Within a method each subtask has a unique name, and references to subtasks resolve."""
    for method in parts.library.methods:
        place = f"method {method.name}, subtasks"
        labels = [subtask.label for subtask in method.subtasks]
        for label in dict.fromkeys(labels):
            if labels.count(label) > 1 or label in NO_LABELS:
                fault = "two subtasks have it" if labels.count(label) > 1 else "it has a meaning of its own"
                yield parts.problem(
                    "subtask_name", place, f"{label} cannot be a name here: {fault}", 'give it a "name"'
                )
        unknown = {name for subtask in method.subtasks for name in subtask.after} - set(labels)
        for name in sorted(unknown | ({method.result} if method.result else set()) - set(labels)):
            yield parts.problem(
                "unknown_subtask",
                place,
                f"there is no subtask {name}",
                f"it has {', '.join(labels) or 'none'}",
            )


def subtasks_can_be_ordered(parts: Parts) -> Problems:
    """The order of a method and the dependencies of its subtasks have no cycle."""
    for method in parts.library.methods:
        place = f"method {method.name}, subtasks"
        if method.ordering == "total" and any(subtask.after for subtask in method.subtasks):
            yield parts.problem(
                "subtask_order", place, "in a total order nothing needs to say what it comes after",
                'drop "after", or say ordering = "partial"',
            )  # fmt: skip
            continue
        before = [set(waits) for waits in ordering_of(method)]
        position = {subtask.label: index for index, subtask in enumerate(method.subtasks)}
        for index, subtask in enumerate(method.subtasks):
            before[index] |= {position[name] for name in names_read(subtask) if name in position}
        ordered = topological_order([sorted(waits) for waits in before])[1]
        left = [subtask.label for index, subtask in enumerate(method.subtasks) if index not in set(ordered)]
        if left:
            yield parts.problem(
                "subtask_order", place, f"these wait for each other: {', '.join(left)}",
                'change "after", or let a subtask read the result of one that comes before it',
            )  # fmt: skip


def arguments_fit(parts: Parts) -> Problems:
    """Each task gets exactly the arguments that it takes, and reads no others."""
    tasks = parts.library.task
    for goal in parts.library.goals:
        if goal.task in tasks:
            yield from _given(parts, f"goal {goal.intent}, args", tasks[goal.task], goal.args)
    for task in parts.library.tasks:
        way_back = {} if task.compensate is None else task.compensate.params
        yield from _taken(parts, f"task {task.name}, params", task, [dict(task.params), dict(way_back)])
    for method in parts.library.methods:
        place = f"method {method.name}, subtasks"
        for subtask in method.subtasks:
            if subtask.task in tasks:
                yield from _given(parts, place, tasks[subtask.task], subtask.args)
        if method.task in tasks:
            values: list[Any] = [dict(subtask.args) for subtask in method.subtasks]
            yield from _taken(parts, place, tasks[method.task], values)


def _given(parts: Parts, place: str, task: Task, args: Mapping[str, Any]) -> Problems:
    lacking, extra = [n for n in task.args if n not in args], [n for n in args if n not in task.args]
    if lacking or extra:
        fault = f"needs {', '.join(lacking)}" if lacking else f"takes no {', '.join(extra)}"
        takes = ", ".join(task.args) or "no arguments"
        yield parts.problem("task_arguments", place, f"the task {task.name} {fault}", f"it takes {takes}")


def _taken(parts: Parts, place: str, task: Task, values: list[Any]) -> Problems:
    for name in dict.fromkeys(_arguments(values)):
        if name not in task.args:
            yield parts.problem(
                "task_arguments", place, f"the task {task.name} has no argument {name}",
                f"it takes {', '.join(task.args) or 'no arguments'}",
            )  # fmt: skip


def _arguments(value: Any) -> Iterator[str]:
    """Return the arguments that a value names, at any depth."""
    stack = [value]
    while stack:
        item = stack.pop()
        if (members := as_object(item)) is not None:
            named = members.get(ARG)
            if isinstance(named, str):
                yield named
            stack.extend(member for key, member in members.items() if key != references.LITERAL)
        else:
            stack.extend(as_list(item) or ())


def tasks_end(parts: Parts) -> Problems:
    """Every task can be broken down to primitive ones without a cycle."""
    methods = parts.library.methods_of
    ending = {task.name for task in parts.library.tasks if task.is_primitive}
    ending |= {
        name for method in parts.library.methods for s in method.subtasks if (name := s.task) not in methods
    }
    ending |= {name for name, ways in methods.items() if not ways}  # reported by another check
    grown = True
    while grown:
        more = {n for n, ways in methods.items() if n not in ending and any(_ends(w, ending) for w in ways)}
        ending |= more
        grown = bool(more)
    reported: set[str] = set()
    for name in methods:
        if name not in ending and name not in reported:
            cycle = _cycle(name, methods, ending)
            reported |= set(cycle)
            yield parts.problem(
                "endless_recursion",
                f"task {cycle[0]}",
                f"it can never be done: {' → '.join(cycle)}",
                "give one of these tasks a method that does not lead back to it",
            )


def _ends(method: Method, ending: set[str]) -> bool:
    return all(subtask.task in ending for subtask in method.subtasks)


def _cycle(name: str, methods: Mapping[str, tuple[Method, ...]], ending: set[str]) -> list[str]:
    """Return the tasks of a cycle that is reached from a task without an end."""
    path: list[str] = []
    while name not in path:
        path.append(name)
        name = next(s.task for s in methods[name][0].subtasks if s.task not in ending)
    return [*path[path.index(name) :], name]


METHOD_CHECKS: tuple[Check, ...] = (
    tasks_are_whole,
    tasks_exist,
    subtasks_have_names,
    subtasks_can_be_ordered,
    arguments_fit,
    *VALUE_CHECKS,
    tasks_end,
)
"""The checks that loading a pack includes: a library that does not pass them cannot be planned with."""
