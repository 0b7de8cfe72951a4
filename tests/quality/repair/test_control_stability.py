"""Which gains are stable: the Jury test against loops that are simply run for long."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tercet.contracts.control import ControlSpec
from tercet.quality.control import character_of, is_stable, kp_bound, noise_floor, passes_jury

from .plants import growth, lots

MARGINAL = 0.004
"""A loop that grows or shrinks by less in each repair is too near the edge to be told by so many of them."""


def draw_gains(count: int) -> list[ControlSpec]:
    """Gains on both sides of the bound, with and without the further terms."""
    random, specs = lots(), list[ControlSpec]()
    for _ in range(count):
        gain = random.uniform(0.05, 1.0)
        i, d = random.choice((0.0, random.uniform(0.0, 2.0))), random.choice((0.0, random.uniform(0.0, 1.3)))
        p = random.uniform(0.001, 2.6)
        specs.append(ControlSpec(gain=gain, kp=p / gain, ki=i / gain, kd=d / gain))
    return specs


@pytest.mark.req("R309")
def test_the_jury_test_tells_what_a_long_run_shows() -> None:
    """Of 2,000 loops, each that is not at the very edge grows if it is called unstable, and shrinks if it is not."""
    specs = [(spec, growth(spec)) for spec in draw_gains(2_000)]
    clear = [(spec, grown) for spec, grown in specs if abs(grown) > MARGINAL]
    assert [spec for spec, grown in clear if is_stable(spec) != (grown < 0)] == []
    assert len(clear) > 1_900
    assert 500 < sum(is_stable(spec) for spec, _ in clear) < 1_500


@pytest.mark.req("R309")
@pytest.mark.parametrize("gain", [0.05, 0.5, 1.0])
def test_kp_alone_is_stable_below_two_over_the_gain(gain: float) -> None:
    """At the bound itself the error neither grows nor dies."""
    for kp, is_fine in ((1e-6, True), (1.9999 / gain, True), (2.0 / gain, False), (2.0001 / gain, False)):
        assert is_stable(ControlSpec(gain=gain, kp=kp)) == is_fine


@pytest.mark.req("R309")
@given(
    gain=st.floats(0.001, 1.0),
    p=st.floats(1e-3, 3.0),
    i=st.one_of(st.just(0.0), st.floats(0.0, 3.0), st.floats(0.0, 1e-9)),
    d=st.one_of(st.just(0.0), st.floats(0.0, 1.5), st.floats(0.0, 1e-9)),
)
def test_the_bound_that_is_named_is_the_one_of_the_jury_test(
    gain: float, p: float, i: float, d: float
) -> None:
    """Every Kp below it is stable, and none above."""
    spec = ControlSpec(gain=gain, kp=p / gain, ki=i / gain, kd=d / gain)
    bound = kp_bound(spec)
    assume(abs(spec.proportional - bound) > 1e-6)
    assert is_stable(spec) == (spec.proportional < bound)


@pytest.mark.parametrize(
    ("polynomial", "is_inside"),
    [
        ((1.0,), True),
        ((1.0, -0.5), True),
        ((1.0, -1.0), False),
        ((1.0, -1.5, 0.56), True),  # roots 0.7 and 0.8
        ((1.0, -1.9, 0.88), False),  # roots 0.8 and 1.1
        ((1.0, 0.0, 0.81), True),  # roots ±0.9i
        ((1.0, 0.0, 1.21), False),  # roots ±1.1i
        ((1.0, -0.6, -0.37, 0.21), True),  # roots 0.7, 0.5 and -0.6
        ((1.0, -2.9, 2.72, -0.82), False),  # one root near 1.05
        ((2.0, 0.0, 0.0, 0.0, 1.9), True),
    ],
)
def test_the_jury_test_on_polynomials_with_known_roots(
    polynomial: tuple[float, ...], is_inside: bool
) -> None:
    """Of any degree, and whatever leads."""
    assert passes_jury([Fraction(str(each)) for each in polynomial]) == is_inside


@pytest.mark.req("R309")
@pytest.mark.parametrize("alpha", [0.2, 0.35, 0.5])
def test_a_gain_that_is_not_given_is_damped(alpha: float) -> None:
    """It is (1 - alpha) / G, which is stable and comes from one side."""
    spec = ControlSpec(gain=0.4, alpha=alpha)
    assert spec.proportional == pytest.approx((1 - alpha) / 0.4)
    assert character_of(spec) == "monotone"


@pytest.mark.req("R331")
@pytest.mark.parametrize(
    ("fields", "character"),
    [
        ({"kp": 0.9}, "monotone"),
        ({"kp": 2.0}, "monotone"),
        ({"kp": 2.1}, "oscillating"),
        ({"kp": 4.0}, "unstable"),
        ({"kp": 0.5, "ki": 0.01}, "monotone"),
        ({"kp": 0.5, "ki": 1.0}, "oscillating"),
        ({"kp": 1.0, "kd": 2.0}, "unstable"),
    ],
)
def test_a_loop_that_goes_to_and_fro_is_named(fields: dict[str, Any], character: str) -> None:
    """Before it has cost anything."""
    assert character_of(ControlSpec(gain=0.5, **fields)) == character


@pytest.mark.req("R312")
@given(gain=st.floats(0.05, 1.0), reach=st.floats(0.05, 1.95), sigma=st.floats(0.0, 1.0))
def test_the_noise_floor_is_that_of_the_formula(gain: float, reach: float, sigma: float) -> None:
    """With Kp alone: sigma² / (1 - (1 - G·Kp)²), and the best quality is its root below the setpoint."""
    floor = noise_floor(ControlSpec(gain=gain, kp=reach / gain, sigma=sigma, epsilon=0.2))
    assert floor is not None
    expected = sigma**2 / (1 - (1 - reach) ** 2)
    assert floor.mean_square == pytest.approx(expected, abs=1e-6)
    assert floor.best_quality == pytest.approx(1 - expected**0.5, abs=1e-6)
    assert floor.is_above_epsilon == (expected**0.5 > 0.2)


def test_an_unstable_loop_has_no_floor() -> None:
    """Its error grows without bound."""
    assert noise_floor(ControlSpec(gain=0.5, kp=5.0, sigma=0.1)) is None
