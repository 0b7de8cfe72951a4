"""Times to live: of a session, and of the gates that it waits at."""

from __future__ import annotations

from tercet.contracts.loop import Phase
from tercet.core import events as e
from tercet.core.state import State


def find_expired(state: State, now: int, *, outside: bool = False) -> e.SessionExpired | None:
    """The end of a session whose time is over, or that of a gate it waits at; None if there is time left."""
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
    """When somebody should look at a session again: a time to live ends, or a sign of life should have come."""
    if state.is_over:
        return None
    times = [gate.expires for gate in state.gates.values() if gate.expires]
    if not state.ending and (ends := state.start.expires):
        times.append(ends)
    # One that is ending waits for nobody, unless a gate is open: whoever carries it brings it to its end.
    if state.status == "in_progress" or (state.ending and not state.gates):
        times.append(state.at + 2 * state.start.heartbeat)
    return min(times, default=None)
