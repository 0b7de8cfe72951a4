"""Invocation policies, the states of the circuit breaker, and the states of an action."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from pydantic import AwareDatetime, Field

from tercet.contracts.loop import Phase
from tercet.contracts.shape import Json, JsonObject, Shape


class CircuitState(StrEnum):
    """The states of a circuit breaker."""

    CLOSED = "CLOSED"
    OPEN = "OPEN"
    HALF_OPEN = "HALF_OPEN"


class ActionStatus(StrEnum):
    """The states of an action between plan and result."""

    PENDING = "PENDING"
    DISPATCHED = "DISPATCHED"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"


ToolErrorCode = Literal["circuit_open", "non_retriable", "retries_exhausted"]


class ToolError(Shape):
    """Why the gateway gave up on a call."""

    code: ToolErrorCode
    tool: str
    attempts: int = 0
    detail: str = ""


class Backoff(Shape):
    """The delay before a retry: min(maximum, base * 2^retry + jitter), in milliseconds."""

    base_ms: int = Field(default=100, ge=0)
    maximum_ms: int = Field(default=10_000, ge=0)
    jitter_ms: int = Field(default=100, ge=0)


class InvocationPolicy(Shape):
    """The timeout, retry and isolation settings of one call."""

    timeout_ms: int = Field(ge=1)
    max_retries: int = Field(default=0, ge=0)
    backoff: Backoff = Field(default_factory=Backoff)
    circuit_state: CircuitState = CircuitState.CLOSED
    idempotency_key: str = ""


class LoopCheckpoint(Shape):
    """A point from which a loop can continue."""

    loop_id: str
    k: int = Field(ge=0)
    phase: Phase
    plan_state: JsonObject = {}
    completed_actions: tuple[str, ...] = ()
    pending_actions: tuple[str, ...] = ()
    outputs_so_far: dict[str, Json] = {}
    token_consumption: int = Field(default=0, ge=0)
    timestamp: AwareDatetime
