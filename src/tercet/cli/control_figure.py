"""Controllers as SVG: expected and recorded quality, one panel for each task class."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import ceil, floor, sqrt

from tercet.cli.figure import Band, Dots, Line, Mark, Panel, Point, draw
from tercet.cli.quality.records import Reading
from tercet.cli.text import count

EXPECTED, FITTED, RECORDED, LIMIT = "#0b7285", "#9c36b5", "#e67700", "#c92a2a"
MOST_COURSES = 200
"""So many recorded outputs are drawn one by one."""


def draw_controls(pack: str, readings: Sequence[Reading]) -> str:
    """The picture of all controllers."""
    return draw(
        [_panel(pack, reading) for reading in readings], columns=min(2, len(readings)), size=(520, 360)
    )


def _panel(pack: str, reading: Reading) -> Panel:
    expected = reading.qualities(reading.expected)
    courses = list(reading.courses.values())[:MOST_COURSES]
    values = [*expected, *reading.mean, *(y for course in courses for y in course), reading.spec.target]
    low, high = (
        floor(min(values) * 10) / 10,
        max(ceil(max(values) * 10) / 10, floor(min(values) * 10) / 10 + 0.1),
    )
    last = max([len(expected), len(reading.mean), *map(len, courses), 2]) - 1
    seen = (
        f"; {count(reading.repairs, 'repair')} of {count(len(courses), 'output')} recorded" if courses else ""
    )
    return Panel(
        title=f"{pack}, {reading.task_class}",
        note=f"kp {reading.expected.kp:.4g}, stable below {reading.expected.kp_bound:.4g}{seen}",
        x_label="repairs",
        y_label="quality",
        x_range=(0, last),
        y_range=(low, high),
        x_ticks={number: str(number) for number in range(0, last + 1, -(-last // 10))},
        y_ticks={tick / 10: f"{tick / 10:.1f}" for tick in range(round(low * 10), round(high * 10) + 1)},
        marks=list(_marks(reading, courses, last)),
    )


def _marks(reading: Reading, courses: Sequence[Sequence[float]], last: int) -> Iterator[Mark]:
    expected = _points(reading.qualities(reading.expected))
    spread = sqrt(reading.expected.floor.mean_square) if reading.expected.floor else 0.0
    if spread:
        lower, upper = [(x, y - spread) for x, y in expected], [(x, y + spread) for x, y in expected]
        yield Band(lower=lower, upper=upper, colour=EXPECTED, name="what noise does to it")
    for course in courses:
        yield Line(points=_points(course), colour=RECORDED, width=1.0, opacity=0.25)
    accepted = reading.accepted_from
    yield Line(
        points=[(0, accepted), (last, accepted)],
        colour=LIMIT,
        width=1.5,
        is_dashed=True,
        name="accepted from",
    )
    yield Line(points=expected, colour=EXPECTED, width=2.5, name="expected")
    if reading.fitted is not None:
        fitted = _points(reading.qualities(reading.fitted))
        yield Line(points=fitted, colour=FITTED, is_dashed=True, name="expected, as recorded")
    if courses:
        yield Dots(points=_points(reading.mean), colour=RECORDED, radius=4.0, name="recorded, mean")


def _points(qualities: Sequence[float]) -> list[Point]:
    return [(float(number), quality) for number, quality in enumerate(qualities)]
