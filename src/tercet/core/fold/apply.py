"""`fold_event`: the state of a run after an event.

Pure and total: it either returns the next state or raises `IllegalEvent`, which names run, phase and event, and changes
nothing. Time comes from the events and from nowhere else.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce

from msgspec.structs import replace

from tercet.contracts.loop import Phase
from tercet.contracts.runs.session import SessionStatus
from tercet.core import events as e
from tercet.core.fold import session as session_fold
from tercet.core.fold.base import Changes, illegal
from tercet.core.state import TERMINAL, State, Used
from tercet.core.table import TABLE

P = Phase
# Looking a member up in its enumeration takes longer than comparing with it.
_ACT, _FAIL = P.ACT, P.FAIL

TRANSITIONS: dict[SessionStatus, frozenset[SessionStatus]] = {
    "in_progress": frozenset({"awaiting_gate", "paused", "completed", "failed", "expired", "cancelled"}),
    "awaiting_gate": frozenset({"in_progress", "rejected", "expired"}),
    "paused": frozenset({"in_progress", "cancelled", "expired"}),
    "completed": frozenset(),
    "failed": frozenset(),
    "expired": frozenset(),
    "rejected": frozenset(),
    "cancelled": frozenset(),
}
"""How the state of a session may change, and how not. A denial is carried out under awaiting_gate; a session that expires,
or is cancelled while it is paused, stays what it was where it has done nothing."""


def fold_event(state: State, event: e.Event) -> State:
    """Return the state after an event."""
    row, phase = TABLE[type(event)], state.phase
    if state.status in TERMINAL or phase not in row.phases:
        raise illegal(state, event, "the phase does not allow it")
    if phase is _FAIL and row.compensates and _is_planned(state, getattr(event, "step", "")):
        raise illegal(state, event, "the run has failed")
    moved = row.fold(state, event)
    now = event.at if event.at > state.at else state.at  # noqa: FURB136 - for every event, as in the driver
    if isinstance(moved, dict):
        if phase is _ACT and state.status == "in_progress" and not state.gates:
            return _advanced(state, moved, now)
        moved = replace(state, **moved)
    if moved.phase is not phase and not row.allows(event, phase, moved.phase):
        raise illegal(state, event, f"it does not lead to {moved.phase}")
    is_outside: bool = getattr(event, "outside", False)
    status = _status(state, moved)
    if status != state.status and status not in TRANSITIONS[state.status]:
        raise illegal(state, event, f"a session that is {state.status} cannot become {status}")
    return replace(
        moved,
        position=state.position + 1,
        at=now,
        status=status,
        used=moved.used if is_outside else _clocked(state, moved, event, now),
        active_since=0 if is_outside else _active_since(state, status, event, now),
        iterations=state.iterations + _counts(state, moved.phase),
    )


def fold_all(events: Iterable[e.Event]) -> State:
    """Return the state after all events of a run."""
    return reduce(fold_event, events, State())


def _advanced(state: State, changes: Changes, now: int) -> State:
    """Return the state after an event that leaves phase and status unchanged, as most events of a step do."""
    since = state.active_since
    if since and now > since:
        used: Used = changes.get("used", state.used)
        changes["used"] = replace(used, wall_clock=state.used.wall_clock + now - since)
    changes["position"] = state.position + 1
    changes["at"] = changes["active_since"] = now
    return replace(state, **changes)


def _is_planned(state: State, name: str) -> bool:
    """Return whether a name is a step of the plan and not a compensation."""
    return name in state.steps and not state.steps[name].compensates


def _clocked(before: State, after: State, event: e.Event, now: int) -> Used:
    """Return the usage with the wall clock, which runs while the session is in progress and stops at gates and pauses."""
    if not before.active_since or type(event) in _TIMELESS:
        return after.used  # while no process had the session, no time was spent on it
    spent = now - before.active_since
    return replace(after.used, wall_clock=before.used.wall_clock + spent) if spent else after.used


def _active_since(before: State, status: SessionStatus, event: e.Event, now: int) -> int:
    """Return when the wall clock was last started."""
    if type(event) is e.MessageDropped:
        return before.active_since if status == before.status else 0
    return now if status == "in_progress" else 0


_TIMELESS = (e.SessionResumed, e.MessageDropped)
"""Events that do not show whether a process was running the session before them."""


def _counts(before: State, after: Phase) -> int:
    """Count a move to another phase as an iteration, except for pausing and resuming; for an agent, count each turn."""
    if before.is_stepwise:
        return int(before.phase is P.PLAN and after is P.DECOMPOSE)
    return int(after is not before.phase and P.HALT not in (before.phase, after))


def _status(before: State, state: State) -> SessionStatus:
    """Return the status of a session: it waits at a gate if one is open and no other call can proceed, or if a denial is
    carried out."""
    if state.status not in ("in_progress", "awaiting_gate"):
        return state.status
    if before.status == "paused":
        return (
            "in_progress"  # what it waits for shows with the next event: no pause turns into a wait at once
        )
    if state.phase is P.FAIL and state.ending == "rejected":
        return "awaiting_gate"
    if state.ending == "expired" and before.status == "awaiting_gate" and session_fold.is_untouched(state):
        return "awaiting_gate"
    if not state.gates or state.phase not in (P.ACT, P.VERIFY, P.FAIL):
        return "in_progress"
    if state.phase is P.VERIFY:
        return "awaiting_gate"
    waiting = [state.steps[step] for step in state.frontier]
    is_blocked = all(step.gate or step.status == "failed" for step in waiting)
    # A failure is judged as soon as the outcome of every call is known, so the session is not waiting.
    is_due = bool(state.unjudged) and not any(step.is_reserving for step in waiting)
    return "awaiting_gate" if is_blocked and not is_due else "in_progress"
