"""`tercet control`: the predicted and the recorded behaviour of a pack's controllers. Nothing is run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import ceil, floor, sqrt
from pathlib import Path
from typing import Annotated

from rich.text import Text

from tercet.cli import ExitCode
from tercet.cli.inputs import load_pack
from tercet.cli.options import AsJson, Force, PackFolder, option
from tercet.cli.replay.records import (
    REPAIRS,
    MaybeJournal,
    Reading,
    find_journal,
    load_lessons,
    read_control,
    read_rows,
    task_classes,
)
from tercet.cli.replay.runs import DRAWING, require_writable, write_drawing
from tercet.cli.screen import Screen, respond
from tercet.contracts.control import ControlPrediction, NoiseFloor, RepairObservation, StopReason
from tercet.contracts.errors import UsageError
from tercet.packs import Pack
from tercet.quality.control import LEAST_SAMPLE
from tercet.view.chart import Band, Dots, Line, Mark, Panel, Point, draw
from tercet.view.terminal.text import count, printable

ROWS = 10
MOST_COLUMNS = 64
_LABEL = 6
_EXPECTED, _RECORDED, _LIMIT = "cyan", "yellow", "dim"
_ENDS = {
    StopReason.REACHED: "good enough",
    StopReason.ITERATIONS: "out of repairs",
    StopReason.COST: "too expensive",
    StopReason.STALLED: "stalled",
    StopReason.NOISE: "lost in noise",
}


def show_controls(screen: Screen, pack: str, readings: Sequence[Reading]) -> None:
    """Print every controller."""
    screen.put(printable(pack, 120), first=f"{'pack':<10}")
    for reading in readings:
        screen.say()
        _show_facts(screen, reading)
        screen.say()
        _show_chart(screen, reading)
    screen.say()
    screen.say(Text("Nothing was run.", style="dim"))


def _show_facts(screen: Screen, reading: Reading) -> None:
    screen.say(Text.assemble(("task class ", "bold"), printable(reading.task_class, 120)))
    for label, text in _facts(reading):
        screen.put(text, first=f"{label:<10}")


def _facts(reading: Reading) -> Iterator[tuple[str, Text | str]]:
    spec, expected = reading.spec, reading.expected
    yield "setpoint", f"{_setpoint(reading)}; accepted from {_number(reading.accepted_from)}"
    given = "" if spec.kp is not None else f", damped by {_number(spec.alpha)}"
    others = "" if spec.is_proportional else f", ki {_number(spec.ki)}, kd {_number(spec.kd)}"
    yield (
        "gains",
        f"kp {_number(expected.kp)}{given}{others}; stable below {_number(expected.kp_bound)}, {expected.character}",
    )
    yield (
        "model",
        f"a repair brings {_number(spec.gain)} of its intensity, give or take {_number(spec.sigma)}",
    )
    yield "expected", _predicted(reading.start, expected)
    if expected.choice is not None:
        yield "", _choice(expected)
    if expected.floor is not None and spec.sigma:
        yield "noise", _floor(expected.floor)
    yield "recorded", _recorded_text(reading)
    if reading.fitted is not None:
        yield "fitted", _predicted(reading.start, reading.fitted)
        if reading.fitted.floor is not None and reading.fitted.floor.is_above_epsilon:
            yield "", _floor(reading.fitted.floor)


def _number(value: float) -> str:
    """Return a number to three places."""
    return f"{round(value, 3):,}".removesuffix(".0")


def _setpoint(reading: Reading) -> str:
    setpoint = reading.spec.setpoint
    if not isinstance(setpoint, dict):
        return f"{_number(setpoint)}"
    return ", ".join(f"{printable(name, 40)} {_number(wanted)}" for name, wanted in setpoint.items())


def _predicted(start: float, prediction: ControlPrediction) -> Text:
    mark = ("✓ ", "green") if prediction.is_reached else ("✗ ", "red")
    repairs = count(prediction.iterations, "repair")
    formula = "" if prediction.k_star is None else f", k* {prediction.k_star}"
    return Text.assemble(
        mark,
        f"from {_number(start)}: {repairs} for {_number(prediction.cost)}, then {_ENDS[prediction.end]}{formula}",
    )


def _choice(prediction: ControlPrediction) -> str:
    choice = prediction.choice
    if choice is None or choice.kind == "fail":
        needed = prediction.cost_to_reach
        return f"it would need {_number(needed)}; so it fails" if needed is not None else "it fails"
    changed = {"epsilon": choice.epsilon, "kp": choice.kp}
    text = ", ".join(f"{name} {_number(value)}" for name, value in changed.items() if value is not None)
    return f"so it is done with {text}: {count(choice.iterations or 0, 'repair')} for {_number(choice.cost or 0.0)}"


def _floor(found: NoiseFloor) -> Text:
    text = f"keeps quality at about {_number(found.best_quality)} (mean square error {found.mean_square:.3g})"
    if found.is_above_epsilon:
        return Text.assemble(("✗ ", "red"), f"{text}: repairs alone are not enough")
    return Text.assemble(("✓ ", "green"), text)


def _recorded_text(reading: Reading) -> str:
    if not reading.repairs:
        return "nothing"
    seen = f"{count(reading.repairs, 'repair')} of {count(len(reading.courses), 'output')}"
    found = reading.estimate
    if found is None:
        return f"{seen}; {LEAST_SAMPLE} repairs are needed to estimate a gain"
    bound = ", the nearest that is possible" if found.is_at_bound else ""
    return f"{seen}: a gain of {_number(found.gain)} ({_number(found.low)} to {_number(found.high)}){bound}, noise {_number(found.sigma)}"


def _show_chart(screen: Screen, reading: Reading) -> None:
    """Quality by repairs: a line for expected quality, squares for recorded quality, dots for the limit of acceptance."""
    expected, mean = reading.qualities(reading.expected), reading.mean
    values = [*expected, *mean, reading.accepted_from, reading.spec.target]
    low, high = floor(min(values) * 10) / 10, ceil(max(values) * 10) / 10
    last = max(len(expected), len(mean), 2) - 1
    columns = min(MOST_COLUMNS, max(10, screen.width - _LABEL - 4))
    canvas = Canvas(columns=columns, rows=ROWS)

    def place(number: int, quality: float) -> tuple[int, int]:
        share = (quality - low) / ((high - low) or 1.0)
        return round(number / last * (canvas.width - 1)), round((1.0 - share) * (canvas.height - 1))

    spots = [place(number, quality) for number, quality in enumerate(expected)]
    for one, other in zip(spots, spots[1:] or spots, strict=False):
        canvas.line(one, other)
    squares = {(y // 4, x // 2) for x, y in (place(number, quality) for number, quality in enumerate(mean))}
    limit = place(0, reading.accepted_from)[1] // 4
    for row in range(ROWS):
        screen.put(_chart_row(screen, canvas, row, squares, limit), first=_label(row, low, high))
    screen.put(Text(f"{'0':<{columns - len(str(last))}}{last}", style="dim"), first=" " * _LABEL)
    _show_legend(screen, has_records=bool(mean))


def _label(row: int, low: float, high: float) -> str:
    shown = {0: high, ROWS - 1: low}.get(row)
    return f"{'' if shown is None else f'{shown:.1f}':>{_LABEL - 2}} │"


def _chart_row(screen: Screen, canvas: Canvas, row: int, squares: set[tuple[int, int]], limit: int) -> Text:
    line = Text()
    for column in range(canvas.columns):
        letter = canvas.letter(row, column)
        if (row, column) in squares:
            line.append("■", style=_RECORDED)
        elif letter != " ":
            line.append("*" if screen.is_ascii else letter, style=_EXPECTED)
        else:
            line.append("·" if row == limit and column % 2 == 0 else " ", style=_LIMIT)
    return line


def _show_legend(screen: Screen, *, has_records: bool) -> None:
    line = "*" if screen.is_ascii else "⠒⠒"
    parts: list[str | tuple[str, str]] = ["repairs   ", (line, _EXPECTED), " expected   "]
    if has_records:
        parts += [("■", _RECORDED), " recorded, mean   "]
    screen.put(Text.assemble(*parts, ("· ·", _LIMIT), " accepted from here"), first=" " * _LABEL)


# --- drawing ---


_EMPTY = 0x2800
# The dots of a braille letter are numbered down its left column, then down its right one; the lowest row came later.
_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))


class Canvas:
    """A grid of dots whose size is given in letters; dots outside of it are not drawn."""

    def __init__(self, *, columns: int, rows: int) -> None:
        self.columns = columns
        self.rows = rows
        self._cells = [[0] * columns for _ in range(rows)]

    @property
    def width(self) -> int:
        """Its width in dots."""
        return self.columns * 2

    @property
    def height(self) -> int:
        """Its height in dots."""
        return self.rows * 4

    def dot(self, x: int, y: int) -> None:
        """Set a dot; the first one is at the top left."""
        if 0 <= x < self.width and 0 <= y < self.height:
            self._cells[y // 4][x // 2] |= _DOTS[y % 4][x % 2]

    def line(self, start: tuple[int, int], end: tuple[int, int]) -> None:
        """Set the dots of a straight line."""
        (x0, y0), (x1, y1) = start, end
        steps = max(abs(x1 - x0), abs(y1 - y0), 1)
        for number in range(steps + 1):
            self.dot(round(x0 + (x1 - x0) * number / steps), round(y0 + (y1 - y0) * number / steps))

    def letter(self, row: int, column: int) -> str:
        """Return the letter at a place; a blank if no dot is set."""
        dots = self._cells[row][column]
        return chr(_EMPTY | dots) if dots else " "


# --- as SVG ---


EXPECTED, FITTED, RECORDED, LIMIT = "#0b7285", "#9c36b5", "#e67700", "#c92a2a"
MOST_COURSES = 200
"""How many recorded outputs are drawn one by one."""


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


# --- control ---


CONTROL_EXAMPLES = """\
tercet control examples/letters
tercet control examples/letters --task-class letter --start 0.4
tercet control examples/letters --journal sqlite:///tercet.db
tercet control examples/letters --trajectories repairs.jsonl --svg convergence.svg
"""


def control(
    pack: PackFolder,
    *,
    task_class: Annotated[
        str | None,
        option("CLASS", "Show the controller of this task class only."),
    ] = None,
    start: Annotated[
        float | None,
        option(
            "QUALITY",
            "The quality of an output before its first repair: by default the mean of what was recorded, else 0.5.",
            min=0.0,
            max=1.0,
        ),
    ] = None,
    trajectories: Annotated[
        str | None,
        option(
            "FILE",
            "Recorded repairs, one JSON object per line: a file, or - for stdin. The journal is then read only if --journal names it.",
        ),
    ] = None,
    journal: MaybeJournal = None,
    svg: Annotated[
        Path | None,
        option(
            "FILE", "Also draw the chart into this file, as SVG; an existing drawing by Tercet is replaced."
        ),
    ] = None,
    force: Force = False,
    as_json: AsJson = False,
) -> ExitCode:
    """Predict how the quality loop of each task class converges.

    Shown are the largest stable gain, the number of repairs, their cost, and the quality that noise allows. Repairs
    that were recorded in the journal or in a file are drawn beside the prediction, with the gain and the noise that
    they suggest. Nothing is run.
    """
    if svg is not None:
        require_writable(svg, is_forced=force, mark=DRAWING)
    loaded = load_pack(pack)
    chosen = _chosen(loaded, task_class)
    url = journal if trajectories is not None else find_journal(journal)
    rows = [
        *(read_rows(REPAIRS, trajectories) if trajectories is not None else ()),
        *(_recorded(url, (*loaded.control, *task_classes(loaded), *chosen)) if url else ()),
    ]
    readings = [read_control(loaded, name, rows, start=start) for name in chosen]
    if svg is not None:
        panels = [_panel(loaded.ref, reading) for reading in readings]
        write_drawing(svg, draw(panels, columns=min(2, len(panels)), size=(520, 360)), is_quiet=as_json)
    return respond(
        lambda: {
            "pack": loaded.ref,
            "pack_hash": loaded.hash,
            "classes": [reading.as_json() for reading in readings],
        },
        lambda screen: show_controls(screen, loaded.ref, readings),
        as_json=as_json,
    )


def _recorded(url: str, classes: Sequence[str]) -> Iterator[RepairObservation]:
    """Return the repairs that runs have recorded."""
    for experience in load_lessons(url, classes).values():
        yield from experience.observations


def _chosen(pack: Pack, task_class: str | None) -> Sequence[str]:
    if not pack.control:
        raise UsageError(
            f"{pack.ref} declares no controller",
            code="no_control",
            remedy="add a table [control.default] to pack.toml; it may be empty",
        )
    if task_class is None:
        return sorted(pack.control)
    if pack.control_for(task_class) is None:
        raise UsageError(
            f"{pack.ref} has no controller for task class '{task_class}', and no default one",
            code="unknown_task_class",
            remedy=f"choose one of {', '.join(sorted(pack.control))}",
        )
    return [task_class]
