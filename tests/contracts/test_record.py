"""What is left at the end of a run, and who reads it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from tercet.contracts.gate import Approval, Notify
from tercet.contracts.outputs.quality import RepairLog
from tercet.contracts.plan import Plan, Step
from tercet.contracts.runs.record import (
    AgentResult,
    AuditRecord,
    DecisionRecord,
    FailureReport,
    HaltRecord,
    MemoryProposal,
    Provenance,
)
from tercet.contracts.runs.run import Outcome, ToolCall, ToolResult, TranscriptEntry
from tercet.contracts.runs.saga import RollbackEntry, RollbackResult, RollbackStatus
from tercet.contracts.values.canonical import digest
from tercet.contracts.verdict import CriticReport, Verdict, VerifyPassed

NOW = datetime(2026, 5, 9, 9, 30, tzinfo=UTC)
PLAN = Plan(plan_id="p1", steps=(Step(id="s1", tool="adp_orders.lookup", params={"id": "ord_881"}),))
ENTRY = TranscriptEntry(
    call=ToolCall(step_id="s1", tool="adp_orders.lookup", params={"id": "ord_881"}, idempotency_key="k"),
    result=ToolResult(step_id="s1", outcome=Outcome.DONE, value={"total": 24500}, latency_ms=3),
)
VERDICT = Verdict(stage="review", outcome="ok", reasons=("1 steps, 0 required outputs covered",))
REPORT = CriticReport(
    trace_id="t1",
    decision_key="support.refund",
    verify=VerifyPassed(reasons=VERDICT.reasons),
    status="partial",
    rationale="verify passed; no score (no execution)",
    decided_at="2026-05-09T09:30:00Z",
)
RECORD = DecisionRecord(
    decision_id="support.refund",
    trace_id="t1",
    plan_hash=PLAN.hash,
    evidence_refs=("kg:order:ord_881#snapshot_k1",),
    approvals=(Approval(gate="G", step_id="s1", approver="u1", decision="approve", decided_at=NOW),),
    controls_active=("policy no_night_refunds",),
    verdicts=(VERDICT,),
    report=REPORT,
    transcript=(ENTRY,),
    memory_proposals=(MemoryProposal(classification="refund", content={"n": 1}),),
)
SETTLED = RollbackEntry(step_id="s1", status=RollbackStatus.COMPENSATED, settled_by="u1")
PROVENANCE = Provenance(task_id="t", plan_hash=PLAN.hash, timestamp=NOW)


def fields(kind: type[BaseModel]) -> set[str]:
    """The names of a type's fields."""
    return set(kind.model_fields)


@pytest.mark.req("R20")
def test_a_record_says_on_what_a_decision_stood() -> None:
    """Decision, evidence, approvals, active controls and trace are in the record, and survive printing."""
    assert {"decision_id", "evidence_refs", "approvals", "controls_active", "trace_id"} <= fields(
        DecisionRecord
    )
    again = DecisionRecord.model_validate_json(RECORD.model_dump_json())
    assert again == RECORD
    assert again.hash == RECORD.hash


@pytest.mark.req("R20")
@pytest.mark.parametrize(
    "changes",
    [
        {"evidence_refs": ()},
        {"approvals": ()},
        {"controls_active": ()},
        {"trace_id": "t2"},
        {"outputs": {"refund": None}},
        {"transcript": ()},
        {"plan_hash": "sha256:0"},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_the_hash_of_a_record_covers_all_of_it(changes: dict[str, Any]) -> None:
    """Nothing in a record can be changed behind its content address; a null output is not an absent one."""
    changed = DecisionRecord.model_validate({**RECORD.model_dump(), **changes})
    assert changed.hash != RECORD.hash
    assert RECORD.hash == digest(RECORD)


@pytest.mark.req("R22")
def test_calls_and_results() -> None:
    """A call is resolved and keyed; its result ends in one of three ways."""
    assert [outcome.value for outcome in Outcome] == ["done", "not_done", "unknown"]
    assert TranscriptEntry.model_validate_json(ENTRY.model_dump_json()) == ENTRY
    with pytest.raises(ValidationError):
        ToolResult.model_validate({"step_id": "s1", "outcome": "maybe"})


@pytest.mark.req("R46")
def test_provenance_says_where_an_output_came_from() -> None:
    """Task, plan, evidence, calls, repairs, scores, model, time and approver, and a content address over them."""
    assert fields(Provenance) >= {
        "task_id",
        "plan_hash",
        "evidence_refs",
        "tool_invocations",
        "repair_history",
        "verification_scores",
        "model_id",
        "timestamp",
        "approver",
    }
    assert PROVENANCE.repair_history == RepairLog()
    assert PROVENANCE.hash != Provenance(task_id="t", plan_hash=PLAN.hash, timestamp=NOW, approver="u1").hash


@pytest.mark.req("R47")
def test_an_audit_record_has_the_whole_way() -> None:
    """Loop, checkpoints, tool traces, repairs, cost, latency and final scores."""
    assert fields(AuditRecord) >= {
        "loop_trace",
        "all_checkpoints",
        "all_tool_traces",
        "all_repair_logs",
        "total_cost_microcents",
        "total_latency_ms",
        "final_quality_scores",
    }


@pytest.mark.req("R48", "R52")
def test_each_end_leaves_its_artifact() -> None:
    """COMMIT leaves a committed result, FAIL a report, HALT a checkpoint to go on from."""
    result = AgentResult(output={"n": 1}, provenance=PROVENANCE, audit=AuditRecord(), content_hash="sha256:0")
    assert fields(AgentResult) == {"output", "provenance", "audit", "content_hash", "status"}
    assert result.status == "COMMITTED"
    with pytest.raises(ValidationError):
        AgentResult.model_validate({**result.model_dump(), "status": "DRAFT"})
    ends: list[BaseModel] = [
        result,
        FailureReport(reason="retries exhausted", diagnosis=("step s1",), partial_output={"n": 1}),
        FailureReport(
            reason="u1 denied it",
            status="rejected",
            rollback=RollbackResult(success=True, log=(SETTLED,)),
            next_commands=("tercet sessions show ses_1",),
        ),
        HaltRecord(reason="operator", checkpoint="c1", halted_at=NOW),
        HaltRecord(reason="a gate waits", checkpoint="c1", halted_at=NOW, gate="ses_1.g1"),
    ]
    for end in ends:
        assert type(end).model_validate_json(end.model_dump_json()) == end


def test_a_failure_is_of_one_of_four_kinds() -> None:
    """A run failed, was rejected, expired or was cancelled; a report that says nothing of it says failed."""
    assert FailureReport(reason="r").status == "failed"
    for status in ("failed", "rejected", "expired", "cancelled"):
        assert FailureReport.model_validate({"reason": "r", "status": status}).status == status
    with pytest.raises(ValidationError):
        FailureReport.model_validate({"reason": "r", "status": "completed"})


def test_a_grant_is_recorded_as_an_approval() -> None:
    """An approval says with which roles it was given; that they were not recorded is not that there were none."""
    grant = Approval(
        gate="", step_id="s1", approver="policy:own_room", decision="grant", decided_at=NOW, auth="policy"
    )
    assert Approval.model_validate_json(grant.model_dump_json()) == grant
    assert grant.roles is None
    asked = Approval(gate="G", step_id="s1", approver="u1", decision="approve", decided_at=NOW, roles=())
    assert Approval.model_validate_json(asked.model_dump_json()).roles == ()


@pytest.mark.parametrize("wrong", [{}, {"command": []}, {"command": [""]}, {"webhook": ""}])
def test_a_notification_reaches_somebody(wrong: dict[str, Any]) -> None:
    """A notification without a program and without a webhook cannot be declared."""
    with pytest.raises(ValidationError):
        Notify.model_validate(wrong)


@pytest.mark.parametrize(
    ("url", "is_one"),
    [
        ("https://hooks.example/gates", True),
        ("http://localhost:8080", True),
        ("hooks.example", False),
        ("ftp://hooks.example", False),
        ("file:///etc/passwd", False),
        ("https://", False),
        ("https:///gates", False),
        ("https://hooks.example/a b", False),
        (" https://hooks.example", False),
        ("https://hooks.example\n", False),
    ],
)
def test_a_webhook_is_an_http_url(url: str, is_one: bool) -> None:
    """Gates are posted over http or https, to a host."""
    if is_one:
        assert Notify(webhook=url).webhook == url
    else:
        with pytest.raises(ValidationError):
            Notify(webhook=url)
