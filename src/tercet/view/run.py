"""A whole run as one view model, which the report and the console render; and the result of a replay."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from tercet.contracts.errors import ReplayError
from tercet.contracts.runs.record import ReplayDiff
from tercet.contracts.shape import Absent, Published
from tercet.view.diff import Lines
from tercet.view.events import RunData, RunEvent, run_events
from tercet.view.evidence import EvidenceView, ExchangeView, evidence_view, exchange_views
from tercet.view.gate import GateView, GrantView, run_gates
from tercet.view.plan import PlanView, plan_views
from tercet.view.quality import QualityView, quality_view
from tercet.view.session import SessionView, session_view
from tercet.view.timeline import Timeline, timeline


@dataclass(frozen=True, kw_only=True)
class RunView:
    """A run: session, plans, timeline, gates, judgements of the outputs, evidence, models and events."""

    session: SessionView
    plans: tuple[PlanView, ...]
    """The last one first."""
    timeline: Timeline | None
    gates: tuple[GateView | GrantView, ...]
    quality: QualityView | None
    evidence: EvidenceView
    exchanges: tuple[ExchangeView, ...]
    events: tuple[RunEvent, ...]


def run_view(run: RunData, lines: Lines | None = None) -> RunView:
    """Return the view of a run; raises `ReplayError` if a recorded value does not have the expected shape.

    `lines` turns an output into the lines that are compared; a renderer may leave out secrets there.
    """
    try:
        return RunView(
            session=session_view(run),
            plans=plan_views(run),
            timeline=timeline(run.events),
            gates=run_gates(run),
            quality=quality_view(run, lines),
            evidence=evidence_view(run),
            exchanges=exchange_views(run),
            events=run_events(run.events),
        )
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        # Plans, verdicts and gates are recorded as JSON, and a bundle may come from anyone.
        raise unreadable(f"something in session {run.state.start.session}") from error


def unreadable(what: str) -> ReplayError:
    """Return the error for a recorded value that does not have the expected shape."""
    return ReplayError(
        recorded=f"{what} in another shape",
        expected="what this version writes",
        check="the record was changed or made up, or another version of Tercet wrote it",
    )


# --- replay ---


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
    erased: tuple[str, ...] = ()
    """The personal values that were erased, by event and field: they were judged as tokens then, and are now."""
    behaviour: tuple[int, ...] = ()
    """The numbered rules that the run was recorded under."""
    difference: Absent[Difference] = None
    diff: Absent[ReplayDiff] = None
    """The report of the run as it was recorded and as it comes out now; absent if the run was not scored."""

    @property
    def is_equal(self) -> bool:
        """Whether everything is as recorded."""
        return self.outcome == "replay_equal"
