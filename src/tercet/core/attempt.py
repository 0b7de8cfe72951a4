"""Outcomes of call attempts, and the delay before a retry."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import msgspec

from tercet.contracts.runs.invocation import Backoff


class Done(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The call happened. `error` says why its result cannot be used."""

    value: Any = None
    error: str = ""
    latency_ms: int = 0


class NotHappened(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The call did not happen, so trying again is safe."""

    error: str
    code: str = "not_done"
    is_retriable: bool = True
    retry_after_ms: int = 0
    """The time in ms before a retry could succeed, as far as the tool knows."""
    is_attempt_only: bool = False
    """Whether earlier attempts may still have happened."""
    latency_ms: int = 0


class Unknown(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """It is unknown whether the call happened, so a blind retry is not safe."""

    error: str
    code: str = "unknown"
    lane: str = ""
    """The session of a lane that waits for a person."""
    latency_ms: int = 0


Ended: TypeAlias = Done | NotHappened | Unknown


def delay_ms(backoff: Backoff, retry: int, draw: Callable[[], float]) -> int:
    """Return min(maximum, base * 2^retry + random jitter)."""
    jitter = int(draw() * backoff.jitter_ms)
    return min(backoff.maximum_ms, backoff.base_ms * 2 ** min(retry, 30) + jitter)
