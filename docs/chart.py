"""Charts as SVG: panels with axes, lines, bands and dots, without script or addresses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import TypeAlias

import msgspec

from tercet.view.terminal.text import printable

Point: TypeAlias = tuple[float, float]

LEFT, TOP, RIGHT, BOTTOM = 56.0, 44.0, 16.0, 46.0
"""The margins of a panel."""
INK, FAINT, PAPER = "#1f2933", "#d5dbe1", "#ffffff"
_LETTER = 6.3
"""The approximate width of a small letter."""
STYLE = (
    f"text{{font-family:system-ui,sans-serif;font-size:12px;fill:{INK}}}"
    ".title{font-size:14px;font-weight:600}.small{font-size:11px}"
)


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """Points joined by a line."""

    points: Sequence[Point]
    colour: str
    width: float = 2.0
    is_dashed: bool = False
    opacity: float = 1.0
    name: str = ""
    """The name in the legend; a mark without a name is not in it."""


class Dots(msgspec.Struct, frozen=True, kw_only=True):
    """Single points."""

    points: Sequence[Point]
    colour: str
    radius: float = 3.0
    opacity: float = 1.0
    name: str = ""


class Band(msgspec.Struct, frozen=True, kw_only=True):
    """The area between two lines."""

    lower: Sequence[Point]
    upper: Sequence[Point]
    colour: str
    opacity: float = 0.18
    name: str = ""


Mark: TypeAlias = Line | Dots | Band


class Panel(msgspec.Struct, frozen=True, kw_only=True):
    """One chart."""

    title: str
    x_label: str
    y_label: str
    x_range: Point
    y_range: Point
    x_ticks: Mapping[float, str]
    y_ticks: Mapping[float, str]
    marks: Sequence[Mark]
    note: str = ""
    """One line under the title."""
    is_named_on_top: bool = False
    """Whether the legend is in the upper corner; rising curves leave room in the lower one."""


def draw(panels: Sequence[Panel], *, columns: int, size: tuple[int, int] = (420, 320)) -> str:
    """Return the panels side by side, in rows of `columns`."""
    wide, high = size
    rows = -(-len(panels) // columns)
    body = [
        f'<g transform="translate({index % columns * wide},{index // columns * high})">{_panel(panel, wide, high)}</g>'
        for index, panel in enumerate(panels)
    ]
    width, height = wide * min(columns, max(1, len(panels))), high * rows
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">'
    paper = f'<rect width="{width}" height="{height}" fill="{PAPER}"/>'
    return "\n".join([head, f"<style>{STYLE}</style>", paper, *body, "</svg>"]) + "\n"


def _panel(panel: Panel, wide: int, high: int) -> str:
    frame = _Frame(panel, wide, high)
    parts = [
        draw_text(LEFT, 18, panel.title, kind="title"),
        draw_text(LEFT, 34, panel.note, kind="small"),
        *_axes(panel, frame),
        *[_mark(mark, frame) for mark in panel.marks],
        *_legend(panel, frame),
    ]
    return "\n".join(part for part in parts if part)


class _Frame:
    """The positions of values on the paper."""

    def __init__(self, panel: Panel, wide: int, high: int) -> None:
        self.right, self.bottom = wide - RIGHT, high - BOTTOM
        self._x, self._y = panel.x_range, panel.y_range

    def x(self, value: float) -> float:
        return LEFT + (value - self._x[0]) / ((self._x[1] - self._x[0]) or 1.0) * (self.right - LEFT)

    def y(self, value: float) -> float:
        return self.bottom - (value - self._y[0]) / ((self._y[1] - self._y[0]) or 1.0) * (self.bottom - TOP)

    def path(self, points: Sequence[Point]) -> str:
        return " ".join(f"{self.x(x):.1f},{self.y(y):.1f}" for x, y in points)


def _axes(panel: Panel, frame: _Frame) -> list[str]:
    drawn: list[str] = []
    for value, label in panel.x_ticks.items():
        x = frame.x(value)
        drawn.append(_rule(x, TOP, x, frame.bottom) + draw_text(x, frame.bottom + 16, label, anchor="middle"))
    for value, label in panel.y_ticks.items():
        y = frame.y(value)
        drawn.append(_rule(LEFT, y, frame.right, y) + draw_text(LEFT - 6, y + 4, label, anchor="end"))
    middle = (LEFT + frame.right) / 2
    drawn.append(draw_text(middle, frame.bottom + 34, panel.x_label, anchor="middle"))
    upright = f'<g transform="translate(14,{(TOP + frame.bottom) / 2:.1f}) rotate(-90)">'
    drawn.append(f"{upright}{draw_text(0, 0, panel.y_label, anchor='middle')}</g>")
    return drawn


def _mark(mark: Mark, frame: _Frame) -> str:
    match mark:
        case Line():
            dash = ' stroke-dasharray="5 4"' if mark.is_dashed else ""
            return f'<polyline points="{frame.path(mark.points)}" fill="none" stroke="{mark.colour}" stroke-width="{mark.width:g}" stroke-opacity="{mark.opacity:g}"{dash}/>'
        case Band():
            outline = [*mark.lower, *reversed(mark.upper)]
            return f'<polygon points="{frame.path(outline)}" fill="{mark.colour}" fill-opacity="{mark.opacity:g}"/>'
        case Dots():
            spots = "".join(
                f'<circle cx="{frame.x(x):.1f}" cy="{frame.y(y):.1f}" r="{mark.radius:g}"/>'
                for x, y in mark.points
            )
            return f'<g fill="{mark.colour}" fill-opacity="{mark.opacity:g}">{spots}</g>'


def _legend(panel: Panel, frame: _Frame) -> list[str]:
    """Return the names of the marks, in a corner at the right."""
    named = [mark for mark in panel.marks if mark.name]
    foot = TOP + 16 * len(named) + 8 if panel.is_named_on_top else frame.bottom
    drawn = [_ground(frame.right, foot, [mark.name for mark in named])] if named else []
    for place, mark in enumerate(reversed(named)):
        y = foot - 10 - place * 16
        drawn.append(draw_text(frame.right - 26, y, mark.name, anchor="end", kind="small"))
        drawn.append(_sample(mark, frame.right - 20, y - 4))
    return drawn


def _ground(right: float, foot: float, names: Sequence[str]) -> str:
    """Return the background of the legend, so that it can be read on top of marks."""
    wide, high = 34 + max(map(len, names)) * _LETTER, 8 + 16 * len(names)
    x, y = right - wide, foot - high
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{wide:.1f}" height="{high}" fill="{PAPER}" fill-opacity="0.85"/>'


def _sample(mark: Mark, x: float, y: float) -> str:
    match mark:
        case Line():
            dash = ' stroke-dasharray="5 4"' if mark.is_dashed else ""
            return f'<line x1="{x:.1f}" y1="{y:.1f}" x2="{x + 16:.1f}" y2="{y:.1f}" stroke="{mark.colour}" stroke-width="{mark.width:g}"{dash}/>'
        case Band():
            return f'<rect x="{x:.1f}" y="{y - 5:.1f}" width="16" height="10" fill="{mark.colour}" fill-opacity="{mark.opacity:g}"/>'
        case Dots():
            return f'<circle cx="{x + 8:.1f}" cy="{y:.1f}" r="{mark.radius:g}" fill="{mark.colour}"/>'


def _rule(x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{FAINT}"/>'


def draw_text(x: float, y: float, words: str, *, anchor: str = "start", kind: str = "") -> str:
    """Return a text at a position; empty if there is no text."""
    if not words:
        return ""
    name = f' class="{kind}"' if kind else ""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{name}>{escape(printable(words, 120))}</text>'
    )
