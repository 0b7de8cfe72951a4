"""The result of a replay: a run comes out the same, or differs first at a place."""

from __future__ import annotations

from typing import Any, Literal

from tercet.contracts.runs.record import ReplayDiff
from tercet.contracts.shape import Absent, Published

ReplayOutcome = Literal["replay_equal", "replay_different"]


class Difference(Published):
    """The first place where what was recorded is not what follows from the facts before it."""

    position: int
    event: str
    """The type of the event, or `checkpoint`."""
    step: Absent[str] = None
    field: str
    """The field as a path, such as `verdict.outcome`; `type` where another event, or none, was due."""
    recorded: Any
    expected: Any
    check: str
    """Where to look."""


class Count(Published):
    """How many there are of something, with why where that is not plain."""

    event: str
    count: int
    reason: Absent[str] = None


class ReplayReport(Published):
    """What came of judging one recorded run again."""

    outcome: ReplayOutcome
    session_id: str
    run_id: str
    pack: str
    status: str
    """How the session stands where its record ends, or where it first differs."""
    events: int
    """How many events were folded."""
    checkpoints: int
    """How many checkpoints were compared."""
    verdicts_rederived: int
    verdicts_as_facts: int
    rederived: tuple[Count, ...] = ()
    facts: tuple[Count, ...] = ()
    behaviour: tuple[int, ...] = ()
    """The changed rules that the run goes by."""
    difference: Absent[Difference] = None
    diff: Absent[ReplayDiff] = None
    """The report of the run as it was recorded and as it comes out now; absent if the run was not scored."""

    @property
    def is_equal(self) -> bool:
        """Whether everything came out the same."""
        return self.outcome == "replay_equal"
