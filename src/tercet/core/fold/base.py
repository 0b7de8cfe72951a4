"""Helpers of the folds: copies of a state with changes, and the error for an event that is not allowed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias, TypeVar

import msgspec

from tercet.contracts.errors import TercetError
from tercet.core import events as e
from tercet.core.state import OpenGate, State, StepState

StructT = TypeVar("StructT", bound=msgspec.Struct)

INTERRUPTED = "interrupted"
"""The code of a step whose process crashed during its call."""
STOPPED = "stopped"
"""The code of a step whose process was stopped during its call."""
LANE_WAITING = "lane_waiting"
"""The code of a step whose lane waits for a person; it is called again once they have answered."""
CUT_OFF = (INTERRUPTED, STOPPED, LANE_WAITING)
"""The codes of calls that are made again without costing a retry."""
LEASE_EXPIRED = "lease_expired"
"""The code of a call that was withheld because the lease had run out; it costs no retry."""
EMERGENCY_STOP = "emergency_stop"
"""The code of a call that was withheld because an operator stopped its tool, pack or tenant; it costs no retry."""
WITHHELD = (LEASE_EXPIRED, EMERGENCY_STOP)
NOT_MADE = (*WITHHELD, "deadline")
"""The codes of calls that were not made after all."""
ROLE_LOST = "approver_lost_role"
"""The code of a call that was refused because its approver no longer holds the role for it."""
POLICY = "policy:"
"""The prefix of the approver's name in an approval that a policy granted."""
MODIFIED = "modified"
"""The code of a step that a person sent back to the planner."""
ANSWERS: dict[str, tuple[str, ...]] = {
    "approval": ("approve", "deny", "modify", "withdraw"),
    "reconcile": ("happened", "did_not_happen"),
    "escalation": ("extend", "replan", "accept_partial", "abandon"),
    "compensation": ("compensate", "keep"),
    "output": ("approve", "deny", "modify"),
}
"""The answers to each kind of gate."""


def answers_to(gate: OpenGate) -> tuple[str, ...]:
    """Return the answers to a gate; the gate of a lane can only be approved or denied, since its call belongs to the
    lane."""
    return ("approve", "deny") if gate.lane else ANSWERS[gate.kind]


class IllegalEvent(TercetError):  # noqa: N818 - what happened is named, not that it is an error
    """An event that the table does not allow; nothing was changed."""

    default_code = "illegal_event"


def illegal(state: State, event: e.Event, why: str) -> IllegalEvent:
    """Return the refusal of an event, naming run, phase and event."""
    name = type(event).__struct_config__.tag
    run = state.start.run
    return IllegalEvent(
        f"run {run}: {name} cannot happen in phase {state.phase}: {why}",
        remedy="this is a bug in the driver, or the journal was changed by hand",
    )


def demand(state: State, event: e.Event, *, is_met: bool, why: str) -> None:
    """Refuses an event unless something holds."""
    if not is_met:
        raise illegal(state, event, why)


Changes: TypeAlias = dict[str, Any]
"""The fields of a state that an event changes. Folds that run for every step return them instead of a state, so that
`fold_event` makes one new state and not two."""


def changed(state: State, **changes: Any) -> State:
    """Return the state with these fields changed."""
    return msgspec.structs.replace(state, **changes)


def copy_fields(kind: type[StructT], source: object, **given: Any) -> StructT:
    """Return a struct with the values that another object has in the fields of the same names, and with those given."""
    shared = (name for name in kind.__struct_fields__ if name not in given and hasattr(source, name))
    return kind(**{name: getattr(source, name) for name in shared} | given)


def step_of(state: State, name: str, event: e.Event) -> StepState:
    """Return the step of an event, which must exist."""
    step = state.steps.get(name)
    if step is None:
        raise illegal(state, event, f"there is no step {name}")
    return step


def with_step(state: State, name: str, **changes: Any) -> dict[str, StepState]:
    """Return the steps with one of them changed."""
    return {**state.steps, name: msgspec.structs.replace(state.steps[name], **changes)}


def owners_of(start: e.SessionStarted) -> tuple[Mapping[str, Any], ...]:
    """Return who owns a run, and the runs that it is nested in."""
    return (start.actor, *start.parent_owners)


def owner_named(state: State, actor: str, login: str) -> str:
    """Return the name of a person as an owner of this run, or of one that it is nested in; empty if they own none."""
    return named_among(owners_of(state.start), actor, login)


def named_among(owners: Iterable[Mapping[str, Any]], actor: str, login: str) -> str:
    """Return how a person is known among the owners: by their name or their login; empty if they are none of them."""
    known = tuple(owners)
    if any(owner.get("id") == actor for owner in known):
        return actor
    return f"the login {login}" if login and any(owner.get("os_user") == login for owner in known) else ""
