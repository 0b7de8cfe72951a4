"""The view of a run as one HTML page. Nothing in a view can become markup, script or an address.

Every value that a template prints is escaped, loses the secrets that are known, and has invisible characters spelt out.
The only style is our own, named by its hash in the page's policy; there is no script, and the policy allows none.
Addresses in the page lead to places in it, and are made of numbers.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator, Sequence
from functools import partial
from hashlib import sha256
from importlib.resources import files
from itertools import pairwise
from math import floor, log2
from types import CodeType
from typing import Any, Literal, TypeAlias

import msgspec
from jinja2 import BaseLoader, BytecodeCache, ChoiceLoader, Environment, PackageLoader, StrictUndefined
from jinja2.bccache import Bucket
from markupsafe import Markup

from tercet.contracts.shape import as_object
from tercet.view.html.graph import draw_plan, step_anchor
from tercet.view.html.safe_text import SafeText, Shown
from tercet.view.quality import Course
from tercet.view.run import RunView
from tercet.view.session import SessionView
from tercet.view.text import as_sentence, as_words, count, duration_text, elapsed, join_parts, score, utc_time
from tercet.view.timeline import Span, SpanKind, Timeline
from tercet.view.vocabulary import Tone

MARKER = "<!doctype html>\n<!-- a Tercet report -->\n"
"""The first bytes of every report, by which it is recognised."""
_LONGEST = 1_000
"""The number of characters of a value that are shown if a template sets no limit."""


class CompiledTemplates(BytecodeCache):
    """The compiled templates of this process, by name, file and source: each page has an environment of its own, and
    compiling takes longer than everything else that is done for a page."""

    def __init__(self) -> None:
        self._codes: dict[tuple[str, str], CodeType] = {}

    def load_bytecode(self, bucket: Bucket) -> None:
        """Put the code of a template into its bucket, if it was compiled before."""
        bucket.code = self._codes.get((bucket.key, bucket.checksum))

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Keep the code of a template."""
        if bucket.code is not None:
            self._codes[bucket.key, bucket.checksum] = bucket.code


_COMPILED = CompiledTemplates()


def render(run: RunView, safe: SafeText | None = None) -> str:
    """Return the page of a run."""
    style = files("tercet.view.html").joinpath("templates", "style.css").read_text(encoding="utf-8")
    template = make_environment(safe or SafeText()).get_template("report.html.j2")
    # Our own file without any values; it must be unchanged, since the policy contains its hash.
    body = template.render(run=run, style=Markup(style), policy=_policy(style))  # noqa: S704
    return f"{MARKER}{body}\n"


def make_environment(safe: SafeText, *loaders: BaseLoader) -> Environment:
    """Return an environment in which every printed value is made safe; templates of `loaders` come before the report's."""

    def shown(value: object) -> object:
        is_plain = isinstance(value, str) and not isinstance(value, Markup | Shown)
        return safe.text(value, _LONGEST) if is_plain else value

    def query_text(query: Any) -> str:
        fields = as_object(query) or {}
        if not fields.get("query"):
            return safe.inline(query, 600)
        return safe.text(f"{fields.get('classification', '')}: {fields['query']}".removeprefix(": "), 600)

    environment = Environment(
        loader=ChoiceLoader([*loaders, PackageLoader("tercet.view.html")]),
        autoescape=True,
        undefined=StrictUndefined,
        bytecode_cache=_COMPILED,
        finalize=shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters: dict[str, Any] = {
        "capitalized": _capitalized,
        "count": count,
        "elapsed": elapsed,
        "inline": safe.inline,
        "utc_time": utc_time,
        "percent": _percent,
        "plain": "{:g}".format,
        "score": score,
        "sentence": as_sentence,
        "signed": _signed,
        "as_words": as_words,
        "text": safe.text,
        "duration_text": duration_text,
        "two_digits": "{:.2g}".format,
        "value": safe.value,
    }
    functions: dict[str, Any] = {
        "draw_curve": draw_curve,
        "draw_plan": partial(draw_plan, safe=safe),
        "draw_timeline": partial(draw_timeline, safe=safe),
        "figures": _figures,
        "left_out": _left_out,
        "member": safe.member,
        "query_text": query_text,
        "step_anchor": step_anchor,
    }
    environment.filters.update(filters)
    environment.globals.update(functions)
    environment.tests["multiline"] = lambda value: isinstance(value, str) and "\n" in value
    return environment


def _policy(style: str) -> str:
    hashed = b64encode(sha256(style.encode()).digest()).decode()
    return f"default-src 'none'; style-src 'sha256-{hashed}'; base-uri 'none'; form-action 'none'"


def _capitalized(text: str) -> str:
    """Return a sentence with a capital letter, unless it begins with a name of the code such as `ledger.note`."""
    word = text.partition(" ")[0].rstrip(".,:;?!")
    return text if "." in word or "_" in word else f"{text[:1].upper()}{text[1:]}"


def _percent(share: float | None) -> float:
    return 0.0 if share is None else round(100 * min(1.0, max(0.0, share)), 1)


def _signed(number: float) -> str:
    return f"{number:+.2f}".replace("-", "−")


def _left_out(shown: Sequence[object], most: int, noun: str) -> Markup:
    """Return a line that says how many entries of a list a page leaves out."""
    more = len(shown) - most
    text = Markup('<p class="small soft">{} are left out.</p>')
    return text.format(count(more, noun)) if more > 0 else Markup()


def _figures(session: SessionView) -> list[tuple[str, str, bool]]:
    """Return the numbers at the head of a page, each with its noun and whether it is bad news."""
    counts = session.counts
    numbers = [
        (counts.calls, "call", False),
        (counts.plans, "plan", False),
        (counts.approvals, "approval", False),
        *([(counts.repairs, "repair", False)] if counts.repairs else []),
        (counts.lost_processes, "lost process", bool(counts.lost_processes)),
    ]
    return [
        (f"{counts.done} of {counts.steps}", f"steps done{f', {counts.skipped} skipped' if counts.skipped else ''}", False),
        *((f"{number:,}", noun if number == 1 else f"{noun}{'es' if noun.endswith('s') else 's'}", bad) for number, noun, bad in numbers),
        (duration_text(session.work_ms), "at work", False),
    ]  # fmt: skip


# --- timeline ---
# A run is milliseconds of work between hours of waiting, so the axis is bent: every event is a little to the right of the
# one before, and the distance grows with the logarithm of the time between them. The ticks show the time since the start.
# The order is exact; lengths can be compared only roughly.


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
