"""Spans, woven from the events of a run: one tree of the run, its phases, steps, calls, gates and questions to models.

    run ─┬─ PLAN ── chat MODEL
         ├─ DECOMPOSE, RETRIEVE, REVIEW
         ├─ ACT ─┬─ step s1 ── execute_tool TOOL, one for each attempt
         │       └─ step s2 ─┬─ gate approval: from the question to its answer
         │                   └─ execute_tool TOOL
         └─ VERIFY, CRITIQUE, REPAIR, COMMIT, FAIL, HALT

Pure: times are those that were recorded, and ids come from the run and the position of the event with which a span
begins. So it makes no difference who weaves, and when. No span outlives the one above it: whoever exports the end of a
run exports everything that leads down to what is new.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
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
    """Something that happened within a span."""

    name: str
    at: int
    attributes: Attributes = field(default_factory=dict[str, a.Value])


@dataclass(kw_only=True)
class Span:
    """A stretch of a run. Times are milliseconds since 1970; `first` and `last` are positions in the journal."""

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
    """The code word of what went wrong."""
    moments: list[Moment] = field(default_factory=list[Moment])


def weave(tenure: ReleasedSession, wants: Callable[[State], bool] = lambda _: True) -> list[Span]:
    """The spans that ended while this process carried a session, and those before it that nobody has exported.

    `wants` says whether a session that came to rest so is traced: where it was not, or where its process died, what
    happened before is told now.
    """
    loom, known = _Loom(tenure.state), 0
    state, resting = State(), (0, State())
    for position, event in enumerate(tenure.events, start=1):
        if isinstance(event, e.SessionResumed) and resting[0] < tenure.first and _is_told(resting[1], wants):
            known = resting[0]
        before, state = state, fold_event(state, event)
        loom.weave(position, event, before, state)
        if not getattr(event, "outside", False):
            resting = (position, state)
    return [span for span in loom.woven if span.last > known]


def _is_told(state: State, wants: Callable[[State], bool]) -> bool:
    """Whether a process that left a session so has exported what it knew."""
    return state.status in ("paused", "awaiting_gate") and wants(state)


class _Loom:
    """The spans that are open, each under its kind and name, and those that have ended."""

    def __init__(self, about: State) -> None:
        start = about.start
        self._run = str(start.run)
        self._asked: str = start.traceparent
        self._trace = trace_id_of(self._run, self._asked)
        self._open: dict[tuple[str, str], Span] = {}
        self._at = self._position = 0
        self.woven: list[Span] = []

    def weave(self, position: int, event: e.Event, before: State, after: State) -> None:
        """Take one event in."""
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
            told = a.of_end(after)
            self._end(RUN, "", "" if after.status == "completed" else after.status, told)

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
                pass  # what they say is in the span of the run, or of the phase that they end
            case _:
                self._open[RUN, ""].moments.append(self._moment(event))

    def _call(self, event: e.Intent | e.Complete | e.Abort) -> None:
        step = self._step(event.step)
        match event:
            case e.Intent() if event.tool:
                told = a.of_intent(event, self._position)
                self._begin(CALL, event.step, f"execute_tool {event.tool}", step.span_id, told)
            case e.Intent():
                pass  # a note calls nobody
            case e.Complete() if (CALL, event.step) in self._open:
                error = a.UNUSABLE if event.error else ""
                self._end(CALL, event.step, error, a.of_complete(event))
            case e.Abort() if (CALL, event.step) in self._open:
                self._end(CALL, event.step, a.word(event.code or event.outcome), a.of_abort(event))
            case e.Complete() | e.Abort():
                step.moments.append(self._moment(event))  # found out later, or after its phase was left

    def _step_ended(self, event: e.StepJudged | e.StepSkipped) -> None:
        span = self._step(event.step)
        if isinstance(event, e.StepJudged):
            span.attributes |= {"tercet.verdict": event.outcome, "tercet.attempts": event.attempt}
            if event.outcome == "retry" or (event.outcome == "accept" and event.reason):
                return  # it goes on, or is skipped next
        else:
            span.attributes["tercet.skipped"] = event.reason
        self._end_children(span)
        is_well = isinstance(event, e.StepJudged) and event.outcome == "accept"
        is_left_out = isinstance(event, e.StepSkipped) and event.reason == "condition_false"
        self._end(STEP, event.step, "" if is_well or is_left_out else "step_failed")

    def _model(self, event: e.ModelAsked | e.ModelAnswered) -> None:
        name = str(event.call)
        if isinstance(event, e.ModelAsked):
            told = a.of_question(event)
            called = f"chat {told[a.REQUEST_MODEL]}"
            self._begin(MODEL, name, called, self._open[PHASE, ""].span_id, told)
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
        """The span of a step, which begins with the first that is heard of it in this phase."""
        if (STEP, name) not in self._open:
            called = f"step {a.short(name)}"
            self._begin(STEP, name, called, self._open[PHASE, ""].span_id, {})
        return self._open[STEP, name]

    # --- beginning and ending ---

    def _begin_phase(self, state: State) -> None:
        phase = str(state.phase)
        told: Attributes = {"tercet.seq": self._position}
        self._begin(PHASE, "", phase, self._open[RUN, ""].span_id, told)
        for gate in state.gates.values():  # what was asked before the phase began still waits
            told = {"tercet.gate": gate.id, "tercet.gate.kind": gate.kind}
            self._begin(GATE, gate.id, f"gate {gate.kind}", self._open[PHASE, ""].span_id, told)

    def _leave_phase(self) -> None:
        for kind in (CALL, MODEL, GATE, STEP, PHASE):
            for _, name in self._of_kind(kind):
                self._end(kind, name, INTERRUPTED if kind in (CALL, MODEL) else "")

    def _end_children(self, step: Span) -> None:
        for key in [key for key, span in self._open.items() if span.parent_id == step.span_id]:
            self._end(*key)

    def _begin(self, kind: str, name: str, called: str, parent: str, told: Attributes) -> None:
        salted = kind if kind in (RUN, PHASE, CALL) else f"{kind}:{name}"
        self._open[kind, name] = Span(
            name=called,
            kind=kind,
            trace_id=self._trace,
            span_id=span_id_of(self._run, self._position, salted),
            parent_id=parent,
            start=self._at,
            first=self._position,
            attributes=told,
        )

    def _end(self, kind: str, name: str, error: str = "", told: Attributes | None = None) -> None:
        span = self._open.pop((kind, name))
        span.attributes |= told or {}
        span.end, span.last, span.error = self._at, self._position, error
        self.woven.append(span)

    def _of_kind(self, kind: str) -> list[tuple[str, str]]:
        return [key for key in self._open if key[0] == kind]

    def _moment(self, event: e.Event) -> Moment:
        return Moment(name=a.action_of(event), at=self._at, attributes=a.of_moment(event))


def roots(spans: Sequence[Span]) -> Iterator[Span]:
    """The spans whose parent is not among these."""
    known = {span.span_id for span in spans}
    yield from (span for span in spans if span.parent_id not in known)
