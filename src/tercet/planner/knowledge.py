"""A method library made ready: rules compiled, subtasks in an order that can be followed, and what is known of a case.

A library that the checks of its pack let through has no gaps; this file relies on that.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tercet.contracts.shape import as_list, as_object
from tercet.contracts.steps.graph import topological_order
from tercet.contracts.tasks import Fact, Method, Task, TaskLibrary
from tercet.contracts.values import references
from tercet.planner.sources import Placeholders, PlanningError
from tercet.policy.expressions import Rule, Scope, compile_amount, compile_rule, planning_scope
from tercet.policy.resolution import ResolutionError, resolve

MAX_BRANCH_DEPTH = 4
"""The default limit on nested conditions around a step."""


def scope_of(library: TaskLibrary) -> Scope:
    """Return the variables by which the methods of a library are chosen."""
    return planning_scope(tuple((fact.name, fact.type) for fact in library.facts))


@dataclass(frozen=True, kw_only=True)
class Way:
    """A compiled method: the dependencies, order and last subtasks."""

    method: Method
    rank: int
    """Its position among the methods of its task: of two with the same cost, the first is chosen."""
    applies: Rule | None
    cost: Rule | float
    before: tuple[tuple[int, ...], ...]
    order: tuple[int, ...]
    last: tuple[int, ...]

    @classmethod
    def of(cls, method: Method, rank: int, scope: Scope) -> Way:
        """Return the compiled form of a method."""
        before = ordering_of(method)
        awaited = {index for waiting in before for index in waiting}
        return cls(
            method=method,
            rank=rank,
            applies=None if method.applies is None else compile_rule(method.applies, scope),
            cost=compile_amount(method.cost, scope) if isinstance(method.cost, str) else float(method.cost),
            before=before,
            order=tuple(topological_order(before)[1]),
            last=tuple(index for index in range(len(before)) if index not in awaited),
        )


def ordering_of(method: Method) -> tuple[tuple[int, ...], ...]:
    """Return for each subtask of a method the ones that it is declared to come after."""
    if method.ordering == "total":
        return tuple(() if not index else (index - 1,) for index in range(len(method.subtasks)))
    position = {subtask.label: index for index, subtask in enumerate(method.subtasks)}
    return tuple(
        tuple(dict.fromkeys(position[name] for name in subtask.after if name in position))
        for subtask in method.subtasks
    )


class Knowledge:
    """The compiled library of a pack."""

    def __init__(self, library: TaskLibrary) -> None:
        self.library = library
        self.tasks: Mapping[str, Task] = library.task
        self.scope = scope_of(library)

    @cached_property
    def ways(self) -> Mapping[str, tuple[Way, ...]]:
        """The compiled methods of each abstract task."""
        return {
            name: tuple(Way.of(method, rank, self.scope) for rank, method in enumerate(methods))
            for name, methods in self.library.methods_of.items()
        }

    @cached_property
    def recursive(self) -> frozenset[str]:
        """The tasks that can occur below themselves."""
        below = {
            name: {subtask.task for method in methods for subtask in method.subtasks}
            for name, methods in self.library.methods_of.items()
        }
        return frozenset(name for name in below if name in _reachable(below, below[name]))

    def case(
        self,
        request: Mapping[str, Any],
        evidence: Mapping[str, Any],
        *,
        branch_depth: int = MAX_BRANCH_DEPTH,
        placeholders: Placeholders | None = None,
    ) -> Case:
        """Return the facts of one request, and the limit on conditions over observed values."""
        filling = placeholders or Placeholders(input=dict(request), known=evidence)
        return Case(self, request, evidence, branch_depth, filling)


def _reachable(below: Mapping[str, set[str]], start: set[str]) -> set[str]:
    found: set[str] = set()
    stack = list(start)
    while stack:
        if (name := stack.pop()) not in found:
            found.add(name)
            stack.extend(below.get(name, ()))
    return found


class Case:
    """A request, the evidence of its snapshot, and the facts derived from them."""

    def __init__(
        self,
        knowledge: Knowledge,
        request: Mapping[str, Any],
        evidence: Mapping[str, Any],
        branch_depth: int,
        placeholders: Placeholders,
    ) -> None:
        self.branch_depth = branch_depth
        """The limit on nested conditions around a step."""
        self.placeholders = placeholders
        """The placeholders for evidence ids of tasks, methods and facts."""
        self._knowledge = knowledge
        self._results = {references.REQUEST: request}
        self._evidence = evidence
        self._facts = dict(self._known(knowledge.library.facts))

    def ranked(self, task: str, args: Mapping[str, Any]) -> list[Way]:
        """Return the applicable methods of a task, cheapest first. A rule that fails does not apply."""
        ways = self._knowledge.ways.get(task, ())
        if not any(way.applies or isinstance(way.cost, Rule) for way in ways):
            return sorted(ways, key=lambda way: (way.cost, way.rank))
        activation = self._activation(args)
        costs = {way.rank: self._cost(way, activation) for way in ways if self._applies(way, activation)}
        usable = [way for way in ways if costs.get(way.rank) is not None]
        return sorted(usable, key=lambda way: (costs[way.rank], way.rank))

    def _activation(self, args: Mapping[str, Any]) -> Any:
        known = dict(self._resolved(args))
        values = {"request": dict(self._results[references.REQUEST]), "args": known, **self._facts}
        return self._knowledge.scope.activation(values)

    def _applies(self, way: Way, activation: Any) -> bool:
        return way.applies is None or way.applies.evaluate(activation).holds

    def _cost(self, way: Way, activation: Any) -> float | None:
        if not isinstance(way.cost, Rule):
            return way.cost
        found = way.cost.evaluate(activation).value
        is_number = isinstance(found, int | float) and not isinstance(found, bool)
        return float(found) if is_number and math.isfinite(found) else None

    def _resolved(self, args: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
        """Return the arguments whose values are known at planning time."""
        for name, value in args.items():
            try:
                yield name, resolve(value, self._results, self._evidence)
            except ResolutionError:
                continue

    def _known(self, facts: tuple[Fact, ...]) -> Iterator[tuple[str, Any]]:
        for fact in facts:
            try:
                filled = self.placeholders.fill_ids(fact.value)
            except PlanningError:  # the request lacks the field: the fact is unknown
                continue
            for _, value in self._resolved({fact.name: filled}):
                if _is_of(fact.type, value):
                    yield f"state.{fact.name}", value


def _is_of(kind: str, value: Any) -> bool:
    """Return whether a value has the declared type of its fact; otherwise the fact is unknown."""
    match kind:
        case "string":
            return isinstance(value, str)
        case "boolean":
            return isinstance(value, bool)
        case "object":
            return as_object(value) is not None
        case "list":
            return as_list(value) is not None
        case "integer":
            return isinstance(value, int) and not isinstance(value, bool)
        case _:
            return isinstance(value, int | float) and not isinstance(value, bool)
