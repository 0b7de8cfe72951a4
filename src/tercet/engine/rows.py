"""Session rows: what lists of sessions show of a state, written together with its events."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

import msgspec

from tercet.core.resolve.sessions import due_at
from tercet.core.state import State
from tercet.journal.errors import JournalCorrupt
from tercet.journal.protocol import SessionRow

PAGE = 100
"""The number of rows in the first request."""


class Details(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """Further details in a row: why a session waits or stopped, and the gates that wait for an answer."""

    reason: str = ""
    gates: tuple[str, ...] = ()
    ending: str = ""


_decode = msgspec.msgpack.Decoder(Details).decode


def details_of(row: SessionRow) -> Details:
    """Decode the details of a row. Raises `JournalCorrupt` if they cannot be decoded."""
    try:
        return _decode(row.details) if row.details else Details()
    except (msgspec.DecodeError, UnicodeDecodeError, TypeError) as error:
        raise JournalCorrupt(f"the row of session {row.session_id}", f"its details: {error}") from error


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
        details=_details(state),
    )


def _details(state: State) -> bytes:
    if not (state.reason or state.gates or state.ending):
        return b""
    details = Details(reason=state.reason[:200], gates=tuple(state.gates)[:8], ending=state.ending)
    return msgspec.msgpack.encode(details)


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
