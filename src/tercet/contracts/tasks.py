"""The knowledge of a planner without a model: tasks, methods that break them down, facts to choose by, and goals.

A task with a tool is primitive: it becomes one step. A task without one is abstract: one of its methods replaces it.
Values may be literals, references (`$from`, `$evidence`, `$cel`), or `{"$arg": "host"}`: an argument of the task.
`${snapshot}` in any text is replaced by the snapshot of the run. An evidence id may also contain fields of the request,
as in `kg:order:${input.order_id}#snapshot_${snapshot}`; its placeholders are filled when the plan is made.
"""

from __future__ import annotations

import json
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import Field

from tercet.contracts.mode import ApprovalMode, Reversibility
from tercet.contracts.plan import Compensation, Texts
from tercet.contracts.shape import Authored, Json, JsonObject, Name, as_list, as_object

ARG = "$arg"
"""The key of a value that is an argument of the task."""
ARGS = "args"
"""The name of the task's arguments in expressions."""

SNAPSHOT = "${snapshot}"
"""The placeholder for the snapshot of the run, in evidence ids."""

FactType = Literal["string", "integer", "number", "boolean", "object", "list"]
TaskName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9]*(_[a-z0-9]+)*$", max_length=60)]
"""A valid CEL name without a double underscore, which joins names to step ids."""


class Fact(Authored):
    """A fact that is known when a plan is made: methods are chosen by it as `state.<name>`."""

    name: TaskName
    type: FactType
    value: Json
    """A reference to the request or to evidence. If it cannot be resolved, the fact is unknown."""


class Task(Authored):
    """A task. With a tool it is one step; the fields below `tool` are those of the step."""

    name: TaskName
    description: str = ""
    args: tuple[TaskName, ...] = ()
    tool: str | None = Field(default=None, max_length=200)
    params: JsonObject = {}
    approval_mode: ApprovalMode | None = None
    gates: Texts | None = None
    requires_evidence: Texts = ()
    evidence_refs: Texts = ()
    estimated_tokens: int = Field(default=0, ge=0, le=10**12, strict=True)
    estimated_ms: int | None = Field(default=None, ge=0, le=10**12, strict=True)
    priority: int = Field(default=0, ge=-(10**6), le=10**6, strict=True)
    preconditions: Texts = ()
    reversibility: Reversibility | None = None
    compensate: Compensation | None = None
    optional: bool = Field(default=False, strict=True)

    @property
    def is_primitive(self) -> bool:
        """Whether this task is one step."""
        return self.tool is not None

    @cached_property
    def step_fields(self) -> JsonObject:
        """The fields that a step inherits unchanged, without those left at their defaults."""
        kept = {
            "tool", "approval_mode", "gates", "requires_evidence", "evidence_refs", "estimated_tokens", "estimated_ms",
            "priority", "preconditions", "reversibility", "optional",
        }  # fmt: skip
        return self.model_dump(mode="json", exclude_defaults=True, include=kept)


class MethodTask(Authored):
    """A task as a subtask of a method."""

    task: TaskName
    name: TaskName | None = None
    """Its name in this method; None means the name of its task."""
    args: JsonObject = {}
    after: tuple[TaskName, ...] = ()
    """In a partially ordered method: the subtasks that come before it."""
    when: str | None = Field(default=None, max_length=1_000)
    """A CEL condition on observed values: false skips all steps of this subtask."""

    @property
    def label(self) -> str:
        """The name of this subtask in its method."""
        return self.name or self.task


class Method(Authored):
    """One way to carry out an abstract task: all of its subtasks, in sequence or in a declared partial order."""

    name: TaskName
    task: TaskName
    description: str = ""
    ordering: Literal["total", "partial"] = "total"
    applies: str | None = Field(default=None, max_length=4_000)
    """A CEL condition on `request`, `state` and `args`, evaluated when the plan is made; None means always."""
    cost: float | str = 1.0
    """A number, or a CEL expression for one: the cheapest applicable method is used."""
    when: str | None = Field(default=None, max_length=1_000)
    """A CEL condition on observed values, evaluated when the plan runs: the next cheapest method is the alternative."""
    subtasks: tuple[MethodTask, ...] = Field(default=(), max_length=10_000)
    result: TaskName | None = None
    """The subtask whose result becomes the task's result."""


class Goal(Authored):
    """The task for an intent."""

    intent: Name
    task: TaskName
    args: JsonObject = {}
    outputs: dict[str, Json] = {}
    """Outputs by reference; the task's name refers to its result."""
    declared_outputs: Texts = ()
    memory: dict[str, Json] = {}
    """What the run suggests remembering, by class: values as in `outputs`."""


class TaskLibrary(Authored):
    """All tasks, methods, facts and goals of a pack."""

    facts: tuple[Fact, ...] = ()
    tasks: tuple[Task, ...] = ()
    methods: tuple[Method, ...] = ()
    goals: tuple[Goal, ...] = ()

    @cached_property
    def task(self) -> dict[str, Task]:
        """The tasks by name."""
        return {task.name: task for task in self.tasks}

    @cached_property
    def methods_of(self) -> dict[str, tuple[Method, ...]]:
        """The methods of each abstract task, in file order."""
        found: dict[str, list[Method]] = {task.name: [] for task in self.tasks if not task.is_primitive}
        for method in self.methods:
            found.setdefault(method.task, []).append(method)
        return {name: tuple(methods) for name, methods in found.items()}

    def on(self, snapshot: str) -> TaskLibrary:
        """Return this library for a snapshot, whose name replaces `${snapshot}` in every text except evidence ids."""
        document = self.model_dump(mode="json", exclude_defaults=True)
        if SNAPSHOT not in json.dumps(document):
            return self
        written = _with_snapshot(document, snapshot)
        refs = {task.name: task.evidence_refs for task in self.tasks}
        tasks = [
            {**task, "evidence_refs": refs[task["name"]]} if refs[task["name"]] else task
            for task in written.get("tasks", ())
        ]
        return TaskLibrary.model_validate({**written, "tasks": tasks})

    def goal_for(self, intent: str) -> Goal | None:
        """Return the goal of an intent, or None."""
        return next((goal for goal in self.goals if goal.intent == intent), None)


def _with_snapshot(value: Any, snapshot: str) -> Any:
    if (members := as_object(value)) is not None:
        return {
            key.replace(SNAPSHOT, snapshot): member
            if key == "$evidence"
            else _with_snapshot(member, snapshot)
            for key, member in members.items()
        }
    if (items := as_list(value)) is not None:
        return [_with_snapshot(item, snapshot) for item in items]
    return value.replace(SNAPSHOT, snapshot) if isinstance(value, str) else value
