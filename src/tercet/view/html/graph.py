"""The graph of a plan as SVG shapes: boxes with the state of each step, and lines between them."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Literal, TypeAlias

import msgspec

from tercet.contracts.lane import LANE
from tercet.view.html.safe_text import SafeText
from tercet.view.plan import PlanView, StepView, critical_path, find_layers
from tercet.view.text import count, duration_text
from tercet.view.vocabulary import JUDGED, Tone

SWEEPS = 8

Place: TypeAlias = int
"""A step by its number, or a bend by a number beyond the steps'."""


class Size(msgspec.Struct, frozen=True, kw_only=True):
    """The size and the distances of the boxes."""

    width: float
    height: float
    gap: float
    rise: float
    """Between two layers."""
    bend: float
    """The width of a line that passes a layer."""


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """A line from one step to another over the points that it passes."""

    start: int
    end: int
    points: tuple[tuple[float, float], ...]
    is_back: bool


class Layout(msgspec.Struct, frozen=True, kw_only=True):
    """The upper left corner of every box, the lines, and the size of the drawing."""

    width: float
    height: float
    corners: tuple[tuple[float, float], ...]
    lines: tuple[Line, ...]


def arrange(predecessors: Sequence[Sequence[int]], size: Size) -> Layout:
    """Return a layout for steps by their predecessors."""
    depths, back = find_layers(predecessors)
    chains = list(_chains(predecessors, depths, back))
    layers = _layers(depths, chains)
    neighbours = _neighbours(chains)
    xs = _centres(_untangled(layers, neighbours), neighbours, len(predecessors), size)
    left = min((x - _half(place, len(predecessors), size) for place, x in xs.items()), default=0.0)
    xs = {place: x - left for place, x in xs.items()}
    level = {place: depth for depth, layer in enumerate(layers) for place in layer}
    tops = {place: depth * (size.height + size.rise) for place, depth in level.items()}
    return Layout(
        width=max((x + _half(place, len(predecessors), size) for place, x in xs.items()), default=0.0),
        height=max(0.0, len(layers) * (size.height + size.rise) - size.rise),
        corners=tuple((xs[step] - size.width / 2, tops[step]) for step in range(len(predecessors))),
        lines=tuple(
            _line(chain, xs, tops, size, is_back=chain[-1] in back.get(chain[0], ())) for chain in chains
        ),
    )


def _half(place: Place, steps: int, size: Size) -> float:
    return (size.width if place < steps else size.bend) / 2


# --- layers ---


def _chains(
    predecessors: Sequence[Sequence[int]], depths: Sequence[int], back: dict[int, set[int]]
) -> Iterator[tuple[Place, ...]]:
    """Return every line as the places that it passes: the step above, bends, and the step below."""
    following = len(predecessors)
    for step, needed in enumerate(predecessors):
        for before in dict.fromkeys(needed):
            between = abs(depths[step] - depths[before]) - 1 if step not in back.get(before, ()) else 0
            yield (before, *range(following, following + between), step)
            following += between


def _layers(depths: Sequence[int], chains: Sequence[tuple[Place, ...]]) -> list[list[Place]]:
    layers: list[list[Place]] = [[] for _ in range(max(depths, default=-1) + 1)]
    for step, depth in enumerate(depths):
        layers[depth].append(step)
    for chain in chains:
        for offset, bend in enumerate(chain[1:-1], start=1):
            layers[depths[chain[0]] + offset].append(bend)
    return layers


# --- the order within a layer ---


class _Neighbours(msgspec.Struct, frozen=True, kw_only=True):
    above: dict[Place, list[Place]]
    below: dict[Place, list[Place]]


def _neighbours(chains: Sequence[tuple[Place, ...]]) -> _Neighbours:
    above: dict[Place, list[Place]] = {}
    below: dict[Place, list[Place]] = {}
    for chain in chains:
        for upper, lower in pairwise(chain):
            above.setdefault(lower, []).append(upper)
            below.setdefault(upper, []).append(lower)
    return _Neighbours(above=above, below=below)


def _untangled(layers: list[list[Place]], neighbours: _Neighbours) -> list[list[Place]]:
    best, fewest = layers, _crossings(layers, neighbours)
    current = layers
    for sweep in range(SWEEPS):
        if not fewest:
            break
        current = _swept(current, neighbours, is_down=sweep % 2 == 0)
        found = _crossings(current, neighbours)
        if found < fewest:
            best, fewest = current, found
    return best


def _swept(layers: list[list[Place]], neighbours: _Neighbours, *, is_down: bool) -> list[list[Place]]:
    """Return the layers, each ordered by the mean position of its neighbours in the layer before."""
    near = neighbours.above if is_down else neighbours.below
    ordered = [list(layer) for layer in layers]
    numbers = range(1, len(layers)) if is_down else range(len(layers) - 2, -1, -1)
    for number in numbers:
        fixed = {place: at for at, place in enumerate(ordered[number - 1 if is_down else number + 1])}
        wish = {place: _mean([fixed[n] for n in near.get(place, ()) if n in fixed], at)
                for at, place in enumerate(ordered[number])}  # fmt: skip
        ordered[number].sort(key=wish.__getitem__)
    return ordered


def _mean(values: Sequence[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise


def _crossings(layers: list[list[Place]], neighbours: _Neighbours) -> int:
    total = 0
    for upper, lower in pairwise(layers):
        at = {place: number for number, place in enumerate(lower)}
        seen: list[int] = []
        for place in upper:
            ends = sorted(at[n] for n in neighbours.below.get(place, ()) if n in at)
            total += sum(len(seen) - bisect_left(seen, end + 1) for end in ends)
            for end in ends:
                insort(seen, end)
    return total


# --- coordinates ---


def _centres(
    layers: list[list[Place]], neighbours: _Neighbours, steps: int, size: Size
) -> dict[Place, float]:
    """Return the centre of every place: as near to its neighbours as the places beside it allow."""
    xs: dict[Place, float] = {}
    for layer in layers:
        _spread(layer, dict.fromkeys(layer, 0.0), xs, steps, size)
    for sweep in range(SWEEPS):
        near = neighbours.above if sweep % 2 == 0 else neighbours.below
        for layer in layers if sweep % 2 == 0 else reversed(layers):
            wish = {place: _mean([xs[n] for n in near.get(place, ())], xs[place]) for place in layer}
            _spread(layer, wish, xs, steps, size)
    return xs


def _spread(
    layer: list[Place], wish: dict[Place, float], xs: dict[Place, float], steps: int, size: Size
) -> None:
    """Move places apart that are too near, in groups around the mean of their wished positions."""
    groups: list[tuple[list[Place], float]] = []  # places, and the middle of the first
    for place in layer:
        groups.append(([place], wish[place]))
        while len(groups) > 1 and _overlap(groups[-2], groups[-1], steps, size):
            (before, _), (after, _) = groups[-2:]
            join_parts = [*before, *after]
            offsets = _offsets(join_parts, steps, size)
            first = sum(wish[p] - offset for p, offset in zip(join_parts, offsets, strict=True)) / len(
                join_parts
            )
            groups[-2:] = [(join_parts, first)]
    for places, first in groups:
        for place, offset in zip(places, _offsets(places, steps, size), strict=True):
            xs[place] = first + offset


def _offsets(places: Sequence[Place], steps: int, size: Size) -> list[float]:
    offsets = [0.0]
    for before, after in pairwise(places):
        offsets.append(offsets[-1] + _half(before, steps, size) + size.gap + _half(after, steps, size))
    return offsets


def _overlap(
    left: tuple[list[Place], float], right: tuple[list[Place], float], steps: int, size: Size
) -> bool:
    last = left[1] + _offsets(left[0], steps, size)[-1] + _half(left[0][-1], steps, size)
    return last + size.gap > right[1] - _half(right[0][0], steps, size)


def _line(
    chain: tuple[Place, ...], xs: dict[Place, float], tops: dict[Place, float], size: Size, *, is_back: bool
) -> Line:
    start, *bends, end = chain
    points = [(xs[start], tops[start] + size.height)]
    for bend in bends:
        points += [(xs[bend], tops[bend]), (xs[bend], tops[bend] + size.height)]
    return Line(start=start, end=end, points=(*points, (xs[end], tops[end])), is_back=is_back)


# --- graph ---


MOST = 60
"""The number of steps that are drawn."""

MARGIN = 6.0
_SIZE = Size(width=248, height=74, gap=28, rise=46, bend=18)
_GATE = 20.0
"""The extra height of the boxes if a step has waited for people."""
_ARROW = 7.0
_WIDEST = 1_450.0
_WIDEST_ID, _WIDEST_TOOL, _WIDEST_HOW, _WIDEST_GATE = 24, 30, 34, 34

StepShape: TypeAlias = Literal["tool", "note", "lane"]


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """A step in the graph."""

    x: float
    y: float
    width: float
    height: float
    anchor: str
    id: str
    tool: str
    how: str
    gate: str
    mark: str
    tone: Tone
    title: str
    shape: StepShape = "tool"
    tag: str = ""
    """Whether it is conditional or optional."""
    is_critical: bool = False
    """Whether it is on the critical path."""


class Edge(msgspec.Struct, frozen=True, kw_only=True):
    """A line between two steps: a path, and its arrow head."""

    path: str
    head: str
    is_back: bool = False
    """Whether it closes a cycle."""
    is_critical: bool = False


class Drawing(msgspec.Struct, frozen=True, kw_only=True):
    """The graph of a plan."""

    width: float
    height: float
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    summary: str
    """The graph in words."""
    critical: str = ""
    """The critical path in words; empty if all steps are on it."""
    is_wide: bool = False
    """Whether it is too wide to be legible when scaled to the page."""
    left_out: str = ""


def step_anchor(plan: PlanView, number: int) -> str:
    """Return the anchor of a step's details, by its position from 1."""
    return f"plan-{plan.number}-step-{number}"


def draw_plan(plan: PlanView, safe: SafeText) -> Drawing | None:
    """Return the graph of a plan; None if it has no steps."""
    shown, total = plan.steps[:MOST], len(plan.steps)
    if not shown:
        return None
    height = _SIZE.height + (_GATE if any(_gate_text(step) for step in shown) else 0)
    size = Size(width=_SIZE.width, height=height, gap=_SIZE.gap, rise=_SIZE.rise, bend=_SIZE.bend)
    drawn = [[p for p in step.predecessors if p < len(shown)] for step in shown]
    layout = arrange(drawn, size)
    path = critical_path(shown)
    nodes = tuple(
        _node(
            step,
            step_anchor(plan, number),
            (x + MARGIN, y + MARGIN),
            size,
            safe,
            is_critical=number - 1 in path,
        )
        for number, (step, (x, y)) in enumerate(zip(shown, layout.corners, strict=True), start=1)
    )
    followed = frozenset(pairwise(path))
    return Drawing(
        width=round(layout.width + 2 * MARGIN, 1),
        height=round(layout.height + 2 * MARGIN, 1),
        nodes=nodes,
        edges=tuple(_edge(line, is_critical=(line.start, line.end) in followed) for line in layout.lines),
        summary=_summary(shown, drawn, safe),
        critical=_path_text([shown[each] for each in path], safe),
        is_wide=layout.width > _WIDEST,
        left_out=f"The first {MOST} of {total:,} steps are drawn." if total > MOST else "",
    )


def _gate_text(step: StepView) -> str:
    """Return the last answer about a step; while it waits, the line above says for whom."""
    return step.people[-1] if step.people else ""


def _path_text(steps: Sequence[StepView], safe: SafeText) -> str:
    if not steps:
        return ""
    took = sum(step.latency_ms or 0 for step in steps)
    names = " → ".join(safe.text(step.id, 60) for step in steps[:12])
    return f"{names}{' → …' if len(steps) > 12 else ''}{f', {duration_text(took)} in calls' if took else ''}"


def _shape(tool: str) -> StepShape:
    return "lane" if tool.startswith(f"{LANE}.") else "note" if tool == "note" else "tool"


def _node(
    step: StepView,
    anchor: str,
    corner: tuple[float, float],
    size: Size,
    safe: SafeText,
    *,
    is_critical: bool,
) -> Node:
    bad = next((chip.text for chip in step.verdicts if chip.tone == "bad"), "")
    name, tool = safe.text(step.id, 80), safe.text(step.tool, 200)
    return Node(
        x=round(corner[0], 1),
        y=round(corner[1], 1),
        width=size.width,
        height=size.height,
        anchor=anchor,
        id=_fit(name, _WIDEST_ID),
        tool=_fit(tool, _WIDEST_TOOL),
        how=_fit(safe.text(bad or _how(step), 200), _WIDEST_HOW),
        gate=_fit(safe.text(_gate_text(step), 200), _WIDEST_GATE),
        mark="✗" if bad else step.mark,
        tone="bad" if bad else step.tone,
        title=f"{name}: {tool}, {step.progress}",
        shape=_shape(step.tool),
        tag="if" if step.when else "optional" if step.is_optional else "",
        is_critical=is_critical,
    )


def _how(step: StepView) -> str:
    if step.is_undone:
        return step.word
    if step.waits_for:
        return f"waits for {', '.join(step.waits_for)}"
    is_accepted = any(chip.text == JUDGED["accept"].word for chip in step.verdicts)
    word, *rest = step.progress.split(" · ")
    return " · ".join(("accepted" if is_accepted else word, *rest))


def _fit(text: str, letters: int) -> str:
    """Return a text cut to the width of a number of small letters; capitals count for more, since no font is measured."""
    line, room = " ".join(text.split()), float(letters)
    for number, letter in enumerate(line):
        room -= 1.0 if letter.islower() or letter in "_.,:; ·-" or letter.isdigit() else 1.35
        if room < 0:
            return f"{line[: max(1, number - 1)]}…"
    return line


def _edge(line: Line, *, is_critical: bool = False) -> Edge:
    """Return a smooth line over its points, straight down where it passes a layer."""
    (x, y), *rest = [(px + MARGIN, py + MARGIN) for px, py in line.points]
    end_x, end_y = rest[-1]
    rest[-1] = (end_x, end_y - _ARROW)
    path = [f"M{x:.1f} {y:.1f}"]
    for number, (to_x, to_y) in enumerate(rest):
        if number % 2 and to_x == x:
            path.append(f"L{to_x:.1f} {to_y:.1f}")
        else:
            middle = (y + to_y) / 2
            path.append(f"C{x:.1f} {middle:.1f} {to_x:.1f} {middle:.1f} {to_x:.1f} {to_y:.1f}")
        x, y = to_x, to_y
    head = f"{end_x - 4.5:.1f},{end_y - _ARROW:.1f} {end_x + 4.5:.1f},{end_y - _ARROW:.1f} {end_x:.1f},{end_y:.1f}"
    return Edge(path=" ".join(path), head=head, is_back=line.is_back, is_critical=is_critical)


def _summary(steps: Sequence[StepView], predecessors: Sequence[Sequence[int]], safe: SafeText) -> str:
    """Return the graph in words: each step with the steps before it."""
    names = [safe.text(step.id, 80) for step in steps]
    listed = [
        f"{name} ({step.progress}){f' after {join_names}' if (join_names := ' and '.join(names[each] for each in before)) else ''}"
        for name, step, before in list(zip(names, steps, predecessors, strict=True))[:12]
    ]
    more = f"; and {count(len(steps) - 12, 'more step')}" if len(steps) > 12 else ""
    return f"A graph of {count(len(steps), 'step')}: {'; '.join(listed)}{more}."
