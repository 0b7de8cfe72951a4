"""The rules of a stream, pure: what an append and the three acts on a lease do to its state.

Every backend holds one `StreamState` a stream, asks these functions, and stores the answer. So all backends agree on
which request is refused, with which error, and in which order the checks run: lease, position, claims, checkpoints.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TypeAlias

import msgspec

from tercet.contracts.errors import UsageError
from tercet.journal.chain import ZERO, extend_chain
from tercet.journal.errors import LeaseHeld, LeaseLost, PositionConflict
from tercet.journal.protocol import Append, Lease, Position

MOST_BYTES = 512
"""The longest name. PostgreSQL cannot index a pair of much longer ones."""


class StreamState(msgspec.Struct, frozen=True, gc=False):
    """Where a stream ends, and who may write to it. `owner` is None when the lease is free."""

    seq: int = 0
    chain: bytes = ZERO
    owner: str | None = None
    epoch: int = 0
    until: int = 0

    def position(self) -> Position:
        """Return where the stream ends."""
        return Position(self.seq, self.chain)


NEW = StreamState()


class Acquire(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A request for a new epoch."""

    tenant: str
    stream: str
    owner: str
    now_ms: int
    ttl_ms: int
    grace_ms: int
    replacing: Lease | None = None


class _Held(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An act of the holder of a lease, on the stream that is leased."""

    lease: Lease

    @property
    def tenant(self) -> str:
        """The tenant whose stream it is."""
        return self.lease.tenant

    @property
    def stream(self) -> str:
        """The name of the stream."""
        return self.lease.stream


class Renew(_Held, frozen=True, kw_only=True):
    """A request for a later end of the same epoch."""

    now_ms: int
    ttl_ms: int


class Release(_Held, frozen=True, kw_only=True):
    """The release of a lease."""


class Forget(_Held, frozen=True, kw_only=True):
    """The holder of its lease removes a stream."""


LeaseAct: TypeAlias = Acquire | Renew | Release
Act: TypeAlias = Append | LeaseAct | Forget


def extend(state: StreamState, unit: Append) -> tuple[StreamState, list[bytes]]:
    """Return the state after a unit, and the chain at each of its events; or `LeaseLost` or `PositionConflict`."""
    never_leased = unit.epoch is None and state.epoch == 0
    first = unit.lease
    if not never_leased and (first is not None or unit.epoch != state.epoch or state.owner is None):
        raise LeaseLost(stream=unit.stream, epoch=unit.epoch, current=state.epoch)
    if unit.expected != state.seq:
        raise PositionConflict(stream=unit.stream, expected=unit.expected, actual=state.seq)
    links = extend_chain(state.chain, unit.events)
    end = links[-1] if links else state.chain
    seq = state.seq + len(links)
    if first is not None:
        return StreamState(seq, end, first.owner, 1, first.until), links
    return StreamState(seq, end, state.owner, state.epoch, state.until), links


def lease(state: StreamState, act: LeaseAct) -> tuple[StreamState, Lease]:
    """The state after an act on the lease, and the lease that was acquired, renewed or abandoned."""
    match act:
        case Acquire():
            return _acquire(state, act)
        case Renew():
            return _renew(state, act)
        case Release():
            held = state.epoch == act.lease.epoch and state.owner is not None
            return (_leased(state, None, state.epoch, 0) if held else state), act.lease


def _acquire(state: StreamState, act: Acquire) -> tuple[StreamState, Lease]:
    if state.owner is not None and state.owner != act.owner:
        held = Lease(
            tenant=act.tenant, stream=act.stream, owner=state.owner, epoch=state.epoch, until=state.until
        )
        if act.now_ms < state.until + act.grace_ms and held != act.replacing:
            raise LeaseHeld(held)
    after = _leased(state, act.owner, state.epoch + 1, act.now_ms + act.ttl_ms)
    return after, Lease(
        tenant=act.tenant, stream=act.stream, owner=act.owner, epoch=after.epoch, until=after.until
    )


def check_held(state: StreamState, act: Renew | Forget) -> None:
    """Refuse an act whose lease is not the stream's."""
    if state.epoch != act.lease.epoch or state.owner is None:
        raise LeaseLost(stream=act.stream, epoch=act.lease.epoch, current=state.epoch)


def _renew(state: StreamState, act: Renew) -> tuple[StreamState, Lease]:
    check_held(state, act)
    after = _leased(state, state.owner, state.epoch, act.now_ms + act.ttl_ms)
    return after, msgspec.structs.replace(act.lease, until=after.until)


def _leased(state: StreamState, owner: str | None, epoch: int, until: int) -> StreamState:
    return StreamState(state.seq, state.chain, owner, epoch, until)


def check_unit(unit: Append) -> None:
    """Refuse a unit that no backend could store, before it is queued."""
    check_names(unit.tenant, unit.stream, *unit.claims)
    if unit.reminders:
        check_names(*(name for name, _ in unit.reminders))
    if unit.lease is not None:
        check_names(unit.lease.owner)
    end = unit.expected + len(unit.events)
    for checkpoint in unit.checkpoints:
        if not 0 < checkpoint.seq <= end:
            raise UsageError(
                f"a checkpoint at {checkpoint.seq} lies outside stream {unit.stream}, which would end at {end}",
                code="checkpoint_outside",
                remedy="give it the position of an event that is stored or part of this append",
            )
    row = unit.row
    if row is not None:
        if (row.tenant, row.session_id) != (unit.tenant, unit.stream):
            raise UsageError(
                f"the row of session {row.session_id} cannot be written by stream {unit.stream} of {unit.tenant}",
                code="foreign_row",
                remedy="a session's row is written with its own stream",
            )
        check_names(row.status)


def check_names(*names: str) -> None:
    """Refuse a name that some backend could not store."""
    printed = "".join(names)
    if (
        printed.isascii()
        and "\0" not in printed
        and "" not in names
        and (len(printed) <= MOST_BYTES or max(map(len, names)) <= MOST_BYTES)
    ):
        return  # one look at all of them, since every append names several
    for name in names:
        if not name or len(name) > MOST_BYTES or "\0" in name or not (name.isascii() or _fits(name)):
            raise UsageError(
                f"{name[:40]!r} cannot name anything in a journal",
                code="bad_name",
                remedy=f"use 1 to {MOST_BYTES} bytes of UTF-8, without NUL",
            )


def _fits(name: str) -> bool:
    try:
        return len(name.encode()) <= MOST_BYTES
    except UnicodeEncodeError:
        return False


def unknown_session(tenant: str, session_id: str) -> UsageError:
    """Return the error for a page that should start after an unknown session."""
    return UsageError(
        f"tenant {tenant} has no session {session_id}",
        code="unknown_session",
        remedy="give the last session id of the page before, or none for the first page",
    )


class LeaseActs(ABC):
    """The acts on leases, which every backend carries out in its own way."""

    @abstractmethod
    async def _act(self, act: LeaseAct) -> Lease: ...

    async def acquire(
        self,
        tenant: str,
        stream: str,
        *,
        owner: str,
        now_ms: int,
        ttl_ms: int,
        grace_ms: int = 0,
        replacing: Lease | None = None,
    ) -> Lease:
        check_names(tenant, stream, owner)
        return await self._act(
            Acquire(
                tenant=tenant,
                stream=stream,
                owner=owner,
                now_ms=now_ms,
                ttl_ms=ttl_ms,
                grace_ms=grace_ms,
                replacing=replacing,
            )
        )

    async def renew(self, lease: Lease, *, now_ms: int, ttl_ms: int) -> Lease:
        return await self._act(Renew(lease=lease, now_ms=now_ms, ttl_ms=ttl_ms))

    async def release(self, lease: Lease) -> None:
        await self._act(Release(lease=lease))
