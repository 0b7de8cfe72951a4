"""Options of a runtime, and the arguments of a run."""

from __future__ import annotations

import os
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from tercet.contracts.errors import UsageError
from tercet.contracts.mode import ApprovalMode
from tercet.contracts.plan import Plan
from tercet.contracts.request import Actor, Request
from tercet.contracts.shape import TEN_YEARS_MS
from tercet.engine.lanes import LaneStart
from tercet.engine.leases import LEASE_MS, Held
from tercet.engine.models.planners import PlannerName
from tercet.engine.models.session import OpenModel
from tercet.engine.personal.vault import SealedRequest
from tercet.engine.planning import AnyPlanner
from tercet.engine.subscription import Signal
from tercet.evidence.retrieval import Retriever
from tercet.executor.breaker import CircuitBreaker
from tercet.executor.clock import Clock
from tercet.executor.threads import HeavyWork
from tercet.journal.errors import LeaseHeld
from tercet.journal.protocol import SessionRow
from tercet.models.opening import open_model
from tercet.runtime.live import Keep
from tercet.tools import ToolContext


def _new_id() -> str:
    return os.urandom(8).hex()


def _keep_waiting(_: LeaseHeld) -> None:
    """Keep waiting for a session that another process runs."""


@dataclass(frozen=True, kw_only=True)
class RuntimeOptions:
    """Options that most runtimes leave at their defaults."""

    lease_ms: int = LEASE_MS
    """How long a process may be silent before another one may resume its sessions."""
    breaker: CircuitBreaker = field(default_factory=CircuitBreaker)
    """When a tool that keeps failing is no longer called."""
    held: Held = _keep_waiting
    """Called repeatedly while another process holds a session; it may raise to stop waiting."""
    signal: Signal | None = None
    """Receives named measurements, such as `checkpoint_written` and `lease_wait`."""
    retriever: Retriever | None = None
    """Searches the evidence store; by default a search by words."""
    open_model: OpenModel = open_model
    """Opens language models by name."""
    is_front: bool = False
    """Whether runs that callers start, resume or migrate are only recorded here, and left to a worker."""
    keep: Keep = lambda _: False
    """Called with a run that such a runtime has recorded: a worker of this process may take it as it is."""
    is_queued: Callable[[SessionRow], bool] = lambda _: False
    """Whether a worker of this process will carry a session on, so that the watchdog leaves it alone."""
    heavy: HeavyWork | None = None
    """Limits the work on large values and plans in threads; runtimes of one process share it."""
    clock: Clock | None = None
    ids: Callable[[], str] = _new_id
    """Generates the ids of sessions and runs."""
    draw: Callable[[], float] = random.random
    """Draws from [0, 1), for the jitter of retries."""
    crash: Callable[[str], Awaitable[None] | None] = lambda _: None
    """Called at every named crash point; does nothing outside of tests."""


def require_watchdog_period(watchdog_ms: int | None) -> int | None:
    if watchdog_ms is not None and watchdog_ms < 1:
        raise UsageError(
            f"watchdog_ms cannot be {watchdog_ms}",
            code="wrong_period",
            remedy="pass the interval in milliseconds, or None for no watchdog",
        )
    return watchdog_ms


def require_ttl(ttl_ms: int | None) -> None:
    if ttl_ms is not None and not 1 <= ttl_ms <= TEN_YEARS_MS:
        raise UsageError(
            f"a session cannot have a time to live of {ttl_ms:,} ms",
            code="wrong_ttl",
            remedy="pass a time in milliseconds, at most ten years, or None for the pack's",
        )


@dataclass(frozen=True, kw_only=True)
class NewRun:
    """The checked arguments of `Runtime.run`."""

    session: str
    request: Request
    plan: Plan | None
    safety_mode: ApprovalMode | None
    snapshot: str | None
    owner: Actor
    planner: AnyPlanner | PlannerName | None
    models: Sequence[str]
    ttl_ms: int | None
    shadow: bool
    parent: ToolContext | None
    parent_owners: tuple[Actor, ...]
    traceparent: str
    dev: bool
    folder: str
    lane: LaneStart | None
    body: str
    claims: tuple[str, ...]
    sealed: SealedRequest | None = None
    """The request as it was sealed; None if the pack marks no personal values."""
    is_large: bool = False
    """Whether work on the caller's plan would block the event loop."""
