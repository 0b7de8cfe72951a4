"""Checks the method library: names exist, arguments fit, orders are acyclic, and tasks terminate."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tercet.contracts.shape import as_list, as_object
from tercet.contracts.tasks import ARG, Method, Task
from tercet.contracts.values import references
from tercet.packs.checks import Check, Problems, unknown_tool
from tercet.packs.checks.method_values import NO_LABELS, VALUE_CHECKS, names_read
from tercet.packs.parts import Parts
from tercet.planner.knowledge import ordering_of, sorted_by


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
        ordered = sorted_by(tuple(tuple(sorted(waits)) for waits in before))
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
        more = {
            name
            for name, ways in methods.items()
            if name not in ending and any(all(each.task in ending for each in way.subtasks) for way in ways)
        }
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
