"""The gain and the noise of a task class, out of recorded repairs."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tercet.contracts.control import ControlSpec, RepairObservation
from tercet.quality.control import LEAST_SAMPLE, estimate

from .plants import Trial, lots, record

rows = st.lists(
    st.builds(
        RepairObservation,
        task_class=st.sampled_from(["letter", "code"]),
        run=st.just("r"),
        iteration=st.integers(0, 5),
        intensity=st.floats(-1.0, 5.0),
        before=st.floats(0.0, 1.0),
        after=st.floats(0.0, 1.0),
    ),
    max_size=30,
)


def row(intensity: float, rise: float, **more: Any) -> RepairObservation:
    fields: dict[str, Any] = {
        "task_class": "letter",
        "run": "r",
        "iteration": 0,
        "intensity": intensity,
        "before": 0.2,
        "after": 0.2 + rise,
    }
    return RepairObservation(**fields | more)


@pytest.mark.req("R307")
def test_repairs_without_noise_give_the_gain_itself() -> None:
    """The interval shrinks to a point, and the noise to nothing."""
    found = estimate([row(0.1 * number, 0.04 * number) for number in range(1, 11)])
    assert found is not None
    assert (found.gain, found.low, found.high, found.sigma, found.sample) == (0.4, 0.4, 0.4, 0.0, 10)


def test_what_rules_did_says_nothing_about_a_gain() -> None:
    """A rule mends as much at every intensity: such repairs neither make a gain nor change one."""
    by_rules = [row(0.1 * number, 0.5, means="rule") for number in range(1, 11)]
    assert estimate(by_rules) is None
    by_model = [row(0.1 * number, 0.04 * number) for number in range(1, 11)]
    assert estimate([*by_rules, *by_model]) == estimate(by_model)


def test_an_estimate_worked_out_by_hand() -> None:
    """Five repairs of 0.5 that bring 0.3 and five that bring 0.1: a slope of 0.4, and 0.1 to either side of it."""
    found = estimate([row(0.5, 0.3)] * 5 + [row(0.5, 0.1)] * 5)
    assert found is not None
    assert (found.gain, found.sigma) == (0.4, round((10 * 0.1**2 / 9) ** 0.5, 6))
    half = 2.262157 * (10 * 0.1**2 / 9) ** 0.5 / (10 * 0.5**2) ** 0.5  # the t of nine degrees of freedom
    assert (found.low, found.high) == pytest.approx((0.4 - half, 0.4 + half), abs=1e-4)


@pytest.mark.req("R307")
def test_a_gain_is_found_again_in_noisy_runs() -> None:
    """Of 300 sets of recorded runs, about 95 in a hundred have the true gain within their interval."""
    noise, hits, gains, sigmas = lots(), 0, list[float](), list[float]()
    spec = ControlSpec(gain=0.4, kp=1.0, sigma=0.04, epsilon=0.1, k_max=8, delta_min=0.0)
    for _ in range(300):
        seen = [each for name in range(6) for each in record(Trial(spec=spec, quality=0.2), str(name), noise)]
        found = estimate(seen)
        assert found is not None
        hits += found.low <= 0.4 <= found.high
        gains.append(found.gain)
        sigmas.append(found.sigma)
    assert sum(gains) / 300 == pytest.approx(0.4, rel=0.03)
    assert sum(sigmas) / 300 == pytest.approx(0.04, rel=0.05)
    assert 273 <= hits <= 297


@pytest.mark.parametrize("count", [0, 1, LEAST_SAMPLE - 1])
def test_too_few_repairs_say_nothing(count: int) -> None:
    """Those without intensity do not count."""
    assert estimate([row(0.5, 0.2)] * count + [row(0.0, 0.2)] * 20) is None
    assert estimate([row(0.5, 0.2)] * LEAST_SAMPLE) is not None


@pytest.mark.parametrize(("rise", "gain"), [(-0.3, 0.01), (0.0, 0.01), (2.0, 1.0)])
def test_an_impossible_gain_is_held_at_the_bound(rise: float, gain: float) -> None:
    """And says that it was."""
    found = estimate([row(0.5, rise)] * 10)
    assert found is not None
    assert (found.gain, found.is_at_bound) == (gain, True)


@given(rows, st.randoms(use_true_random=False))
def test_estimates_are_total_and_know_no_order(given_rows: list[RepairObservation], random: Any) -> None:
    """Any rows in any order give the same, rounded, and within what a gain may be."""
    shuffled = list(given_rows)
    random.shuffle(shuffled)
    found = estimate(given_rows)
    assert found == estimate(shuffled)
    if found is not None:
        assert 0.0 < found.low <= found.gain <= found.high <= 1.0
        assert found.applied_to(ControlSpec()).gain == found.gain == round(found.gain, 6)
