"""A durable run, as the orchestration specification publishes it."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from tercet.contracts.budget import BudgetRemaining
from tercet.contracts.shape import TEN_YEARS_MS, Authored, Shape, Timestamp

SessionStatus = Literal[
    "in_progress", "awaiting_gate", "paused", "completed", "failed", "expired", "rejected", "cancelled"
]

RoleName = Literal["planner", "critic", "executor"]
"""The three roles of a run."""

WEEK_MS = 7 * 24 * 3_600_000
PLANNER_TIMEOUT_MS = 30_000
"""How long a planner may take where the pack does not say."""


class SessionRules(Authored):
    """How long the sessions of a pack live, when they count as lost, and what may go on with them."""

    ttl_ms: int = Field(default=WEEK_MS, ge=1, le=TEN_YEARS_MS)
    """How long a session lives, at most ten years."""
    heartbeat_interval_ms: int = Field(default=30_000, ge=1)
    on_heartbeat_loss: Literal["pause", "resume"] = "pause"
    resume: Literal["same", "pinned"] = "same"
    """`same`: only the pack that a session is pinned to goes on with it. `pinned`: a session may go on while a pack
    folder with its pinned hash is still installed."""
    retention_days: int | None = Field(default=None, ge=1, le=36_500)
    """How long the record of a session is kept after its end; None means: until somebody deletes it."""
    simulated_people: bool = True
    """Whether a development session of this pack may be started, in which one person acts as any actor."""


class RoleLimit(Authored):
    """How long a role may take at a time, and how many tokens it may use in a run; None means no limit of its own."""

    timeout_ms: int | None = Field(default=None, ge=1)
    tokens: int | None = Field(default=None, ge=0)


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
