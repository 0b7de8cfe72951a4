"""What a tool may know about the call it is in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

from tercet.contracts.request import Actor


def unheard(_done: float, _total: float | None = None, _message: str = "") -> None:
    """Nobody wants to hear how far a call is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolContext:
    """Passed to a tool that has a parameter of this type; a plan neither sees nor fills it."""

    tenant: str
    run_id: str
    step_id: str
    actor: str
    """The id of the person or service for whom the run acts."""
    idempotency_key: str
    """Names the action itself: another attempt at the same action carries the same key."""
    attempt: int = 1
    deadline: datetime | None = None
    """When the caller stops waiting, with its time zone; None if it never does."""
    fencing_token: int = 0
    """Grows whenever another process takes the run over; refuse a call whose token is lower than one already seen."""
    session_id: str = ""
    root_session: str = ""
    """The session that led to this run through others; empty where nobody did."""
    owners: tuple[Actor, ...] = ()
    """The owner of this run, then those of the runs that it is nested in, from the inside out."""
    depth: int = 0
    """How many runs this one stands inside of."""
    traceparent: str = ""
    """The span of this call in the form of W3C, to hand on to whatever is called; empty where nobody traces the run."""
    progress: Callable[[float, float | None, str], None] = field(default=unheard, repr=False, compare=False)
    """Told how far the call is: how much is done, of how much if that is known, and a word for people. It may be called
    from a thread. What it is told is shown to whoever watches; nothing of it is recorded."""

    def __post_init__(self) -> None:
        if self.deadline is not None and self.deadline.tzinfo is None:
            raise ValueError(
                "a deadline has a time zone, for example datetime(2026, 5, 9, 9, 30, tzinfo=UTC)"
            )
