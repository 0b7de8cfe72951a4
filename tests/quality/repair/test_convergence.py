"""Critic and repair together, without a runtime: verify, critique, repair by rules alone, verify and critique again."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import event, given, settings

from tercet.contracts.decision import DecisionSpec, Threshold
from tercet.contracts.evidence import Evidence
from tercet.contracts.quality import CritiqueDiagnosis, DefectSeverity, RootCauseClass
from tercet.contracts.repair import Escalation, RepairResult, RepairRules, SectionTemplate
from tercet.contracts.rubric import CritiqueInput, CritiqueTask, usual_rubric
from tercet.contracts.shape import JsonObject
from tercet.quality.exit.decision import ExitFacts, exit_decision
from tercet.quality.repair.case import Check, Checked, End, RepairCase
from tercet.quality.repair.causes import classify
from tercet.quality.repair.escalation import Resources
from tercet.quality.repair.materials import Materials
from tercet.quality.repair.mending import command_bound
from tercet.quality.repair.rechecking import form_of, gone_by
from tercet.quality.repair.session import begin, decide, fold_event
from tercet.quality.rubric.critique import critique, weigh
from tercet.quality.verification.verification import verify_output

from .generated import RETURNS, Planted, letters
from .letter import KEY, LETTER, ORDER, OUTPUT, SCHEMA
from .letter import RETURNS as LETTER_RETURNS

C = RootCauseClass
SPEC = DecisionSpec(
    id="letter",
    required_outputs=("letter", "language"),
    outputs_schema=SCHEMA,
    thresholds=tuple(
        Threshold(name=name) for name in ("schema", "correctness", "completeness", "coherence", "safety")
    ),
)
Diagnose = Callable[[JsonObject], CritiqueDiagnosis]


def critic(*evidence: Evidence, spec: DecisionSpec = SPEC) -> Diagnose:
    """The critic of a decision, for this evidence."""
    task = CritiqueTask(
        description="Write to the customer.",
        required_outputs=spec.required_outputs,
        required_sections=("Returns",),
        outputs_schema=spec.outputs_schema,
    )
    return lambda output: critique(CritiqueInput(task=task, output=output, evidence=evidence))


def repair(
    output: JsonObject,
    diagnose: Diagnose,
    evidence: Evidence,
    *,
    section: SectionTemplate,
    spec: DecisionSpec = SPEC,
) -> RepairResult:
    """One REPAIR phase by rules alone, driven as a runtime does; it keeps to its bounds."""
    case = RepairCase(
        output=output,
        diagnosis=diagnose(output),
        materials=Materials(schema=form_of(spec), evidence=(evidence,), sections=(section,)),
        resources=Resources(has_model=False),
    )
    is_gone = gone_by(diagnose)
    state = begin(case)
    for _ in range(command_bound(case)):
        command = decide(state)
        if isinstance(command, End):
            assert command.result.attempts <= RepairRules().max_attempts
            assert command.result.tokens == 0
            return command.result
        assert isinstance(command, Check)
        state = fold_event(state, Checked(is_gone=is_gone(command.output, command.defect)))
    raise AssertionError("the phase did not end within its bound")


def causes(diagnosis: CritiqueDiagnosis) -> list[RootCauseClass]:
    """The class of each defect."""
    return [classify(defect).root_cause for defect in diagnosis.defects]


def commits(output: JsonObject, diagnosis: CritiqueDiagnosis) -> bool:
    """Whether the thresholds of the decision let an output pass."""
    assert not weigh(usual_rubric(), diagnosis.scores).below
    measured = {**diagnosis.scores, "schema": float(verify_output(SPEC, output, ()).schema_valid)}
    facts = ExitFacts(thresholds=SPEC.thresholds, measured=measured)
    return exit_decision(facts).outcome == "COMMIT"


# ---- a letter ------------------------------------------------------------------------------------------------------


@pytest.mark.req("R197", "R203", "R207", "R208")
def test_a_letter_with_four_faults_converges() -> None:
    """Each fault is found and classified, mended by the cheapest rule, and gone; every other sentence stays as it was."""
    diagnose = critic(ORDER)
    first = verify_output(SPEC, OUTPUT, [ORDER])
    assert [verdict.claim.text for verdict in first.contradicted] == ["The total is 1,074.00 EUR."]
    assert not first.passed
    diagnosis = diagnose(OUTPUT)
    assert causes(diagnosis) == [C.FACTUAL_ERROR, C.HALLUCINATION, C.INCOMPLETENESS, C.SAFETY_VIOLATION]
    assert "total: 74 (49.5 + 24.5)" in diagnosis.repair_hints[0].hint

    result = repair(OUTPUT, diagnose, ORDER, section=LETTER_RETURNS)
    assert (result.outcome, result.attempts) == ("repaired", 4)
    assert [
        (entry.root_cause, entry.note.partition(":")[0], entry.strategy) for entry in result.log.entries
    ] == [
        (C.SAFETY_VIOLATION, "redact", "MINIMAL_EDIT"),
        (C.FACTUAL_ERROR, "recompute_total", "MINIMAL_EDIT"),
        (C.HALLUCINATION, "remove_claim", "MINIMAL_EDIT"),
        (C.INCOMPLETENESS, "add_section", "SECTION_REWRITE"),
    ]
    expected = (
        LETTER.replace("1,074.00", "74.00")
        .replace(" Our warehouse won the Logistics Prize in 2024.", "")
        .replace(KEY, "[redacted]")
        .replace(
            "## Questions",
            "## Returns\n\nYou may return what you do not like within 30 days.\n\n## Questions",
        )
    )
    assert result.output == {"letter": expected, "language": "en"}

    second = verify_output(SPEC, result.output, [ORDER])
    assert (second.schema_valid, second.semantic, second.contradicted) == (True, 1.0, ())
    assert second.score > first.score
    after = diagnose(result.output)
    assert after.defects == ()
    assert commits(result.output, after)


INVOICE = DecisionSpec(
    id="invoice",
    required_outputs=("subject", "body", "lines", "total", "tone"),
    outputs_schema={
        "type": "object",
        "properties": {
            "subject": {"type": "string"},
            "body": {"type": "string"},
            "lines": {"type": "array"},
            "total": {"type": "number"},
            "tone": {"enum": ["FRIENDLY", "FORMAL"]},
            "reference": {"type": "string"},
        },
    },
)


@pytest.mark.req("R197", "R203")
def test_a_structured_output_converges() -> None:
    """The same in the members of an object: both totals, a reference from nowhere, and what the schema lists is no claim."""
    lines = [{"name": "Lamp", "amount": 49.5}, {"name": "Shade", "amount": 24.5}]
    body = "Dear Ms. Okafor,\n\nyour lamp was shipped on 4 May. The total is 80.00 EUR."
    output: JsonObject = {
        "subject": "Your order",
        "body": f"{body} Our clerk uses {KEY} for it.",
        "lines": lines,
        "total": 80.0,
        "tone": "FRIENDLY",
        "reference": "ZX-4471",
    }
    diagnose = critic(ORDER, spec=INVOICE)
    found = sorted((defect.location or "").partition("#")[0] for defect in diagnose(output).defects)
    assert found == ["/body", "/body", "/body", "/reference", "/total", "/total"]
    result = repair(output, diagnose, ORDER, section=LETTER_RETURNS, spec=INVOICE)
    assert result.outcome == "repaired"
    assert result.output == {
        "subject": "Your order",
        "body": f"{body.replace('80.00', '74.00')} Our clerk uses [redacted] for it.\n\n"
        "## Returns\n\nYou may return what you do not like within 30 days.\n",
        "lines": lines,
        "total": 74,
        "tone": "FRIENDLY",
    }
    assert diagnose(result.output).defects == ()


@pytest.mark.req("R203", "R205", "R208")
@settings(max_examples=300, deadline=None)
@given(letters())
def test_any_letter_made_from_evidence_converges(planted: Planted) -> None:
    """As many defects as faults were planted, one rule for each, nothing left; what was not planted is all there."""
    event(f"{len(planted.faults)} faults")
    diagnose = critic(planted.evidence)
    diagnosis = diagnose(planted.output)
    assert len(diagnosis.defects) == len(planted.faults)
    result = repair(planted.output, diagnose, planted.evidence, section=RETURNS)
    assert (result.outcome, result.attempts) == ("repaired", len(planted.faults))
    after = diagnose(result.output)
    assert after.severity <= DefectSeverity.LOW
    assert commits(result.output, after)
    text = str(result.output["letter"])
    assert [sentence for sentence in planted.kept if sentence not in text] == []
    assert [sentence for sentence in planted.gone if sentence in text] == []
    assert planted.faults or result.output == planted.output


# ---- what no rule mends --------------------------------------------------------------------------------------------


@pytest.mark.req("R206", "R246")
def test_a_contradiction_that_no_rule_mends_is_handed_over() -> None:
    """Without a model a wrong date stays; the ladder ends with the defect, its class, its source and why it was left."""
    output: JsonObject = {"letter": LETTER.replace("4 May", "9 June"), "language": "en"}
    diagnose = critic(ORDER)
    result = repair(output, diagnose, ORDER, section=LETTER_RETURNS)
    assert result.outcome == "escalated"
    assert result.escalation is not None
    assert result.escalation.kind is Escalation.FAIL_WITH_DIAGNOSIS
    (left,) = result.escalation.left
    assert (left.root_cause, left.tried, left.reason) == (C.FACTUAL_ERROR, 0, "nothing fits it")
    assert left.strategies == ()
    assert left.defect.description.startswith("the claim is contradicted: the order says ")
    assert [entry.root_cause for entry in result.log.entries if entry.success] == [
        C.SAFETY_VIOLATION,
        C.FACTUAL_ERROR,
        C.HALLUCINATION,
        C.INCOMPLETENESS,
    ]
    assert "9 June" in str(result.output["letter"])
    assert [defect.location for defect in diagnose(result.output).defects] == [left.defect.location]


@pytest.mark.req("R206", "R207")
def test_what_was_tried_in_vain_is_named() -> None:
    """A total in kilograms is no sum of prices, and taking it out would leave its section without words."""
    start = LETTER.index("## Questions")
    letter = f"{LETTER[:start]}## Weight\n\nThe total is 1,074.5 kg.\n"
    result = repair({"letter": letter, "language": "en"}, critic(ORDER), ORDER, section=LETTER_RETURNS)
    assert result.escalation is not None
    (left,) = result.escalation.left
    assert "'1,074.5 kg' is nowhere in the evidence" in left.defect.description
    assert (left.root_cause, left.tried, left.reason) == (
        C.HALLUCINATION,
        1,
        "every fitting repair was tried",
    )
    assert left.strategies == ("recompute_total:MINIMAL_EDIT",)
    assert result.escalation.root_cause is C.CAPABILITY_LIMIT
    assert "1,074.5 kg" in str(result.output["letter"])  # what did not help is taken back
