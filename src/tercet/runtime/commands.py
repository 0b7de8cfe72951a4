"""What the shell must do next. A command is a value; doing it ends in events."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec


class Propose(msgspec.Struct, frozen=True, kw_only=True):
    """Ask the planner for a plan."""

    feedback: tuple[str, ...] = ()


class Decompose(msgspec.Struct, frozen=True, kw_only=True):
    """Split the plan into sub-tasks."""


class Retrieve(msgspec.Struct, frozen=True, kw_only=True):
    """Look up the evidence that the plan pins."""


class Review(msgspec.Struct, frozen=True, kw_only=True):
    """Let the critic review the plan."""


class Dispatch(msgspec.Struct, frozen=True, kw_only=True):
    """Make a call."""

    step: str
    params: dict[str, Any]
    key: str
    occurrence: int
    attempt: int
    not_before: int = 0


class Note(msgspec.Struct, frozen=True, kw_only=True):
    """Take a note: its resolved parameters are its result."""

    step: str
    params: dict[str, Any]


class Skip(msgspec.Struct, frozen=True, kw_only=True):
    """Leave a step out."""

    step: str
    reason: Literal["condition_false", "optional_failed", "not_reached"]


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """A step that cannot be called: its references do not resolve, or it would break a rule."""

    step: str
    code: str
    reason: str


class Judge(msgspec.Struct, frozen=True, kw_only=True):
    """Let the critic judge a step."""

    step: str


class Settle(msgspec.Struct, frozen=True, kw_only=True):
    """Find out what became of a call whose outcome is unknown."""

    step: str
    not_before: int = 0


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """Open a gate."""

    step: str
    kind: Literal["approval", "reconcile", "escalation"]
    names: tuple[str, ...]
    digest: str
    shown: dict[str, Any]
    not_before: int = 0
    """While a call of unknown outcome may still take effect, no answer about it would be true for long."""


class Finish(msgspec.Struct, frozen=True, kw_only=True):
    """Every step has ended: work out the outputs."""


class Score(msgspec.Struct, frozen=True, kw_only=True):
    """Let the critic score the run."""


class GiveUp(msgspec.Struct, frozen=True, kw_only=True):
    """The run has gone through more phases than it may: end it."""

    reason: str


class End(msgspec.Struct, frozen=True, kw_only=True):
    """Write the record and close the session."""

    status: str


Command: TypeAlias = (
    Propose
    | Decompose
    | Retrieve
    | Review
    | Dispatch
    | Note
    | Skip
    | Fault
    | Judge
    | Settle
    | Ask
    | Finish
    | Score
    | GiveUp
    | End
)
