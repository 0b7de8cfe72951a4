"""What a planner without a model knows: tasks, the methods that break them down, facts to choose by, and goals.

A task with a tool is primitive: it becomes one step. A task without one is abstract: one of its methods takes its
place. Values may be literals, references (`$from`, `$evidence`, `$cel`), or `{"$arg": "host"}`: an argument of the task.
`${snapshot}` in any text stands for the snapshot of the run. An evidence id may also hold fields of the request, as in
`kg:order:${input.order_id}#snapshot_${snapshot}`; its placeholders are filled when the plan is made.
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
"""What an expression calls the arguments of the task."""

SNAPSHOT = "${snapshot}"
"""In references to evidence: the snapshot of the run, which is part of an evidence id."""

FactType = Literal["string", "integer", "number", "boolean", "object", "list"]
TaskName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9]*(_[a-z0-9]+)*$", max_length=60)]
"""A name that CEL can read, without a double underscore: step ids are made of names joined by one."""


class Fact(Authored):
    """Something that is known when a plan is made: methods are chosen by it as `state.<name>`."""

    name: TaskName
    type: FactType
    value: Json
    """A reference to the request or to evidence. One that leads nowhere leaves the fact unknown."""


class Task(Authored):
    """Something to be done. With a tool it is one step; the fields below `tool` are those of the step."""

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
        """The fields that a step takes over as they stand, without those that were left at their defaults."""
        kept = {
            "tool", "approval_mode", "gates", "requires_evidence", "evidence_refs", "estimated_tokens", "estimated_ms",
            "priority", "preconditions", "reversibility", "optional",
        }  # fmt: skip
        return self.model_dump(mode="json", exclude_defaults=True, include=kept)


class MethodTask(Authored):
    """A task in its place in a method."""

    task: TaskName
    name: TaskName | None = None
    """What it is called in this method; None means: like its task."""
    args: JsonObject = {}
    after: tuple[TaskName, ...] = ()
    """In a method of partial order: the subtasks that come before it."""
    when: str | None = Field(default=None, max_length=1_000)
    """A CEL condition on what was observed: false skips everything that this subtask became."""

    @property
    def label(self) -> str:
        """What this subtask is called in its method."""
        return self.name or self.task


class Method(Authored):
    """One way to do an abstract task: all of its subtasks, in this order or in the order that they say."""

    name: TaskName
    task: TaskName
    description: str = ""
    ordering: Literal["total", "partial"] = "total"
    applies: str | None = Field(default=None, max_length=4_000)
    """A CEL condition on `request`, `state` and `args`, asked when the plan is made; None means always."""
    cost: float | str = 1.0
    """A number, or CEL that yields one: of the methods that apply, the cheapest is taken."""
    when: str | None = Field(default=None, max_length=1_000)
    """A CEL condition on what was observed, asked when the plan runs: the next cheapest method is the else."""
    subtasks: tuple[MethodTask, ...] = Field(default=(), max_length=10_000)
    result: TaskName | None = None
    """The subtask whose result is that of the task."""


class Goal(Authored):
    """The task that an intent asks for."""

    intent: Name
    task: TaskName
    args: JsonObject = {}
    outputs: dict[str, Json] = {}
    """Outputs by reference; the task's name stands for its result."""
    declared_outputs: Texts = ()


class TaskLibrary(Authored):
    """All that a pack knows about how things are done."""

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
        """The methods of each abstract task, in the order in which they stand."""
        found: dict[str, list[Method]] = {task.name: [] for task in self.tasks if not task.is_primitive}
        for method in self.methods:
            found.setdefault(method.task, []).append(method)
        return {name: tuple(methods) for name, methods in found.items()}

    def on(self, snapshot: str) -> TaskLibrary:
        """This library on the evidence of a snapshot, whose name takes the place of `${snapshot}` in every text but
        evidence ids."""
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
        """The goal of an intent, if there is one."""
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
