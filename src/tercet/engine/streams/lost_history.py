"""Sessions that lost events with a damaged journal: which calls they made is not known, so they cannot be resumed."""

from __future__ import annotations

import msgspec

from tercet.contracts.errors import UsageError
from tercet.core.state import TERMINAL
from tercet.journal.database import DatabaseJournal
from tercet.journal.errors import Loss
from tercet.journal.protocol import Append, Journal, SessionRow
from tercet.journal.side_stream import name_owner

_PAGE = 200


class LostHistory(msgspec.Struct, frozen=True, kw_only=True):
    """A session that lost events."""

    tenant: str
    session_id: str
    left: int
    """How many events are left."""
    had: int | None
    """How many there were; None where the commit log does not say."""


def lost_of(session: str) -> str:
    """Return the name of the stream that marks a session as having lost events."""
    return f"lost:{session}"


async def demand_history(journal: Journal, tenant: str, session: str) -> None:
    """Raise `UsageError` for a session that lost events: resuming it would repeat the calls that they recorded."""
    if (await journal.head(tenant, lost_of(session))).seq:
        raise UsageError(
            f"session {session} lost events when its journal was damaged, so which calls it made is not known",
            code="history_lost",
            remedy="look at what its tools did, and start a new run for what is left to do",
        )


async def mark_lost(journal: DatabaseJournal, loss: Loss) -> list[LostHistory]:
    """Mark the sessions that lost events, so that they cannot be resumed, and return them.

    Where the commit log does not name every stream that moved, all sessions that are not over may have lost some.
    """
    had = {(each.tenant, each.stream): each.seq for each in loss.streams}
    found: list[LostHistory] = []
    after = ("", "")
    while page := await journal.inspect_sessions(after, _PAGE):
        for row in page:
            last = had.get((row.tenant, row.session_id))
            left = (await journal.head(row.tenant, row.session_id)).seq
            is_behind = last is not None and left < last
            if is_behind or (last is None and not loss.is_complete and row.status not in TERMINAL):
                lost = LostHistory(tenant=row.tenant, session_id=row.session_id, left=left, had=last)
                await _mark(journal, row, lost)
                found.append(lost)
        after = (page[-1].tenant, page[-1].session_id)
    return found


async def _mark(journal: Journal, row: SessionRow, lost: LostHistory) -> None:
    stream = lost_of(row.session_id)
    end = (await journal.head(row.tenant, stream)).seq
    data = name_owner(msgspec.json.encode(lost), row.tenant, stream)
    await journal.append(Append(tenant=row.tenant, stream=stream, expected=end, events=(data,), ring=True))
