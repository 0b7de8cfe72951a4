"""The watchdog: expires, pauses or resumes sessions that no process is running.

It checks sessions whose time to live has passed, whose heartbeat is overdue, or whose end was decided but not carried
out. Any process can expire or pause a session, since that needs no pack. Calls, compensation among them, are made only
by a process that has the pinned pack. Silence counts only while no lease is held: a process that renews its lease is
alive, however long a call takes.
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
from tercet.core.fold.apply import fold_event
from tercet.core.resolve.sessions import find_expired, pause_session
from tercet.core.state import State
from tercet.engine import checkpoint, inbox
from tercet.engine.leases import LeaseClient
from tercet.engine.rows import details_of, each_once, row_of
from tercet.engine.session_reader import load_state
from tercet.executor.clock import AnchoredClock
from tercet.journal.errors import LeaseHeld
from tercet.journal.protocol import Append, Lease, SessionRow

WATCHDOG_MS = 15_000
"""The default time between two checks."""
LOST = "heartbeat lost"
"""The reason of a pause after a lost heartbeat."""
_AT_ONCE = 8
"""How many sessions the watchdog of one process resumes at the same time."""


@dataclass(frozen=True, kw_only=True)
class SweepResult:
    """The ids of the sessions that one check expired, paused or resumed."""

    expired: tuple[str, ...] = ()
    paused: tuple[str, ...] = ()
    resumed: tuple[str, ...] = ()
    """Sessions that this process took over, to finish or continue them."""


@dataclass(frozen=True, kw_only=True)
class WatchdogHost:
    """The parts of its runtime that a watchdog needs."""

    leases: LeaseClient
    rules: Callable[[str], SessionRules | None]
    """Returns the session rules of the pack with a hash; None if this process does not have it."""
    is_driven: Callable[[str], bool]
    """Returns whether this process is already running a session."""
    is_queued: Callable[[SessionRow], bool]
    """Returns whether a worker of this process will resume a session."""
    resume: Callable[[str], Awaitable[object]]
    """Takes a session over and runs it; raises `LeaseHeld` if another process has it."""
    is_stopped: Callable[[], Awaitable[bool]]
    """Returns whether an operator has stopped the pack or the tenant, so that no session may be taken over."""
    stop: Callable[[str], None]
    """Stops a session that this process is running."""
    signal: Callable[[str, dict[str, Any]], None]


_Found: TypeAlias = dict[Literal["expired", "paused", "resumed"], list[str]]


class Watchdog:
    """Checks the sessions of a tenant from one process."""

    def __init__(self, host: WatchdogHost) -> None:
        self._host = host
        self._resuming: dict[str, asyncio.Task[None]] = {}
        self._slots = asyncio.Semaphore(_AT_ONCE)
        self._is_stopped = False
        self._clock = AnchoredClock(host.leases.clock)
        """Never runs backwards, so that a lost session is found on time even if the wall clock is set back."""
        self._doubtful_ms = 0
        """How long leases that have ended only by the wall clock still have to be watched."""

    async def watch(self, period_ms: int) -> None:
        """Check once every period until cancelled. The first check is after one period, so short processes pay nothing."""
        while True:
            await self._host.leases.clock.sleep(period_ms)
            try:
                await self.look()
            except Exception as error:  # noqa: BLE001 - one failed check must not end the watchdog
                self._report_failure("", error)

    async def sweep(self) -> SweepResult:
        """Check once, and again after watching leases that may have ended; return when the resumed sessions have run as
        far as they can."""
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

    async def record_overdue(self, session: str) -> State:
        """Record the overdue events of one session; nothing is resumed. Raises `LeaseHeld` if a process may run it."""
        leases = self._host.leases
        state = await load_state(leases.journal, leases.tenant, session)
        if state.is_over:
            return state
        lease = await leases.journal.lease(leases.tenant, session)
        rules = self._host.rules(state.start.pack_hash)
        is_resumed = rules is not None and rules.on_heartbeat_loss == "resume"
        if is_lost(state, lease, self._now()) and not is_resumed:
            await self._pause(session)
            return await load_state(leases.journal, leases.tenant, session)
        is_waiting = state.status != "in_progress" and not state.is_over
        if is_waiting and (
            find_expired(state, leases.clock.now()) is not None
            or await inbox.read_unread(leases.journal, leases.tenant, state)
        ):
            return await inbox.process_inbox(leases, session)
        return state

    async def look(self) -> SweepResult:
        """Check once; resumed sessions run in the background."""
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
                await self._check_session(row, found)
            except LeaseHeld:
                continue  # another process is running it after all
            except Exception as error:  # noqa: BLE001 - an unreadable session must not keep others from being checked
                self._report_failure(session, error)
        return SweepResult(**{name: tuple(sessions) for name, sessions in found.items()})

    async def close(self) -> None:
        """Stop the resumed sessions, and wait for them."""
        for session, task in self._resuming.items():
            if self._host.is_driven(session):
                self._host.stop(session)
            else:
                task.cancel()
        await asyncio.gather(*self._resuming.values(), return_exceptions=True)

    async def _check_session(self, row: SessionRow, found: _Found) -> None:
        leases, session = self._host.leases, row.session_id
        rules = self._host.rules(row.pack_hash)
        if details_of(row).ending and rules is None:
            return  # ending it needs its pack
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
        """Pause a session whose process is gone; return False if it has moved on meanwhile."""
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
                pass  # another process was faster
            except UsageError as error:
                self._report_failure(session, error)
                await self._pause_instead(session)
            except Exception as error:  # noqa: BLE001 - a failure of one session must not end the watchdog
                self._report_failure(session, error)

    async def _pause_instead(self, session: str) -> None:
        """Pause a session that cannot continue here, because its planner or its evidence is missing."""
        try:
            await self._pause(session)
        except TercetError as error:
            self._report_failure(session, error)

    def _report_failure(self, session: str, error: Exception) -> None:
        message = error.message if isinstance(error, TercetError) else f"{type(error).__name__}: {error}"
        self._host.signal("watchdog_failed", {"session_id": session, "reason": message})


def is_lost(state: State, lease: Lease | None, now: int) -> bool:
    """Return whether a session in progress has had no lease, and has written nothing, for twice its heartbeat."""
    if state.status != "in_progress":
        return False
    quiet_since = max(state.at, lease.until if lease is not None else 0)
    return now - quiet_since >= 2 * state.start.heartbeat
