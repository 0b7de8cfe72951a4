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
from tercet.engine import checkpoint
from tercet.engine import inbox as mail
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
class Swept:
    """What one look came to, by the ids of sessions."""

    expired: tuple[str, ...] = ()
    paused: tuple[str, ...] = ()
    carried: tuple[str, ...] = ()
    """Those that this process took over, to bring them to their end or to go on with them."""


@dataclass(frozen=True, kw_only=True)
class Ward:
    """What a watchdog needs of the runtime that it belongs to."""

    desk: LeaseClient
    rules: Callable[[str], SessionRules | None]
    """The rules of the pack with this hash; None where it is not here."""
    is_carried: Callable[[str], bool]
    """Whether this process carries a session already."""
    carry: Callable[[str], Awaitable[object]]
    """Take a session over and go on with it; raises `LeaseHeld` if somebody else has it."""
    is_stopped: Callable[[], Awaitable[bool]]
    """Whether an operator has stopped the pack or the tenant: then nothing is taken over."""
    stop: Callable[[str], None]
    """Let a session that this process carries come to a halt."""
    signal: Callable[[str, dict[str, Any]], None]


_Found: TypeAlias = dict[Literal["expired", "paused", "carried"], list[str]]


class Watchdog:
    """Looks after the sessions of a tenant, from one process."""

    def __init__(self, ward: Ward) -> None:
        self._ward = ward
        self._carrying: dict[str, asyncio.Task[None]] = {}
        self._slots = asyncio.Semaphore(_AT_ONCE)
        self._is_stopped = False
        self._clock = AnchoredClock(ward.desk.clock)
        """Does not go back with the wall clock, so that a session whose process is gone is found no later."""
        self._doubtful_ms = 0
        """How long to go on watching the leases that have ended only by the wall clock."""

    async def watch(self, period_ms: int) -> None:
        """Look every so often, until cancelled; the first time after one period, so that a short life costs nothing."""
        while True:
            await self._ward.desk.clock.sleep(period_ms)
            try:
                await self.look()
            except Exception as error:  # noqa: BLE001 - one bad look must not be the last one
                self._failed("", error)

    async def sweep(self) -> Swept:
        """Look once, and again after watching leases that may have ended; return when the sessions that were taken over
        have gone as far as they can."""
        swept = await self.look()
        if self._doubtful_ms:
            await self._clock.sleep(self._doubtful_ms)
            then = await self.look()
            swept = Swept(
                expired=swept.expired + then.expired,
                paused=swept.paused + then.paused,
                carried=swept.carried + then.carried,
            )
        await asyncio.gather(*(self._carrying[name] for name in swept.carried if name in self._carrying))
        return swept

    async def look(self) -> Swept:
        """Look once; what is taken over goes on beside."""
        desk, self._doubtful_ms = self._ward.desk, 0
        found: _Found = {"expired": [], "paused": [], "carried": []}
        self._is_stopped = await self._ward.is_stopped()
        async for row in each_once(
            lambda limit: desk.journal.due(desk.tenant, now_ms=self._now(), limit=limit)
        ):
            session = row.session_id
            if self._ward.is_carried(session) or session in self._carrying:
                continue
            try:
                await self._attend(row, found)
            except LeaseHeld:
                continue  # somebody carries it after all
            except Exception as error:  # noqa: BLE001 - a session that cannot be read must not keep others from being looked at
                self._failed(session, error)
        return Swept(**{name: tuple(sessions) for name, sessions in found.items()})

    async def close(self) -> None:
        """Let the sessions that were taken over come to a halt, and wait for it."""
        for session, task in self._carrying.items():
            if self._ward.is_carried(session):
                self._ward.stop(session)
            else:
                task.cancel()
        await asyncio.gather(*self._carrying.values(), return_exceptions=True)

    async def _attend(self, row: SessionRow, found: _Found) -> None:
        desk, session = self._ward.desk, row.session_id
        rules = self._ward.rules(row.pack_hash)
        if details_of(row).ending and rules is None:
            return  # all that is left to do takes its pack
        lease = await desk.journal.lease(desk.tenant, session)
        if lease is not None and (left := desk.watch(lease)):
            if lease.until <= self._now():
                self._doubtful_ms = max(self._doubtful_ms, left)
            return
        state = await load_state(desk.journal, desk.tenant, session)
        if find_expired(state, desk.clock.now()) is not None:
            state = await mail.absorb(desk, session)
            found["expired"].append(session)
        if state.phase in (Phase.COMMIT, Phase.FAIL):
            if rules is not None and not state.is_over and not state.gates:
                self._carry(session, found)
        elif is_lost(state, lease, self._now()):
            if rules is not None and rules.on_heartbeat_loss == "resume":
                self._carry(session, found)
            elif await self._pause(session):
                found["paused"].append(session)

    def _now(self) -> int:
        return max(self._clock.now(), self._ward.desk.clock.now())

    async def _pause(self, session: str) -> bool:
        """Pause a session whose process is gone; False if it has moved on meanwhile."""
        desk = self._ward.desk
        async with desk.holding(session) as lease:
            before = await load_state(desk.journal, desk.tenant, session)
            if before.status != "in_progress" or before.phase in (Phase.COMMIT, Phase.FAIL):
                return False
            paused = pause_session(c.Pause(reason=LOST, outside=True), max(desk.clock.now(), before.at))
            after, fold = fold_event(before, paused), checkpoint.fold(before)
            await desk.journal.append(
                Append(
                    tenant=desk.tenant,
                    stream=session,
                    expected=before.position,
                    epoch=lease.epoch,
                    events=(codec.encode(paused, fold=sha256(fold.data).digest()),),
                    checkpoints=(fold,),
                    row=row_of(after),
                )
            )
            return True

    def _carry(self, session: str, found: _Found) -> None:
        if self._is_stopped:
            return
        task = asyncio.ensure_future(self._carried(session))
        self._carrying[session] = task
        task.add_done_callback(lambda _: self._carrying.pop(session, None))
        found["carried"].append(session)

    async def _carried(self, session: str) -> None:
        async with self._slots:
            try:
                await self._ward.carry(session)
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
        self._ward.signal("watchdog_failed", {"session_id": session, "reason": told})


def is_lost(state: State, lease: Lease | None, now: int) -> bool:
    """Whether a session in progress has been without a lease, and has written nothing, for twice its heartbeat."""
    if state.status != "in_progress":
        return False
    quiet_since = max(state.at, lease.until if lease is not None else 0)
    return now - quiet_since >= 2 * state.start.heartbeat
