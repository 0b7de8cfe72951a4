"""The timeline of a run: phases, calls, waiting for people, questions to models, and lost processes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from tercet.contracts.loop import Phase
from tercet.core import events as e
from tercet.core.fold.apply import fold_event
from tercet.core.state import State
from tercet.view.plan import call_outcome
from tercet.view.vocabulary import CALL_OUTCOMES, Tone, step_text

SpanKind: TypeAlias = Literal["phase", "call", "gate", "model", "lost"]
_PHASES: dict[Phase, Tone] = {Phase.FAIL: "bad", Phase.HALT: "wait", Phase.COMMIT: "good"}
PHASES, PROCESSES, MODELS, PEOPLE = "phases", "processes", "models", "people"


@dataclass(frozen=True, kw_only=True)
class Span:
    """A period of a run from one event to another, by their positions from 0."""

    row: str
    """The step, or one of the rows that belong to no step."""
    start: int
    end: int
    start_at: int
    end_at: int
    kind: SpanKind
    tone: Tone
    text: str
    is_open: bool = False
    """Whether it has not ended."""


@dataclass(frozen=True, kw_only=True)
class Timeline:
    """The spans of a run and the times of its events."""

    times: tuple[int, ...]
    spans: tuple[Span, ...]

    @property
    def rows(self) -> tuple[str, ...]:
        """The rows in their order: phases and processes first."""
        names = list(dict.fromkeys(span.row for span in self.spans))
        return tuple(sorted(names, key=lambda name: name not in (PHASES, PROCESSES)))

    def window(self, first: int, last: int) -> Timeline:
        """Return the part from one position up to another one, which is not included."""
        end = min(last, len(self.times))
        return Timeline(
            times=self.times[first:end],
            spans=tuple(
                replace(
                    span,
                    start=max(span.start, first) - first,
                    end=min(span.end, end - 1) - first,
                    is_open=span.is_open and end == len(self.times),
                )
                for span in self.spans
                if span.start < end and span.end >= first
            ),
        )


def timeline(events: Sequence[e.Event]) -> Timeline | None:
    """Return the timeline of a run; None if nothing has happened since its start."""
    if len(events) < 2:
        return None
    return Timeline(times=tuple(event.at for event in events), spans=tuple(_Follower(events).spans()))


def lost_processes(events: Iterable[e.Event]) -> int:
    """Return the number of processes that were lost with calls in flight."""
    return sum(isinstance(event, e.SessionResumed) and bool(event.in_flight) for event in events)


class _Follower:
    """Folds a run, and tracks the spans that have not ended."""

    def __init__(self, events: Sequence[e.Event]) -> None:
        self._events = events
        self._state = State()
        self._phase = 0
        self._calls: dict[str, tuple[int, e.Intent]] = {}
        self._gates: dict[str, tuple[int, e.GateOpened]] = {}
        self._asked: tuple[int, e.ModelAsked] | None = None

    def spans(self) -> Iterator[Span]:
        for number, event in enumerate(self._events):
            before, self._state = self._state, fold_event(self._state, event)
            if self._state.phase is not before.phase:
                yield self._phase_span(before, number)
                self._phase = number
            yield from self._take(number, event)
            for gate in [name for name in self._gates if name not in self._state.gates]:
                yield self._gate(*self._gates.pop(gate), number)
        yield from self._unfinished(len(self._events) - 1)

    def _span(
        self, row: str, start: int, end: int, kind: SpanKind, tone: Tone, text: str, *, is_open: bool = False
    ) -> Span:
        return Span(
            row=step_text(row), start=start, end=end, start_at=self._events[start].at, end_at=self._events[end].at, kind=kind, tone=tone,
            text=text, is_open=is_open,
        )  # fmt: skip

    def _phase_span(self, state: State, end: int) -> Span:
        return self._span(
            PHASES, self._phase, end, "phase", _PHASES.get(state.phase, "busy"), str(state.phase)
        )

    def _take(self, number: int, event: e.Event) -> Iterator[Span]:
        match event:
            case e.Intent() if event.tool:
                self._calls[event.step] = (number, event)
            case e.Complete() | e.Abort() if event.step in self._calls:
                begun, intent = self._calls.pop(event.step)
                yield self._call(intent, begun, number, call_outcome(event))
            case e.SessionResumed() if self._calls:
                yield from self._lost(number)
            case e.GateOpened():
                self._gates[event.gate] = (number, event)
            case e.ModelAsked():
                self._asked = (number, event)
            case e.ModelAnswered() if self._asked is not None:
                begun, asked = self._asked
                self._asked = None
                text = f"{asked.model}: {'no answer' if event.code else 'answered'}"
                yield self._span(MODELS, begun, number, "model", "bad" if event.code else "good", text)
            case _:
                pass

    def _lost(self, number: int) -> Iterator[Span]:
        """Yield the calls that a lost process left, from its last event to when another process took over."""
        lost = (
            f"process lost: it left {', '.join(self._calls)} in flight, and another process resumed the run"
        )
        yield self._span(PROCESSES, number - 1, number, "lost", "bad", lost)
        for begun, intent in self._calls.values():
            yield self._call(intent, begun, number, "cut off")
        self._calls.clear()

    def _unfinished(self, last: int) -> Iterator[Span]:
        yield self._phase_span(self._state, last)
        for begun, intent in self._calls.values():
            yield self._call(intent, begun, last, "running", is_open=True)
        for begun, opened in self._gates.values():
            yield self._gate(begun, opened, last, is_open=True)

    def _call(self, intent: e.Intent, start: int, end: int, outcome: str, *, is_open: bool = False) -> Span:
        _, tone, word = CALL_OUTCOMES[outcome]
        text = f"attempt {intent.attempt}: {intent.tool}, {word}"
        return self._span(intent.step, start, end, "call", "wait" if is_open else tone, text, is_open=is_open)

    def _gate(self, start: int, opened: e.GateOpened, end: int, *, is_open: bool = False) -> Span:
        text = f"waits for people: {', '.join(opened.names) or opened.kind}"
        return self._span(opened.step or PEOPLE, start, end, "gate", "wait", text, is_open=is_open)
