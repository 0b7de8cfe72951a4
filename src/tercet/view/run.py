"""A whole run as one view model, which the report and the console render."""

from __future__ import annotations

from dataclasses import dataclass

from tercet.contracts.errors import ReplayError
from tercet.view.diff import Lines
from tercet.view.events import RunEvent, run_events
from tercet.view.evidence import EvidenceView, ExchangeView, evidence_view, exchange_views
from tercet.view.gate import GateView, GrantView, run_gates
from tercet.view.plan import PlanView, plan_views
from tercet.view.quality import QualityView, quality_view
from tercet.view.session import SessionView, session_view
from tercet.view.source import RunData
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
