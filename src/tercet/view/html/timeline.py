"""The timeline of a run as SVG shapes.

A run is milliseconds of work between hours of waiting, so the axis is bent: every event is a little to the right of the
one before, and the distance grows with the logarithm of the time between them. The ticks show the time since the start.
The order is exact; lengths can be compared only roughly.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import floor, log2
from typing import Literal, TypeAlias

import msgspec

from tercet.view.html.safe_text import SafeText
from tercet.view.quality import Course
from tercet.view.text import count, duration_text, elapsed, join_parts, score
from tercet.view.timeline import Span, SpanKind, Timeline
from tercet.view.vocabulary import Tone

MOST_ROWS = 40
WIDTH, LEFT, RIGHT = 960.0, 132.0, 14.0
_ROW, _TOP, _AXIS = 30.0, 8.0, 30.0
_NARROWEST = 3.0
_TAIL = 110.0
_NEAREST = 92.0
"""The least distance between two ticks."""
_LETTER = 6.6
_WIDEST_LABEL = 16


class Bar(msgspec.Struct, frozen=True, kw_only=True):
    """A span on a row."""

    x: float
    width: float
    kind: SpanKind
    tone: Tone
    title: str
    text: str = ""
    """The text in the bar, if there is room."""


class TimeRow(msgspec.Struct, frozen=True, kw_only=True):
    """One row."""

    label: str
    y: float
    bars: tuple[Bar, ...]


class Tick(msgspec.Struct, frozen=True, kw_only=True):
    """A moment on the axis, or a mark through all rows."""

    x: float
    text: str
    anchor: Literal["start", "middle", "end"] = "middle"
    title: str = ""


class TimeDrawing(msgspec.Struct, frozen=True, kw_only=True):
    """A timeline."""

    width: float
    height: float
    left: float
    rows: tuple[TimeRow, ...]
    ticks: tuple[Tick, ...]
    crashes: tuple[Tick, ...]
    summary: str
    left_out: str = ""


def draw_timeline(found: Timeline, safe: SafeText) -> TimeDrawing:
    """Return the drawing of a timeline."""
    times = found.times
    xs = _axis(times, _TAIL if any(span.is_open for span in found.spans) else 0)
    shown = found.rows[:MOST_ROWS]
    rows = tuple(
        TimeRow(
            label=_label(safe.text(name, 80)),
            y=_TOP + number * _ROW,
            bars=tuple(_bar(span, xs, safe) for span in found.spans if span.row == name),
        )
        for number, name in enumerate(shown)
    )
    more = len(found.rows) - MOST_ROWS
    return TimeDrawing(
        width=WIDTH,
        height=_TOP + len(shown) * _ROW + _AXIS,
        left=LEFT,
        rows=rows,
        ticks=tuple(_ticks(xs, times)),
        crashes=tuple(
            Tick(x=xs[span.start], text="✗", title=safe.text(span.text))
            for span in found.spans
            if span.kind == "lost"
        ),
        summary=_summary(found.spans, times),
        left_out=f"{more:,} more rows are left out." if more > 0 else "",
    )


def _axis(times: Sequence[int], tail: float) -> list[float]:
    """Return the position of every event; after the last one there is room for spans that have not ended."""
    widths = [
        0.0,
        *(1.0 + log2(1 + max(0, after - before)) for before, after in pairwise(times)),
    ]
    scale = (WIDTH - LEFT - RIGHT - tail) / sum(widths)
    xs: list[float] = []
    at = LEFT
    for width in widths:
        at += width * scale
        xs.append(round(at, 1))
    return xs


def _ticks(xs: Sequence[float], times: Sequence[int]) -> Iterator[Tick]:
    """Return the first and the last moment, and those after the longest waits."""
    last = len(xs) - 1
    chosen = {0, last}
    for number in sorted(range(1, last), key=lambda n: times[n - 1] - times[n]):
        far = all(abs(xs[number] - xs[other]) >= _NEAREST for other in chosen)
        if far and times[number] > times[number - 1]:
            chosen.add(number)
    texts = {number: elapsed(times[number] - times[0]) for number in chosen}
    shown = {last: texts[last]}
    for number in sorted(chosen):
        if number != last and texts[number] in shown.values():
            continue  # two moments that read the same need one tick
        shown[number] = texts[number]
        anchor = "start" if number == 0 else "end" if number == last else "middle"
        yield Tick(x=xs[number], text="start" if number == 0 else texts[number], anchor=anchor)


def _bar(span: Span, xs: Sequence[float], safe: SafeText) -> Bar:
    x, end = xs[span.start], WIDTH - RIGHT if span.is_open else xs[span.end]
    width = max(_NARROWEST, end - x)
    text = safe.text(span.text, 120)
    name = text.partition(":")[0]
    return Bar(
        x=round(min(x, WIDTH - RIGHT - width), 1),
        width=round(width, 1),
        kind=span.kind,
        tone=span.tone,
        title=f"{text}, {'still' if span.is_open else duration_text(max(0, span.end_at - span.start_at))}",
        text=name if len(name) * _LETTER + 8 < width else "",
    )


def _label(name: str) -> str:
    return name if len(name) <= _WIDEST_LABEL else f"{name[: _WIDEST_LABEL - 1]}…"


def _summary(spans: Sequence[Span], times: Sequence[int]) -> str:
    nouns = {
        "call": "call",
        "gate": "wait for people",
        "model": "question to a model",
        "lost": "lost process",
    }
    numbers = {kind: sum(span.kind == kind for span in spans) for kind in nouns}
    listed = [count(numbers[kind], noun) for kind, noun in nouns.items() if numbers[kind]]
    return f"A timeline of {duration_text(times[-1] - times[0])}: {join_parts(listed)}.".replace(
        "processs", "processes"
    )


# --- curve ---


Kind: TypeAlias = Literal["measured", "foreseen"]

MOST = 24
"""The number of last measurements that are drawn."""
CURVE_WIDTH, HEIGHT = 340.0, 150.0
_LEFT, _RIGHT, _CURVE_TOP, _BOTTOM = 34.0, 18.0, 26.0, 26.0
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
        width=CURVE_WIDTH,
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
        ticks=tuple(_curve_ticks(scale, len(course.measured) - len(shown))),
        summary=_curve_summary(course),
        caption=course.caption,
    )


class _Scale:
    """The positions of measurements and qualities in the drawing."""

    def __init__(self, *, longest: int, lowest: float) -> None:
        self.longest = longest
        self.lowest = max(0.0, floor(lowest * 10 - 0.5) / 10)
        self.step = (CURVE_WIDTH - _LEFT - _RIGHT - 24) / max(1, longest - 1)

    def x(self, place: int) -> float:
        return round(_LEFT + 12 + min(self.step, 130.0) * place, 1)

    def y(self, quality: float) -> float:
        inside = HEIGHT - _CURVE_TOP - _BOTTOM
        share = (min(1.0, max(self.lowest, quality)) - self.lowest) / (1.0 - self.lowest)
        return round(_CURVE_TOP + inside * (1.0 - share), 1)

    def path(self, qualities: Sequence[float]) -> str:
        points = [f"{self.x(place)} {self.y(quality)}" for place, quality in enumerate(qualities)]
        return f"M{' L'.join(points)}"


def _dots(qualities: Sequence[float], scale: _Scale, kind: Kind) -> Iterator[Dot]:
    has_room = kind == "measured" and min(scale.step, 130.0) >= _ROOM
    for place, quality in enumerate(qualities):
        is_labelled = has_room or (kind == "measured" and place in (0, len(qualities) - 1))
        yield Dot(x=scale.x(place), y=scale.y(quality), kind=kind, text=score(quality) if is_labelled else "")


def _curve_ticks(scale: _Scale, before: int) -> Iterator[Dot]:
    """Yield the numbers of the measurements, as many as fit."""
    every = 1 if scale.longest <= 12 else 4
    for place in range(0, scale.longest, every):
        yield Dot(x=scale.x(place), y=HEIGHT - 8, kind="measured", text=str(before + place + 1))


def _curve_summary(course: Course) -> str:
    measured, predicted = (", ".join(map(score, each[:12])) for each in (course.measured, course.predicted))
    return f"Quality measured: {measured}. Predicted: {predicted}. Target: {course.target:g}."
