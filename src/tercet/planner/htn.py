"""Breaks a task down until only primitive tasks are left (a hierarchical task network).

An abstract task is an OR: its cheapest applicable method replaces it, and if some part of that method cannot be broken
down any further, the next cheapest is tried. A method is an AND: all of its subtasks. Whether a task can be broken down
depends only on the task and its arguments, so a choice made elsewhere is never undone, and each method of each node is
tried at most once.

Methods with `when` are not chosen at planning time: observed values decide. All of them are included in the plan, up to
and including the first without one, each guarded by its condition and by the failure of those before it: if, else if,
else.

A task with the same arguments below itself is a dead end: whatever could be found there could be found above. Depth and
size are bounded, and so is the recursion.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any

from tercet.contracts.tasks import MethodTask, Task
from tercet.contracts.values.canonical import canonical
from tercet.planner.knowledge import Case, Knowledge, Way
from tercet.planner.sources import Placeholders, PlanningError
from tercet.planner.template import bind, demand_small, express

MAX_TASK_DEPTH = 100
MAX_TASKS = 100_000
"""The maximum number of tasks visited for one plan, including dead ends."""

_LONGEST_ID = 64
_JOINT = "__"
ROOT = "_goal"
"""The id of the goal's own node, which no task name can equal."""

Tried = Mapping[str, frozenset[str]]
"""The abandoned methods, by the key of their node."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Site:
    """A task at its place in the tree, before it is broken down."""

    task: str
    args: Mapping[str, Any]
    path: str = ""
    """The path of subtask names, from which step ids are made."""
    key: str = ""
    """The path with method names: two methods with the same path are two nodes."""
    guards: tuple[str, ...] = ()
    levels: int = 0
    depth: int = 0
    above: Site | None = None

    @property
    def id(self) -> str:
        """The id of the step for a primitive task here."""
        path = self.path or ROOT
        if len(path) <= _LONGEST_ID:
            return path
        return f"{path[-40:].lstrip('_')}{_JOINT}{sha256(path.encode()).hexdigest()[:16]}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Branch:
    """A chosen method, and the nodes of its subtasks, in order."""

    way: Way
    children: tuple[Node, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Node:
    """A task that was broken down; a primitive one has no branches, an unconditional one has one."""

    site: Site
    task: Task
    branches: tuple[Branch, ...] = ()


def leaves(node: Node) -> Iterator[tuple[Node, Node, str]]:
    """Yield each primitive node below this one, with its abstract parent and the method that produced it."""
    for branch in node.branches:
        for child in branch.children:
            if child.task.is_primitive:
                yield child, node, branch.way.method.name
            else:
                yield from leaves(child)


class Decomposition:
    """The decomposition of a task in one case."""

    def __init__(self, knowledge: Knowledge, case: Case, tried: Tried) -> None:
        self._knowledge = knowledge
        self._case = case
        self._tried = tried
        self._looked_at = 0

    def expand(self, site: Site) -> Node | PlanningError:
        """Return the node of a task, or why it cannot be broken down."""
        self._looked_at += 1
        if self._looked_at > MAX_TASKS:
            raise PlanningError(
                f"breaking down the task {_outermost(site)} comes to more than {MAX_TASKS:,} tasks, the last on the way "
                f"{_way_to(site)}",
                code="too_many_tasks",
                remedy="give its methods conditions under which they apply, so that they end",
            )
        task = self._knowledge.tasks[site.task]
        if task.is_primitive:
            return Node(site=site, task=task)
        return _runaway(site, self._knowledge.recursive) or self._choose(site, task)

    def _choose(self, site: Site, task: Task) -> Node | PlanningError:
        ranked = self._case.ranked(site.task, site.args)
        gone = self._tried.get(site.key, frozenset())
        branches: list[Branch] = []
        denied: list[str] = []
        first: PlanningError | None = None
        for way in ranked:
            if way.method.name in gone:
                continue
            made = self._follow(site, way, denied)
            if isinstance(made, PlanningError):
                first = first or made
                continue
            branches.append(made)
            if way.method.when is None:
                break
            denied.append(express(way.method.when, site.args, {}))
        if branches:
            return Node(site=site, task=task, branches=tuple(branches))
        return first or _stuck(site, ranked)

    def _follow(self, site: Site, way: Way, denied: list[str]) -> Branch | PlanningError:
        """Return the branch of a method at a site, if the methods before it in the chain of conditions do not apply."""
        try:
            inner = self._inside(site, way, denied)
        except PlanningError as error:
            return error
        if inner.levels > self._case.branch_depth:
            return _too_branched(inner, self._case.branch_depth)
        children: list[Node] = []
        method = way.method
        sites = {subtask.label: _below(inner, method.name, subtask) for subtask in method.subtasks}
        scope = {label: child.id for label, child in sites.items()}
        for subtask in method.subtasks:
            placed = _placed(sites[subtask.label], subtask, site.args, scope, self._case.placeholders)
            if isinstance(placed, PlanningError):
                return placed
            if placed.levels > self._case.branch_depth:
                return _too_branched(placed, self._case.branch_depth)
            made = self.expand(placed)
            if isinstance(made, PlanningError):
                return made
            children.append(made)
        return Branch(way=way, children=tuple(children))

    def _inside(self, site: Site, way: Way, denied: list[str]) -> Site:
        """Return the site as the subtasks of a method see it: under its condition, and excluding its alternatives."""
        if not any(other.method.when is not None for other in self._knowledge.ways[site.task]):
            return site
        met = () if way.method.when is None else (express(way.method.when, site.args, {}),)
        guards = (*(f"!({text})" for text in denied), *met)
        return replace(
            site,
            path=_joined(site.path, way.method.name),
            guards=(*site.guards, *guards),
            levels=site.levels + bool(guards),
            above=site.above,
        )


def _placed(
    site: Site,
    subtask: MethodTask,
    args: Mapping[str, Any],
    scope: Mapping[str, str],
    placeholders: Placeholders,
) -> Site | PlanningError:
    """Return the site of a subtask with its arguments and its condition."""
    try:
        given = bind(placeholders.fill_ids(dict(subtask.args)), args, scope)
        demand_small(given)
        guard = () if subtask.when is None else (express(subtask.when, args, scope),)
    except PlanningError as error:
        return error
    return replace(site, args=given, guards=(*site.guards, *guard), levels=site.levels + len(guard))


def _below(site: Site, method: str, subtask: MethodTask) -> Site:
    return Site(
        task=subtask.task,
        args={},
        path=_joined(site.path, subtask.label),
        key=f"{site.key}/{method}/{subtask.label}",
        guards=site.guards,
        levels=site.levels,
        depth=site.depth + 1,
        above=site,
    )


def _joined(path: str, name: str) -> str:
    return f"{path}{_JOINT}{name}" if path else name


def _runaway(site: Site, recursive: frozenset[str]) -> PlanningError | None:
    """Return why a site recurses forever, or too deep."""
    if site.depth > MAX_TASK_DEPTH:
        return PlanningError(
            f"tasks nest more than {MAX_TASK_DEPTH} deep: {_cycle(site)}",
            code="too_deep",
            remedy="give the methods on this way conditions under which they apply, so that they end",
        )
    if site.task not in recursive:
        return None
    known = canonical(dict(site.args))
    above = site.above
    while above is not None:
        if above.task == site.task and canonical(dict(above.args)) == known:
            return PlanningError(
                f"the task {site.task} comes up again below itself with the same arguments: {_cycle(site)}",
                code="endless_recursion",
                remedy="give one of its methods other subtasks or arguments, or a condition under which it ends",
            )
        above = above.above
    return None


def _stuck(site: Site, ranked: list[Way]) -> PlanningError:
    if ranked:
        return PlanningError(
            f"every method of the task {site.task} that applies was tried: "
            f"{', '.join(way.method.name for way in ranked)}",
            code="no_alternative_left",
            remedy="add a method, or hand the case to a person",
        )
    return PlanningError(
        f"no method of the task {site.task} applies (on the way {_way_to(site)})",
        code="no_applicable_method",
        remedy="add a method for this case, or correct the conditions of those that there are",
    )


def _too_branched(site: Site, limit: int) -> PlanningError:
    return PlanningError(
        f"more than {limit} conditions stand around the task {site.task} (on the way {_way_to(site)})",
        code="branch_depth",
        remedy="decide less at run time: choose by facts, or plan anew once more is known",
    )


def _tasks_above(site: Site) -> list[str]:
    found: list[str] = []
    here: Site | None = site
    while here is not None:
        found.append(here.task)
        here = here.above
    return found[::-1]


def _outermost(site: Site) -> str:
    return _tasks_above(site)[0]


def _way_to(site: Site) -> str:
    names = _tasks_above(site)
    shown = names if len(names) <= 12 else [*names[:5], "…", *names[-6:]]
    return " → ".join(shown)


def _cycle(site: Site) -> str:
    """Return the tasks from the last occurrence of this one to here; from the outermost if there is none."""
    names = _tasks_above(site)
    earlier = [index for index, name in enumerate(names[:-1]) if name == site.task]
    return " → ".join(names[earlier[-1] :]) if earlier else _way_to(site)
