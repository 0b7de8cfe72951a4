"""A durable session, as the orchestration specification publishes it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import Field

from tercet.contracts.runs.budget import BudgetRemaining, BudgetUse, RunBudget
from tercet.contracts.shape import TEN_YEARS_MS, Authored, JsonObject, Shape, Timestamp
from tercet.contracts.verdict import StepScore

SessionStatus = Literal[
    "in_progress", "awaiting_gate", "paused", "completed", "failed", "expired", "rejected", "cancelled"
]

RoleName = Literal["planner", "critic", "executor"]
"""The three roles of a run."""

WEEK_MS = 7 * 24 * 3_600_000
PLANNER_TIMEOUT_MS = 30_000
"""The planner's default time limit."""


class TenantBudget(Authored):
    """What each run of one tenant may use; None means the pack's limit."""

    tokens: int | None = Field(default=None, ge=0)
    tool_calls: int | None = Field(default=None, ge=0)
    cost_microcents: int | None = Field(default=None, ge=0)
    wall_clock_ms: int | None = Field(default=None, ge=0)


class TenantSessionRules(Authored):
    """The session rules of one tenant; None means the pack's."""

    ttl_ms: int | None = Field(default=None, ge=1, le=TEN_YEARS_MS)
    retention_days: int | None = Field(default=None, ge=1, le=36_500)
    budget: TenantBudget = TenantBudget()


class SessionRules(Authored):
    """The lifetime of a pack's sessions, when they count as lost, and which pack may resume them."""

    ttl_ms: int = Field(default=WEEK_MS, ge=1, le=TEN_YEARS_MS)
    """The lifetime of a session; at most ten years."""
    heartbeat_interval_ms: int = Field(default=30_000, ge=1)
    on_heartbeat_loss: Literal["pause", "resume"] = "pause"
    resume: Literal["same", "pinned"] = "same"
    """`same`: only the pack that a session is pinned to may resume it. `pinned`: a session may be resumed while a pack
    folder with its pinned hash is installed."""
    retention_days: int | None = Field(default=None, ge=1, le=36_500)
    """How long the record of a session is kept after its end; None means until it is deleted."""
    simulated_people: bool = True
    """Whether development sessions are allowed, in which one person may act as any actor."""
    tenants: Mapping[str, TenantSessionRules] = {}
    """The rules of tenants that differ from the pack's."""

    def for_tenant(self, tenant: str) -> SessionRules:
        """Return the rules that hold for a tenant."""
        own = self.tenants.get(tenant)
        if own is None:
            return self
        return self.model_copy(update=own.model_dump(exclude_none=True, exclude={"budget"}))

    def budget_for(self, tenant: str, budget: RunBudget) -> RunBudget:
        """Return the budget of a tenant's run, by that of the pack."""
        own = self.tenants.get(tenant)
        return budget if own is None else budget.model_copy(update=own.budget.model_dump(exclude_none=True))


class RoleLimit(Authored):
    """The time per turn and the tokens per run of a role; None means no limit of its own."""

    timeout_ms: int | None = Field(default=None, ge=1)
    tokens: int | None = Field(default=None, ge=0)


class Heartbeat(Shape):
    """The heartbeat interval and the lifetime of a session."""

    interval_ms: int
    ttl_ms: int
    last_seen: Timestamp


class SessionCheckpoint(Shape):
    """A checkpoint of a session after a verdict of the critic."""

    checkpoint_id: str
    after_step: str
    critic_verdict: str
    saved_at: Timestamp


class LoopCheckpoint(Shape):
    """A run at one of its checkpoints, derived from the events before it."""

    checkpoint_id: str
    loop_id: str
    """The id of the run."""
    k: int
    """How many events there were."""
    phase: str
    plan_id: str
    plan_state: dict[str, str]
    """The status of each step."""
    completed_actions: tuple[str, ...]
    pending_actions: tuple[str, ...]
    next_step: str | None
    outputs_so_far: JsonObject
    """The results of calls by step, large ones by their digest; or the outputs, once there are any."""
    used: BudgetUse
    token_consumption: int
    tool_transcript: tuple[str, ...]
    """The idempotency keys of the calls."""
    evidence_refs: tuple[str, ...]
    """The evidence that the plan was pinned to."""
    step_scores: tuple[StepScore, ...]
    """The scores of the steps; empty before the run was scored."""
    timestamp: Timestamp


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
    """The progress of a session."""

    session_id: str
    progress_id: str
    emitted_at: Timestamp
    current_step: str | None
    completed_step_count: int
    total_step_count: int
    budget_remaining: BudgetRemaining
    awaiting_gate: str | None
