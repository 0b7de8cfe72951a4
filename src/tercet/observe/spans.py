"""Spans built from the events of a run: one tree of the run, its phases, steps, calls, gates and questions to models.

    run ─┬─ PLAN ── chat MODEL
         ├─ DECOMPOSE, RETRIEVE, REVIEW
         ├─ ACT ─┬─ step s1 ── execute_tool TOOL, one for each attempt
         │       └─ step s2 ─┬─ gate approval: from the question to its answer
         │                   └─ execute_tool TOOL
         └─ VERIFY, CRITIQUE, REPAIR, COMMIT, FAIL, HALT

Pure: times are the recorded ones, and ids are computed from the run and the position of the span's first event, so the
result does not depend on the process. No span outlives its parent.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from tercet.contracts.runs.trace_context import read_traceparent, span_id_of, trace_id_of
from tercet.core import events as e
from tercet.core.fold.apply import fold_event
from tercet.core.state import State
from tercet.engine.subscription import CALL, ReleasedSession
from tercet.observe import attributes as a
from tercet.observe.attributes import Attributes

RUN, PHASE, STEP, GATE, MODEL = "run", "phase", "step", "gate", "model"
INTERRUPTED = "interrupted"


@dataclass(frozen=True, kw_only=True)
class Moment:
    """An event within a span."""

    name: str
    at: int
    attributes: Attributes = field(default_factory=dict[str, a.Value])


@dataclass(kw_only=True)
class Span:
    """A part of a run. Times are milliseconds since 1970; `first` and `last` are positions in the journal."""

    name: str
    kind: str
    trace_id: str
    span_id: str
    parent_id: str
    start: int
    first: int
    attributes: Attributes
    end: int = 0
    last: int = 0
    error: str = ""
    """The error code."""
    moments: list[Moment] = field(default_factory=list[Moment])


def build_spans(tenure: ReleasedSession, wants: Callable[[State], bool] = lambda _: True) -> list[Span]:
    """Return the spans that ended while this process held a session, and earlier ones that were not exported.

    `wants` returns whether a session that was released in a state is traced. If it was not traced before, or its process
    died, the earlier spans are exported now.
    """
    loom, known = _SpanBuilder(tenure.state), 0
    state, resting = State(), (0, State())
    for position, event in enumerate(tenure.events, start=1):
        if (
            isinstance(event, e.SessionResumed)
            and resting[0] < tenure.first
            and _is_exported(resting[1], wants)
        ):
            known = resting[0]
        before, state = state, fold_event(state, event)
        loom.build_spans(position, event, before, state)
        if not getattr(event, "outside", False):
            resting = (position, state)
    return [span for span in loom.woven if span.last > known]


def _is_exported(state: State, wants: Callable[[State], bool]) -> bool:
    """Return whether a process that left a session in this state has exported its spans."""
    return state.status in ("paused", "awaiting_gate") and wants(state)


class _SpanBuilder:
    """Builds spans: the open ones by kind and name, and those that have ended."""

    def __init__(self, about: State) -> None:
        start = about.start
        self._run = str(start.run)
        self._asked: str = start.traceparent
        self._trace = trace_id_of(self._run, self._asked)
        self._open: dict[tuple[str, str], Span] = {}
        self._at = self._position = 0
        self.woven: list[Span] = []

    def build_spans(self, position: int, event: e.Event, before: State, after: State) -> None:
        """Add one event."""
        self._at, self._position = max(after.at, event.at), position
        if not before.is_started:
            parent = read_traceparent(self._asked).span_id if self._asked else ""
            self._begin(RUN, "", f"run {after.start.decision}", parent, a.of_start(after.start))
            self._begin_phase(before)
        self._take(event)
        for _, gate in self._of_kind(GATE):
            if gate not in after.gates:
                self._end(GATE, gate)
        if after.phase is not before.phase:
            self._leave_phase()
            self._begin_phase(after)
        if after.is_over:
            self._leave_phase()
            attrs = a.of_end(after)
            self._end(RUN, "", "" if after.status == "completed" else after.status, attrs)

    # --- events ---

    def _take(self, event: e.Event) -> None:
        match event:
            case e.Intent() | e.Complete() | e.Abort():
                self._call(event)
            case e.RetryScheduled() | e.StepRefused() | e.Settled() | e.RepeatsChecked():
                self._step(event.step).moments.append(self._moment(event))
            case e.StepJudged() | e.StepSkipped():
                self._step_ended(event)
            case e.ModelAsked() | e.ModelAnswered():
                self._model(event)
            case e.GateOpened() | e.GateAnswered():
                self._gate(event)
            case e.PlanReviewed() | e.RunReported() | e.EvidenceRetrieved() | e.Decomposed():
                self._open[PHASE, ""].attributes |= a.of_phase_end(event)
            case e.SessionResumed():
                for kind, name in (*self._of_kind(CALL), *self._of_kind(MODEL)):
                    self._end(kind, name, INTERRUPTED)  # its process has died
                self._open[RUN, ""].moments.append(self._moment(event))
            case e.SessionStarted() | e.SessionEnded() | e.OutputsProduced() | e.PlanProposed():
                pass  # they are attributes of the run's span, or of the phase that they end
            case _:
                self._open[RUN, ""].moments.append(self._moment(event))

    def _call(self, event: e.Intent | e.Complete | e.Abort) -> None:
        step = self._step(event.step)
        match event:
            case e.Intent() if event.tool:
                attrs = a.of_intent(event, self._position)
                self._begin(CALL, event.step, f"execute_tool {event.tool}", step.span_id, attrs)
            case e.Intent():
                pass  # a note calls no tool
            case e.Complete() if (CALL, event.step) in self._open:
                error = a.UNUSABLE if event.error else ""
                self._end(CALL, event.step, error, a.of_complete(event))
            case e.Abort() if (CALL, event.step) in self._open:
                self._end(CALL, event.step, a.word(event.code or event.outcome), a.of_abort(event))
            case e.Complete() | e.Abort():
                step.moments.append(self._moment(event))  # reconciled later, or after its phase ended

    def _step_ended(self, event: e.StepJudged | e.StepSkipped) -> None:
        span = self._step(event.step)
        if isinstance(event, e.StepJudged):
            span.attributes |= {"tercet.verdict": event.outcome, "tercet.attempts": event.attempt}
            if event.outcome == "retry" or (event.outcome == "accept" and event.reason):
                return  # it continues, or is skipped next
        else:
            span.attributes["tercet.skipped"] = event.reason
        self._end_children(span)
        is_well = isinstance(event, e.StepJudged) and event.outcome == "accept"
        is_left_out = isinstance(event, e.StepSkipped) and event.reason == "condition_false"
        self._end(STEP, event.step, "" if is_well or is_left_out else "step_failed")

    def _model(self, event: e.ModelAsked | e.ModelAnswered) -> None:
        name = str(event.call)
        if isinstance(event, e.ModelAsked):
            attrs = a.of_question(event)
            called = f"chat {attrs[a.REQUEST_MODEL]}"
            self._begin(MODEL, name, called, self._open[PHASE, ""].span_id, attrs)
        elif (MODEL, name) in self._open:
            self._end(MODEL, name, event.code and a.word(event.code), a.of_answer(event))

    def _gate(self, event: e.GateOpened | e.GateAnswered) -> None:
        if isinstance(event, e.GateOpened):
            is_steps = bool(event.step) and event.kind in ("approval", "reconcile")
            above = self._step(event.step) if is_steps else self._open[PHASE, ""]
            self._begin(GATE, event.gate, f"gate {event.kind}", above.span_id, a.of_gate(event))
        elif (GATE, event.gate) in self._open:
            span = self._open[GATE, event.gate]
            span.attributes["tercet.gate.answer"] = event.answer
            span.moments.append(self._moment(event))

    def _step(self, name: str) -> Span:
        """Return the span of a step, which starts with its first event in this phase."""
        if (STEP, name) not in self._open:
            called = f"step {a.short(name)}"
            self._begin(STEP, name, called, self._open[PHASE, ""].span_id, {})
        return self._open[STEP, name]

    # --- beginning and ending ---

    def _begin_phase(self, state: State) -> None:
        phase = str(state.phase)
        attrs: Attributes = {"tercet.seq": self._position}
        self._begin(PHASE, "", phase, self._open[RUN, ""].span_id, attrs)
        for gate in state.gates.values():  # gates that were opened before the phase are still open
            attrs = {"tercet.gate": gate.id, "tercet.gate.kind": gate.kind}
            self._begin(GATE, gate.id, f"gate {gate.kind}", self._open[PHASE, ""].span_id, attrs)

    def _leave_phase(self) -> None:
        for kind in (CALL, MODEL, GATE, STEP, PHASE):
            for _, name in self._of_kind(kind):
                self._end(kind, name, INTERRUPTED if kind in (CALL, MODEL) else "")

    def _end_children(self, step: Span) -> None:
        for key in [key for key, span in self._open.items() if span.parent_id == step.span_id]:
            self._end(*key)

    def _begin(self, kind: str, name: str, called: str, parent: str, attrs: Attributes) -> None:
        salted = kind if kind in (RUN, PHASE, CALL) else f"{kind}:{name}"
        self._open[kind, name] = Span(
            name=called,
            kind=kind,
            trace_id=self._trace,
            span_id=span_id_of(self._run, self._position, salted),
            parent_id=parent,
            start=self._at,
            first=self._position,
            attributes=attrs,
        )

    def _end(self, kind: str, name: str, error: str = "", attrs: Attributes | None = None) -> None:
        span = self._open.pop((kind, name))
        span.attributes |= attrs or {}
        span.end, span.last, span.error = self._at, self._position, error
        self.woven.append(span)

    def _of_kind(self, kind: str) -> list[tuple[str, str]]:
        return [key for key in self._open if key[0] == kind]

    def _moment(self, event: e.Event) -> Moment:
        return Moment(name=a.action_of(event), at=self._at, attributes=a.of_moment(event))
