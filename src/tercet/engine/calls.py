"""Tool calls in progress in one session: each starts once its INTENT is durable, after a last check of lease and deadline."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import TypeAlias

from tercet.core import events as e
from tercet.core.answers import Ended, NotHappened
from tercet.core.fold.base import EMERGENCY_STOP, LEASE_EXPIRED
from tercet.core.transcript import moment
from tercet.engine.leases import HeldLease
from tercet.engine.services import Services
from tercet.engine.streams import nesting
from tercet.engine.streams.stops import Stop
from tercet.executor.gateway import Attempt, Guard, takes_context
from tercet.journal.errors import JournalError, LeaseLost
from tercet.tools import ToolContext
from tercet.tools.tool import unheard

Stopping: TypeAlias = Callable[[Stop | None], None]
"""Called when no further call may start: the lease is lost (None), or an operator stopped the tool."""


class Calls:
    """The calls in progress by step, and ended calls not recorded yet; `nudge` is called whenever one ends."""

    def __init__(self, services: Services, held_lease: HeldLease, *, nudge: Callable[[], None]) -> None:
        self.held_lease = held_lease
        self._services = services
        self._nudge = nudge
        self._under_way: dict[str, tuple[e.Intent, Attempt]] = {}
        self._over: list[tuple[e.Intent, Ended]] = []

    def __len__(self) -> int:
        return len(self._under_way)

    def begin(
        self, intent: e.Intent, start: e.SessionStarted, now: int, *, stop: Stopping, position: int = 0
    ) -> None:
        """Start a call whose INTENT is durable at `position`; `stop` is called if no call may start."""

        def report(ended: Ended) -> None:
            self._over.append((intent, ended))
            self._nudge()

        lane = self._services.lanes.get(intent.tool) if intent.lane_calls else None
        tool = self._services.tools[intent.tool] if lane is None else lane
        context = (
            self.context(start, intent.step, intent.key, intent.attempt, intent.deadline, position=position)
            if takes_context(tool)
            else None
        )
        attempt = self._services.gateway.begin(
            tool,
            intent.params,
            context,
            timeout_ms=max(0, intent.deadline - now),
            on_end=report,
            check=partial(self._check, intent, now, stop),
            guard=self.guard(start, intent.tool),
        )
        self._under_way[intent.step] = (intent, attempt)

    def guard(self, start: e.SessionStarted, tool: str) -> Guard | None:
        """Return what seals and reveals the personal values of a call; None if the pack marks none."""
        vault = self._services.vault
        return None if vault is None else vault.guard(start, tool)

    def ended(self) -> Iterator[tuple[e.Intent, Ended]]:
        """Drain the calls that have ended since the last drain."""
        while self._over:
            intent, ended = self._over.pop(0)
            del self._under_way[intent.step]
            yield intent, ended

    def abandon(self) -> list[e.Intent]:
        """Stop waiting for every call in progress, and return their INTENTs."""
        left = [intent for intent, _ in self._under_way.values()]
        for _, attempt in self._under_way.values():
            attempt.abandon()
        self._under_way.clear()
        self._over.clear()
        return left

    def context(
        self,
        start: e.SessionStarted,
        step: str,
        key: str,
        attempt: int,
        deadline: int = 0,
        *,
        position: int = 0,
    ) -> ToolContext:
        """Return the context that a tool receives for a call of the session."""
        return ToolContext(
            tenant=start.tenant,
            run_id=start.run,
            step_id=step,
            actor=start.actor["id"],
            idempotency_key=key,
            attempt=attempt,
            deadline=moment(deadline) if deadline else None,
            fencing_token=self.held_lease.lease.epoch,
            session_id=start.session,
            root_session=start.root,
            owners=nesting.owners_of(start),
            depth=start.depth,
            traceparent=self._services.subscription.traceparent(start, position),
            progress=self._progress_reporter(start.run, step)
            if self._services.subscription.has_signal
            else unheard,
        )

    def _progress_reporter(self, run: str, step: str) -> Callable[[float, float | None, str], None]:
        """Return a function that reports the progress of a call as a signal, from any thread."""
        loop = asyncio.get_running_loop()

        def report(done: float, total: float | None = None, message: str = "") -> None:
            progress = {
                "loop_id": run,
                "action": step,
                "done": done,
                "total": total,
                "message": message[:500],
            }
            with suppress(RuntimeError):  # a thread that was left behind may outlive the loop
                loop.call_soon_threadsafe(self._services.subscription.signal, "tool_progress", progress)

        return report

    def _check(
        self, intent: e.Intent, began: int, stop: Stopping
    ) -> NotHappened | Awaitable[NotHappened | None] | None:
        """Return why the call must not start after all; None if it may."""
        if self.held_lease.has_ended:
            return self._check_renewed(intent, began, stop)
        return self._find_refusal(intent, began, stop) or self._services.crash("before_call")

    async def _check_renewed(self, intent: e.Intent, began: int, stop: Stopping) -> NotHappened | None:
        """Like `_check`, after renewing an expired lease."""
        if not await self._has_renewed(stop):
            return NotHappened(error="the lease on the session has run out", code=LEASE_EXPIRED)
        if (refusal := self._find_refusal(intent, began, stop)) is not None:
            return refusal
        if (waiting := self._services.crash("before_call")) is not None:
            await waiting
        return None

    def _find_refusal(self, intent: e.Intent, began: int, stop: Stopping) -> NotHappened | None:
        if began >= intent.deadline or self._services.clock.now() >= intent.deadline:
            # The deadline was ahead when the INTENT was written, but the journal was unavailable; a retry may still fit.
            return NotHappened(
                error="its deadline passed before the call",
                code="deadline",
                is_retriable=intent.deadline > intent.at,
            )
        if (stopped := self._services.stops.stopped(intent.tool)) is not None:
            stop(stopped)
            return NotHappened(error=stopped.reason, code=EMERGENCY_STOP)
        return None

    async def _has_renewed(self, stop: Stopping) -> bool:
        """Renew an expired lease and return whether that worked; stop if another process has taken the session."""
        try:
            await self.held_lease.renew()
        except LeaseLost:
            stop(None)
            return False
        except JournalError:
            return False
        return True
