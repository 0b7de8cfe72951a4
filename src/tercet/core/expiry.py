"""Expiry of sessions and of the gates that they wait at."""

from __future__ import annotations

from tercet.contracts.loop import Phase
from tercet.core import events as e
from tercet.core.state import State


def find_expired(state: State, now: int, *, outside: bool = False) -> e.SessionExpired | None:
    """Return the expiry event of a session whose time to live, or that of one of its gates, has passed; None otherwise."""
    if not state.is_started or state.phase in (Phase.COMMIT, Phase.FAIL):
        return None
    ends = state.start.expires
    if ends and now >= ends:
        return e.SessionExpired(at=max(now, state.at), reason="Session expired", outside=outside)
    for gate in state.gates.values():
        if gate.expires and now >= gate.expires:
            reason = f"Session expired: nobody answered gate {gate.id} in time"
            return e.SessionExpired(at=max(now, state.at), reason=reason, gate=gate.id, outside=outside)
    return None


def due_at(state: State) -> int | None:
    """Return when the watchdog has to check a session: a time to live ends, or a heartbeat is due."""
    if state.is_over:
        return None
    times = [gate.expires for gate in state.gates.values() if gate.expires]
    if not state.ending and (ends := state.start.expires):
        times.append(ends)
    # A session that is ending waits for no one, unless a gate is open: the process that runs it ends it.
    if state.status == "in_progress" or (state.ending and not state.gates):
        times.append(state.at + 2 * state.start.heartbeat)
    return min(times, default=None)
