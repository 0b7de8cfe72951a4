"""Counting events. Live metrics and `tercet stats` use the same counters, so they agree.

What an event counts for depends only on the event and the start of its session, so each process can count its part of a
run. The one exception is the purpose of a model's answer, which is recorded with the question.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

from tercet.contracts.loop import Phase
from tercet.contracts.plan import compensated_step
from tercet.core import events as e
from tercet.core.messages import TEMPLATE
from tercet.observe import instruments as i

PHASES = {"plan": Phase.PLAN, "critique": Phase.CRITIQUE, "repair": Phase.REPAIR}
"""The phase of a model request by its purpose; all others belong to VERIFY."""

_SCORED = "quality"
_FAILED_ANSWERS = {"deny": "denied", "abandon": "denied"}


@dataclass(frozen=True, kw_only=True)
class About:
    """The labels of a session's events."""

    run: str
    intent: str
    risk_tier: str
    started_at: int
    is_shadow: bool = False
    is_lane: bool = False
    is_fixed: bool = False
    """Whether its plan is a template of the pack, which is never re-planned."""

    @classmethod
    def of(cls, start: e.SessionStarted) -> About:
        """Return the labels from the start event of a session."""
        return cls(
            run=start.run,
            intent=start.request["intent"],
            risk_tier=start.risk_tier or "unknown",
            started_at=start.at,
            is_shadow=bool(start.shadow),
            is_lane=bool(start.root),
            is_fixed=start.planner == TEMPLATE,
        )


@dataclass
class Durations:
    """A histogram of durations."""

    within: list[int] = field(default_factory=lambda: [0] * (len(i.BOUNDS_S) + 1))
    """The number of durations in each bucket; the last bucket has no upper bound."""
    total_ms: int = 0
    least_ms: int = 0
    most_ms: int = 0

    def add(self, took_ms: int) -> None:
        """Count one duration."""
        self.least_ms = min(self.least_ms, took_ms) if any(self.within) else took_ms
        self.most_ms = max(self.most_ms, took_ms)
        self.total_ms += took_ms
        self.within[bisect_left(i.BOUNDS_S, took_ms / 1000)] += 1

    def merge(self, other: Durations) -> None:
        """Add the durations that another histogram has counted."""
        if any(other.within):
            self.least_ms = min(self.least_ms, other.least_ms) if any(self.within) else other.least_ms
        self.most_ms = max(self.most_ms, other.most_ms)
        self.total_ms += other.total_ms
        self.within = [mine + theirs for mine, theirs in zip(self.within, other.within, strict=True)]


class Tally:
    """Counters by instrument and labels. Rehearsals are not counted."""

    def __init__(self) -> None:
        self.counts: dict[tuple[str, tuple[str, ...]], int] = {}
        self.durations: dict[tuple[str, str], Durations] = {}
        """The durations of completed runs, by intent and tier."""
        self.parents = self.parent_replans = 0
        """The number of runs that are not lanes, and of their re-plans."""
        self._purposes: dict[tuple[str, int], str] = {}
        """The purpose of each open model request, by run and call."""

    def add(self, about: About, events: Iterable[e.Event]) -> None:
        """Count events of one session."""
        if about.is_shadow:
            return
        for event in events:
            count = _COUNTING.get(type(event))
            if count is not None:
                count(self, about, event)

    def add_checkpoint(self, about: About, kind: str, size: int) -> None:
        """Count a checkpoint."""
        if not about.is_shadow:
            self.count(i.CHECKPOINT_WRITTEN, about.intent, kind)
            self.count(i.CHECKPOINT_BYTES, about.intent, kind, by=size)

    def count(self, instrument: i.Instrument, *labels: str, by: int = 1) -> None:
        """Increment a counter."""
        key = (instrument.name, labels)
        self.counts[key] = self.counts.get(key, 0) + by

    def merge(self, other: Tally) -> None:
        """Add what another tally has counted."""
        for key, number in other.counts.items():
            self.counts[key] = self.counts.get(key, 0) + number
        for key, found in other.durations.items():
            self.durations.setdefault(key, Durations()).merge(found)
        self.parents += other.parents
        self.parent_replans += other.parent_replans

    # --- what each event counts for ---

    def session_started(self, about: About, _: e.SessionStarted) -> None:
        self.count(i.RUN_STARTED, about.intent, about.risk_tier)
        self.parents += not about.is_lane

    def session_resumed(self, about: About, event: e.SessionResumed) -> None:
        self.count(i.LOOP_RESUMED, about.intent)
        if event.in_flight:
            self.count(i.ACTION_RECOVERED, about.intent, by=len(event.in_flight))

    def session_ended(self, about: About, event: e.SessionEnded) -> None:
        self.count(i.RUN_ENDED, about.intent, about.risk_tier, event.status)
        is_completed = event.status == "completed"
        if about.is_lane:
            self.count(i.LANE_ENDED, about.intent, "completed" if is_completed else "failed")
        if is_completed:
            self.count(i.COMMIT, about.intent, about.risk_tier)
            self._time(about, event.at - about.started_at)

    def _time(self, about: About, took_ms: int) -> None:
        key = (about.intent, about.risk_tier)
        if key not in self.durations:
            self.durations[key] = Durations()
        self.durations[key].add(took_ms)

    def plan_reviewed(self, about: About, event: e.PlanReviewed) -> None:
        outcome, kind = str(event.verdict.get("outcome", "")), event.verdict.get("kind")
        self.count(i.PLAN_REVIEWED, about.intent, outcome)
        self._replanned(about, outcome)
        if outcome != "ok" and kind:
            self.count(i.PLAN_REFUSED, about.intent, str(kind))
        if kind == "loop_guard":
            self.count(i.LOOP_GUARD_TRIP, about.intent)

    def planning_failed(self, about: About, event: e.PlanningFailed) -> None:
        self._replanned(about, event.outcome)

    def turn_judged(self, about: About, event: e.TurnJudged) -> None:
        self._replanned(about, event.action)

    def _replanned(self, about: About, outcome: str) -> None:
        if outcome == "replan" and not about.is_fixed:
            self.count(i.REPLAN, about.intent)
            self.parent_replans += not about.is_lane

    def loop_guard_tripped(self, about: About, _: e.LoopGuardTripped) -> None:
        self.count(i.LOOP_GUARD_TRIP, about.intent)

    def intent(self, about: About, event: e.Intent) -> None:
        if event.tool:  # a note calls no tool
            self.count(i.ACTION_DISPATCHED, about.intent, event.tool)
            if event.attempt > 1:
                self.count(i.RETRY, about.intent, event.tool)

    def complete(self, about: About, event: e.Complete) -> None:
        if (event.cost or event.tokens) and not event.lane:  # a lane counts its own costs
            self._spent(about, _acting(event.step), event.cost, event.tokens)

    def step_judged(self, about: About, event: e.StepJudged) -> None:
        if event.outcome == "retry":
            return
        is_done = event.outcome == "accept" and not event.reason
        if compensated_step(event.step):
            if is_done:
                self.count(i.COMPENSATION, about.intent, "completed")
            return
        if event.attempt > 1:
            self.count(i.STEP_RETRIED, about.intent, "recovered" if is_done else "lost")
        if is_done:
            self.count(i.STEP_ENDED, about.intent, "completed")
        elif event.outcome != "accept":  # an optional step that failed is skipped next
            self.count(i.STEP_ENDED, about.intent, "failed")
            self._replanned(about, event.outcome)

    def step_skipped(self, about: About, event: e.StepSkipped) -> None:
        has_failed = event.reason == "optional_failed"
        if compensated_step(event.step):
            self.count(i.COMPENSATION, about.intent, "failed")
        else:
            self.count(i.STEP_ENDED, about.intent, "failed" if has_failed else "skipped")

    def run_reported(self, about: About, event: e.RunReported) -> None:
        self._replanned(about, event.outcome)
        if event.outcome != "accept":
            self.count(i.GATE_FAILURE, about.intent, _SCORED)

    def gate_opened(self, about: About, event: e.GateOpened) -> None:
        self.count(i.GATE_OPENED, about.intent, event.kind)
        if event.kind == "escalation":
            self.count(i.ESCALATION, about.intent, about.risk_tier)

    def gate_answered(self, about: About, event: e.GateAnswered) -> None:
        self._replanned(about, event.answer)
        if event.answer in _FAILED_ANSWERS:
            self.count(i.GATE_FAILURE, about.intent, _FAILED_ANSWERS[event.answer])

    def session_expired(self, about: About, event: e.SessionExpired) -> None:
        if event.gate:
            self.count(i.GATE_FAILURE, about.intent, "expired")

    def evidence_retrieved(self, about: About, event: e.EvidenceRetrieved) -> None:
        self._spent(about, Phase.RETRIEVE, event.cost, 0)

    def model_asked(self, about: About, event: e.ModelAsked) -> None:
        self._purposes[about.run, event.call] = event.purpose

    def model_answered(self, about: About, event: e.ModelAnswered) -> None:
        purpose = self._purposes.pop((about.run, event.call), "plan")
        phase = PHASES.get(purpose, Phase.VERIFY)
        self._spent(about, phase, event.cost, event.tokens_in + event.tokens_out)

    def _spent(self, about: About, phase: Phase, cost: int, tokens: int) -> None:
        if cost:
            self.count(i.COST, about.intent, phase, by=cost)
        if tokens:
            self.count(i.TOKENS, about.intent, phase, by=tokens)


class SharedTally(Tally):
    """A tally for several threads."""

    def __init__(self) -> None:
        super().__init__()
        self._lock = Lock()

    def count(self, instrument: i.Instrument, *labels: str, by: int = 1) -> None:
        """Increment a counter under a lock."""
        with self._lock:
            super().count(instrument, *labels, by=by)


def _acting(step: str) -> Phase:
    """Return the phase of a step: effects are compensated in FAIL."""
    return Phase.FAIL if compensated_step(step) else Phase.ACT


_COUNTING: dict[type[e.Event], Callable[[Tally, About, Any], None]] = {
    e.SessionStarted: Tally.session_started,
    e.SessionResumed: Tally.session_resumed,
    e.SessionEnded: Tally.session_ended,
    e.PlanReviewed: Tally.plan_reviewed,
    e.PlanningFailed: Tally.planning_failed,
    e.TurnJudged: Tally.turn_judged,
    e.LoopGuardTripped: Tally.loop_guard_tripped,
    e.Intent: Tally.intent,
    e.Complete: Tally.complete,
    e.StepJudged: Tally.step_judged,
    e.StepSkipped: Tally.step_skipped,
    e.RunReported: Tally.run_reported,
    e.GateOpened: Tally.gate_opened,
    e.GateAnswered: Tally.gate_answered,
    e.SessionExpired: Tally.session_expired,
    e.EvidenceRetrieved: Tally.evidence_retrieved,
    e.ModelAsked: Tally.model_asked,
    e.ModelAnswered: Tally.model_answered,
}
