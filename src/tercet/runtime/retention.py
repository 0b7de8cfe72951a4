"""Forgetting: sessions that are over go after a time, with all that belongs to them.

What waits for a person is never forgotten: neither a session that is not over, nor one that left something that could not
be taken back and that nobody has dealt with yet.
"""

from __future__ import annotations

from collections.abc import Callable

from tercet.contracts.errors import UsageError
from tercet.journal.errors import LeaseHeld
from tercet.journal.protocol import Journal, SessionRow
from tercet.runtime import artifacts, opening
from tercet.runtime.desk import Desk
from tercet.runtime.feedback import feedback_of
from tercet.runtime.messages import inbox_of
from tercet.runtime.rows import each_once
from tercet.runtime.state import TERMINAL

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


async def prune(desk: Desk, *, before_ms: int, is_ours: Callable[[SessionRow], bool]) -> int:
    """Forget the sessions that ended before a time; how many they were."""
    journal, tenant = desk.journal, desk.tenant
    forgotten = 0
    statuses = tuple(sorted(TERMINAL))
    async for row in each_once(
        lambda limit: journal.ended(tenant, before_ms=before_ms, statuses=statuses, limit=limit)
    ):
        if not is_ours(row) or await _is_owed(journal, tenant, row.session_id):
            continue
        session = row.session_id
        try:
            # The session itself goes last: whatever interrupts this, it is found again.
            beside = (inbox_of(session), artifacts.rollback_of(session), feedback_of(session))
            for stream in (*beside, session):
                if (await journal.head(tenant, stream)).seq:
                    await journal.forget(await desk.acquire(stream))
        except LeaseHeld:
            continue  # whoever brought it to its end has just let go of it
        forgotten += 1
    return forgotten


async def _is_owed(journal: Journal, tenant: str, session: str) -> bool:
    """Whether something is left that an operator has to deal with."""
    state = (await opening.restore(journal, tenant, session)).state
    result = await artifacts.rollback_result(journal, tenant, state)
    return result is not None and result.requires_manual_intervention
