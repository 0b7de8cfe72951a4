"""The compensation of effects."""

from __future__ import annotations

from enum import StrEnum

from tercet.contracts.plan import Compensation
from tercet.contracts.shape import Json, Shape


class RollbackStatus(StrEnum):
    """How the compensation of one action ended."""

    COMPENSATED = "COMPENSATED"
    COMPENSATION_FAILED = "COMPENSATION_FAILED"
    CANNOT_ROLLBACK = "CANNOT_ROLLBACK"


class RollbackEntry(Shape):
    """One action that was compensated, or could not be."""

    step_id: str
    status: RollbackStatus
    compensating: Compensation | None = None
    result: Json = None
    error: str | None = None
    note: str = ""
    settled_by: str | None = None
    """The person who settled how it ended, if one had to."""

    @property
    def is_open(self) -> bool:
        """Whether it still waits for an operator."""
        return self.status is not RollbackStatus.COMPENSATED and self.settled_by is None


class RollbackResult(Shape):
    """The whole saga: it succeeded only if nothing is left for an operator."""

    success: bool
    log: tuple[RollbackEntry, ...] = ()
    requires_manual_intervention: bool = False
