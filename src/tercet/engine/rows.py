"""Session rows: what lists of sessions show of a state, written together with its events."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator, Sequence

import msgspec

from tercet.core.fold.session import ESCALATED
from tercet.core.resolve.sessions import due_at
from tercet.core.state import OpenGate, State
from tercet.journal.errors import JournalCorrupt
from tercet.journal.protocol import SessionRow

PAGE = 100
"""The number of rows in the first request."""


class Details(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """Further details in a row: why a session waits or stopped, the gates that wait for an answer, and who may give one."""

    reason: str = ""
    gates: tuple[str, ...] = ()
    ending: str = ""
    roles: tuple[str, ...] = ()
    """Who answers one of the gates needs one of these roles; empty if that is not so, or not known."""
    escalated: bool | None = None
    """Whether a paused session is escalated; None for other sessions, and in rows of earlier versions."""


_decode = msgspec.msgpack.Decoder(Details).decode


def details_of(row: SessionRow) -> Details:
    """Decode the details of a row. Raises `JournalCorrupt` if they cannot be decoded."""
    try:
        return _decode(row.details) if row.details else Details()
    except (msgspec.DecodeError, UnicodeDecodeError, TypeError) as error:
        raise JournalCorrupt(f"the row of session {row.session_id}", f"its details: {error}") from error


def is_escalated(row: SessionRow) -> bool:
    """Return whether a session is paused since it was escalated."""
    details = details_of(row)
    if row.status != "paused" or details.escalated is not None:
        return bool(details.escalated)
    return details.reason.startswith(ESCALATED)  # a row of an earlier version has no other sign


def row_of(state: State) -> SessionRow:
    """Return the row of a session."""
    start = state.start
    return SessionRow(
        session_id=start.session,
        tenant=start.tenant,
        status=state.status,
        pack=start.pack,
        pack_hash=start.pack_hash,
        snapshot=start.snapshot,
        intent=start.request["intent"],
        owner=start.actor["id"],
        started_at=start.at,
        updated_at=state.at,
        next_step=state.frontier[0] if state.frontier else None,
        due_at=due_at(state),
        # The gates of a lane are answered at the run that started it.
        waits_since=None
        if state.start.lane
        else min((gate.at for gate in state.gates.values()), default=None),
        details=_details(state),
    )


def _details(state: State) -> bytes:
    if not (state.reason or state.gates or state.ending or state.status == "paused"):
        return b""
    details = Details(
        reason=state.reason[:200],
        gates=tuple(state.gates)[:8],
        ending=state.ending,
        roles=_roles(state.gates.values()),
        escalated=state.escalation is not None if state.status == "paused" else None,
    )
    return msgspec.msgpack.encode(details)


def _roles(gates: Collection[OpenGate]) -> tuple[str, ...]:
    """Return the roles of the people who may answer at least one gate; empty if others may as well."""
    asked = [need.roles for gate in gates for need in gate.needs.values()]
    is_for_all = any(not gate.needs or gate.kind == "escalation" for gate in gates) or not all(asked)
    return () if is_for_all else tuple(sorted({role for roles in asked for role in roles}))


def rows_of_earlier_versions(row: SessionRow) -> Iterator[SessionRow]:
    """Yield a row as it was before rows said what is escalated; and as it was before they said who may answer, with the
    time that its waiting was later set to."""
    details = msgspec.structs.replace(details_of(row), escalated=None)
    row = msgspec.structs.replace(
        row, details=b"" if details == Details() else msgspec.msgpack.encode(details)
    )
    yield row
    may_wait = row.status in ("awaiting_gate", "paused", "in_progress") and row.details
    details = msgspec.structs.replace(details, roles=())
    yield msgspec.structs.replace(
        row,
        details=msgspec.msgpack.encode(details) if row.details else b"",
        waits_since=row.updated_at if may_wait else None,
    )


async def each_once(page: Callable[[int], Awaitable[Sequence[SessionRow]]]) -> AsyncIterator[SessionRow]:
    """Yield every row of a list once, asking for ever more rows: rows that stay in the list must not hide later ones."""
    seen: set[str] = set()
    limit = PAGE
    while True:
        rows = await page(limit)
        for row in rows:
            if row.session_id not in seen:
                seen.add(row.session_id)
                yield row
        if len(rows) < limit:
            return
        limit *= 2
