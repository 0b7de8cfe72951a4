"""The dependency graph of a plan: edges, order, critical path and width.

Steps are numbered by their position. An edge is a declared `depends_on` or a reference; names without a step are kept
separately, since the critic refuses them. Everything is linear in steps and edges.

A step that refers to an output of the run waits for every step that runs before outputs are judged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tercet.contracts.values import references
from tercet.contracts.values.references import Reference

if TYPE_CHECKING:
    from tercet.contracts.plan import Plan, Step  # which imports this file for `Plan.graph`


@dataclass(frozen=True, slots=True)
class Graph:
    """Edges between steps by position, and a topological order if there is one."""

    predecessors: tuple[tuple[int, ...], ...]
    successors: tuple[tuple[int, ...], ...]
    unknown: tuple[tuple[int, str], ...]
    """Pairs of a step and an unknown name that it depends on."""
    order: tuple[int, ...]
    """A deterministic topological order; shorter than the plan if there is a cycle."""
    takers: tuple[int, ...] = ()
    """The steps that refer to the outputs of the run."""
    delivery: frozenset[int] = frozenset()
    """These steps and all that wait for them: they run once the outputs are accepted."""

    @property
    def is_acyclic(self) -> bool:
        """Whether the graph has no cycle."""
        return len(self.order) == len(self.predecessors)

    def cycle(self) -> tuple[int, ...]:
        """Return the steps of one cycle in the order in which they wait for each other; empty if there is none."""
        if self.is_acyclic:
            return ()
        ordered = set(self.order)
        step = next(index for index in range(len(self.predecessors)) if index not in ordered)
        seen: dict[int, int] = {}
        path: list[int] = []
        while step not in seen:
            seen[step] = len(path)
            path.append(step)
            step = next(p for p in self.predecessors[step] if p not in ordered)
        return tuple(reversed(path[seen[step] :]))

    def ancestors(self, step: int) -> frozenset[int]:
        """Return every step that must complete before this one."""
        found: set[int] = set()
        stack = list(self.predecessors[step])
        while stack:
            index = stack.pop()
            if index not in found:
                found.add(index)
                stack.extend(self.predecessors[index])
        return frozenset(found)

    def finish_times(self, durations: Sequence[int]) -> list[int]:
        """Return when each step ends if it starts as early as possible; steps on a cycle end at 0."""
        ends = [0] * len(durations)
        for step in self.order:
            start = 0
            for before in self.predecessors[step]:
                start = max(start, ends[before])
            ends[step] = start + durations[step]
        return ends

    def critical_path(self, durations: Sequence[int]) -> tuple[int, ...]:
        """Return the longest chain of steps, first to last, ignoring steps on or behind a cycle."""
        ends = self.finish_times(durations)
        if not self.order:
            return ()
        step = max(self.order, key=lambda index: (ends[index], -index))
        path = [step]
        while self.predecessors[step]:
            step = max(self.predecessors[step], key=lambda index: (ends[index], -index))
            path.append(step)
        return tuple(reversed(path))

    def width(self, durations: Sequence[int]) -> int:
        """Return how many steps are active at once if each starts as early as possible."""
        ends = self.finish_times(durations)
        moments: list[tuple[int, int]] = []
        for step, end in enumerate(ends):
            moments += [(end - durations[step], 1), (end, -1)]
        active = widest = 0
        for _, change in sorted(moments):
            active += change
            widest = max(widest, active)
        return widest


def build(plan: Plan) -> Graph:
    """Return the graph of a plan; `plan.graph` caches it."""
    # Out of their dicts: reading a field of a contract by its name takes several times as long.
    steps = [(step, vars(step)) for step in plan.steps]
    position = {said["id"]: index for index, (_, said) in enumerate(steps)}
    predecessors: list[tuple[int, ...]] = []
    unknown: list[tuple[int, str]] = []
    takers: list[int] = []
    for index, (step, said) in enumerate(steps):
        needed: dict[int, None] = {}
        named = referenced_steps(step)
        if named and references.OUTPUTS in named and references.OUTPUTS not in position:
            takers.append(index)
        for name in (*said["depends_on"], *named):
            target = position.get(name)
            if target is None:
                unknown.append((index, name))
            else:
                needed[target] = None
        predecessors.append(tuple(needed))
    drawn = _ordered(predecessors, unknown)
    return _with_delivery(drawn, takers) if takers else drawn


MAX_TAKERS = 64
"""The maximum number of steps that take outputs: each of them waits for all steps that nothing else waits for."""


def _with_delivery(drawn: Graph, takers: list[int]) -> Graph:
    """Return the graph with edges from the steps that take outputs to all steps that produce them."""
    delivery: set[int] = set()
    waiting = list(takers)
    while waiting:
        step = waiting.pop()
        if step not in delivery:
            delivery.add(step)
            waiting += drawn.successors[step]
    last = [
        step
        for step, after in enumerate(drawn.successors)
        if step not in delivery and delivery.issuperset(after)
    ]
    predecessors = list(drawn.predecessors)
    for step in takers[:MAX_TAKERS]:
        if delivery.isdisjoint(predecessors[step]):
            predecessors[step] = tuple(dict.fromkeys((*predecessors[step], *last)))
    found = _ordered(predecessors, list(drawn.unknown))
    return replace(found, takers=tuple(takers), delivery=frozenset(delivery))


def referenced_steps(step: Step) -> list[str]:
    """Return the names of the steps that a step's parameters and condition refer to."""
    said = vars(step)
    found = () if said.get("is_written_out") else step.found
    named = [name for item in found if type(item) is Reference for name in item.names]
    if (when := said["when"]) is not None:
        named += references.names(when)
    return [name for name in named if name not in references.RESERVED_IDS] if named else named


def read_steps(plan: Plan, index: int) -> list[str]:
    """Return the names of the steps whose results a step reads, also by way of the outputs of the run."""
    named = referenced_steps(plan.steps[index])
    is_taker = references.OUTPUTS in named and index in plan.graph.delivery
    if not is_taker or len(plan.graph.takers) > MAX_TAKERS:
        return named
    behind = (name for item in plan.found_outputs if type(item) is Reference for name in item.names)
    return [*named, *(name for name in behind if name not in references.RESERVED_IDS)]


def _ordered(predecessors: list[tuple[int, ...]], unknown: list[tuple[int, str]]) -> Graph:
    successors, order = topological_order(predecessors)
    return Graph(tuple(predecessors), tuple(map(tuple, successors)), tuple(unknown), tuple(order))


def topological_order(predecessors: Sequence[Sequence[int]]) -> tuple[list[list[int]], list[int]]:
    """Return the successors of each item, and a topological order; items on a cycle are omitted from it."""
    successors: list[list[int]] = [[] for _ in predecessors]
    waiting = [len(needed) for needed in predecessors]
    for item, needed in enumerate(predecessors):
        for before in needed:
            successors[before].append(item)
    order = [item for item, count in enumerate(waiting) if not count]
    for item in order:  # grows during iteration: Kahn's algorithm
        for after in successors[item]:
            waiting[after] -= 1
            if not waiting[after]:
                order.append(after)
    return successors, order
