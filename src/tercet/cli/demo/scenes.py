"""What the demo tells, scene by scene: nothing but facts that were read back. With --json they are the document."""

from __future__ import annotations

import re
from typing import Any, TypeAlias

import msgspec

from tercet.contracts.request import Actor


class Heading(msgspec.Struct, frozen=True, kw_only=True):
    """What is about to be done."""

    number: int
    text: str


class Aside(msgspec.Struct, frozen=True, kw_only=True):
    """Why it takes a moment."""

    text: str


class Refund(msgspec.Struct, frozen=True, kw_only=True):
    """A row of the payment database."""

    refund_id: str
    idempotency_key: str
    payment_id: str
    amount_inr: int
    status: str


class Refused(msgspec.Struct, frozen=True, kw_only=True):
    """A plan that the critic did not let through."""

    session_id: str
    status: str
    kind: str
    code: str
    reason: str
    remedy: str
    calls: int
    """How many calls the journal has for it."""
    has_payment_database: bool


class Value(msgspec.Struct, frozen=True, kw_only=True):
    """A parameter of the call that waits."""

    name: str
    value: Any
    carries_authority: bool
    source: str
    same_in: str
    """The field of the pinned evidence that has the same value, if one has."""


class Pinned(msgspec.Struct, frozen=True, kw_only=True):
    """Evidence that an approval is bound to."""

    id: str
    hash: str
    source: str


class Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """A verified plan whose run waits at a gate."""

    session_id: str
    status: str
    worker: int
    verdict: str
    gate: str
    gate_name: str
    tool: str
    mode: str
    reversibility: str
    values: tuple[Value, ...]
    evidence: tuple[Pinned, ...]
    undo: str
    """The tool that takes the call back."""
    roles: tuple[str, ...]
    quorum: int
    owner: str
    digest: str
    refunds: tuple[Refund, ...]


class OwnAttempt(msgspec.Struct, frozen=True, kw_only=True):
    """The owner of the run tried to approve its gate."""

    actor: str
    code: str
    reason: str
    remedy: str
    approvals: int
    """How many the gate has afterwards."""


class Answered(msgspec.Struct, frozen=True, kw_only=True):
    """What a second person said."""

    actor: str
    roles: tuple[str, ...]
    answer: str
    digest: str


class Crashed(msgspec.Struct, frozen=True, kw_only=True):
    """A worker was killed after the payment, and before it could write that down."""

    worker: int
    signal: int
    refunds: tuple[Refund, ...]
    intents: int
    completes: int


class Recovered(msgspec.Struct, frozen=True, kw_only=True):
    """Another worker carried the session to its end."""

    worker: int
    status: str
    keys: tuple[str, ...]
    """The idempotency key of each attempt."""
    completes: int
    refunds: tuple[Refund, ...]


class Recorded(msgspec.Struct, frozen=True, kw_only=True):
    """What is left: the decision record, which was read back and comes to its hash."""

    hash: str
    outputs: dict[str, Any]
    approver: str
    approver_roles: tuple[str, ...]
    digest: str
    evidence: tuple[str, ...]


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    """A story that ended without a payment: denied, or left at the gate."""

    status: str
    reason: str
    calls_of_payment: int
    refunds: tuple[Refund, ...]


Fact: TypeAlias = Refused | Waiting | OwnAttempt | Answered | Crashed | Recovered | Recorded | Ended
Scene: TypeAlias = Heading | Aside | Fact


def name_of(fact: Fact) -> str:
    """Return the name of a fact in the document: `OwnAttempt` is `own_attempt`."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", type(fact).__name__).lower()


OWNER = Actor(id="agt_support", roles=("support_agent",))
APPROVER = Actor(id="user_finance_lead", roles=("finance_lead",))
