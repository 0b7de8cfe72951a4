"""How free the order of a plan is: the number of orders in which its steps could run one by one.

The count is exact if no connected part of the plan has more than twenty steps: the orders of a set of steps are those
of the set without each step that could come last. Beyond that there are two bounds. Lower: a step comes before all that
wait for it with a probability of at least one over their number, itself included, and for trees this is the exact
count. Upper: every order is an interleaving of chains into which the steps are divided.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import comb, factorial, prod
from typing import NamedTuple

from tercet.contracts.steps.graph import Graph

EXACT_STEPS = 20
"""The largest connected part of a plan whose orders are counted exactly."""


class Flexibility(NamedTuple):
    """The number of linear orders of a plan; `low` and `high` are equal if it is exact."""

    low: int
    high: int

    @property
    def is_exact(self) -> bool:
        """Whether the number is exact."""
        return self.low == self.high


def flexibility(graph: Graph) -> Flexibility:
    """Return the number of orders in which the steps of a graph could run; zero if it has a cycle."""
    if not graph.is_acyclic:
        return Flexibility(0, 0)
    low = high = 1
    placed = 0
    for part in _parts(graph):
        found = _counted(graph, part) if len(part) <= EXACT_STEPS else _bounded(graph, part)
        placed += len(part)
        ways = comb(placed, len(part))  # interleavings with the previous parts
        low, high = low * found.low * ways, high * found.high * ways
    return Flexibility(low, high)


def _parts(graph: Graph) -> Iterator[list[int]]:
    """Return the steps of each connected part, each in topological order."""
    part_of: dict[int, int] = {}
    for first in range(len(graph.predecessors)):
        stack = [first] if first not in part_of else []
        while stack:
            step = stack.pop()
            if step not in part_of:
                part_of[step] = first
                stack += [*graph.predecessors[step], *graph.successors[step]]
    parts: dict[int, list[int]] = {}
    for step in graph.order:
        parts.setdefault(part_of[step], []).append(step)
    yield from parts.values()


def _counted(graph: Graph, part: Sequence[int]) -> Flexibility:
    """Count by dynamic programming over the sets of steps that are closed under their predecessors, by size."""
    position = {step: index for index, step in enumerate(part)}
    needs = [sum(1 << position[earlier] for earlier in graph.predecessors[step]) for step in part]
    counts = {0: 1}
    for _ in part:
        larger: dict[int, int] = {}
        for done, count in counts.items():
            for index, needed in enumerate(needs):
                bit = 1 << index
                if not done & bit and needed & done == needed:
                    larger[done | bit] = larger.get(done | bit, 0) + count
        counts = larger
    (found,) = counts.values()
    return Flexibility(found, found)


def _bounded(graph: Graph, part: Sequence[int]) -> Flexibility:
    every = factorial(len(part))
    low = -(-every // prod(_waiting(graph, part)))
    high = every // prod(factorial(length) for length in _chains(graph, part))
    return Flexibility(max(1, low), high)


def _waiting(graph: Graph, part: Sequence[int]) -> list[int]:
    """Return for each step how many wait for it, itself included."""
    after = {step: 1 << index for index, step in enumerate(part)}
    for step in reversed(part):
        for later in graph.successors[step]:
            after[step] |= after[later]
    return [after[step].bit_count() for step in part]


def _chains(graph: Graph, part: Sequence[int]) -> list[int]:
    """Return the lengths of chains that the steps divide into: each step extends a chain that ends right before it."""
    length: dict[int, int] = {}
    """The length of each chain, by the step that ends it."""
    for step in part:
        before = next((earlier for earlier in graph.predecessors[step] if earlier in length), None)
        length[step] = 1 if before is None else length.pop(before) + 1
    return list(length.values())
