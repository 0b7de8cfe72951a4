"""What the shell must do next. A command is a value; doing it ends in events."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias


@dataclass(frozen=True, slots=True, kw_only=True)
class Propose:
    """Ask the planner for a plan."""

    feedback: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Decompose:
    """Split the plan into sub-tasks."""


@dataclass(frozen=True, slots=True)
class Retrieve:
    """Look up the evidence that the plan pins."""


@dataclass(frozen=True, slots=True)
class Review:
    """Let the critic review the plan."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dispatch:
    """Make a call."""

    step: str
    params: dict[str, Any]
    key: str
    occurrence: int
    attempt: int
    not_before: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """Take a note: its resolved parameters are its result."""

    step: str
    params: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Skip:
    """Leave a step out."""

    step: str
    reason: Literal["condition_false", "optional_failed", "not_reached"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A step that cannot be called: its references do not resolve, or it would break a rule."""

    step: str
    code: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Judge:
    """Let the critic judge a step."""

    step: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Settle:
    """Find out what became of a call whose outcome is unknown."""

    step: str
    not_before: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """Open a gate."""

    step: str
    kind: Literal["approval", "reconcile", "escalation"]
    names: tuple[str, ...]
    digest: str
    shown: dict[str, Any]
    not_before: int = 0
    """While a call of unknown outcome may still take effect, no answer about it would be true for long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finish:
    """Every step has ended: work out the outputs."""


@dataclass(frozen=True, slots=True)
class Score:
    """Let the critic score the run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GiveUp:
    """The run has gone through more phases than it may: end it."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
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
