"""The course of a controller as SVG shapes: measured and predicted quality against the target."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import floor
from typing import Literal, TypeAlias

import msgspec

from tercet.view.quality import Course
from tercet.view.text import score

Kind: TypeAlias = Literal["measured", "foreseen"]

MOST = 24
"""The number of last measurements that are drawn."""
WIDTH, HEIGHT = 340.0, 150.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 34.0, 18.0, 26.0, 26.0
_ROOM = 34.0
"""The distance from which measurements have room for their numbers."""


class Stroke(msgspec.Struct, frozen=True, kw_only=True):
    """A line of the drawing."""

    path: str
    kind: Kind


class Dot(msgspec.Struct, frozen=True, kw_only=True):
    """A measured or predicted quality."""

    x: float
    y: float
    kind: Kind
    text: str
    """The number beside it, if there is room."""


class Curve(msgspec.Struct, frozen=True, kw_only=True):
    """Quality by measurement, against the target."""

    width: float
    height: float
    left: float
    base: float
    target_y: float
    target: str
    lowest: str
    """The quality at the foot of the drawing."""
    strokes: tuple[Stroke, ...]
    dots: tuple[Dot, ...]
    ticks: tuple[Dot, ...]
    summary: str
    caption: str


def draw_curve(course: Course) -> Curve:
    """Return the drawing of a controller's course."""
    shown, expected = course.measured[-MOST:], course.predicted[:MOST]
    scale = _Scale(longest=max(len(shown), len(expected)), lowest=min(*shown, *expected, course.target))
    return Curve(
        width=WIDTH,
        height=HEIGHT,
        left=_LEFT,
        base=HEIGHT - _BOTTOM,
        target_y=scale.y(course.target),
        target=f"aim {course.target:g}",
        lowest=f"{scale.lowest:g}",
        strokes=(
            Stroke(path=scale.path(expected), kind="foreseen"),
            Stroke(path=scale.path(shown), kind="measured"),
        ),
        dots=(*_dots(expected, scale, "foreseen"), *_dots(shown, scale, "measured")),
        ticks=tuple(_ticks(scale, len(course.measured) - len(shown))),
        summary=_summary(course),
        caption=course.caption,
    )


class _Scale:
    """The positions of measurements and qualities in the drawing."""

    def __init__(self, *, longest: int, lowest: float) -> None:
        self.longest = longest
        self.lowest = max(0.0, floor(lowest * 10 - 0.5) / 10)
        self.step = (WIDTH - _LEFT - _RIGHT - 24) / max(1, longest - 1)

    def x(self, place: int) -> float:
        return round(_LEFT + 12 + min(self.step, 130.0) * place, 1)

    def y(self, quality: float) -> float:
        inside = HEIGHT - _TOP - _BOTTOM
        share = (min(1.0, max(self.lowest, quality)) - self.lowest) / (1.0 - self.lowest)
        return round(_TOP + inside * (1.0 - share), 1)

    def path(self, qualities: Sequence[float]) -> str:
        points = [f"{self.x(place)} {self.y(quality)}" for place, quality in enumerate(qualities)]
        return f"M{' L'.join(points)}"


def _dots(qualities: Sequence[float], scale: _Scale, kind: Kind) -> Iterator[Dot]:
    has_room = kind == "measured" and min(scale.step, 130.0) >= _ROOM
    for place, quality in enumerate(qualities):
        is_labelled = has_room or (kind == "measured" and place in (0, len(qualities) - 1))
        yield Dot(x=scale.x(place), y=scale.y(quality), kind=kind, text=score(quality) if is_labelled else "")


def _ticks(scale: _Scale, before: int) -> Iterator[Dot]:
    """Yield the numbers of the measurements, as many as fit."""
    every = 1 if scale.longest <= 12 else 4
    for place in range(0, scale.longest, every):
        yield Dot(x=scale.x(place), y=HEIGHT - 8, kind="measured", text=str(before + place + 1))


def _summary(course: Course) -> str:
    measured, predicted = (", ".join(map(score, each[:12])) for each in (course.measured, course.predicted))
    return f"Quality measured: {measured}. Predicted: {predicted}. Target: {course.target:g}."
