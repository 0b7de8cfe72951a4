"""The metrics by name, with their meaning and labels.

`tercet.action_dispatched` at an OTLP collector is `tercet_action_dispatched_total` at a Prometheus server. Label values
come from the pack and the runtime, never from a plan, a person or a tool's result.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Instrument:
    """A counter."""

    name: str
    text: str
    labels: tuple[str, ...] = ()
    unit: str = "1"

    @property
    def otlp(self) -> str:
        """Its name at a collector."""
        return f"tercet.{self.name}"

    @property
    def prometheus(self) -> str:
        """Its name at a Prometheus server."""
        return f"tercet_{self.name}_total"


def _counter(name: str, text: str, *labels: str, unit: str = "1") -> Instrument:
    return Instrument(name=name, text=text, labels=labels, unit=unit)


RUN_STARTED = _counter("run_started", "Runs that were started.", "intent", "risk_tier")
RUN_ENDED = _counter("run_ended", "Runs that ended, by status.", "intent", "risk_tier", "status")
COMMIT = _counter("commit", "Runs that were committed.", "intent", "risk_tier")
PLAN_REVIEWED = _counter("plan_reviewed", "Plans that the critic reviewed, by verdict.", "intent", "outcome")
PLAN_REFUSED = _counter("plan_refused", "Plans that the critic refused, by kind.", "intent", "kind")
REPLAN = _counter("replan", "Times that a planner was asked for another plan.", "intent")
STEP_ENDED = _counter("step_ended", "Steps that ended: completed, failed or skipped.", "intent", "outcome")
ACTION_DISPATCHED = _counter("action_dispatched", "Tool calls that were started.", "intent", "tool")
RETRY = _counter("retry", "Calls that were a second or later attempt.", "intent", "tool")
STEP_RETRIED = _counter("step_retried", "Retried steps that ended: recovered or lost.", "intent", "outcome")
COMPENSATION = _counter("compensation", "Compensations: completed or failed.", "intent", "outcome")
ESCALATION = _counter("escalation", "Escalations to a person.", "intent", "risk_tier")
LOOP_GUARD_TRIP = _counter("loop_guard_trip", "Times that the loop guard stopped a run.", "intent")
GATE_OPENED = _counter("gate_opened", "Gates that were opened, by kind.", "intent", "kind")
GATE_FAILURE = _counter("gate_failure", "Gates not passed: quality, denied or expired.", "intent", "reason")
CHECKPOINT_WRITTEN = _counter("checkpoint_written", "Checkpoints, by kind.", "intent", "kind")
CHECKPOINT_BYTES = _counter("checkpoint_bytes", "Bytes of checkpoints.", "intent", "kind", unit="By")
LOOP_RESUMED = _counter("loop_resumed", "Resumptions of runs.", "intent")
ACTION_RECOVERED = _counter("action_recovered", "Calls in flight when a run was resumed.", "intent")
COST = _counter("cost_microcents", "Money spent, in micro-cents, by phase.", "intent", "phase")
TOKENS = _counter("tokens", "Tokens used, by phase.", "intent", "phase", unit="{token}")
LANE_ENDED = _counter("lane_ended", "Lanes that ended: completed or not.", "intent", "outcome")

COUNTED = (
    RUN_STARTED, RUN_ENDED, COMMIT, PLAN_REVIEWED, PLAN_REFUSED, REPLAN, STEP_ENDED, ACTION_DISPATCHED, RETRY,
    STEP_RETRIED, COMPENSATION, ESCALATION, LOOP_GUARD_TRIP, GATE_OPENED, GATE_FAILURE, CHECKPOINT_WRITTEN,
    CHECKPOINT_BYTES, LOOP_RESUMED, ACTION_RECOVERED, COST, TOKENS, LANE_ENDED,
)  # fmt: skip
"""The instruments that count events."""

RUN_SAMPLED = _counter("telemetry_run", "Runs that were released, by whether they are traced.", "is_traced")
DROPPED = _counter("telemetry_dropped", "Telemetry that was dropped because it was not sent in time.", "what")
OWN = (RUN_SAMPLED, DROPPED)
"""The metrics of telemetry itself."""

SAFE_COMPLETION = "tercet.safe_completion"
SAFE_COMPLETION_SECONDS = "tercet_safe_completion_seconds"
SAFE_COMPLETION_TEXT = "Time from a request to its commit, waiting for people included."
SAFE_COMPLETION_LABELS = ("intent", "risk_tier")
BOUNDS_S = (
    0.01,
    0.05,
    0.1,
    0.5,
    1.0,
    5.0,
    15.0,
    60.0,
    300.0,
    1_800.0,
    7_200.0,
    43_200.0,
    86_400.0,
    604_800.0,
)
"""The upper bounds of its buckets, in seconds: from a run without people to one that waited a week."""
