"""Sessions that cannot be read: what a list shows in their place."""

from __future__ import annotations

from typing import get_args

import msgspec

from tercet.contracts.errors import TercetError
from tercet.contracts.session import SessionStatus
from tercet.engine.rows import details_of
from tercet.journal.errors import JournalBusy, JournalClosed, JournalCorrupt, JournalUnavailable
from tercet.journal.protocol import SessionRow

_STATUSES = frozenset(get_args(SessionStatus))
_LATEST_MS = 253_402_300_799_999
"""The end of the year 9999."""


class DamagedSession(msgspec.Struct, frozen=True, kw_only=True):
    """A session that a list cannot show, and why."""

    session_id: str
    reason: str


def row_fault(row: SessionRow) -> str:
    """Return what is wrong with the row of a session; empty if a list can show it."""
    texts = (row.session_id, row.status, row.pack, row.pack_hash, row.snapshot, row.intent, row.owner)
    if not all(_is_text(text) for text in (*texts, row.next_step or "")):
        return "its row holds bytes that are not text"
    if row.status not in _STATUSES:
        return f"its row has an unknown status {row.status!r}"
    if not all(type(at) is int and 0 <= at <= _LATEST_MS for at in (row.started_at, row.updated_at)):
        return "its row has times outside of the calendar"
    try:
        details_of(row)
    except JournalCorrupt as error:
        return error.message
    return ""


def describe_damage(session: str, error: Exception) -> DamagedSession:
    """Return a session that could not be read. Raises the error again if the store failed, and not the session.

    Events that were changed can make folding fail in any way, so every other error counts as damage.
    """
    if isinstance(error, JournalBusy | JournalClosed | JournalUnavailable | OSError):
        raise error
    reason = error.message if isinstance(error, TercetError) else f"{type(error).__name__}: {error}"
    return DamagedSession(session_id=legible(session), reason=legible(reason))


def legible(text: str) -> str:
    """Return a text with bytes that are not UTF-8 written as escapes."""
    return text if _is_text(text) else str(text).encode("utf-8", "backslashreplace").decode()


def _is_text(text: object) -> bool:
    if not isinstance(text, str):
        return False
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
