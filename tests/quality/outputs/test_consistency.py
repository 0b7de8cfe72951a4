"""Self-consistency: what several samples of one task agree on."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tercet.contracts.errors import UsageError
from tercet.quality.verification.consistency import token_similarity, vote_by_similarity, vote_exactly


@pytest.mark.req("R171")
@pytest.mark.parametrize(
    ("samples", "winner", "index", "ratio", "verdict"),
    [
        ([5, 6, 5], 5, 0, 0.666667, "LOW_CONFIDENCE"),
        ([6, 5, 5, 5, 5], 5, 1, 0.8, "PASS"),
        (["a", "b", "c"], "a", 0, 0.333333, "LOW_CONFIDENCE"),
        ([1, True, True], True, 1, 0.666667, "LOW_CONFIDENCE"),
        ([{"a": 1, "b": 2}, {"b": 2, "a": 1}, {"a": 1, "b": 2.0}], {"a": 1, "b": 2}, 0, 1.0, "PASS"),
        ([1, 2, 2, 3, 3, 3, 3], 3, 3, 0.571429, "LOW_CONFIDENCE"),
    ],
)
def test_the_majority(samples: list[Any], winner: Any, index: int, ratio: float, verdict: str) -> None:
    """Equal means equal as JSON; among equals the first wins; under the minimum it goes to critique."""
    found = vote_exactly(samples)
    assert (found.output, found.index, found.consistency, found.verdict) == (winner, index, ratio, verdict)
    assert found.needs_critique == (verdict == "LOW_CONFIDENCE")


@pytest.mark.parametrize("count", [0, 1, 2, 4, 6, 8, 9])
def test_only_three_five_or_seven_samples(count: int) -> None:
    """Another number is refused with a remedy, by both ways of voting."""
    for vote in (vote_exactly, vote_by_similarity):
        with pytest.raises(UsageError) as refused:
            vote(["x"] * count)
        assert refused.value.code == "sample_count"


@pytest.mark.parametrize(("minimum", "verdict"), [(0.666667, "PASS"), (0.666668, "LOW_CONFIDENCE")])
def test_the_minimum_is_met_when_it_is_reached(minimum: float, verdict: str) -> None:
    """The limit itself is enough."""
    assert vote_exactly([5, 6, 5], minimum=minimum).verdict == verdict


@pytest.mark.req("R172")
@given(st.lists(st.text("ab 1", max_size=12), min_size=5, max_size=5))
def test_similarity_voting_by_its_definition(samples: list[str]) -> None:
    """The winner has the highest mean similarity to the others, and the mean over all pairs is that over all pairs."""
    found = vote_by_similarity(samples)
    pairs = [token_similarity(one, other) for one, other in combinations(samples, 2)]
    means = [
        round(sum(token_similarity(one, other) for j, other in enumerate(samples) if j != i) / 4, 6)
        for i, one in enumerate(samples)
    ]
    assert found.mean_similarity == round(sum(pairs) / len(pairs), 6)
    assert found.consistency == max(means)
    assert found.index == means.index(max(means))


@pytest.mark.req("R172")
def test_the_odd_one_out_does_not_win() -> None:
    """Free texts that say the same in other words agree; one that says something else does not."""
    samples = [
        "The refund of 49 EUR was issued.",
        "No refund is due for this order, sorry.",
        "The refund of 49 EUR has been issued.",
    ]
    found = vote_by_similarity(samples, minimum=0.4)
    assert found.index in (0, 2)
    assert found.verdict == "PASS"
    assert vote_by_similarity(samples, minimum=0.9).needs_critique


@given(st.text(max_size=60), st.text(max_size=60))
def test_similarity_keeps_its_promises(one: str, other: str) -> None:
    """It lies between nothing and one, is the same both ways, and is one for equal texts."""
    score = token_similarity(one, other)
    assert 0 <= score <= 1
    assert token_similarity(other, one) == score
    assert token_similarity(one, one) == 1


def test_numbers_and_negations_weigh_more_than_words() -> None:
    """`passed` is not like `did not pass`, and 49 is not like 94; a change of wording is less."""
    plain = token_similarity("the test passed yesterday", "the test has passed yesterday")
    assert token_similarity("the test passed yesterday", "the test did not pass yesterday") < plain
    assert token_similarity("a refund of 49 EUR", "a refund of 94 EUR") < token_similarity(
        "a refund of 49 EUR", "the refund of 49 EUR"
    )


def test_another_similarity_may_take_its_place() -> None:
    """The similarity is a Protocol; what it says beyond its range, or as no number, is kept within."""
    assert vote_by_similarity(["a", "b", "c"], similarity=lambda one, other: 7.0).consistency == 1.0
    assert vote_by_similarity(["a", "b", "c"], similarity=lambda one, other: float("nan")).consistency == 0.0
