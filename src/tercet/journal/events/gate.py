"""Questions to people, and their answers."""

from __future__ import annotations

from typing import Any, Literal

from tercet.journal.events.fact import Fact


class GateOpened(Fact, frozen=True, kw_only=True, tag="gate_opened"):
    """The run waits for a person: to approve a resolved call, or to say whether a call happened."""

    gate: str
    """The id of this opening, unique in the session."""
    kind: Literal["approval", "reconcile", "escalation"]
    step: str
    names: tuple[str, ...] = ()
    """The gates of the pack that this one stands for."""
    digest: str = ""
    shown: dict[str, Any] = {}


class GateAnswered(Fact, frozen=True, kw_only=True, tag="gate_answered"):
    """A person answered."""

    gate: str
    digest: str
    answer: Literal["approve", "deny", "happened", "did_not_happen"]
    actor: str
    auth: str = "local"
    value: Any = None
    note: str = ""
    outside: bool = False
    """Appended by somebody who does not carry the session forward."""
