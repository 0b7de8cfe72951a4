"""The record of a run: its hash is that of the whole, whatever way its parts were printed."""

from __future__ import annotations

import pytest

from tercet.contracts.runs.record import DecisionRecord
from tercet.contracts.values.canonical import canonical
from tercet.contracts.verdict import CriticReport, StepScore, VerdictEnvelope, VerifyPassed
from tercet.core import events as e
from tercet.core.transcript import RUN_VERDICT, TRANSCRIPT, split_record, transcript

AT = 1_700_000_000_123


def events(*ends: e.Event, at: int = AT) -> list[e.Event]:
    """One call and how it ended."""
    intent = e.Intent(at=at, step="a", tool="do.it", params={"n": None, "x": [1.5]}, key="k", attempt=2)
    return [intent, *ends]


@pytest.mark.parametrize(
    "found",
    [
        events(e.Complete(at=AT, step="a", attempt=2, value=None)),
        events(
            e.Complete(
                at=AT, step="a", attempt=2, value={"v": None, "w": 1.0, "é": "ü"}, latency=3, tokens=4, cost=5
            )
        ),
        events(e.Complete(at=AT, step="a", attempt=2, value=1, error="unusable")),
        events(e.Complete(at=AT, step="a", attempt=2, blob="sha256:1"), at=1_700_000_000_000),
        events(e.Abort(at=AT, step="a", attempt=2, outcome="unknown", error="lost", code="timeout")),
        [],
    ],
)
def test_a_record_has_the_hash_of_the_whole(found: list[e.Event]) -> None:
    """The transcript is printed by itself, and what is stored is the rest."""
    report = CriticReport(
        trace_id="t",
        decision_key="d",
        verify=VerifyPassed(reasons=("fine",)),
        status="partial",
        rationale="so",
        decided_at="2026-05-04T10:25:00Z",
    )
    record = DecisionRecord(
        decision_id="d", trace_id="t", plan_hash="p", report=report, transcript=transcript(found, {})
    )
    verdict = VerdictEnvelope(
        run_id="r",
        plan_id="p",
        verdict="accept",
        step_scores=(StepScore(step_id="a", scores={"cost": 1.0, "latency": 0.25}),),
        loop_guard_trips=0,
        replan_attempts=0,
    )
    for each in (record, record.model_copy(update={"run_verdict": verdict})):
        whole, kept = split_record(dict(each))
        assert whole == canonical(each)
        fields = each.model_dump(mode="json", exclude_none=True)
        del fields[TRANSCRIPT]
        fields.pop(RUN_VERDICT, None)
        assert kept == canonical(fields)
