"""What VERIFY, CRITIQUE and REPAIR say about an output, as types."""

from __future__ import annotations

from typing import get_args

import pytest
from pydantic import BaseModel, ValidationError

from tercet.contracts.outputs.quality import (
    CritiqueDiagnosis,
    Defect,
    DefectSeverity,
    RepairEntry,
    RepairHint,
    RepairLog,
    RepairStrategy,
    RootCauseClass,
    StackTraceAnalysis,
    TestFailure,
    TestResult,
)

DEFECT = Defect(
    dimension="completeness",
    severity=DefectSeverity.HIGH,
    description="no reason is given",
    location="/reason",
    scope="SECTION",
)


def survives(value: BaseModel) -> bool:
    """Whether a value is the same after it was printed and loaded."""
    return type(value).model_validate_json(value.model_dump_json()) == value


@pytest.mark.req("R41")
def test_a_test_result_counts_and_lists_its_failures() -> None:
    """Each failure has a name, what was expected and found, a trace and a place."""
    failure = TestFailure(
        name="test_total",
        expected="5",
        actual="6",
        stack_trace="Traceback …",
        location="tests/test_total.py:7",
    )
    result = TestResult(passed=3, failed=1, errors=(failure,))
    assert survives(result)
    assert set(TestFailure.model_fields) == {"name", "expected", "actual", "stack_trace", "location"}
    assert set(TestResult.model_fields) == {"passed", "failed", "errors"}


@pytest.mark.req("R42")
def test_a_diagnosis_has_scores_defects_severity_and_hints() -> None:
    """A defect says which dimension, how bad, what, where and how far; a hint says which defect it is for."""
    diagnosis = CritiqueDiagnosis(
        scores={"completeness": 0.4},
        defects=(DEFECT,),
        severity=DefectSeverity.HIGH,
        repair_hints=(RepairHint(defect=0, hint="name the reason"),),
    )
    assert survives(diagnosis)
    assert set(CritiqueDiagnosis.model_fields) == {"scores", "defects", "severity", "repair_hints"}
    assert set(Defect.model_fields) == {"dimension", "severity", "description", "location", "scope"}


@pytest.mark.req("R42")
@pytest.mark.parametrize("score", [-0.1, 1.1, float("nan"), "high"])
def test_a_score_is_between_nothing_and_one(score: object) -> None:
    """A score outside of that range is none."""
    with pytest.raises(ValidationError):
        CritiqueDiagnosis.model_validate({"scores": {"coherence": score}})


def test_severities_can_be_compared() -> None:
    """The order counts, from none to critical."""
    assert max(DefectSeverity) is DefectSeverity.CRITICAL
    assert DefectSeverity.NONE < DefectSeverity.LOW < DefectSeverity.MEDIUM < DefectSeverity.HIGH


@pytest.mark.req("R43")
def test_root_causes() -> None:
    """The nine classes of the chapter, and the two that only escalation uses."""
    assert [cause.value for cause in RootCauseClass] == [
        "SCHEMA_VIOLATION",
        "FACTUAL_ERROR",
        "LOGIC_ERROR",
        "INCOMPLETENESS",
        "COHERENCE_FAILURE",
        "SAFETY_VIOLATION",
        "HALLUCINATION",
        "RETRIEVAL_GAP",
        "TOOL_FAILURE",
        "CAPABILITY_LIMIT",
        "COMPLEXITY_EXCEEDED",
    ]


@pytest.mark.req("R44")
def test_a_stack_trace_as_data() -> None:
    """Function, line, error, inputs, and what was expected against what was found."""
    analysis = StackTraceAnalysis(
        failing_function="total",
        line_number=7,
        error_type="KeyError",
        input_values={"order": {"id": "ord_881", "lines": [1, None]}},
        expected_vs_actual="5 != 6",
    )
    assert survives(analysis)
    assert set(StackTraceAnalysis.model_fields) == {
        "failing_function",
        "line_number",
        "error_type",
        "input_values",
        "expected_vs_actual",
    }


@pytest.mark.req("R45")
def test_a_repair_log_keeps_every_attempt_in_order() -> None:
    """Each entry has its defect, strategy and root cause; its success is open while it is pending."""
    entries = tuple(
        RepairEntry(
            defect=DEFECT, strategy=strategy, root_cause=RootCauseClass.INCOMPLETENESS, success=success
        )
        for strategy, success in zip(get_args(RepairStrategy), (False, True, None), strict=True)
    )
    log = RepairLog(entries=entries)
    assert survives(log)
    assert [entry.success for entry in log.entries] == [False, True, None]
    with pytest.raises(ValidationError):
        RepairEntry.model_validate({**entries[0].model_dump(), "strategy": "PRAY"})
