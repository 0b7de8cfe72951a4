"""When a loop ends: the decision against a truth table that was written from the requirements, over all combinations."""

from __future__ import annotations

from itertools import product
from typing import Literal

import pytest

from tercet.contracts.decision import ConfidenceBands, Threshold, ThresholdName
from tercet.contracts.outputs.exit import Disposition, ExitOutcome, HumanTrigger, Novelty
from tercet.quality.exit import ExitFacts, check_thresholds, disposition_of, exit_decision, recommend

NAMES: tuple[ThresholdName, ...] = (
    "schema", "policy", "safety", "correctness", "completeness", "coherence", "test_pass_rate", "self_consistency",
)  # fmt: skip
LIMITS = {
    "schema": 1.0, "policy": 1.0, "safety": 0.98, "correctness": 0.85, "completeness": 0.8, "coherence": 0.8,
    "test_pass_rate": 1.0, "self_consistency": 0.7, "confidence": 0.9,
}  # fmt: skip
State = Literal["off", "met", "missed", "unmeasured"]
STATES: tuple[State, ...] = ("off", "met", "missed", "unmeasured")
Band = Literal["none", "auto", "review", "reject", "unmeasured"]
CONFIDENCE: dict[Band, float | None] = {
    "none": 0.1, "auto": 0.95, "review": 0.7, "reject": 0.699999, "unmeasured": None,
}  # fmt: skip

# Read from the top; the first row that fits decides. `...` fits anything. The columns: whether every threshold and
# floor holds, the band of confidence, whether something asks for a person, whether a repair is left.
TABLE: tuple[tuple[tuple[object, ...], ExitOutcome], ...] = (
    ((False, ..., ..., True), "CONTINUE_REPAIR"),
    ((False, ..., ..., False), "ESCALATE"),
    ((True, "reject", ..., True), "CONTINUE_REPAIR"),
    ((True, "reject", ..., False), "FAIL"),
    ((True, "unmeasured", ..., True), "CONTINUE_REPAIR"),
    ((True, "unmeasured", ..., False), "FAIL"),
    ((True, "review", ..., ...), "ESCALATE"),
    ((True, "auto", True, ...), "ESCALATE"),
    ((True, "none", True, ...), "ESCALATE"),
    ((True, "auto", False, ...), "COMMIT"),
    ((True, "none", False, ...), "COMMIT"),
)


def expected(*row: object) -> ExitOutcome:
    """What the table says."""
    for pattern, outcome in TABLE:
        if all(want is ... or want == have for want, have in zip(pattern, row, strict=True)):
            return outcome
    raise AssertionError(row)


def measured(states: dict[ThresholdName, State]) -> tuple[tuple[Threshold, ...], dict[str, float]]:
    """Thresholds in these states, at the edge: just met, or just missed."""
    enabled = tuple(Threshold(name=name) for name, state in states.items() if state != "off")
    scores = {
        name: LIMITS[name] - (1e-6 if state == "missed" else 0.0)
        for name, state in states.items()
        if state in ("met", "missed")
    }
    return enabled, scores


@pytest.mark.slow
@pytest.mark.req("R241", "R245")
def test_every_combination_of_thresholds() -> None:
    """Eight thresholds, each off, met, missed or not measured: all 65,536; a commit needs every enabled one to be met."""
    thresholds = {name: Threshold(name=name) for name in NAMES}
    for states in product(STATES, repeat=len(NAMES)):
        named = dict(zip(NAMES, states, strict=True))
        enabled = tuple(thresholds[name] for name in NAMES if named[name] != "off")
        _, scores = measured(named)
        results = check_thresholds(enabled, scores)
        assert [(each.name, each.limit, each.passed) for each in results] == [
            (name, LIMITS[name], named[name] == "met") for name in NAMES if named[name] != "off"
        ]
        assert [each.score for each in results] == [
            scores.get(name) for name in NAMES if named[name] != "off"
        ]


FLAGS = ("is_irreversible", "requires_approval", "is_novel", "is_partial")


@pytest.mark.req("R240", "R243", "R244", "R246")
def test_the_decision_is_that_of_the_truth_table() -> None:
    """Thresholds, floors, objections, bands, budgets and what asks for a person, all with all: the table decides."""
    kinds = [dict(zip(("schema", "safety"), pair, strict=True)) for pair in product(STATES, repeat=2)]
    seen: set[ExitOutcome] = set()
    holds = ((True, ()), (False, ()), (True, ("the rubric is not met",)))
    for kind, (floors, objections), band, budget in product(kinds, holds, CONFIDENCE, (True, False)):
        enabled, scores = measured(kind)  # pyright: ignore[reportArgumentType] - two of the names
        passes = floors and not objections and all(state in ("off", "met") for state in kind.values())
        for irreversible, flagged, novel, partial in product((True, False), repeat=4):
            facts = ExitFacts(
                thresholds=enabled,
                measured=scores,
                floors_hold=floors,
                objections=objections,
                bands=None if band == "none" else ConfidenceBands(),
                confidence=CONFIDENCE[band],
                can_repair=budget,
                is_partial=partial,
                is_irreversible=irreversible,
                requires_approval=flagged,
                novelty=Novelty(distance=0.9 if novel else 0.1, limit=0.5),
            )
            asks = irreversible or flagged or novel
            decided = exit_decision(facts)
            assert decided.outcome == expected(passes, band, asks, budget), facts
            seen.add(decided.outcome)
    assert seen == {"COMMIT", "CONTINUE_REPAIR", "ESCALATE", "FAIL"}


@pytest.mark.req("R143")
def test_what_asks_for_a_person_is_mechanical() -> None:
    """Each of the seven conditions is listed exactly when it holds, whatever else does."""
    for low, irreversible, flagged, novel, partial, unsafe, free in product((True, False), repeat=7):
        facts = ExitFacts(
            thresholds=(Threshold(name="safety"),),
            measured={"safety": 0.9 if unsafe else 1.0},
            bands=ConfidenceBands(),
            confidence=0.9 if low else 0.96,
            can_repair=False,
            is_partial=partial,
            is_irreversible=irreversible,
            requires_approval=flagged,
            is_unjudged=free,
            novelty=Novelty(distance=float(novel), limit=0.5),
        )
        # A partial output needs a person where the budget is gone and something is still missed.
        holds = (low, irreversible, flagged, novel, partial and unsafe, unsafe, free)
        listed = [trigger for trigger, is_so in zip(HumanTrigger, holds, strict=True) if is_so]
        decided = exit_decision(facts)
        assert list(decided.triggers) == listed
        assert (decided.outcome == "COMMIT") == (not listed)
        assert decided.needs_approval == (bool(listed) and not unsafe)


@pytest.mark.parametrize("confidence", [None, 0.0, 0.8, 1.0])
def test_words_that_nothing_vouches_for_go_to_a_person_whatever_confidence_says(
    confidence: float | None,
) -> None:
    """They are a disposition: no repair is spent on them, and neither a high nor a low confidence decides instead."""
    facts = ExitFacts(
        thresholds=(),
        measured={},
        bands=ConfidenceBands(),
        confidence=confidence,
        can_repair=True,
        is_unjudged=True,
    )
    decided = exit_decision(facts)
    assert (decided.outcome, decided.disposition) == ("ESCALATE", Disposition.HUMAN_REVIEW)
    assert decided.needs_approval


@pytest.mark.req("R243")
@pytest.mark.parametrize(
    ("confidence", "disposition"),
    [
        (1.0, Disposition.AUTO_COMMIT),
        (0.95, Disposition.AUTO_COMMIT),
        (0.949999, Disposition.HUMAN_REVIEW),
        (0.70, Disposition.HUMAN_REVIEW),
        (0.699999, Disposition.REJECT),
        (0.0, Disposition.REJECT),
        (None, Disposition.REJECT),
    ],
)
def test_the_bands_of_confidence(confidence: float | None, disposition: Disposition) -> None:
    """0.95 commits by itself, 0.70 asks a person, less is rejected; and so is what was not measured."""
    assert disposition_of(confidence, ConfidenceBands()) is disposition
    assert disposition_of(confidence, None) is None


def test_a_confidence_threshold_is_one_like_the_others() -> None:
    """A decision that lists confidence among its thresholds wants it to be met, with bands or without."""
    for confidence, outcome in ((0.9, "COMMIT"), (0.89, "ESCALATE"), (None, "ESCALATE")):
        facts = ExitFacts(
            thresholds=(Threshold(name="confidence"),), measured={}, confidence=confidence, can_repair=False
        )
        assert exit_decision(facts).outcome == outcome


@pytest.mark.req("R245")
def test_a_miss_is_recorded_with_its_name_score_and_limit() -> None:
    """The decision says what was missed and by how much, in words and as data."""
    facts = ExitFacts(
        thresholds=(Threshold(name="coherence", minimum=0.75), Threshold(name="safety")),
        measured={"coherence": 0.5},
        can_repair=True,
    )
    decided = exit_decision(facts)
    assert [(each.name, each.score, each.limit) for each in decided.failures] == [
        ("coherence", 0.5, 0.75),
        ("safety", None, 0.98),
    ]
    assert "coherence is 0.5, below 0.75" in decided.reason
    assert "safety was not measured" in decided.reason


@pytest.mark.parametrize(
    ("measured", "confidence", "advice"),
    [
        ({"safety": 1.0, "coherence": 0.9}, 0.8, "approve"),
        ({"safety": 1.0, "coherence": 0.5}, 0.8, "modify"),
        ({"safety": 0.5, "coherence": 0.9}, 0.8, "reject"),
        ({"safety": 1.0, "coherence": 0.9}, 0.5, "reject"),
    ],
)
def test_a_person_is_advised(measured: dict[str, float], confidence: float, advice: str) -> None:
    """Approve what holds, have changed what was missed, reject what is unsafe or hardly believed."""
    thresholds = (Threshold(name="safety"), Threshold(name="coherence"))
    facts = ExitFacts(
        thresholds=thresholds, measured=measured, bands=ConfidenceBands(), confidence=confidence
    )
    assert recommend(exit_decision(facts)) == advice
