"""Which outputs are better, by what was said of them."""

from __future__ import annotations

from typing import Any

import pytest

from tercet.contracts.shape import JsonObject
from tercet.core.outputs.rounds import rank, told_round
from tercet.core.state import Round


def judged(
    *missed: str,
    below: tuple[str, ...] = (),
    weighted: float = 1.0,
    tests: tuple[tuple[int, int], ...] = (),
    defects: tuple[str, ...] = (),
) -> Round:
    """Outputs that were criticised: which thresholds they missed, how their tests went, and what is wrong with them."""
    names = ("safety", "correctness", "completeness", "policy", "confidence")
    return Round(
        number=0,
        rubric={"weighted": weighted, "threshold": 0.8, "passed": not below, "below": list(below)},
        exit={"thresholds": [{"name": name, "passed": name not in missed} for name in names]},
        tests=tuple({"error": "", "result": {"passed": good, "failed": bad}} for good, bad in tests),
        diagnosis={"defects": [{"dimension": name} for name in defects]},
    )


def broken(faults: int) -> Round:
    """Outputs whose form is broken, so that nobody has criticised them."""
    found: list[JsonObject] = [{"message": "it is no text"}] * faults
    return Round(number=0, verdict={"schema_valid": False, "schema_faults": found})


UNRUN: dict[str, Any] = {"error": "it crashed", "result": {}}

BETTER = {
    "what could be criticised at all": (judged("correctness", "safety"), broken(1)),
    "fewer faults of form": (broken(1), broken(2)),
    "safe before all other limits": (judged("correctness", "completeness"), judged("safety")),
    "no defect of safety before all other limits": (judged("correctness"), judged(defects=("safety",))),
    "fewer limits missed": (judged("correctness", weighted=0.5), judged("correctness", "completeness")),
    "a limit and a minimum of one name are one": (
        judged("correctness", below=("correctness",)),
        judged("completeness", below=("correctness",)),
    ),
    "a probe that got through counts": (judged("correctness"), judged("correctness", defects=("adversarial",))),
    "early tests passed, late ones not": (judged(tests=((2, 0), (1, 9))), judged(tests=((9, 1),))),
    "more tests passed": (judged(tests=((3, 1),), weighted=0.5), judged(tests=((2, 2),))),
    "a higher score": (judged(weighted=0.9, defects=("tone",)), judged(weighted=0.8)),
    "fewer defects": (judged(defects=("tone",)), judged(defects=("tone", "tone"))),
}  # fmt: skip


@pytest.mark.parametrize("why", BETTER)
def test_one_is_better_than_the_other(why: str) -> None:
    """By the first of the questions on which they differ."""
    better, worse = BETTER[why]
    assert rank(better) > rank(worse)


@pytest.mark.parametrize("name", ["policy", "confidence"])
def test_what_says_nothing_of_outputs_does_not_count(name: str) -> None:
    """What the run has done, and that confidence falls with each repair, is no reason to go back."""
    assert rank(judged(name)) == rank(judged())


def test_tests_that_could_not_be_run_are_no_better_than_failed_ones() -> None:
    """No result is none that passed."""
    lost = Round(number=0, rubric=judged().rubric, tests=(UNRUN,))
    assert rank(lost) == rank(
        Round(number=0, rubric=judged().rubric, tests=({"error": "", "result": {"passed": 0, "failed": 1}},))
    )


def test_which_outputs_they_are_is_told_in_words() -> None:
    """After which repair, of how many; and nothing where they are the last."""
    assert told_round({}) == ""
    assert told_round({"round": 0, "of": 1}).startswith("these are the outputs before the first of 1 repair:")
    assert told_round({"round": 2, "of": 3}).startswith("these are the outputs after repair 2 of 3:")
