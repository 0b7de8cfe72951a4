"""Reading sessions from a journal: their state, the events that led there, their checkpoints and records.

Everything that is read is checked against the chain, the recorded end and the name of its stream.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import Any

import msgspec

from tercet.contracts.errors import ReplayError, TercetError, UsageError
from tercet.contracts.policy import Policy
from tercet.contracts.values.canonical import canonical, hash_bytes
from tercet.contracts.verdict import Code
from tercet.core import codec
from tercet.core import events as e
from tercet.core.fold.apply import fold_event
from tercet.core.state import State
from tercet.core.transcript import join_record, transcript
from tercet.engine import checkpoint
from tercet.journal.errors import BlobMissing, JournalCorrupt
from tercet.journal.protocol import Journal, SessionRow, Stored, StoredCheckpoint
from tercet.journal.side_stream import read_all
from tercet.packs.declared import read_declarations
from tercet.packs.pack import Pack
from tercet.view.session import find_refusal

_UNSTARTED = State()
_PAGE = 200


@dataclass(frozen=True, kw_only=True)
class Restored:
    """The newest state of a session, and how many bytes of events were read behind its last fold."""

    state: State
    tail_bytes: int = 0


@dataclass(frozen=True, kw_only=True)
class History:
    """The events of a session after a state, and its checkpoints up to their end."""

    session: str
    before: State = _UNSTARTED
    stored: tuple[Stored, ...]
    checkpoints: tuple[StoredCheckpoint, ...] = ()

    @cached_property
    def events(self) -> tuple[e.Event, ...]:
        """The decoded events."""
        return tuple(codec.decode(each.data) for each in self.stored)

    @cached_property
    def states(self) -> tuple[State, ...]:
        """The state before the first event, and after each."""
        return (self.before, *(state for _, state in self.walk()))

    @cached_property
    def state(self) -> State:
        """The state after the last event."""
        state = self.before
        for _, after in self.walk():
            state = after
        return state

    def walk(self) -> Iterator[tuple[e.Event, State]]:
        """Yield each event with the state it leads to. Raises `JournalCorrupt` for one that cannot be applied."""
        state = self.before
        for record, event in zip(self.stored, self.events, strict=True):
            try:
                state = fold_event(state, event)
            except TercetError:
                raise
            except Exception as error:
                raise JournalCorrupt(
                    f"event {record.seq} of stream {self.session}",
                    f"it contradicts the events before it ({type(error).__name__}: {error})",
                ) from error
            yield event, state


async def load_state(journal: Journal, tenant: str, session: str) -> State:
    """Return the newest state of a session; see `restore`."""
    return (await restore(journal, tenant, session)).state


async def restore(journal: Journal, tenant: str, session: str, *, known: Restored | None = None) -> Restored:
    """Return the newest state of a session. Raises `UsageError` for an unknown one and `JournalCorrupt` for damage.

    A fold saves reading the events before it; it is used only if the chain covers it. With `known`, an earlier answer,
    only what came after it is read.
    """
    if known is None:
        known = Restored(state=await _covered_fold(journal, tenant, session))
    state = known.state
    point = await journal.newest(tenant, session, "point")
    tail = await load_history(journal, tenant, session, after=state)
    if point is not None and state.position == point.seq:
        checkpoint.compare(state, point)
    for _, after in tail.walk():
        state = after
        if point is not None and state.position == point.seq:
            checkpoint.compare(state, point)
    _demand_name(tenant, session, state.start)
    return Restored(state=state, tail_bytes=known.tail_bytes + sum(len(each.data) for each in tail.stored))


async def load_history(
    journal: Journal,
    tenant: str,
    session: str,
    *,
    after: State | None = None,
    has_checkpoints: bool = False,
) -> History:
    """Return every event of a session, or those after a state; and its checkpoints, if asked for.

    Raises `UsageError` for an unknown session and `JournalCorrupt` for damage.
    """
    before = _UNSTARTED if after is None else after
    stored = await read_all(journal, tenant, session, after=before.position)
    if not stored and not before.is_started:
        raise UsageError(
            f"there is no session {session}",
            code="unknown_session",
            remedy="tercet sessions list shows the existing ones",
        )
    if not before.is_started and isinstance(started := codec.decode(stored[0].data), e.SessionStarted):
        _demand_name(tenant, session, started)
    end = before.position + len(stored)
    # Checkpoints of events that were appended meanwhile are left out.
    found = await read_checkpoints(journal, tenant, session) if has_checkpoints else ()
    points = tuple(each for each in found if each.seq <= end)
    return History(session=session, before=before, stored=tuple(stored), checkpoints=points)


async def list_rows(
    journal: Journal,
    tenant: str,
    *,
    intent: str | None = None,
    status: str | None = None,
) -> AsyncIterator[SessionRow]:
    """Yield every session of a tenant, newest first, or those with an intent or a status."""
    before: str | None = None
    while page := await journal.sessions(tenant, status=status, limit=_PAGE, before=before):
        for row in page:
            if intent in (None, row.intent):
                yield row
        before = page[-1].session_id


async def read_record(journal: Journal, tenant: str, state: State) -> dict[str, Any]:
    """Return the decision record of a session that is over; raises `ReplayError` if it does not have the recorded hash.

    It is stored without what the events contain, so that large results are not stored twice.
    """
    kept: dict[str, Any] = msgspec.json.decode(await journal.blob(tenant, state.kept))
    events = (await load_history(journal, tenant, state.start.session)).events
    data = canonical(join_record(kept, transcript(events, {}), state))
    if hash_bytes(data) != state.record:
        raise ReplayError(
            recorded=f"a record with hash {state.record[:20]}…",
            expected=f"one with hash {hash_bytes(data)[:20]}…",
            check="the journal was changed, or this version reads its events differently",
        )
    return msgspec.json.decode(data)


async def read_checkpoints(journal: Journal, tenant: str, session: str) -> list[StoredCheckpoint]:
    """Return every checkpoint of a session, in order."""
    found: list[StoredCheckpoint] = []
    while page := await journal.checkpoints(tenant, session, after=found[-1].seq if found else 0):
        found += page
    return found


async def read_policies(journal: Journal, tenant: str, state: State) -> tuple[Policy, ...]:
    """Return the policies of a session's pack if one of them refused a call; empty if the pack cannot be read."""
    refusal = find_refusal(state)
    if refusal is None or refusal.code != Code.POLICY_INVARIANT:
        return ()
    pack = await read_declared_pack(journal, tenant, state)
    return () if pack is None else tuple(pack.policies)


async def read_declared_pack(journal: Journal, tenant: str, state: State) -> Pack | None:
    """Return the declarations of a session's pack as they were stored; None if they cannot be read."""
    try:
        return read_declarations(await journal.blob(tenant, state.start.pack_hash))
    except (BlobMissing, UsageError):  # another version reads packs otherwise
        return None


async def _covered_fold(journal: Journal, tenant: str, session: str) -> State:
    """Return the newest fold if the next event carries its hash, else the state before the first event.

    A fold that the chain does not cover may have been replaced, and one that another version wrote may be unreadable.
    """
    stored = await journal.newest(tenant, session, "fold")
    if stored is None:
        return _UNSTARTED
    behind = await journal.read(tenant, session, after=stored.seq, limit=1)
    if not behind or codec.seal_of(behind[0].data) != sha256(stored.data).digest():
        return _UNSTARTED
    try:
        state = checkpoint.read_fold(stored)
    except ReplayError:
        return _UNSTARTED
    return state if state.position == stored.seq else _UNSTARTED


def _demand_name(tenant: str, session: str, start: e.SessionStarted) -> None:
    if (start.tenant, start.session) != (tenant, session):
        raise JournalCorrupt(
            f"stream {session} of tenant {tenant}",
            f"it holds session {start.session} of tenant {start.tenant}",
        )
