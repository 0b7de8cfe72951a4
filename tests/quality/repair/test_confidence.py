"""Confidence: what it is made of, how its weights are learned, and how well it keeps its word."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tercet.contracts.errors import UsageError
from tercet.contracts.outputs.exit import FEATURES, FeatureName, OutcomeRow, Weights
from tercet.quality.exit import (
    DEFAULT_WEIGHTS,
    LEAST_ROWS,
    cross_rate,
    estimate,
    fit,
    rate,
    reliability,
    sigmoid,
)
from tercet.quality.repair.rates import distance, novelty, pattern_of

GOOD: dict[FeatureName, float] = {"verify": 1.0, "evidence": 1.0, "critic": 1.0, "repairs": 0.0}
VALUES = st.dictionaries(st.sampled_from(FEATURES), st.floats(allow_nan=False), max_size=7)


@pytest.mark.req("R242")
def test_confidence_is_a_sigmoid_of_a_weighted_sum() -> None:
    """Seven named features; each adds its weight times its distance from the value at which it says nothing."""
    assert FEATURES == ("verify", "consistency", "evidence", "repairs", "logprob", "critic", "tests")
    found = estimate({"verify": 0.9, "repairs": 2.0})
    assert found.parts == {"bias": 1.0, "verify": 0.6, "repairs": -1.0}
    assert found.value == round(1 / (1 + math.exp(-0.6)), 6)
    assert found.missing == ("consistency", "evidence", "logprob", "critic", "tests")


@pytest.mark.req("R242")
@given(VALUES, st.sampled_from(FEATURES))
def test_every_feature_counts_in_its_direction(values: dict[FeatureName, float], name: FeatureName) -> None:
    """More repairs make less sure, more of anything else surer; whatever is handed in, it is a probability."""
    low = estimate({**values, name: -0.9 if name == "logprob" else 0.1})
    high = estimate({**values, name: -0.1 if name == "logprob" else 0.9})
    assert 0.0 <= low.value <= 1.0
    assert low.value >= high.value if name == "repairs" else low.value <= high.value


@pytest.mark.parametrize(
    ("features", "low", "high"),
    [
        (GOOD, 0.95, 1.0),
        ({**GOOD, "repairs": 3.0}, 0.70, 0.95),
        ({"verify": 0.85, "evidence": 0.8, "critic": 0.8}, 0.70, 0.95),
        ({"verify": 0.5, "evidence": 0.5, "critic": 0.5}, 0.0, 0.5),
        ({**GOOD, "tests": 0.0}, 0.0, 0.70),
    ],
)
def test_the_weights_before_any_record_are_sane(
    features: dict[FeatureName, float], low: float, high: float
) -> None:
    """A flawless output commits by itself, a good one asks a person, a poor one is rejected."""
    assert low <= estimate(features).value <= high


TRUTH = Weights(
    bias=0.4,
    weights={"verify": 4.0, "consistency": 0.0, "evidence": 1.0, "repairs": -1.2, "logprob": 0.0, "critic": 0.5, "tests": 0.0},
    centers=DEFAULT_WEIGHTS.centers,
)  # fmt: skip


def outcomes(number: int, seed: int = 7) -> list[OutcomeRow]:
    """Outputs of which it is known how likely each was right."""
    draw = random.Random(seed)  # noqa: S311 - a fixed sample, not a secret
    rows: list[OutcomeRow] = []
    for _ in range(number):
        features: dict[FeatureName, float] = {
            "verify": draw.random(),
            "evidence": draw.random(),
            "critic": draw.random(),
            "repairs": float(draw.randrange(4)),
        }
        rows.append(OutcomeRow(features=features, is_correct=draw.random() < estimate(features, TRUTH).value))
    return rows


@pytest.mark.req("R242")
def test_weights_are_learned_from_outcomes() -> None:
    """From 4,000 outcomes the weights that made them come out, within a quarter; what was never measured stays."""
    fitted = fit(outcomes(4_000))
    for name in ("verify", "evidence", "repairs", "critic"):
        assert abs(fitted.weights[name] - TRUTH.weights[name]) < 0.35, name
    for name in ("consistency", "logprob", "tests"):
        assert fitted.weights[name] == DEFAULT_WEIGHTS.weights[name]
    assert fitted.sample == 4_000


def test_fitted_weights_keep_their_word_better() -> None:
    """On outcomes that they were not fitted to, their error is smaller than that of the default."""
    rows = outcomes(1_000)
    before, after = rate(rows, DEFAULT_WEIGHTS), cross_rate(rows)
    assert after.brier < before.brier
    assert after.ece < before.ece / 2
    assert rate(outcomes(1_000, seed=8), fit(rows)).ece < 0.06


def test_few_outcomes_change_little_and_too_few_nothing() -> None:
    """The penalty holds the weights near the default; below the least sample nothing is fitted."""
    few = fit(outcomes(LEAST_ROWS))
    many = fit(outcomes(2_000))
    moved = [
        sum(abs(each.weights[name] - DEFAULT_WEIGHTS.weights[name]) for name in FEATURES)
        for each in (few, many)
    ]
    assert moved[0] < moved[1]
    with pytest.raises(UsageError, match="too few") as error:
        fit(outcomes(LEAST_ROWS - 1))
    assert error.value.code == "too_few_outcomes"


@given(st.lists(st.tuples(st.floats(-5, 5), st.booleans()), min_size=LEAST_ROWS, max_size=40))
def test_a_fit_always_has_one_answer(drawn: list[tuple[float, bool]]) -> None:
    """Whatever was recorded, also what one feature separates wholly: finite weights, the same ones again."""
    rows = [
        OutcomeRow(features={"verify": value, "repairs": value}, is_correct=right) for value, right in drawn
    ]
    first = fit(rows)
    assert all(math.isfinite(value) for value in (first.bias, *first.weights.values()))
    assert first.model_dump_json() == fit(rows).model_dump_json()


def test_the_fit_is_where_nothing_pulls_any_more() -> None:
    """At the answer the slope of the penalised likelihood is zero in every direction."""
    rows = outcomes(200)
    fitted = fit(rows)
    gaps = [row.is_correct - estimate(row.features, fitted).value for row in rows]
    pull = sum(gaps) - (fitted.bias - DEFAULT_WEIGHTS.bias)
    assert abs(pull) < 1e-3
    for name in ("verify", "repairs"):
        center = DEFAULT_WEIGHTS.centers[name]
        slope = sum(gap * (row.features[name] - center) for gap, row in zip(gaps, rows, strict=True))
        assert abs(slope - (fitted.weights[name] - DEFAULT_WEIGHTS.weights[name])) < 1e-3


def test_reliability_by_hand() -> None:
    """Four outputs in two bins: Brier score, calibration error and shares as one works them out on paper."""
    found = reliability([(0.95, True), (0.95, False), (0.15, False), (0.15, False)])
    assert [(each.low, each.count, each.confidence, each.accuracy) for each in found.bins] == [
        (0.1, 2, 0.15, 0.0),
        (0.9, 2, 0.95, 0.5),
    ]
    assert found.brier == round((0.05**2 + 0.95**2 + 2 * 0.15**2) / 4, 6)
    assert found.ece == round((2 * 0.45 + 2 * 0.15) / 4, 6)
    assert (found.base_rate, found.count) == (0.25, 4)
    assert reliability([]).bins == ()


@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), max_size=50))
def test_every_output_is_in_one_bin(pairs: list[tuple[float, bool]]) -> None:
    """None is lost, none counts twice, also at the edges."""
    found = reliability(pairs)
    assert sum(each.count for each in found.bins) == len(pairs)
    assert all(each.low - 1e-6 <= each.confidence <= each.high + 1e-6 for each in found.bins)
    assert 0 <= found.ece <= 1
    assert 0 <= found.brier <= 1


@given(st.floats(allow_nan=False))
def test_the_sigmoid_takes_any_number(value: float) -> None:
    """Also infinite ones; and it is symmetric."""
    assert 0.0 <= sigmoid(value) <= 1.0
    assert abs(sigmoid(value) + sigmoid(-value) - 1.0) < 1e-12


# ---- novelty ---------------------------------------------------------------------------------------------------------

REFUND = pattern_of(
    intent="support.refund", request={"order_id": "o", "amount": 5}, tools=["orders.lookup", "pay"]
)
PAST = {
    "run_1": REFUND,
    "run_2": pattern_of(intent="support.letter", request={"order_id": "o"}, tools=["orders.lookup", "mail"]),
}


@pytest.mark.req("R143")
def test_a_run_is_novel_if_none_before_was_like_it() -> None:
    """The same kind is known, whatever its values are; another kind is novel; without a past everything is."""
    same = pattern_of(
        intent="support.refund", request={"amount": 9_000, "order_id": "p"}, tools=["pay", "orders.lookup"]
    )
    assert novelty(same, PAST).model_dump() == {"distance": 0.0, "limit": 0.5, "nearest": "run_1"}
    other = pattern_of(intent="infra.restart", request={"host": "h"}, tools=["ssh"])
    assert novelty(other, PAST).is_novel
    assert novelty(same, {}).is_novel
    near = pattern_of(
        intent="support.refund", request={"order_id": "o", "amount": 5}, tools=["orders.lookup"]
    )
    assert not novelty(near, PAST).is_novel


PATTERNS = st.dictionaries(st.sampled_from("abcdef"), st.floats(0, 3), max_size=5)


@given(PATTERNS, PATTERNS)
def test_a_distance_is_symmetric_and_bounded(one: dict[str, float], other: dict[str, float]) -> None:
    """0 for the same run, 1 for one that shares nothing."""
    assert distance(one, one) == 0.0
    assert 0.0 <= distance(one, other) == distance(other, one) <= 1.0
