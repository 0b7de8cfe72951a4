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
    """The approvers that a gate needs: `quorum` different people with one of these roles; without roles, anyone."""

    roles: tuple[str, ...] = ()
    quorum: int = 1


class GateOpened(Fact, frozen=True, kw_only=True, tag="gate_opened"):
    """The run waits for a person to approve a call, to settle its outcome, or to decide how the run continues."""

    gate: str
    """The id of this opening, unique in the session."""
    kind: GateKind
    step: str
    names: tuple[str, ...] = ()
    """The gates of the pack that this one represents."""
    needs: dict[str, Need] = {}
    """The approvers that each of them needs; an approval that no gate of the pack names has an empty name."""
    digest: str = ""
    covers: dict[str, str] = {}
    """The digests of the other calls that the same answer covers, by step."""
    shown: dict[str, Any] = {}
    expires: int = 0
    """When it expires; 0 if it waits as long as the session lives."""
    stale: int = 0
    """When the first evidence that it depends on expires, after which it can no longer be approved."""
    lane: str = ""
    """The session of the lane whose gate it stands for: the answer is passed on to it."""


class GateAnswered(Fact, frozen=True, kw_only=True, tag="gate_answered"):
    """A person answered."""

    gate: str
    digest: str
    answer: Answered
    actor: str
    roles: tuple[str, ...] = ()
    """The roles that the person held at that moment."""
    listed: bool = False
    """Whether the roles come from a list of people, so that they are lost when the person is removed from it."""
    auth: str = "local"
    login: str = ""
    """The login that they answered from; empty if the caller vouches for the person, or it is unknown."""
    simulated_by: str = ""
    """The login of the person who acted as `actor` in a development session; empty otherwise."""
    value: Any = None
    changes: dict[str, Any] = {}
    """With `modify`: the values set in the call, by JSON Pointer into its parameters."""
    note: str = ""
    outside: bool = False
    """Whether a process that does not run the session appended it."""
    inbox: int = 0
    """Its position in the session's inbox, if it came from there."""


class AcceptanceLapsed(Fact, frozen=True, kw_only=True, tag="acceptance_lapsed"):
    """An approver of the outputs had lost the role when they were to be committed, so people are asked again."""

    gate: str
    reason: str


class ApprovalGranted(Fact, frozen=True, kw_only=True, tag="approval_granted"):
    """A policy of the pack gave the approval that a call would have waited for."""

    step: str
    policy: str
    digest: str


class MessageDropped(Fact, frozen=True, kw_only=True, tag="message_dropped"):
    """A message in the session's inbox came too late or was not allowed; nothing changed."""

    inbox: int
    code: str
    reason: str
