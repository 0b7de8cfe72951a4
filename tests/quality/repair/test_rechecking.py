"""Whether a defect is gone: what it is about and where decides, not how it is described."""

from __future__ import annotations

import pytest

from tercet.contracts.outputs.quality import CritiqueDiagnosis, Defect, DefectSeverity
from tercet.quality.repair.phase import repair_output
from tercet.quality.repair.rechecking import gone_by, is_same

from .letter import case, diagnose, drive, is_clean

OUTPUT = {"t": "one two three", "n": {"m": 1}}


def defect(location: str | None, description: str = "bad", dimension: str = "d") -> Defect:
    return Defect(
        dimension=dimension, severity=DefectSeverity.LOW, description=description, location=location
    )


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (defect("/t#char=0,3"), defect("/t#char=2,5", "other words"), True),
        (defect("/t#char=0,3"), defect("/t#char=4,7"), False),
        (defect("/t#char=0,3"), defect("/t#char=0,3", dimension="e"), False),
        (defect("/t#char=0,3"), defect("/t", "other words"), True),
        (defect("/n"), defect("/n/m"), True),
        (defect("/n/m"), defect("/t"), False),
        (defect(None), defect("/t"), True),
        (defect(None), defect("/t", "other words"), False),
        (defect("/t#char=3,3"), defect("/t#char=9,9"), True),
        (defect("/t#char=3,3"), defect("/t#char=0,9", "other words"), False),
    ],
)
def test_when_two_defects_are_one(one: Defect, other: Defect, *, same: bool) -> None:
    """Places that overlap, in one dimension; without a place, or between two characters, the same words."""
    assert is_same(OUTPUT, one, other) is same
    assert is_same(OUTPUT, other, one) is same


@pytest.mark.req("R203")
def test_the_letter_is_mended_with_a_whole_diagnosis_for_each_look() -> None:
    """A critic that can only judge everything does for looking at one defect."""
    result, _ = drive(repair_output(case(), gone_by(diagnose)))
    assert (result.outcome, result.attempts) == ("repaired", 3)
    assert is_clean(result.output)


def test_a_defect_that_is_found_again_is_not_gone() -> None:
    """Whatever it is called by then."""
    found = CritiqueDiagnosis(scores={}, defects=(defect("/t#char=4,7", "still bad"),))
    assert not gone_by(lambda _: found)(OUTPUT, defect("/t#char=4,7"))
    assert gone_by(lambda _: found)(OUTPUT, defect("/t#char=8,13"))
