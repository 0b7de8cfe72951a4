"""Why an output is defective, and what is usually done about that."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tercet.contracts.outputs.quality import Defect, DefectSeverity, RootCauseClass, TestResult
from tercet.quality.repair.causes import INSTRUCTIONS, NEEDS_EVIDENCE, Circumstances, classify

C = RootCauseClass


def defect(dimension: str, description: str) -> Defect:
    return Defect(dimension=dimension, severity=DefectSeverity.HIGH, description=description)


@pytest.mark.req("R197")
@pytest.mark.parametrize(
    ("dimension", "description", "cause"),
    [
        ("schema", "/total is not of type number", C.SCHEMA_VIOLATION),
        ("schema", "the required member total is missing", C.SCHEMA_VIOLATION),
        ("correctness", "the total is contradicted by the evidence", C.FACTUAL_ERROR),
        ("correctness", "the date differs from the record", C.FACTUAL_ERROR),
        ("factual", "the claim has a problem", C.FACTUAL_ERROR),
        ("correctness", "the claim is not supported by any evidence", C.HALLUCINATION),
        ("correctness", "an ungrounded claim", C.HALLUCINATION),
        ("grounding", "the name Okafor", C.HALLUCINATION),
        ("correctness", "nothing in the evidence settles it", C.HALLUCINATION),
        ("correctness", "the evidence has something else than '5 May'", C.FACTUAL_ERROR),
        ("correctness", "hm", C.FACTUAL_ERROR),
        ("correctness", "'the wrong part is missing' has no ground in the evidence: no", C.HALLUCINATION),
        (
            "correctness",
            "'No source is missing' is contradicted: by (kg:a:b: an ungrounded secret)",
            C.FACTUAL_ERROR,
        ),
        ("correctness", "the customer's name isn't what it should be, it's wrong", C.FACTUAL_ERROR),
        ("coherence", "the total is 5, its items come to 6", C.COHERENCE_FAILURE),
        ("robustness", "a valid input fails: 5 gives wrong", C.LOGIC_ERROR),
        ("robustness", "it gives away what was not meant to be shown", C.SAFETY_VIOLATION),
        ("correctness", "test_total fails: expected 5, got 6", C.LOGIC_ERROR),
        ("tests", "KeyError in total", C.LOGIC_ERROR),
        ("correctness", "raises ZeroDivisionError", C.LOGIC_ERROR),
        ("completeness", "the section Returns is missing", C.INCOMPLETENESS),
        ("completeness", "the wrong things are said", C.INCOMPLETENESS),
        ("feedback", "mention the deadline", C.INCOMPLETENESS),
        ("coherence", "paragraph 2 contradicts paragraph 5", C.COHERENCE_FAILURE),
        ("quality", "the last paragraph repeats the first", C.COHERENCE_FAILURE),
        ("safety", "a key is missing its mask", C.SAFETY_VIOLATION),
        ("correctness", "an API key is in the text", C.SAFETY_VIOLATION),
        ("correctness", "insufficient evidence for the claim", C.RETRIEVAL_GAP),
        ("retrieval", "nothing about the order", C.RETRIEVAL_GAP),
        ("tool", "exit code 1", C.TOOL_FAILURE),
        ("correctness", "the tool returned an error", C.TOOL_FAILURE),
        ("beauty", "ugly", C.LOGIC_ERROR),
    ],
)
def test_a_defect_has_one_root_cause(dimension: str, description: str, cause: C) -> None:
    """Its dimension decides where it can, its words otherwise."""
    assert classify(defect(dimension, description)) is cause


@pytest.mark.req("R197")
def test_what_is_known_of_the_run_decides_as_well() -> None:
    """A claim that nothing was retrieved for is a gap; what speaks of a failed tool is its failure."""
    claim = defect("correctness", "the claim is not supported")
    assert classify(claim, Circumstances(has_evidence=False)) is C.RETRIEVAL_GAP
    stale = defect("correctness", "the price of shop.prices is wrong")
    assert classify(stale, Circumstances(failed_tools=("shop.prices",))) is C.TOOL_FAILURE
    lost = defect("completeness", "the value 'fee' is not stated")
    known = Circumstances(not_brought=frozenset({lost.description}))
    assert classify(lost, known) is C.TOOL_FAILURE
    assert classify(lost) is C.INCOMPLETENESS
    vague = defect("quality", "hm")
    assert classify(vague, Circumstances(is_schema_valid=False)) is C.SCHEMA_VIOLATION
    failing = Circumstances(tests=TestResult(passed=1, failed=1))
    assert classify(vague, failing) is C.LOGIC_ERROR
    assert classify(defect("factual", "hm"), failing) is C.LOGIC_ERROR


@pytest.mark.req("R209")
def test_every_class_of_defects_has_its_typical_repair() -> None:
    """Re-format, replace, fix, add, rewrite, redact, ground, re-retrieve, retry: nine classes, and none for escalation."""
    assert {cause: text.split()[0] for cause, text in INSTRUCTIONS.items()} == {
        C.SCHEMA_VIOLATION: "Give",
        C.FACTUAL_ERROR: "Replace",
        C.LOGIC_ERROR: "Mend",
        C.INCOMPLETENESS: "Add",
        C.COHERENCE_FAILURE: "Rewrite",
        C.SAFETY_VIOLATION: "Take",
        C.HALLUCINATION: "Replace",
        C.RETRIEVAL_GAP: "Write",
        C.TOOL_FAILURE: "Write",
    }
    assert {C.RETRIEVAL_GAP, C.TOOL_FAILURE} == NEEDS_EVIDENCE


@given(st.text(max_size=20), st.text(max_size=80), st.booleans())
def test_every_defect_is_classified(dimension: str, description: str, has_evidence: bool) -> None:
    """No dimension and no words lead to a class that only escalation gives."""
    found = classify(defect(dimension, description), Circumstances(has_evidence=has_evidence))
    assert found in INSTRUCTIONS
