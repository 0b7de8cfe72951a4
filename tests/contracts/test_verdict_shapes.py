"""The published shapes of what the critic says: they load, and print back to the letter."""

from __future__ import annotations

from typing import Any, get_args

import orjson
import pytest
from pydantic import BaseModel, TypeAdapter, ValidationError

from tercet.contracts.runs.scorecard import FLOORS, EvaluatorName
from tercet.contracts.verdict import (
    KIND_OF,
    Code,
    CriticReport,
    Outcome,
    Refusal,
    RefusalKind,
    ReviewOutcome,
    RunOutcome,
    ScoreVerdict,
    Severity,
    ValidationIssue,
    ValidationResult,
    Verdict,
    VerdictEnvelope,
    VerifyPassed,
    VerifyRefused,
    VerifyVerdict,
)

PASSED: dict[str, Any] = {"ok": True, "reasons": ["2 steps, 2 required outputs covered"]}
REFUSED: dict[str, Any] = {
    "ok": False,
    "kind": "missing_evidence",
    "reasons": ["step 1 requires evidence class refund_window_evidence, none pinned"],
    "offending_step": 1,
}
SCORECARD: dict[str, Any] = {
    "scores": {
        name: {
            "status": "warn",
            "score": 0.9,
            "findings": [
                {"code": "slow", "message": "took long"},
                {"code": "c", "message": "m", "step_id": "s1"},
            ],
            "version": "1",
        }
        for name in ("policy", "utility", "latency", "safety", "cost")
    }
}
SCORED: dict[str, Any] = {"ok": True, "scorecard": SCORECARD}
REPORT: dict[str, Any] = {
    "trace_id": "t1",
    "decision_key": "support.refund",
    "verify": PASSED,
    "score": SCORED,
    "status": "completed",
    "rationale": "verify and score passed",
    "decided_at": "2026-05-09T09:30:00.000Z",
}
REFUSED_REPORT: dict[str, Any] = {
    "trace_id": "t1",
    "decision_key": "support.refund",
    "verify": REFUSED,
    "status": "refused_by_critic",
    "rationale": "verify failed: missing_evidence — step 1 requires evidence class refund_window_evidence, none pinned",
    "decided_at": "2026-05-09T09:30:00Z",
}
ENVELOPE: dict[str, Any] = {
    "run_id": "run_a1b2c3d4e5f60718",
    "plan_id": "plan_refund_01",
    "verdict": "accept",
    "step_scores": [
        {"step_id": "s1", "scores": {"policy": 1.0, "utility": 1.0}},
        {"step_id": "s2", "scores": {"policy": 1.0, "utility": 1.0}},
        {
            "step_id": "s3",
            "scores": {"policy": 1.0, "utility": 0.95},
            "approval_gate": "GATE_FINANCE_APPROVAL",
            "approver": "user_finance_lead",
        },
    ],
    "loop_guard_trips": 0,
    "replan_attempts": 0,
}


def assert_prints_back(kind: type[BaseModel], document: dict[str, Any]) -> None:
    """A document loads into a type and prints as the same JSON, key for key in its order."""
    loaded = kind.model_validate(document)
    assert orjson.dumps(loaded.model_dump(mode="json")) == orjson.dumps(document)
    assert orjson.loads(loaded.model_dump_json()) == document
    assert kind.model_validate_json(orjson.dumps(document)) == loaded


@pytest.mark.req("R1")
def test_a_passed_verification() -> None:
    """It is ok and gives its reasons, and nothing else."""
    assert_prints_back(VerifyPassed, PASSED)


@pytest.mark.req("R1")
@pytest.mark.parametrize("without", [(), ("offending_step",)])
def test_a_refused_verification(without: tuple[str, ...]) -> None:
    """It names its kind, its reasons, and a step only where one offends; it never prints null."""
    assert_prints_back(VerifyRefused, {key: value for key, value in REFUSED.items() if key not in without})


@pytest.mark.req("R1")
def test_a_verification_is_told_apart_by_ok() -> None:
    """The tag decides: what is ok has no kind, and what is not ok must have one."""
    adapter: TypeAdapter[VerifyPassed | VerifyRefused] = TypeAdapter(VerifyVerdict)
    assert isinstance(adapter.validate_python(PASSED), VerifyPassed)
    assert isinstance(adapter.validate_python(REFUSED), VerifyRefused)
    wrong: list[dict[str, Any]] = [
        {"reasons": []},
        {"ok": False, "reasons": []},
        {"ok": "yes", "reasons": []},
    ]
    for document in wrong:
        with pytest.raises(ValidationError):
            adapter.validate_python(document)


@pytest.mark.req("R2")
def test_there_are_exactly_five_kinds() -> None:
    """The published enumeration, in its order; a sixth kind does not load."""
    assert [kind.value for kind in RefusalKind] == [
        "missing_evidence",
        "approval_mode_mismatch",
        "violates_decision_spec",
        "loop_guard",
        "budget_exceeded",
    ]
    with pytest.raises(ValidationError):
        VerifyRefused.model_validate({**REFUSED, "kind": "bad_plan"})


@pytest.mark.req("R2")
def test_every_code_belongs_to_one_kind() -> None:
    """A finer code is always one of the five kinds as well, and none of them is without a code."""
    assert set(KIND_OF) == set(Code)
    assert set(KIND_OF.values()) == set(RefusalKind)
    assert all(Refusal(code=code, reason="r", remedy="m").kind is KIND_OF[code] for code in Code)


@pytest.mark.parametrize(
    ("kind", "codes"),
    [
        ("missing_evidence", "evidence_not_pinned evidence_unresolved"),
        (
            "approval_mode_mismatch",
            "mode_exceeded mode_understated gate_missing gate_unknown authorization_required",
        ),
        ("loop_guard", "too_many_steps duplicate_action"),
        (
            "budget_exceeded",
            "tokens_exceeded latency_exceeded concurrency_exceeded tool_calls_exceeded cost_exceeded",
        ),
        ("violates_decision_spec", "output_not_declared tool_not_surfaced empty_plan kind_unavailable"),
        (
            "violates_decision_spec",
            "cyclic_dependency unresolved_reference argument_invalid unmet_precondition",
        ),
        ("violates_decision_spec", "argument_not_permitted compensation_missing checkpoint_unbound"),
        ("violates_decision_spec", "policy_invariant unbound_argument expression_invalid"),
    ],
)
def test_codes_and_their_kinds(kind: str, codes: str) -> None:
    """Which consequence a code has is part of the contract."""
    assert {KIND_OF[Code(code)] for code in codes.split()} == {RefusalKind(kind)}


@pytest.mark.req("R3")
def test_a_score() -> None:
    """It says whether the floors hold, and has one evaluation for each of the five evaluators."""
    assert_prints_back(ScoreVerdict, SCORED)
    assert tuple(SCORECARD["scores"]) == get_args(EvaluatorName)
    assert FLOORS == ("policy", "safety")
    with pytest.raises(ValidationError):
        ScoreVerdict.model_validate({"ok": True, "scorecard": {"scores": {"beauty": {}}}})


@pytest.mark.req("R4", "R7")
@pytest.mark.parametrize("report", [REPORT, REFUSED_REPORT], ids=["completed", "refused"])
def test_a_report_holds_the_verdicts_as_they_were(report: dict[str, Any]) -> None:
    """Both envelopes stand in one report; without an execution there is no score, and no null for it."""
    assert_prints_back(CriticReport, report)
    assert ("score" in CriticReport.model_validate(report).model_dump()) is ("score" in report)


@pytest.mark.req("R5")
def test_a_report_has_three_statuses() -> None:
    """completed, refused_by_critic and partial load; anything else does not."""
    for status in ("completed", "refused_by_critic", "partial"):
        assert CriticReport.model_validate({**REPORT, "status": status}).status == status
    with pytest.raises(ValidationError):
        CriticReport.model_validate({**REPORT, "status": "done"})


@pytest.mark.req("R6")
@pytest.mark.parametrize(
    "moment",
    [
        "2026-05-09T09:30:00Z",
        "2026-05-09T09:30:00.123456Z",
        "2026-05-09T11:30:00+02:00",
        "2024-02-29T00:00:00Z",
    ],
)
def test_a_report_says_when_it_was_decided(moment: str) -> None:
    """A moment in ISO 8601 stands in the report as it was given."""
    assert CriticReport.model_validate({**REPORT, "decided_at": moment}).decided_at == moment


@pytest.mark.req("R6")
@pytest.mark.parametrize(
    "moment",
    [
        "",
        "yesterday",
        "2026-05-09",
        "2026-05-09T09:30:00",
        "2026-05-09 09:30:00Z",
        "2026-13-09T09:30:00Z",
        "2026-02-30T09:30:00Z",
        "2026-05-09T25:30:00Z",
        "2026-05-09T09:30:00Z\n",
        "٢٠٢٦-٠٥-٠٩T٠٩:٣٠:٠٠Z",
        1_778_318_200,
    ],
)
def test_what_is_no_moment_is_refused(moment: Any) -> None:
    """A day without a time, a time without a zone, and a date that no calendar has."""
    with pytest.raises(ValidationError):
        CriticReport.model_validate({**REPORT, "decided_at": moment})


@pytest.mark.req("R24")
def test_the_verdict_of_a_run() -> None:
    """The published example loads and prints back, with approver and gate only where there is one."""
    assert_prints_back(VerdictEnvelope, ENVELOPE)


@pytest.mark.req("R25", "R26")
def test_outcomes_by_stage() -> None:
    """Review says ok, replan or reject; a run ends with accept, retry, replan or escalate; no other word loads."""
    assert get_args(ReviewOutcome) == ("ok", "replan", "reject")
    assert get_args(RunOutcome) == ("accept", "retry", "replan", "escalate")
    assert set(get_args(Outcome)) == {*get_args(ReviewOutcome), *get_args(RunOutcome)}
    for word in get_args(RunOutcome):
        assert VerdictEnvelope.model_validate({**ENVELOPE, "verdict": word}).verdict == word
    with pytest.raises(ValidationError):
        VerdictEnvelope.model_validate({**ENVELOPE, "verdict": "ok"})


@pytest.mark.req("R1", "R7")
def test_the_whole_verdict_has_the_published_one_in_it() -> None:
    """The finer verdict prints as the published shape, without code, remedy and sources."""
    whole = Verdict(
        stage="review",
        outcome="reject",
        reasons=("step 1 requires evidence class refund_window_evidence, none pinned",),
        kind=RefusalKind.MISSING_EVIDENCE,
        code=Code.EVIDENCE_NOT_PINNED,
        offending_step=1,
        remedy="pin it",
    )
    assert whole.published().model_dump(mode="json") == REFUSED
    assert not whole.ok
    passed = Verdict(stage="review", outcome="ok", reasons=("2 steps, 2 required outputs covered",))
    assert passed.published().model_dump(mode="json") == PASSED
    assert passed.ok


@pytest.mark.req("R35")
def test_the_feasibility_matrix_as_a_result() -> None:
    """It is valid or not, and its issues have one of four severities."""
    assert get_args(Severity) == ("CRITICAL", "ERROR", "BLOCKED", "WARNING")
    issues = tuple(
        ValidationIssue(severity=severity, code="cyclic_dependency_detected", message="m")
        for severity in get_args(Severity)
    )
    result = ValidationResult(valid=False, issues=issues)
    assert ValidationResult.model_validate_json(result.model_dump_json()) == result
    with pytest.raises(ValidationError):
        ValidationIssue.model_validate({"severity": "FATAL", "code": "c", "message": "m"})
