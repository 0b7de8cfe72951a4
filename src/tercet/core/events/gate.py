"""Questions to people, and their answers."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

from tercet.core.events.fact import Fact

GateKind: TypeAlias = Literal["approval", "reconcile", "escalation", "compensation", "output"]
Answered: TypeAlias = Literal[
    "approve",
    "deny",
    "modify",
    "withdraw",
    "happened",
    "did_not_happen",
    "extend",
    "replan",
    "accept_partial",
    "abandon",
    "compensate",
    "keep",
]


class Need(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """Whom a gate asks for: one of these roles, held by so many different people; no roles mean anybody."""

    roles: tuple[str, ...] = ()
    quorum: int = 1


class GateOpened(Fact, frozen=True, kw_only=True, tag="gate_opened"):
    """The run waits for a person: to approve a resolved call, to say whether a call happened, or to take over."""

    gate: str
    """The id of this opening, unique in the session."""
    kind: GateKind
    step: str
    names: tuple[str, ...] = ()
    """The gates of the pack that this one stands for."""
    needs: dict[str, Need] = {}
    """Whom each of them asks for; an approval that no gate of the pack names stands under an empty name."""
    digest: str = ""
    covers: dict[str, str] = {}
    """The other calls that the same answer is about: their digests by step."""
    shown: dict[str, Any] = {}
    expires: int = 0
    """From when on it cannot be answered any more; 0 means that it waits as long as the session lives."""
    stale: int = 0
    """When the first piece of the evidence that it stands on expires: from then on no one can approve it."""


class GateAnswered(Fact, frozen=True, kw_only=True, tag="gate_answered"):
    """A person answered."""

    gate: str
    digest: str
    answer: Answered
    actor: str
    roles: tuple[str, ...] = ()
    """The roles that they held at that moment."""
    listed: bool = False
    """Whether they hold them by a list of people: then they lose them by being taken off it."""
    auth: str = "local"
    login: str = ""
    """The login that they answered from; empty if somebody else vouches for them, or no one wrote it down."""
    simulated_by: str = ""
    """The login of the person who acted as `actor` in a development session; empty if `actor` answered."""
    value: Any = None
    changes: dict[str, Any] = {}
    """With `modify`: the values that they set in the call, by JSON Pointer into its parameters."""
    note: str = ""
    outside: bool = False
    """Appended by somebody who does not run the session."""
    inbox: int = 0
    """Where it stood in the session's inbox, if it came from there."""


class AcceptanceLapsed(Fact, frozen=True, kw_only=True, tag="acceptance_lapsed"):
    """Whoever accepted the outputs no longer held the role for it when they were to be committed: people are asked again."""

    gate: str
    reason: str


class ApprovalGranted(Fact, frozen=True, kw_only=True, tag="approval_granted"):
    """A policy of the pack gave the approval that a call would have waited for."""

    step: str
    policy: str
    digest: str


class MessageDropped(Fact, frozen=True, kw_only=True, tag="message_dropped"):
    """What somebody put into the session's inbox came too late, or does not fit; nothing was changed."""

    inbox: int
    code: str
    reason: str
