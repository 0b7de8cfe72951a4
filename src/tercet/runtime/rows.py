"""What lists of sessions show: a view of the state, written with the events that change it."""

from __future__ import annotations

from tercet.journal.protocol import SessionRow
from tercet.runtime.state import State


def row_of(state: State) -> SessionRow:
    """What lists of sessions show."""
    start = state.start
    return SessionRow(
        session_id=start["session"],
        tenant=start["tenant"],
        status=state.status,
        pack=start["pack"],
        pack_hash=start["pack_hash"],
        snapshot=start["snapshot"],
        intent=start["request"]["intent"],
        owner=start["actor"]["id"],
        started_at=start["at"],
        updated_at=state.at,
        next_step=state.frontier[0] if state.frontier else None,
    )
