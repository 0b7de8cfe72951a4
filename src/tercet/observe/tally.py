"""Counting events. Live metrics and `tercet stats` use the same counters, so they agree.

What an event counts for depends only on the event and the start of its session, so each process can count its part of a
run. The one exception is the purpose of a model's answer, which is recorded with the question.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
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


# --- figures ---


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """A recorded session: its events, and kind and size of each checkpoint."""

    events: Sequence[e.Event]
    checkpoints: Sequence[tuple[str, int]] = ()


@dataclass(frozen=True, kw_only=True)
class Figures:
    """Statistics over runs. A rate is None if there is nothing to divide by."""

    runs: int
    ended: dict[str, int]
    """By status."""
    commits: int
    mean_time_to_safe_completion_ms: float | None
    """From a request to its commit, waiting for people included."""
    plans_reviewed: int
    plans_passed: int
    plan_pass_rate: float | None
    plans_refused: dict[str, int]
    """By kind."""
    replans: int
    """How often a planner was asked for another plan; templates are not."""
    steps: dict[str, int]
    """Those that ended: completed, failed, skipped."""
    step_completion_rate: float | None
    """Completed ones among those that were tried."""
    actions_dispatched: dict[str, int]
    """By tool."""
    retries: int
    retry_rate: float | None
    """Calls that were another attempt, among all calls."""
    steps_recovered: int
    steps_lost: int
    recovery_rate: float | None
    """Retried steps that completed, among all retried ones."""
    compensations: dict[str, int]
    loop_guard_trips: int
    loop_guard_trip_rate: float | None
    """Trips a run."""
    gates_opened: dict[str, int]
    """By kind."""
    gate_failures: dict[str, int]
    """By reason: quality, denied, expired."""
    escalations: dict[str, int]
    """By risk tier."""
    escalation_rate: dict[str, float | None]
    """Escalations a run, by risk tier."""
    checkpoints_written: int
    checkpoint_bytes: int
    loops_resumed: int
    """How often a process resumed a run: after an answer, a pause or the death of its process."""
    actions_recovered: int
    """Calls that were in flight then: their process had died, or was asked to stop."""
    cost_microcents: dict[str, int]
    """By phase."""
    tokens: dict[str, int]
    """By phase."""
    lanes: dict[str, int]
    """Lanes that ended: completed or failed."""
    lane_success_rate: float | None
    """The share of these that completed."""
    parent_replan_rate: float | None
    """Re-plans per run, lanes not counted."""

    def as_json(self) -> dict[str, Any]:
        """Return the figures as JSON."""
        return asdict(self)


def figures(runs: Iterable[Recorded]) -> Figures:
    """Return the figures of recorded runs."""
    tally = Tally()
    for run in runs:
        count_run(tally, run)
    return figures_of(tally)


def count_run(tally: Tally, run: Recorded) -> None:
    """Count one recorded run."""
    if not run.events or not isinstance(run.events[0], e.SessionStarted):
        return  # not the stream of a run
    about = About.of(run.events[0])
    tally.add(about, run.events)
    for kind, size in run.checkpoints:
        tally.add_checkpoint(about, kind, size)


def figures_of(tally: Tally) -> Figures:
    """Return the figures of a tally."""
    read = _Reader(tally)
    runs = read.total(i.RUN_STARTED)
    reviewed, steps = read.by(i.PLAN_REVIEWED, "outcome"), read.by(i.STEP_ENDED, "outcome")
    retried = read.by(i.STEP_RETRIED, "outcome")
    recovered, lost = retried.get("recovered", 0), retried.get("lost", 0)
    calls, retries = read.total(i.ACTION_DISPATCHED), read.total(i.RETRY)
    started, escalated = read.by(i.RUN_STARTED, "risk_tier"), read.by(i.ESCALATION, "risk_tier")
    completed, commits = steps.get("completed", 0), read.total(i.COMMIT)
    lanes = read.by(i.LANE_ENDED, "outcome")
    trips, passed = read.total(i.LOOP_GUARD_TRIP), reviewed.get("ok", 0)
    return Figures(
        runs=runs,
        ended=read.by(i.RUN_ENDED, "status"),
        commits=commits,
        mean_time_to_safe_completion_ms=_rate(
            sum(each.total_ms for each in tally.durations.values()), commits
        ),
        plans_reviewed=sum(reviewed.values()),
        plans_passed=passed,
        plan_pass_rate=_rate(passed, sum(reviewed.values())),
        plans_refused=read.by(i.PLAN_REFUSED, "kind"),
        replans=read.total(i.REPLAN),
        steps=steps,
        step_completion_rate=_rate(completed, completed + steps.get("failed", 0)),
        actions_dispatched=read.by(i.ACTION_DISPATCHED, "tool"),
        retries=retries,
        retry_rate=_rate(retries, calls),
        steps_recovered=recovered,
        steps_lost=lost,
        recovery_rate=_rate(recovered, recovered + lost),
        compensations=read.by(i.COMPENSATION, "outcome"),
        loop_guard_trips=trips,
        loop_guard_trip_rate=_rate(trips, runs),
        gates_opened=read.by(i.GATE_OPENED, "kind"),
        gate_failures=read.by(i.GATE_FAILURE, "reason"),
        escalations=escalated,
        escalation_rate={tier: _rate(escalated.get(tier, 0), number) for tier, number in started.items()},
        checkpoints_written=read.total(i.CHECKPOINT_WRITTEN),
        checkpoint_bytes=read.total(i.CHECKPOINT_BYTES),
        loops_resumed=read.total(i.LOOP_RESUMED),
        actions_recovered=read.total(i.ACTION_RECOVERED),
        cost_microcents=read.by(i.COST, "phase"),
        tokens=read.by(i.TOKENS, "phase"),
        lanes=lanes,
        lane_success_rate=_rate(lanes.get("completed", 0), sum(lanes.values())),
        parent_replan_rate=_rate(tally.parent_replans, tally.parents),
    )


def _rate(part: float, whole: float) -> float | None:
    return round(part / whole, 6) if whole else None


class _Reader:
    """Sums over labels."""

    def __init__(self, tally: Tally) -> None:
        self._counts = dict(tally.counts)

    def total(self, instrument: i.Instrument) -> int:
        """Return the sum over all labels."""
        return sum(number for (name, _), number in self._counts.items() if name == instrument.name)

    def by(self, instrument: i.Instrument, label: str) -> dict[str, int]:
        """Return the sums by one label, sorted."""
        place, found = instrument.labels.index(label), Counter[str]()
        for (name, labels), number in self._counts.items():
            if name == instrument.name:
                found[labels[place]] += number
        return dict(sorted(found.items()))
