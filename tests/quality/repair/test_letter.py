"""A letter with three things wrong with it: each is classified, mended at the least cost, and looked at again."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tercet.contracts.outputs.quality import CritiqueDiagnosis, Defect, DefectSeverity, RootCauseClass
from tercet.contracts.outputs.repair import Escalation
from tercet.quality.repair.causes import classify
from tercet.quality.repair.escalation import Resources
from tercet.quality.repair.phase import repair_output
from tercet.quality.repair.regions import headings

from .letter import KEY, LETTER, OUTPUT, case, diagnose, drive, is_clean, is_gone

CLASSES = {
    "correctness/HIGH": RootCauseClass.FACTUAL_ERROR,
    "safety/CRITICAL": RootCauseClass.SAFETY_VIOLATION,
    "completeness/MEDIUM": RootCauseClass.INCOMPLETENESS,
}


@pytest.mark.req("R197")
def test_each_defect_has_its_class() -> None:
    """A wrong total, a leaked key and a missing section are three kinds of defects."""
    found = {f"{each.dimension}/{each.severity.name}": classify(each) for each in diagnose(OUTPUT).defects}
    assert found == CLASSES


@pytest.mark.req("R203", "R207")
def test_the_letter_is_mended_without_a_model() -> None:
    """The worst defect first, each by the rule for it, three attempts and no token; what VERIFY then sees is clean."""
    result, asked = drive(repair_output(case(), is_gone))
    assert result.outcome == "repaired"
    assert asked == []
    assert (result.attempts, result.tokens) == (3, 0)
    assert [
        (entry.root_cause, entry.strategy, entry.means, entry.success) for entry in result.log.entries
    ] == [
        (RootCauseClass.SAFETY_VIOLATION, "MINIMAL_EDIT", "rule", True),
        (RootCauseClass.FACTUAL_ERROR, "MINIMAL_EDIT", "rule", True),
        (RootCauseClass.INCOMPLETENESS, "SECTION_REWRITE", "rule", True),
    ]
    assert is_clean(result.output)
    mended = str(result.output["letter"])
    expected = (
        LETTER.replace("1,074.00", "{{ order_total }}")
        .replace(KEY, "[redacted]")
        .replace(
            "## Questions",
            "## Returns\n\nYou may return what you do not like within {{ return_days }} days.\n\n## Questions",
        )
    )
    assert mended == expected
    assert [each.title for each in headings(mended)] == [
        "Your order ord_881",
        "Invoice",
        "Returns",
        "Questions",
    ]


def test_mending_again_changes_nothing() -> None:
    """A letter without defects is handed back as it is, without an attempt."""
    mended, _ = drive(repair_output(case(), is_gone))
    again, _ = drive(repair_output(case(mended.output), is_gone))
    assert (again.outcome, again.output, again.attempts) == ("repaired", mended.output, 0)


UNFIXABLE = Defect(
    dimension="coherence",
    severity=DefectSeverity.HIGH,
    description="the tone contradicts itself",
    location="/letter",
    scope="SECTION",
)


@pytest.mark.req("R206", "R246")
def test_an_unfixable_defect_escalates_with_a_diagnosis() -> None:
    """Everything else is mended; what nobody can mend is named, with its class, what was tried and why it ended."""
    given = case()
    diagnosis = CritiqueDiagnosis(scores={}, defects=(*given.diagnosis.defects, UNFIXABLE))
    given = replace(given, diagnosis=diagnosis, resources=Resources(has_model=True))

    def stays(output: dict[str, object], defect: Defect) -> bool:
        return defect.dimension != "coherence" and is_gone(output, defect)

    shorter = '{"replacement": "as before"}'
    result, asked = drive(repair_output(given, stays), [shorter, "no JSON"])
    assert len(asked) == 2
    assert result.outcome == "escalated"
    assert result.escalation is not None
    assert result.escalation.kind is Escalation.FAIL_WITH_DIAGNOSIS
    (left,) = result.escalation.left
    assert left.defect.description == UNFIXABLE.description
    assert (left.root_cause, left.tried) == (RootCauseClass.COHERENCE_FAILURE, 2)
    assert "every fitting repair was tried" in result.escalation.reason
    assert result.escalation.root_cause is RootCauseClass.CAPABILITY_LIMIT
    assert is_clean(result.output)  # the other three are mended all the same
