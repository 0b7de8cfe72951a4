"""What is foreseen: by hand where that is possible, and what is done where it would be too dear."""

from __future__ import annotations

from typing import Any

import pytest

from tercet.contracts.control import ControlSpec, StopReason
from tercet.quality.control import apply, iterations_to_reach, predict

from .plants import closed_cost

HALVING = ControlSpec(
    setpoint=1.0, epsilon=0.1, gain=0.5, kp=1.0, c_base=10.0, beta=2.0, k_max=20, delta_min=0.0
)
"""The error halves with each repair."""


@pytest.mark.req("R310")
def test_the_repairs_are_counted_by_the_formula() -> None:
    """From 0.8 it goes 0.4, 0.2, 0.1: three repairs, and the third is enough."""
    foreseen = predict(HALVING, 0.2)
    assert foreseen.errors == (0.8, 0.4, 0.2, 0.1)
    assert (foreseen.iterations, foreseen.k_star, foreseen.end) == (3, 3, StopReason.REACHED)
    assert foreseen.is_reached


@pytest.mark.req("R311")
def test_the_cost_is_that_of_the_repairs_that_are_made() -> None:
    """Three times the base, and twice ten for each unit of 0.8 + 0.4 + 0.2."""
    foreseen = predict(HALVING, 0.2)
    assert foreseen.cost == foreseen.cost_to_reach == closed_cost(HALVING, 0.8) == pytest.approx(58.0)


@pytest.mark.parametrize(
    "changes",
    [{"ki": 0.1}, {"kd": 0.1}, {"u_max": 0.5}, {"u_min": 0.2}, {"kp": 2.0}, {"epsilon": 0.0}],
)
def test_the_formula_keeps_quiet_where_it_does_not_hold(changes: dict[str, Any]) -> None:
    """Further terms, a clamp that binds, and repairs that overshoot."""
    assert iterations_to_reach(HALVING.model_copy(update=changes), 0.8) is None


def test_what_is_good_enough_takes_no_repair() -> None:
    """And costs nothing."""
    foreseen = predict(HALVING, 0.95)
    assert (foreseen.iterations, foreseen.k_star, foreseen.cost) == (0, 0, 0.0)


def test_several_dimensions_are_foreseen_by_the_worst() -> None:
    """The setpoint of the worst one need not be the highest."""
    spec = HALVING.model_copy(update={"setpoint": {"correct": 0.9, "safe": 1.0}})
    assert predict(spec, {"correct": 0.1, "safe": 0.9}).errors == (0.8, 0.4, 0.2, 0.1)


@pytest.mark.req("R311")
def test_what_is_too_dear_fails_unless_the_pack_says_otherwise() -> None:
    """The prediction says what it would have cost."""
    foreseen = predict(HALVING.model_copy(update={"c_max": 50.0}), 0.2)
    assert (foreseen.end, foreseen.iterations, foreseen.cost) == (StopReason.COST, 2, 44.0)
    assert foreseen.cost_to_reach == pytest.approx(58.0)
    assert foreseen.choice is not None
    assert (foreseen.choice.kind, foreseen.choice.iterations) == ("fail", None)


@pytest.mark.req("R311")
def test_a_pack_may_accept_less() -> None:
    """The tolerance is the smallest that can be paid for, and the controller then does come there."""
    spec = HALVING.model_copy(update={"c_max": 50.0, "on_over_cost": "relax_epsilon", "epsilon_max": 0.25})
    choice = predict(spec, 0.2).choice
    assert choice is not None
    assert (choice.kind, choice.epsilon, choice.iterations, choice.cost) == ("relax_epsilon", 0.2, 2, 44.0)
    assert predict(apply(spec, choice), 0.2).end is StopReason.REACHED


@pytest.mark.req("R311")
@pytest.mark.parametrize("most", [None, 0.15])
def test_a_tolerance_is_relaxed_no_further_than_allowed(most: float | None) -> None:
    """Beyond that the pack would rather fail."""
    spec = HALVING.model_copy(update={"c_max": 50.0, "on_over_cost": "relax_epsilon", "epsilon_max": most})
    choice = predict(spec, 0.2).choice
    assert choice is not None
    assert choice.kind == "fail"


@pytest.mark.req("R311")
def test_a_pack_may_repair_more_gently() -> None:
    """A smaller Kp saves what the last repair did too much."""
    spec = HALVING.model_copy(update={"kp": 1.9, "u_max": 2.0, "c_max": 39.0, "on_over_cost": "reduce_kp"})
    assert predict(spec, 0.2).cost_to_reach == pytest.approx(40.4)
    choice = predict(spec, 0.2).choice
    assert choice is not None
    assert (choice.kind, choice.kp) == ("reduce_kp", 1.750001)
    again = predict(apply(spec, choice), 0.2)
    assert (again.end, again.cost, again.iterations) == (StopReason.REACHED, choice.cost, choice.iterations)
    assert again.cost <= 39.0


def test_being_out_of_repairs_is_foreseen() -> None:
    """With the error that is left."""
    foreseen = predict(HALVING.model_copy(update={"k_max": 2}), 0.2)
    assert (foreseen.end, foreseen.errors[-1], foreseen.cost_to_reach) == (StopReason.ITERATIONS, 0.2, None)


def test_a_stall_is_foreseen() -> None:
    """A gain that is so small that it would not be worth the trouble."""
    foreseen = predict(HALVING.model_copy(update={"kp": 0.01, "delta_min": 0.01}), 0.2)
    assert (foreseen.end, foreseen.iterations) == (StopReason.STALLED, 3)


@pytest.mark.req("R312")
def test_a_floor_above_the_tolerance_is_foreseen() -> None:
    """Then repairs alone will not do."""
    noisy = predict(HALVING.model_copy(update={"sigma": 0.1}), 0.2).floor
    assert noisy is not None
    assert noisy.is_above_epsilon
    assert noisy.best_quality == pytest.approx(1 - 0.1 / 0.75**0.5, abs=1e-6)
    calm = predict(HALVING.model_copy(update={"sigma": 0.05}), 0.2).floor
    assert calm is not None
    assert not calm.is_above_epsilon
