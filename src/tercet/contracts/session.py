"""A durable run, as the orchestration specification publishes it."""

from __future__ import annotations

from typing import Literal

from tercet.contracts.budget import BudgetRemaining
from tercet.contracts.shape import Shape, Timestamp

SessionStatus = Literal[
    "in_progress", "awaiting_gate", "paused", "completed", "failed", "expired", "rejected", "cancelled"
]


class Heartbeat(Shape):
    """How often a session gives a sign of life, and how long it may live."""

    interval_ms: int
    ttl_ms: int
    last_seen: Timestamp


class SessionCheckpoint(Shape):
    """A point of a session after a verdict of the critic."""

    checkpoint_id: str
    after_step: str
    critic_verdict: str
    saved_at: Timestamp


class BackgroundSession(Shape):
    """The durable row of a session."""

    session_id: str
    tenant_id: str
    pack_pin: str
    snapshot_pin: str
    intent: str
    started_at: Timestamp
    heartbeat: Heartbeat
    status: SessionStatus
    checkpoints: tuple[SessionCheckpoint, ...] = ()
    next_step: str | None = None
    owner_actor: str


class ProgressEnvelope(Shape):
    """How far a session is."""

    session_id: str
    progress_id: str
    emitted_at: Timestamp
    current_step: str | None
    completed_step_count: int
    total_step_count: int
    budget_remaining: BudgetRemaining
    awaiting_gate: str | None
