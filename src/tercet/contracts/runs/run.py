"""The transcript of a run, which `score` reads."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from pydantic import AwareDatetime, Field

from tercet.contracts.context import CompiledContext, RunContext
from tercet.contracts.decision import DecisionSpec
from tercet.contracts.gate import Approval
from tercet.contracts.plan import Plan
from tercet.contracts.runs.budget import BudgetUse
from tercet.contracts.shape import Json, JsonObject, Shape


class Outcome(StrEnum):
    """How an attempt ended."""

    DONE = "done"
    NOT_DONE = "not_done"
    UNKNOWN = "unknown"


class ToolCall(Shape):
    """A resolved call."""

    step_id: str
    tool: str
    params: JsonObject = {}
    idempotency_key: str = ""
    attempt: int = 1
    started_at: AwareDatetime | None = None


class ToolResult(Shape):
    """The result of a call."""

    step_id: str
    outcome: Outcome
    value: Json = None
    error: str | None = None
    error_code: str | None = None
    latency_ms: int = 0
    tokens: int = 0
    cost_microcents: int = 0


class TranscriptEntry(Shape):
    """A call and its result."""

    call: ToolCall
    result: ToolResult


class SkippedStep(Shape):
    """A step that did not run, and why."""

    step_id: str
    reason: Literal["condition_false", "optional_failed", "not_reached", "outputs_not_accepted"]


class Run(Shape):
    """Everything about one execution that evaluators may read."""

    context: RunContext
    spec: DecisionSpec
    compiled: CompiledContext
    plan: Plan
    transcript: tuple[TranscriptEntry, ...] = ()
    skipped: tuple[SkippedStep, ...] = ()
    approvals: tuple[Approval, ...] = ()
    outputs: JsonObject = {}
    used: BudgetUse = Field(default_factory=BudgetUse)
