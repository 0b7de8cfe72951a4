"""What happened when, as rows of bars: phases, calls, waiting for people, questions to models, lost processes.

A run is milliseconds of work between hours of waiting, so its axis is bent: every event is a little to the right of the
one before, and the more time lies between two of them, the further apart they are, by the logarithm. The ticks say how
long after the start it was. The order is exact, and lengths can be compared only roughly.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import log2

from tercet.contracts.loop import Phase
from tercet.contracts.plan import compensated_step
from tercet.core import events as e
from tercet.core.fold.apply import fold_event
from tercet.core.state import State
from tercet.replay.report.case import Case
from tercet.replay.report.page import Bar, BarKind, Tick, Timeline, TimeRow, Tone
from tercet.replay.report.wording import Wording, count, elapsed, joined, took

MOST_ROWS = 40
WIDTH, LEFT, RIGHT = 960.0, 132.0, 14.0
_ROW, _TOP, _AXIS = 30.0, 8.0, 30.0
_NARROWEST = 3.0
_TAIL = 110.0
_NEAREST = 92.0
"""How near two ticks may come."""
_LETTER = 6.6
_WIDEST_LABEL = 16
_PHASES: dict[Phase, Tone] = {Phase.FAIL: "bad", Phase.HALT: "wait", Phase.COMMIT: "good"}


@dataclass(frozen=True, kw_only=True)
class Span:
    """A stretch of a run from one event to another, by their positions; the end is open where nothing ended it."""

    row: str
    start: int
    end: int
    kind: BarKind
    tone: Tone
    what: str
    is_open: bool = False


def draw_timeline(case: Case, wording: Wording) -> Timeline | None:
    """The timeline of a run; None where nothing has happened since its start."""
    times = [event.at for event in case.events]
    if len(times) < 2:
        return None
    found = list(_spans(case.events))
    xs = _axis(times, _TAIL if any(span.is_open for span in found) else 0)
    names = list(dict.fromkeys(span.row for span in found))
    names.sort(key=lambda name: name not in ("phases", "processes"))  # the others keep their order
    shown = names[:MOST_ROWS]
    rows = tuple(
        TimeRow(
            label=_label(name, wording),
            y=_TOP + number * _ROW,
            bars=tuple(_bar(span, xs, times, wording) for span in found if span.row == name),
        )
        for number, name in enumerate(shown)
    )
    losses = [span for span in found if span.kind == "lost"]
    return Timeline(
        width=WIDTH,
        height=_TOP + len(shown) * _ROW + _AXIS,
        left=LEFT,
        rows=rows,
        ticks=tuple(_ticks(xs, times)),
        crashes=tuple(Tick(x=xs[span.start], text="✗", title=wording.text(span.what)) for span in losses),
        summary=_summary(found, times, wording),
        left_out=f"{len(names) - MOST_ROWS:,} more rows are left out." if len(names) > MOST_ROWS else "",
    )


def _axis(times: Sequence[int], tail: float) -> list[float]:
    """Where every event stands; behind the last one a tail is left for what has not ended."""
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
    """The first and the last moment, and those between that come after the longest waits."""
    last = len(xs) - 1
    chosen = {0, last}
    for number in sorted(range(1, last), key=lambda n: times[n - 1] - times[n]):
        far = all(abs(xs[number] - xs[other]) >= _NEAREST for other in chosen)
        if far and times[number] > times[number - 1]:
            chosen.add(number)
    texts = {number: elapsed(times[number] - times[0]) for number in chosen}
    told = {last: texts[last]}
    for number in sorted(chosen):
        if number != last and texts[number] in told.values():
            continue  # two moments that read the same need one tick
        told[number] = texts[number]
        anchor = "start" if number == 0 else "end" if number == last else "middle"
        yield Tick(x=xs[number], text="start" if number == 0 else texts[number], anchor=anchor)


def _bar(span: Span, xs: Sequence[float], times: Sequence[int], wording: Wording) -> Bar:
    x, end = xs[span.start], WIDTH - RIGHT if span.is_open else xs[span.end]
    width = max(_NARROWEST, end - x)
    lasted = took(max(0, times[span.end] - times[span.start]))
    text = wording.text(span.what, 120)
    name = text.partition(":")[0]
    return Bar(
        x=round(min(x, WIDTH - RIGHT - width), 1),
        width=round(width, 1),
        kind=span.kind,
        tone=span.tone,
        title=f"{text}, {'still' if span.is_open else lasted}",
        text=name if len(name) * _LETTER + 8 < width else "",
    )


def _label(name: str, wording: Wording) -> str:
    host = compensated_step(name)
    label = wording.text(f"↶ {host}" if host else name, 80)
    return label if len(label) <= _WIDEST_LABEL else f"{label[: _WIDEST_LABEL - 1]}…"


def _summary(spans: Sequence[Span], times: Sequence[int], wording: Wording) -> str:
    kinds = {
        "call": "call",
        "gate": "wait for people",
        "model": "question to a model",
        "lost": "lost process",
    }
    told = [
        count(found, noun) for kind, noun in kinds.items() if (found := sum(s.kind == kind for s in spans))
    ]
    return wording.text(
        f"A timeline of {took(times[-1] - times[0])}: {joined(told)}.".replace("processs", "processes")
    )


# --- from events to spans ---


class _Follower:
    """Folds a run, and keeps what has begun and not ended."""

    def __init__(self) -> None:
        self.state = State()
        self.phase = 0
        self.calls: dict[str, tuple[int, e.Intent]] = {}
        self.gates: dict[str, tuple[int, e.GateOpened]] = {}
        self.asked: tuple[int, e.ModelAsked] | None = None


def _spans(events: Sequence[e.Event]) -> Iterator[Span]:
    run = _Follower()
    for number, event in enumerate(events):
        before, run.state = run.state, fold_event(run.state, event)
        if run.state.phase is not before.phase:
            yield _phase(before, run.phase, number)
            run.phase = number
        yield from _happened(run, number, event)
        yield from _closed_gates(run, number)
    yield from _unfinished(run, len(events) - 1)


def _phase(state: State, start: int, end: int) -> Span:
    tone = _PHASES.get(state.phase, "busy")
    return Span(row="phases", start=start, end=end, kind="phase", tone=tone, what=str(state.phase))


def _happened(run: _Follower, number: int, event: e.Event) -> Iterator[Span]:
    match event:
        case e.Intent() if event.tool:
            run.calls[event.step] = (number, event)
        case e.Complete() | e.Abort() if event.step in run.calls:
            begun, intent = run.calls.pop(event.step)
            yield _call(intent, begun, number, *_outcome(event))
        case e.SessionResumed():
            yield from _lost(run, number)
        case e.GateOpened():
            run.gates[event.gate] = (number, event)
        case e.ModelAsked():
            run.asked = (number, event)
        case e.ModelAnswered() if run.asked is not None:
            begun, asked = run.asked
            run.asked = None
            tone: Tone = "bad" if event.code else "good"
            what = f"{asked.model}: {'no answer' if event.code else 'answered'}"
            yield Span(row="models", start=begun, end=number, kind="model", tone=tone, what=what)
        case _:
            pass


def _lost(run: _Follower, number: int) -> Iterator[Span]:
    """The calls that a process left behind, from its last sign of life to when another one took over."""
    if not run.calls:
        return
    since = number - 1
    lost = f"process lost: it left {', '.join(run.calls)} under way, and another one took over"
    yield Span(row="processes", start=since, end=number, kind="lost", tone="bad", what=lost)
    for begun, intent in run.calls.values():
        yield _call(intent, begun, number, "wait", "cut off")
    run.calls.clear()


def _closed_gates(run: _Follower, number: int) -> Iterator[Span]:
    for gate in [name for name in run.gates if name not in run.state.gates]:
        begun, opened = run.gates.pop(gate)
        yield _gate(opened, begun, number)


def _unfinished(run: _Follower, last: int) -> Iterator[Span]:
    yield _phase(run.state, run.phase, last)
    for begun, intent in run.calls.values():
        yield _call(intent, begun, last, "wait", "no end is recorded", is_open=True)
    for begun, opened in run.gates.values():
        yield _gate(opened, begun, last, is_open=True)


def _call(intent: e.Intent, start: int, end: int, tone: Tone, how: str, *, is_open: bool = False) -> Span:
    what = f"attempt {intent.attempt}: {intent.tool}, {how}"
    return Span(row=intent.step, start=start, end=end, kind="call", tone=tone, what=what, is_open=is_open)


def _outcome(event: e.Complete | e.Abort) -> tuple[Tone, str]:
    match event:
        case e.Complete() if event.error:
            return "bad", "unusable"
        case e.Complete():
            return "good", "done"
        case e.Abort(outcome="not_done"):
            return "bad", "not done"
        case e.Abort():
            return "wait", "outcome unknown"


def _gate(opened: e.GateOpened, start: int, end: int, *, is_open: bool = False) -> Span:
    names = ", ".join(opened.names)
    what = f"waits for people: {names or opened.kind}"
    row = opened.step or "people"
    return Span(row=row, start=start, end=end, kind="gate", tone="wait", what=what, is_open=is_open)


def crashes(events: Iterable[e.Event]) -> int:
    """How often a process left calls behind."""
    return sum(isinstance(event, e.SessionResumed) and bool(event.in_flight) for event in events)
