"""The watchdog: looks after sessions that nobody carries.

A session is looked at when its time has come: a time to live is over, a sign of life should have come, or it is ending
and nobody brings it to its end. What can be written without the pack is written by any process: it expires, or it is
paused. What takes calls, taking effects back among it, is done where the pinned pack is. Only time without a lease counts
as silence: whoever renews a lease is alive, however long a call takes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Literal, TypeAlias

from tercet.contracts.errors import TercetError, UsageError
from tercet.contracts.loop import Phase
from tercet.contracts.runs.session import SessionRules
from tercet.core import codec
from tercet.core import commands as c
from tercet.core.expiry import find_expired
from tercet.core.fold.apply import fold_event
from tercet.core.resolve.sessions import pause_session
from tercet.core.state import State
from tercet.engine import checkpoint, inbox
from tercet.engine.leases import LeaseClient
from tercet.engine.rows import details_of, each_once, row_of
from tercet.engine.session_reader import load_state
from tercet.executor.clock import AnchoredClock
from tercet.journal.errors import LeaseHeld
from tercet.journal.protocol import Append, Lease, SessionRow

WATCHDOG_MS = 15_000
"""How often an open runtime looks."""
LOST = "heartbeat lost"
"""Why a session was paused that gave no sign of life."""
_AT_ONCE = 8
"""How many sessions the watchdog of one process carries at the same time."""


@dataclass(frozen=True, kw_only=True)
class SweepResult:
    """What one look came to, by the ids of sessions."""

    expired: tuple[str, ...] = ()
    paused: tuple[str, ...] = ()
    resumed: tuple[str, ...] = ()
    """Those that this process took over, to bring them to their end or to go on with them."""


@dataclass(frozen=True, kw_only=True)
class WatchdogHost:
    """What a watchdog needs of the runtime that it belongs to."""

    leases: LeaseClient
    rules: Callable[[str], SessionRules | None]
    """The rules of the pack with this hash; None where it is not here."""
    is_driven: Callable[[str], bool]
    """Whether this process carries a session already."""
    is_queued: Callable[[SessionRow], bool]
    """Whether a worker of this process will carry a session on."""
    resume: Callable[[str], Awaitable[object]]
    """Take a session over and go on with it; raises `LeaseHeld` if somebody else has it."""
    is_stopped: Callable[[], Awaitable[bool]]
    """Whether an operator has stopped the pack or the tenant: then nothing is taken over."""
    stop: Callable[[str], None]
    """Let a session that this process carries come to a halt."""
    signal: Callable[[str, dict[str, Any]], None]


_Found: TypeAlias = dict[Literal["expired", "paused", "resumed"], list[str]]


class Watchdog:
    """Looks after the sessions of a tenant, from one process."""

    def __init__(self, host: WatchdogHost) -> None:
        self._host = host
        self._resuming: dict[str, asyncio.Task[None]] = {}
        self._slots = asyncio.Semaphore(_AT_ONCE)
        self._is_stopped = False
        self._clock = AnchoredClock(host.leases.clock)
        """Does not go back with the wall clock, so that a session whose process is gone is found no later."""
        self._doubtful_ms = 0
        """How long to go on watching the leases that have ended only by the wall clock."""

    async def watch(self, period_ms: int) -> None:
        """Look every so often, until cancelled; the first time after one period, so that a short life costs nothing."""
        while True:
            await self._host.leases.clock.sleep(period_ms)
            try:
                await self.look()
            except Exception as error:  # noqa: BLE001 - one bad look must not be the last one
                self._failed("", error)

    async def sweep(self) -> SweepResult:
        """Look once, and again after watching leases that may have ended; return when the sessions that were taken over
        have gone as far as they can."""
        swept = await self.look()
        if self._doubtful_ms:
            await self._clock.sleep(self._doubtful_ms)
            then = await self.look()
            swept = SweepResult(
                expired=swept.expired + then.expired,
                paused=swept.paused + then.paused,
                resumed=swept.resumed + then.resumed,
            )
        await asyncio.gather(*(self._resuming[name] for name in swept.resumed if name in self._resuming))
        return swept

    async def look(self) -> SweepResult:
        """Look once; what is taken over goes on beside."""
        leases, self._doubtful_ms = self._host.leases, 0
        found: _Found = {"expired": [], "paused": [], "resumed": []}
        self._is_stopped = await self._host.is_stopped()
        async for row in each_once(
            lambda limit: leases.journal.due(leases.tenant, now_ms=self._now(), limit=limit)
        ):
            session = row.session_id
            if self._host.is_driven(session) or session in self._resuming or self._host.is_queued(row):
                continue
            try:
                await self._attend(row, found)
            except LeaseHeld:
                continue  # somebody carries it after all
            except Exception as error:  # noqa: BLE001 - a session that cannot be read must not keep others from being looked at
                self._failed(session, error)
        return SweepResult(**{name: tuple(sessions) for name, sessions in found.items()})

    async def close(self) -> None:
        """Let the sessions that were taken over come to a halt, and wait for it."""
        for session, task in self._resuming.items():
            if self._host.is_driven(session):
                self._host.stop(session)
            else:
                task.cancel()
        await asyncio.gather(*self._resuming.values(), return_exceptions=True)

    async def _attend(self, row: SessionRow, found: _Found) -> None:
        leases, session = self._host.leases, row.session_id
        rules = self._host.rules(row.pack_hash)
        if details_of(row).ending and rules is None:
            return  # all that is left to do takes its pack
        lease = await leases.journal.lease(leases.tenant, session)
        if lease is not None and (left := leases.watch(lease)):
            if lease.until <= self._now():
                self._doubtful_ms = max(self._doubtful_ms, left)
            return
        state = await load_state(leases.journal, leases.tenant, session)
        if find_expired(state, leases.clock.now()) is not None:
            state = await inbox.process_inbox(leases, session)
            found["expired"].append(session)
        if state.phase in (Phase.COMMIT, Phase.FAIL):
            if rules is not None and not state.is_over and not state.gates:
                self._resume(session, found)
        elif is_lost(state, lease, self._now()):
            if rules is not None and rules.on_heartbeat_loss == "resume":
                self._resume(session, found)
            elif await self._pause(session):
                found["paused"].append(session)

    def _now(self) -> int:
        return max(self._clock.now(), self._host.leases.clock.now())

    async def _pause(self, session: str) -> bool:
        """Pause a session whose process is gone; False if it has moved on meanwhile."""
        leases = self._host.leases
        async with leases.holding(session) as lease:
            before = await load_state(leases.journal, leases.tenant, session)
            if before.status != "in_progress" or before.phase in (Phase.COMMIT, Phase.FAIL):
                return False
            paused = pause_session(c.Pause(reason=LOST, outside=True), max(leases.clock.now(), before.at))
            after, fold = fold_event(before, paused), checkpoint.fold(before)
            await leases.journal.append(
                Append(
                    tenant=leases.tenant,
                    stream=session,
                    expected=before.position,
                    epoch=lease.epoch,
                    events=(codec.encode(paused, fold=sha256(fold.data).digest()),),
                    checkpoints=(fold,),
                    row=row_of(after),
                )
            )
            return True

    def _resume(self, session: str, found: _Found) -> None:
        if self._is_stopped:
            return
        task = asyncio.ensure_future(self._run_resumed(session))
        self._resuming[session] = task
        task.add_done_callback(lambda _: self._resuming.pop(session, None))
        found["resumed"].append(session)

    async def _run_resumed(self, session: str) -> None:
        async with self._slots:
            try:
                await self._host.resume(session)
            except LeaseHeld:
                pass  # another process was quicker
            except UsageError as error:
                self._failed(session, error)
                await self._pause_instead(session)
            except Exception as error:  # noqa: BLE001 - what happens to one session must not end the watchdog
                self._failed(session, error)

    async def _pause_instead(self, session: str) -> None:
        """A session that cannot go on here, for want of its planner or its evidence, waits for a person."""
        try:
            await self._pause(session)
        except TercetError as error:
            self._failed(session, error)

    def _failed(self, session: str, error: Exception) -> None:
        told = error.message if isinstance(error, TercetError) else f"{type(error).__name__}: {error}"
        self._host.signal("watchdog_failed", {"session_id": session, "reason": told})


def is_lost(state: State, lease: Lease | None, now: int) -> bool:
    """Whether a session in progress has been without a lease, and has written nothing, for twice its heartbeat."""
    if state.status != "in_progress":
        return False
    quiet_since = max(state.at, lease.until if lease is not None else 0)
    return now - quiet_since >= 2 * state.start.heartbeat
