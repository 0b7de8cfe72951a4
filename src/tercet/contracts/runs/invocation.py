"""The states of a circuit breaker, and the delay between two attempts."""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field

from tercet.contracts.shape import Shape


class CircuitState(StrEnum):
    """The states of a circuit breaker."""

    CLOSED = "CLOSED"
    OPEN = "OPEN"
    HALF_OPEN = "HALF_OPEN"


class Backoff(Shape):
    """The delay before a retry: min(maximum, base * 2^retry + jitter), in milliseconds."""

    base_ms: int = Field(default=100, ge=0)
    maximum_ms: int = Field(default=10_000, ge=0)
    jitter_ms: int = Field(default=100, ge=0)
