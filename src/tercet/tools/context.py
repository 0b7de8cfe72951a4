"""What a tool may know about the call it is in."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


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
    depth: int = 0
    """How many runs this one stands inside of."""

    def __post_init__(self) -> None:
        if self.deadline is not None and self.deadline.tzinfo is None:
            raise ValueError(
                "a deadline has a time zone, for example datetime(2026, 5, 9, 9, 30, tzinfo=UTC)"
            )
