"""The record that is left of a run: completed, refused, or never run."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from tercet.contracts.gate import Approval
from tercet.contracts.plan import Plan
from tercet.contracts.policy import Policy
from tercet.contracts.runs.record import DecisionRecord
from tercet.contracts.runs.run import Outcome, Run, ToolCall, ToolResult, TranscriptEntry
from tercet.contracts.verdict import CriticReport
from tercet.critic.consolidate import consolidate, finalize
from tercet.critic.judge import judge
from tercet.critic.score import measure, score

from .houses import LETTER, SHOP, WINDOW, House, evidence, look_up, pay, plan, step

NOON = datetime(2026, 5, 9, 12, tzinfo=UTC)
DESK = SHOP.holding(policies=(Policy(name="calm", expression="plan.steps.size() < 5"),))
LOOKED = plan(look_up(), outputs={"total": {"$from": "s1#/total"}})
APPROVAL = Approval(gate="FINANCE", step_id="s1", approver="fay", decision="approve", decided_at=NOON)


def ran(done: Plan = LOOKED, house: House = DESK, **fields: Any) -> Run:
    """A run that looked an order up."""
    entry = TranscriptEntry(
        call=ToolCall(step_id="s1", tool="orders.lookup", params={"order_id": "ord_881"}),
        result=ToolResult(step_id="s1", outcome=Outcome.DONE, value={"total": 24_500}),
    )
    record = {"context": house.ctx, "spec": house.spec, "compiled": house.compiled, "plan": done}
    usual = {"transcript": (entry,), "outputs": {"total": 24_500}, "approvals": (APPROVAL,)}
    return Run.model_validate({**record, **usual, **fields})


def reported(reviewed: Plan, run: Run | None = None, house: House = DESK) -> CriticReport:
    """The report on a plan, and on its run if there was one."""
    return consolidate(
        trace_id=house.ctx.trace_id,
        decision_key=house.spec.decision_key,
        verify=house.review(reviewed),
        score=score(run) if run else None,
        decided_at="2026-05-09T12:00:00Z",
    )


def recorded(reviewed: Plan, run: Run | None = None, house: House = DESK) -> DecisionRecord:
    """The record of a plan, and of its run if there was one."""
    return finalize(*house, reviewed, reported(reviewed, run, house), run=run)


@pytest.mark.req("R194", "R20")
def test_a_completed_run_leaves_its_whole_record() -> None:
    """Outputs and approvals come from the run, the rest from what it was judged by."""
    run = ran()
    report = reported(LOOKED, run)
    verdicts = (DESK.review(LOOKED), judge(run.context, run.spec, report, measure(run)))
    record = finalize(*DESK, LOOKED, report, verdicts=verdicts, run=run)
    assert (record.decision_id, record.trace_id, record.run_id) == ("support.refund", "trace_1", "run_1")
    assert (record.plan_id, record.plan_hash) == ("plan_1", LOOKED.hash)
    assert record.outputs == {"total": 24_500}
    assert record.approvals == (APPROVAL,)
    assert record.transcript == run.transcript
    assert record.report.status == "completed"
    assert [verdict.outcome for verdict in record.verdicts] == ["ok", "accept"]
    assert (record.pack, record.pack_hash) == ("refunds@1.0.0", "sha256:00")
    assert record.context_hash == DESK.compiled.hash


@pytest.mark.req("R194")
def test_a_refused_plan_leaves_a_record_too() -> None:
    """A plan that never ran is recorded with the reason, and without outputs, approvals and a transcript."""
    bad = plan(look_up(), pay("p", "pay_6666"))
    record = recorded(bad)
    assert record.report.status == "refused_by_critic"
    assert record.report.rationale.startswith(
        "verify failed: violates_decision_spec — step 'p' takes the parameter 'payment_id'"
    )
    assert record.report.verify.ok is False
    assert record.report.score is None
    assert (record.outputs, record.approvals, record.transcript) == ({}, (), ())
    assert record.plan_hash == bad.hash


@pytest.mark.req("R194")
def test_a_run_that_broke_a_floor_leaves_what_happened() -> None:
    """Refused after the fact: the record holds both verdicts, and what was done stays in it."""
    stray = ran(LOOKED, transcript=(), outputs={"total": 1})
    broken = stray.model_copy(
        update={
            "transcript": (
                TranscriptEntry(
                    call=ToolCall(step_id="x", tool="payments.refund", params={}),
                    result=ToolResult(step_id="x", outcome=Outcome.DONE),
                ),
            )
        }
    )
    record = recorded(LOOKED, broken)
    assert record.report.status == "refused_by_critic"
    assert record.report.verify.ok is True
    assert record.report.score is not None
    assert record.report.score.ok is False
    assert record.outputs == {"total": 1}
    assert len(record.transcript) == 1


def test_a_dry_run_leaves_a_partial_record() -> None:
    """A plan that passed and was not run is recorded as just that."""
    assert recorded(LOOKED).report.status == "partial"


@pytest.mark.req("R20")
def test_the_record_names_the_controls_that_were_active() -> None:
    """Safety mode, risk tier, gates and policies: what the run was held by."""
    assert recorded(LOOKED).controls_active == (
        "safety_mode:destructive",
        "risk_tier:high",
        "gate:FINANCE",
        "gate:SUPPORT",
        "policy:calm",
    )


@pytest.mark.req("R20")
def test_the_record_names_all_evidence_that_the_plan_stood_on() -> None:
    """Listed or read by reference, each once, in the plan's order."""
    more = "kg:note:n1#snapshot_may"
    house = DESK.with_evidence(evidence(more, {"x": 1}))
    stood = plan(
        look_up(evidence_refs=(LETTER,)),
        pay("p", evidence_refs=(WINDOW,)),
        step("n", params={"x": [{"$evidence": f"{more}#/x"}, {"$evidence": f"{WINDOW}#/amount"}]}),
    )
    assert recorded(stood, house=house).evidence_refs == (LETTER, WINDOW, more)


def test_the_record_is_addressed_by_its_content() -> None:
    """The same run gives the same hash, another output gives another, and JSON keeps it."""
    first, again = recorded(LOOKED, ran()), recorded(LOOKED, ran())
    assert first.hash == again.hash
    assert first.hash != recorded(LOOKED, ran(outputs={"total": 24_501})).hash
    assert DecisionRecord.model_validate_json(first.model_dump_json()).hash == first.hash
