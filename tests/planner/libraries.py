"""Small method libraries for tests: written by hand in a few words, or made up by Hypothesis."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from tercet.contracts.plan import Plan
from tercet.contracts.tasks import TaskLibrary
from tercet.planner.alternatives import propose
from tercet.planner.htn import Decomposition, Node, Site, Tried
from tercet.planner.knowledge import Knowledge
from tercet.planner.sources import PlanningError

PRIMITIVES = ("p0", "p1", "p2")
ABSTRACT = ("t0", "t1", "t2", "t3")


def library(methods: list[dict[str, Any]], goal: str = "do", **more: Any) -> TaskLibrary:
    """A library of these methods: what no method is for becomes a primitive task with a tool of its name."""
    abstract = dict.fromkeys([goal, *(method["task"] for method in methods)])
    named = dict.fromkeys(subtask["task"] for method in methods for subtask in method["subtasks"])
    given = {task["name"]: task for task in more.pop("tasks", ())}
    tasks = [
        given.get(name, {"name": name, **({} if name in abstract else {"tool": f"x.{name}"})})
        for name in dict.fromkeys([*abstract, *named, *given])
    ]
    goals = more.pop("goals", [{"intent": "work", "task": goal}])
    return TaskLibrary.model_validate({"tasks": tasks, "methods": methods, "goals": goals, **more})


def way(name: str, task: str, *subtasks: str | dict[str, Any], **more: Any) -> dict[str, Any]:
    """A method; a subtask is named by its task alone, or written out."""
    listed = [{"task": subtask} if isinstance(subtask, str) else subtask for subtask in subtasks]
    return {"name": name, "task": task, "subtasks": listed, **more}


def planned(
    shapes: TaskLibrary,
    *setbacks: tuple[str, ...],
    request: dict[str, Any] | None = None,
    evidence: dict[str, Any] | None = None,
) -> Plan:
    """The plan for the library's first goal."""
    knowledge = Knowledge(shapes)
    return propose(knowledge, shapes.goals[0], knowledge.case(request or {}, evidence or {}), setbacks)


def broken_down(
    shapes: TaskLibrary, request: dict[str, Any] | None = None, tried: Tried | None = None
) -> Node | PlanningError:
    """The tree for the library's first goal, without the methods that were tried."""
    knowledge = Knowledge(shapes)
    case = knowledge.case(request or {}, {})
    return Decomposition(knowledge, case, tried or {}).expand(Site(task=shapes.goals[0].task, args={}))


@st.composite
def libraries(draw: st.DrawFn) -> TaskLibrary:
    """Libraries of four abstract tasks: with recursion, methods that never apply, empty ones, and both orders."""
    methods: list[dict[str, Any]] = []
    for task in ABSTRACT:
        for number in range(draw(st.integers(0, 3))):
            names = draw(st.lists(st.sampled_from((*PRIMITIVES, *ABSTRACT)), max_size=3))
            ordering = draw(st.sampled_from(["total", "partial"]))
            rank = draw(st.permutations(range(len(names))))
            subtasks = [
                {
                    "task": name,
                    "name": f"s{index}",
                    "after": [
                        f"s{other}"
                        for other in range(len(names))
                        if ordering == "partial" and rank[other] < rank[index] and draw(st.booleans())
                    ],
                }
                for index, name in enumerate(names)
            ]
            applies = draw(st.sampled_from([None, None, "request.x", "request.missing", "!request.x"]))
            methods.append(
                way(
                    f"{task}_m{number}",
                    task,
                    *subtasks,
                    ordering=ordering,
                    cost=draw(st.integers(0, 2)),
                    applies=applies,
                )
            )
    tasks = [{"name": name, "tool": f"x.{name}"} for name in PRIMITIVES]
    return library(methods, "t0", tasks=[*tasks, *({"name": name} for name in ABSTRACT)])
