"""A plan as an outline: which steps are shown, in which order, and what hangs under what.

A plan is a graph. As a tree, each step hangs under the step that it waits for last: the one with the longest way to
it; further ones are named at the step. A step on a cycle has no such place and stands at the left. Long plans are
listed flat, their first steps and the offending one, since nobody reads a tree of a thousand lines.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tercet.contracts.steps.graph import Graph

MOST = 30
"""A plan of more steps is not shown whole."""
FIRST = 12
"""How many steps of such a plan are shown from its beginning."""
DEEPEST = 8
"""From here on a tree grows no deeper: a step stands beside the one it waits for."""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A step in the outline, or a number of steps left out."""

    step: int | None
    """None where steps are left out."""
    skipped: int = 0
    first: str = ""
    """What is drawn before its first line."""
    rest: str = ""
    """What is drawn before its other lines."""
    beside: tuple[int, ...] = ()
    """The steps that it also waits for, besides the one that it hangs under."""


def outline(graph: Graph, offending: int | None) -> Iterator[Entry]:
    """The entries of a plan's outline, from the top."""
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
    """For each step the one that it hangs under; None for those at the left."""
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
    """Each shown step with the number of steps that are left out after it."""
    return [(step, after - step - 1) for step, after in zip(shown, [*shown[1:], size], strict=True)]
