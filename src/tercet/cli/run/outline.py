"""A plan as a tree of steps for the terminal.

A plan is a graph. In the tree, the parent of a step is the dependency with the longest path to it; the other
dependencies are named at the step. A step on a cycle is a root. Of a long plan, the first steps and the offending one
are listed without a tree.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tercet.contracts.steps.graph import Graph

MOST = 30
"""Plans with more steps are shortened."""
FIRST = 12
"""The number of first steps that are shown of such a plan."""
DEEPEST = 8
"""The largest depth of the tree; deeper steps are shown at this depth."""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A step in the tree, or a number of omitted steps."""

    step: int | None
    """None for omitted steps."""
    skipped: int = 0
    first: str = ""
    """The prefix of its first line."""
    rest: str = ""
    """The prefix of its other lines."""
    beside: tuple[int, ...] = ()
    """Its dependencies besides its parent."""


def outline(graph: Graph, offending: int | None) -> Iterator[Entry]:
    """Return the entries of a plan's tree, from the top."""
    size = len(graph.predecessors)
    if size > MOST:
        yield from _flat(graph, size, offending)
        return
    parents = _parents(graph)
    children: dict[int | None, list[int]] = {}
    for step, parent in enumerate(parents):
        children.setdefault(parent, []).append(step)
    for root in children.get(None, []):
        yield from _branch(graph, children, root, "", "", None)


def _branch(
    graph: Graph, children: dict[int | None, list[int]], step: int, first: str, rest: str, parent: int | None
) -> Iterator[Entry]:
    own = children.get(step, [])
    stem = f"{rest}│  " if own else f"{rest}   "
    beside = tuple(p for p in graph.predecessors[step] if p != parent)
    yield Entry(step=step, first=first, rest=stem, beside=beside)
    for child in own:
        is_last = child == own[-1]
        yield from _branch(
            graph,
            children,
            child,
            f"{rest}{'└─ ' if is_last else '├─ '}",
            f"{rest}{'   ' if is_last else '│  '}",
            step,
        )


def _parents(graph: Graph) -> list[int | None]:
    """Return the parent of each step; None for roots."""
    depth = [0] * len(graph.predecessors)
    parents: list[int | None] = [None] * len(graph.predecessors)
    for step in graph.order:
        if not graph.predecessors[step]:
            continue
        last = max(graph.predecessors[step], key=lambda before: (depth[before], before))
        if depth[last] < DEEPEST:
            parents[step], depth[step] = last, depth[last] + 1
        else:
            parents[step], depth[step] = parents[last], depth[last]
    return parents


def _flat(graph: Graph, size: int, offending: int | None) -> Iterator[Entry]:
    shown = list(range(FIRST)) if offending is None else sorted({*range(FIRST), offending})
    for step, gap in _with_gaps(shown, size):
        yield Entry(step=step, rest="   ", beside=graph.predecessors[step])
        if gap:
            yield Entry(step=None, skipped=gap)


def _with_gaps(shown: list[int], size: int) -> Iterable[tuple[int, int]]:
    """Yield each shown step with the number of steps that are omitted after it."""
    return [(step, after - step - 1) for step, after in zip(shown, [*shown[1:], size], strict=True)]
