"""Statistics over many runs: pass rates, retries, escalations, durations and costs.

`figures` is pure. `tercet stats` prints its result; the live metrics use the same tally.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tercet.core import events as e
from tercet.observe import instruments as i
from tercet.observe.tally import About, Tally


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
