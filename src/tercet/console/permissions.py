"""Who may answer a gate, and how: every possible answer is tried against the rules for messages, and nothing is sent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from tercet.contracts.errors import TercetError
from tercet.core.events.gate import Answered
from tercet.core.fold.base import answers_to
from tercet.core.message_rules import event_of
from tercet.core.messages import reply
from tercet.core.modifications import SETTABLE
from tercet.core.state import OpenGate, State
from tercet.runtime import Runtime
from tercet.service.identity import Caller
from tercet.service.methods import actor_for

_PHRASES = {
    "own_gate": "you started this run",
    "own_change": "you set values in this call",
    "already_approved": "you have approved it already",
    "wrong_login": "the pack gives your name to another login",
    "gate_expired": "it has expired",
    "evidence_expired": "its evidence has expired",
    "simulation_refused": "it is not a development session",
    "unknown_actor": "the pack does not list you",
    "scope_missing": "your credential may not answer gates",
}
"""Why a person cannot answer, in one phrase."""
_AUTHORISED = frozenset(("wrong_value", "nothing_changed", "note_missing"))
"""Refusals of what was tried here, and not of the person."""
_SET_VALUES = "set_values"


@dataclass(frozen=True, kw_only=True)
class Permissions:
    """The answers that a person may give to a gate, and why not the others."""

    allowed: frozenset[str]
    refused: dict[str, TercetError]
    roles: tuple[str, ...]
    """The roles that are asked for."""
    owner: str
    """The name under which the person has started the run; empty if it is their own, or another person did."""

    def may(self, answer: str) -> bool:
        """Return whether the person may give an answer; `set_values` is a change of the call's values."""
        return answer in self.allowed

    @property
    def waits(self) -> bool:
        """Whether the gate waits for this person: an answer of theirs could let the run go on, and no role is asked for that
        they do not have. More budget for an escalated run may come from others too, who are not asked for it."""
        asks_others = any(error.code == "role_missing" for error in self.refused.values())
        going_on = {"approve", "happened", "extend", "replan", "accept_partial", "compensate"}
        return bool(self.allowed & going_on) and not asks_others

    @property
    def why_not(self) -> str:
        """Why the gate does not wait for this person, in one phrase."""
        order = ("approve", "happened", "compensate", "accept_partial", "replan", "extend")
        error = next((self.refused[name] for name in order if name in self.refused), None)
        if error is None:
            return ""
        if error.code == "role_missing":
            return f"it takes the role {' or '.join(self.roles)}"
        under = f", as {self.owner}" if error.code == "own_gate" and self.owner else ""
        return f"{_PHRASES.get(error.code, error.message)}{under}"


def find_permissions(caller: Caller, runtime: Runtime, state: State, gate: OpenGate, now: int) -> Permissions:
    """Return what a caller may answer to a gate."""
    allowed: set[str] = set()
    refused: dict[str, TercetError] = {}
    for name, answer, said in _attempts(gate):
        try:
            caller.demand("answer")
            person = runtime.known(actor_for(caller, runtime))
            is_listed = runtime.roles(person.id) is not None
            event_of(reply(gate.id, answer, person, listed=is_listed, **said), state, now)
        except TercetError as error:
            if error.code not in _AUTHORISED:
                refused[name] = error
                continue
        allowed.add(name)
    return Permissions(
        allowed=frozenset(allowed),
        refused=refused,
        roles=tuple(sorted({role for need in gate.needs.values() for role in need.roles})),
        owner="" if state.start.actor["id"] == caller.actor.id else str(state.start.actor["id"]),
    )


def _attempts(gate: OpenGate) -> list[tuple[str, Answered, dict[str, Any]]]:
    """Return every answer to try, with what it needs to be complete."""
    options = cast("tuple[Answered, ...]", answers_to(gate))
    found: list[tuple[str, Answered, dict[str, Any]]] = []
    for answer in options:
        said: dict[str, Any] = {"note": "-"}
        if answer == "extend":
            said["value"] = {"tool_calls": 1}
        found.append((answer, answer, said))
    params: dict[str, Any] = gate.shown.get("params", {})
    if "modify" in options and SETTABLE in gate.shown and params:
        name = next(iter(params))
        found.append((_SET_VALUES, "modify", {"note": "-", "changes": {name: params[name]}}))
    return found
