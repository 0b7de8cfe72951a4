"""The result of a replay: equal, or the first difference."""

from __future__ import annotations

from typing import Any, Literal

from tercet.contracts.runs.record import ReplayDiff
from tercet.contracts.shape import Absent, Published

ReplayOutcome = Literal["replay_equal", "replay_different"]


class Difference(Published):
    """The first place where the record differs from what follows from the facts before it."""

    position: int
    event: str
    """The type of the event, or `checkpoint`."""
    step: Absent[str] = None
    field: str
    """The field as a path, such as `verdict.outcome`; `type` if another event, or none, was expected."""
    recorded: Any
    expected: Any
    check: str
    """What to check."""


class Count(Published):
    """A number of events taken as facts, with the reason."""

    event: str
    count: int
    reason: Absent[str] = None


class ReplayReport(Published):
    """The result of replaying one recorded run."""

    outcome: ReplayOutcome
    session_id: str
    run_id: str
    pack: str
    status: str
    """The status of the session at the end of its record, or at the first difference."""
    events: int
    """The number of events that were folded."""
    checkpoints: int
    """The number of checkpoints that were compared."""
    verdicts_rederived: int
    verdicts_as_facts: int
    rederived: tuple[Count, ...] = ()
    facts: tuple[Count, ...] = ()
    behaviour: tuple[int, ...] = ()
    """The numbered rules that the run was recorded under."""
    difference: Absent[Difference] = None
    diff: Absent[ReplayDiff] = None
    """The report of the run as it was recorded and as it comes out now; absent if the run was not scored."""

    @property
    def is_equal(self) -> bool:
        """Whether everything is as recorded."""
        return self.outcome == "replay_equal"
