"""Forgetting: sessions that are over go after a time, with all that belongs to them.

What waits for a person is never forgotten: neither a session that is not over, nor one that left something that could not
be taken back and that nobody has dealt with yet.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tercet.contracts.errors import TercetError, UsageError
from tercet.core.messages import inbox_of
from tercet.core.state import TERMINAL
from tercet.engine.leases import Desk
from tercet.engine.rows import each_once
from tercet.engine.session_reader import load_state
from tercet.engine.streams import artifacts, nesting
from tercet.engine.streams.feedback import feedback_of
from tercet.engine.streams.lost_history import lost_of
from tercet.journal.errors import JournalBusy, JournalClosed, JournalFull, JournalUnavailable, LeaseHeld
from tercet.journal.protocol import SessionRow

DAY_MS = 24 * 3_600_000


def demand_age(older_than_ms: int | None, retention_days: int | None) -> int | None:
    """How old a session must be to be forgotten; None means that none is. Raises `UsageError` for a negative age."""
    if older_than_ms is not None and older_than_ms < 0:
        raise UsageError(
            f"{older_than_ms:,} ms is no age",
            code="wrong_age",
            remedy="give how long ago a session must have ended to be forgotten",
        )
    if older_than_ms is not None:
        return older_than_ms
    return None if retention_days is None else retention_days * DAY_MS


async def prune(
    desk: Desk,
    *,
    before_ms: int,
    is_ours: Callable[[SessionRow], bool],
    signal: Callable[[str, dict[str, Any]], None],
) -> int:
    """Forget the sessions that ended before a time; how many they were. One that cannot be read stays, and is told as the
    signal `prune_failed`: nobody knows what is owed for it."""
    forgotten = 0
    statuses = tuple(sorted(TERMINAL))
    async for row in each_once(
        lambda limit: desk.journal.ended(desk.tenant, before_ms=before_ms, statuses=statuses, limit=limit)
    ):
        if not is_ours(row):
            continue
        try:
            forgotten += await _forget(desk, row.session_id)
        except LeaseHeld:
            continue  # whoever brought it to its end has just let go of it
        except (JournalUnavailable, JournalBusy, JournalFull, JournalClosed):
            raise
        except TercetError as error:
            signal("prune_failed", {"session_id": row.session_id, "reason": error.message})
    return forgotten


async def _forget(desk: Desk, session: str) -> bool:
    """Forget a session with all that stands beside it, unless something is left that an operator has to deal with."""
    journal, tenant = desk.journal, desk.tenant
    state = await load_state(journal, tenant, session)
    result = await artifacts.rollback_result(journal, tenant, state)
    if result is not None and result.requires_manual_intervention:
        return False
    beside = [
        inbox_of(session),
        lost_of(session),
        artifacts.rollback_of(session),
        feedback_of(session),
        nesting.family_of(session),
    ]
    if (root := str(state.start.root)) and not (await journal.head(tenant, root)).seq:
        beside.append(nesting.family_of(root))  # what a child wrote there after its root was forgotten
    # The session itself goes last: whatever interrupts this, it is found again.
    for stream in (*beside, session):
        if (await journal.head(tenant, stream)).seq:
            await journal.forget((await desk.acquire_ended(stream)).lease)
    return True
