"""The layout of a plan's graph: layers from top to bottom, with few crossings.

A line that spans several layers gets a place (a bend) in each layer between, so that it runs beside the boxes there.
In a layer, places are ordered by their neighbours, back and forth a few times; the order with the fewest crossings is
used. A cycle, which no plan may have, is cut at one of its lines.

Pure and the same for the same plan. Linear in steps and lines for each sweep, but for counting crossings.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TypeAlias

import msgspec

from tercet.view.plan import find_layers

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
