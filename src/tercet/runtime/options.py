"""What a runtime may be configured with besides its pack and its journal."""

from __future__ import annotations

import os
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from tercet.contracts.errors import UsageError
from tercet.contracts.shape import TEN_YEARS_MS
from tercet.engine.leases import LEASE_MS, Held
from tercet.engine.models.session import OpenModel
from tercet.engine.subscription import Signal
from tercet.evidence.retrieval import Retriever
from tercet.executor.breaker import CircuitBreaker
from tercet.executor.clock import Clock
from tercet.journal.errors import LeaseHeld
from tercet.journal.protocol import SessionRow
from tercet.models.opening import open_model


def _new_id() -> str:
    return os.urandom(8).hex()


def _wait_on(_: LeaseHeld) -> None:
    """Go on waiting for a session that another process has."""


@dataclass(frozen=True, kw_only=True)
class RuntimeOptions:
    """Options that most runtimes leave at their defaults."""

    lease_ms: int = LEASE_MS
    """How long a process may be silent before another one may take its sessions over."""
    breaker: CircuitBreaker = field(default_factory=CircuitBreaker)
    """When a tool that keeps failing is no longer called."""
    held: Held = _wait_on
    """Called at every look while another process has a session; it may raise to wait no longer."""
    signal: Signal | None = None
    """Receives named measurements, such as `checkpoint_written` and `lease_wait`."""
    retriever: Retriever | None = None
    """Searches the evidence store; by words where none is given."""
    open_model: OpenModel = open_model
    """Opens language models by their names."""
    is_front: bool = False
    """Whether runs that callers start, resume or migrate are only recorded here, and left to a worker."""
    is_queued: Callable[[SessionRow], bool] = lambda _: False
    """Whether a worker of this process will carry a session on, so that the watchdog leaves it alone."""
    clock: Clock | None = None
    ids: Callable[[], str] = _new_id
    """Makes the ids of sessions and runs."""
    draw: Callable[[], float] = random.random
    """Draws from [0, 1): the jitter of retries."""
    crash: Callable[[str], Awaitable[None] | None] = lambda _: None
    """Called at every named crash point; does nothing outside of tests."""


def demand_period(watchdog_ms: int | None) -> int | None:
    if watchdog_ms is not None and watchdog_ms < 1:
        raise UsageError(
            f"a watchdog cannot look every {watchdog_ms} ms",
            code="wrong_period",
            remedy="give how many milliseconds lie between two looks, or None for no watchdog",
        )
    return watchdog_ms


def demand_life(ttl_ms: int | None) -> None:
    if ttl_ms is not None and not 1 <= ttl_ms <= TEN_YEARS_MS:
        raise UsageError(
            f"a session cannot live for {ttl_ms:,} ms",
            code="wrong_ttl",
            remedy="give how many milliseconds it may live, at most ten years, or None for what its pack says",
        )
