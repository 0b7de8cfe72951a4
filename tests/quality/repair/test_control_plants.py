"""The controller and its predictions against 10,000 random plants of each kind."""

from __future__ import annotations

import pytest

from tercet.contracts.control import StopReason
from tercet.quality.control import mean_square_floor, predict

from .plants import (
    PLANTS,
    Floor,
    Trial,
    draw_any,
    draw_noisy,
    draw_proportional,
    lots,
    mean_square_error,
    noise_campaign,
    proportional_campaign,
    run,
)


@pytest.mark.req("R307", "R310", "R311")
def test_the_formulas_are_exact_without_noise() -> None:
    """Kp alone, no clamp, 0 < G·Kp < 1: the repairs to the last one, and the cost within one per cent.

    Where an error comes within a hundred-thousandth of epsilon, rounding decides and may take one repair more or less.
    """
    seen = list(proportional_campaign())
    edges = [each for each in seen if each.is_on_the_edge]
    clear = [each for each in seen if not each.is_on_the_edge]
    assert len(seen) == PLANTS
    assert len(edges) < 50
    assert [(each.expected, each.happened) for each in clear if each.expected != each.happened] == []
    assert all(each.expected is not None and abs(each.expected - each.happened) <= 1 for each in edges)
    assert all(each.cost == pytest.approx(each.expected_cost, rel=0.01) for each in clear)
    assert max(each.happened for each in seen) > 50


@pytest.mark.slow
@pytest.mark.req("R310", "R313")
def test_predictions_are_exact_without_noise() -> None:
    """With any terms, clamps and limits: the same repairs, the same end, the same cost, the same errors."""
    random, ends = lots(), set[StopReason]()
    for number in range(PLANTS):
        trial = draw_any(random) if number % 4 else draw_proportional(random)
        ending, foreseen = run(trial), predict(trial.spec, trial.quality)
        assert (foreseen.iterations, foreseen.end) == (len(ending.repairs), ending.stop.reason)
        assert foreseen.cost == ending.cost
        assert foreseen.errors == (*(repair.error for repair in ending.repairs), ending.stop.error)
        ends.add(foreseen.end)
    assert ends == set(StopReason) - {StopReason.NOISE}


@pytest.mark.slow
@pytest.mark.req("R306")
def test_every_run_ends_within_its_bounds() -> None:
    """With noise, and with a plant that is other than the controller believes, also an unstable one."""
    random, ends = lots(), set[StopReason]()
    for _ in range(PLANTS):
        drawn = draw_any(random)
        spec = drawn.spec.model_copy(update={"sigma": random.choice((0.0, 0.02, 0.2))})
        ending = run(Trial(spec=spec, quality=drawn.quality), random, gain=random.uniform(-0.5, 3.0))
        assert len(ending.repairs) <= spec.k_max
        assert spec.c_max is None or ending.cost <= spec.c_max
        assert all(spec.u_min - 1e-6 <= repair.intensity <= spec.u_max + 1e-6 for repair in ending.repairs)
        ends.add(ending.stop.reason)
    assert ends == set(StopReason)


def ratio(floors: list[Floor]) -> float:
    return sum(floor.measured / floor.expected for floor in floors) / len(floors)


@pytest.mark.slow
@pytest.mark.req("R312")
def test_noise_keeps_up_the_error_that_is_foreseen() -> None:
    """Over 10,000 plants of 60 repairs each, 600,000 in all: within five per cent, in every tenth by G·Kp.

    The mean of a tenth has a standard error of about half a per cent.
    """
    floors = sorted(noise_campaign(PLANTS, 60), key=lambda floor: floor.reach)
    assert ratio(floors) == pytest.approx(1.0, abs=0.05)
    tenths = [floors[start : start + PLANTS // 10] for start in range(0, PLANTS, PLANTS // 10)]
    assert [ratio(tenth) for tenth in tenths] == pytest.approx([1.0] * 10, abs=0.05)


@pytest.mark.req("R312")
def test_the_noise_floor_holds_for_single_plants() -> None:
    """Each of 25 plants by itself, over 40,000 repairs: within five per cent, at a standard error of about one."""
    floors = list(noise_campaign(25, 40_000))
    assert [floor.measured / floor.expected for floor in floors] == pytest.approx([1.0] * 25, abs=0.05)


@pytest.mark.parametrize(("i", "d"), [(0.3, 0.0), (0.0, 0.3), (0.2, 0.2), (0.5, 0.4)])
def test_the_noise_floor_holds_with_all_terms(i: float, d: float) -> None:
    """The sum that the Jury table gives is the one that 100,000 repairs show."""
    spec = draw_noisy(lots()).spec
    mixed = spec.model_copy(update={"ki": i / spec.gain, "kd": d / spec.gain, "kp": 0.6 / spec.gain})
    assert mean_square_error(mixed, 100_000, lots()) == pytest.approx(mean_square_floor(mixed), rel=0.05)
