"""Small charts as SVG shapes: lines of rates, and stacked bars of counts, over time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tercet.view.vocabulary import Tone

WIDTH, HEIGHT = 480.0, 190.0
LEFT, RIGHT, TOP, BOTTOM = 52.0, 12.0, 12.0, 28.0
_MOST_TICKS = 6


@dataclass(frozen=True, kw_only=True)
class Tick:
    """A label at an axis."""

    at: float
    text: str


@dataclass(frozen=True, kw_only=True)
class Block:
    """A part of a stacked bar."""

    x: float
    y: float
    width: float
    height: float
    tone: Tone
    title: str


@dataclass(frozen=True, kw_only=True)
class Chart:
    """A chart with its text alternative: the table that it is drawn from."""

    title: str
    summary: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    ticks: tuple[Tick, ...]
    levels: tuple[Tick, ...]
    blocks: tuple[Block, ...] = ()
    paths: tuple[str, ...] = ()
    dots: tuple[tuple[float, float, str], ...] = ()
    note: str = ""
    width: float = WIDTH
    height: float = HEIGHT
    left: float = LEFT
    right: float = WIDTH - RIGHT
    base: float = HEIGHT - BOTTOM


def _x(place: int, number: int) -> float:
    return round(LEFT + (WIDTH - LEFT - RIGHT) * (place + 0.5) / max(1, number), 1)


def _y(value: float, most: float) -> float:
    return round(HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (value / most if most else 0.0), 1)


def _ticks(labels: Sequence[str]) -> tuple[Tick, ...]:
    every = max(1, -(-len(labels) // _MOST_TICKS))
    return tuple(
        Tick(at=_x(place, len(labels)), text=labels[place]) for place in range(0, len(labels), every)
    )


def line_chart(
    title: str, labels: Sequence[str], values: Sequence[float | None], texts: Sequence[str], *, note: str = ""
) -> Chart:
    """Return a line over time; a period without a value leaves a gap."""
    known = [value for value in values if value is not None]
    most = _round_up(max(known, default=1.0) or 1.0)
    points = [
        None if value is None else (_x(place, len(labels)), _y(value, most))
        for place, value in enumerate(values)
    ]
    shown = [text for text, value in zip(texts, values, strict=True) if value is not None]
    return Chart(
        title=title,
        summary=f"{title}: {f'{shown[0]} at first, {shown[-1]} at last' if shown else 'nothing was measured'}.",
        columns=("Period", title),
        rows=tuple(zip(labels, texts, strict=True)),
        ticks=_ticks(labels),
        levels=tuple(Tick(at=_y(share * most, most), text=f"{share * most:g}") for share in (0, 0.5, 1)),
        paths=tuple(_segments(points)),
        dots=tuple(
            (*point, f"{label}: {text}")
            for point, label, text in zip(points, labels, texts, strict=True)
            if point
        ),
        note=note,
    )


def _segments(points: Sequence[tuple[float, float] | None]) -> list[str]:
    found: list[list[str]] = [[]]
    for point in points:
        if point is None:
            found.append([])
        else:
            found[-1].append(f"{point[0]} {point[1]}")
    return [f"M{' L'.join(each)}" for each in found if len(each) > 1]


def bar_chart(
    title: str, labels: Sequence[str], series: Sequence[tuple[str, Tone, Sequence[int]]], *, note: str = ""
) -> Chart:
    """Return stacked bars over time, one part for each series."""
    totals = [sum(values[place] for _, _, values in series) for place in range(len(labels))]
    most = _round_up(max(totals, default=1) or 1)
    width = min(34.0, (WIDTH - LEFT - RIGHT) / max(1, len(labels)) * 0.7)
    blocks: list[Block] = []
    for place, label in enumerate(labels):
        below = 0
        for name, tone, values in series:
            if number := values[place]:
                top = _y(below + number, most)
                blocks.append(
                    Block(x=round(_x(place, len(labels)) - width / 2, 1), y=top, width=round(width, 1), height=round(_y(below, most) - top, 1), tone=tone, title=f"{label}: {number:,} {name}")
                )  # fmt: skip
                below += number
    return Chart(
        title=title,
        summary=f"{title}: {sum(totals):,} over {len(labels)} periods.",
        columns=("Period", *(name for name, _, _ in series)),
        rows=tuple(
            (label, *(f"{values[place]:,}" for _, _, values in series)) for place, label in enumerate(labels)
        ),
        ticks=_ticks(labels),
        levels=tuple(
            Tick(at=_y(share * most, most), text=f"{share * most:,g}")
            for share in ((0, 0.5, 1) if most > 1 else (0, 1))
        ),
        blocks=tuple(blocks),
        note=note,
    )


def _round_up(value: float) -> float:
    """Return the next number of the form 1, 2, 4, 5 or 10 times a power of ten."""
    size = 10.0 ** (len(str(int(value))) - 1) if value >= 1 else 0.1 if value >= 0.1 else 0.01
    return next(step * size for step in (1, 2, 4, 5, 10) if step * size >= value - 1e-9)
