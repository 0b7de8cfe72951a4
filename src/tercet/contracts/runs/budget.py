"""The budget of a run. Money is integer micro-cents internally; published shapes show cents."""

from __future__ import annotations

from pydantic import Field

from tercet.contracts.shape import Authored, Shape

MICROCENTS_PER_CENT = 1_000_000


class RunBudget(Authored):
    """The limits of one run."""

    max_steps: int = Field(default=12, ge=0)
    bucket_tokens: int = Field(default=8_000, ge=0)
    """The limit on the estimated tokens of all steps of a plan together."""
    tokens: int | None = Field(default=None, ge=0)
    tool_calls: int | None = Field(default=None, ge=0)
    cost_microcents: int | None = Field(default=None, ge=0)
    wall_clock_ms: int | None = Field(default=None, ge=0)
    max_parallel: int | None = Field(default=None, ge=1)
    """How many steps of a plan may run at once; None means as many as the executor has slots."""
    max_branch_depth: int = Field(default=3, ge=0, le=4)
    """How deep conditions on observed values may depend on each other."""
    max_replans: int = Field(default=2, ge=0)
    replans_rationale: str = ""
    """Why more than two re-plans are allowed; `tercet check` asks for it."""
    max_retries: int = Field(default=10, ge=0)
    max_step_retries: int = Field(default=3, ge=0)
    max_repairs: int = Field(default=3, ge=0)
    max_iterations: int = Field(default=50, ge=1)
    max_depth: int = Field(default=3, ge=0)
    """How deep runs may nest when their tools start further runs."""
    max_global_iterations: int = Field(default=200, ge=1)
    """How many iterations a run and all runs nested in it may take together."""


class BudgetUse(Shape):
    """What a run has used so far."""

    steps: int = 0
    tokens: int = 0
    tool_calls: int = 0
    cost_microcents: int = 0
    wall_clock_ms: int = 0
    replans: int = 0
    retries: int = 0
    repairs: int = 0


class BudgetRemaining(Shape):
    """The remaining budget as progress envelopes publish it; None where there is no limit."""

    tokens: int | None
    tool_calls: int | None
    cost_cents: float | None
    wall_clock_ms: int | None
