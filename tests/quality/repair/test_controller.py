"""The controller, one measurement at a time."""

from __future__ import annotations

from itertools import accumulate, pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tercet.contracts.control import (
    ESCALATIONS,
    ControlCommand,
    ControlSpec,
    ControlState,
    Quality,
    RepairCommand,
    StopCommand,
    StopReason,
)
from tercet.quality.control import escalation_after, quality_of, step, strategy_for

PLAIN = ControlSpec(setpoint=0.9, epsilon=0.05, kp=1.0, gain=0.5)


def measure(spec: ControlSpec, *qualities: Quality) -> list[ControlCommand]:
    """The commands that follow these measurements, up to the first stop."""
    state, commands = ControlState(), list[ControlCommand]()
    for quality in qualities:
        state, command = step(spec, state, quality)
        commands.append(command)
        if isinstance(command, StopCommand):
            break
    return commands


def last_reason(spec: ControlSpec, *qualities: Quality) -> StopReason | None:
    last = measure(spec, *qualities)[-1]
    return last.reason if isinstance(last, StopCommand) else None


def intensities(spec: ControlSpec, *qualities: Quality) -> list[float]:
    return [each.intensity for each in measure(spec, *qualities) if isinstance(each, RepairCommand)]


@pytest.mark.req("R305")
def test_the_error_is_what_is_missing_to_the_setpoint() -> None:
    """The intensity follows it."""
    (command,) = measure(PLAIN, 0.5)
    assert isinstance(command, RepairCommand)
    assert (command.error, command.intensity, command.worst) == (0.4, 0.4, None)


@pytest.mark.req("R308")
def test_all_three_terms_add_up() -> None:
    """The error, the sum of all errors, and the change of the error, each times its gain."""
    spec = PLAIN.model_copy(update={"ki": 0.1, "kd": 0.5, "u_max": 10.0})
    first, second = intensities(spec, 0.5, 0.6)
    assert first == pytest.approx(0.4 + 0.1 * 0.4)
    assert second == pytest.approx(0.3 + 0.1 * 0.7 + 0.5 * -0.1)


def test_the_derivative_starts_at_zero() -> None:
    """At the first measurement there is no change, however large the error is."""
    assert intensities(PLAIN.model_copy(update={"kd": 5.0}), 0.5) == [0.4]


@pytest.mark.req("R308")
@given(
    gains=st.tuples(*[st.floats(0.0, 3.0)] * 2),
    kp=st.floats(0.01, 3.0),
    qualities=st.lists(st.floats(0.0, 0.7), min_size=1, max_size=6),
)
def test_the_law_is_the_one_of_the_textbook(
    gains: tuple[float, float], kp: float, qualities: list[float]
) -> None:
    """Written down a second time, over whole lists."""
    ki, kd = gains
    spec = ControlSpec(kp=kp, ki=ki, kd=kd, u_min=-1e6, u_max=1e6, beta=0.0, k_max=99, delta_min=0.0)
    errors = [1.0 - quality for quality in qualities]
    changes = [0.0, *(later - earlier for earlier, later in pairwise(errors))]
    expected = [
        kp * error + ki * total + kd * change
        for error, total, change in zip(errors, accumulate(errors), changes, strict=True)
    ]
    assert intensities(spec, *qualities) == pytest.approx(expected, abs=1e-4)


@pytest.mark.req("R313")
def test_the_intensity_is_clamped() -> None:
    """Between the least and the most that the pack allows."""
    spec = PLAIN.model_copy(update={"kp": 3.0, "u_min": 0.25, "u_max": 0.8})
    assert intensities(spec, 0.0, 0.84) == [0.8, 0.25]


def test_the_sum_does_not_wind_up_while_the_clamp_binds() -> None:
    """A long time at the limit leaves nothing behind that has to be worked off."""
    spec = PLAIN.model_copy(update={"kp": 1.0, "ki": 1.0, "u_max": 0.5, "delta_min": 0.0, "k_max": 20})
    state = ControlState()
    for _ in range(10):
        state, _ = step(spec, state, 0.2)
    assert state.integral == 0.0
    state, _ = step(spec, state, 0.8)
    assert state.integral == pytest.approx(0.1)


@pytest.mark.req("R306", "R313")
@pytest.mark.parametrize(
    ("changes", "qualities", "reason", "outcome"),
    [
        ({}, (0.85,), StopReason.REACHED, "commit"),
        ({}, (0.5, 0.99), StopReason.REACHED, "commit"),
        ({"k_max": 1}, (0.5, 0.6), StopReason.ITERATIONS, "fail"),
        ({"k_max": 0}, (0.5,), StopReason.ITERATIONS, "fail"),
        ({"c_max": 2.5}, (0.5, 0.6), StopReason.COST, "fail"),
        ({}, (0.5, 0.6, 0.7, 0.705), StopReason.STALLED, "escalate"),
        ({}, (0.5, 0.6, 0.7, 0.695), StopReason.STALLED, "escalate"),
        ({"sigma": 0.3}, (0.6,), StopReason.NOISE, "escalate"),
    ],
)
def test_every_reason_to_stop(
    changes: dict[str, Any], qualities: tuple[float, ...], reason: StopReason, outcome: str
) -> None:
    """Each comes at the measurement that it is due at, and not before; and says what it leads to."""
    commands = measure(PLAIN.model_copy(update=changes), *qualities)
    assert len(commands) == len(qualities)
    last = commands[-1]
    assert isinstance(last, StopCommand)
    assert (last.reason, last.outcome) == (reason, outcome)


@pytest.mark.req("R331")
def test_two_repairs_without_effect_are_no_stall_yet() -> None:
    """Only from the third repair on is a small change a reason; a pack may also ask for none."""
    assert last_reason(PLAIN, 0.5, 0.5, 0.5) is None
    assert last_reason(PLAIN, 0.5, 0.5, 0.5, 0.5) is StopReason.STALLED
    assert last_reason(PLAIN.model_copy(update={"delta_min": 0.0}), 0.5, 0.5, 0.5, 0.5) is None


def test_what_is_reached_is_reached_whatever_the_limits_say() -> None:
    """An output that is good enough is not thrown away because the last repair was the last one."""
    assert last_reason(PLAIN.model_copy(update={"k_max": 1}), 0.5, 0.9) is StopReason.REACHED


@pytest.mark.req("R312", "R331")
def test_above_the_noise_floor_repairs_go_on() -> None:
    """Only an error that noise alone would make is not worth a repair."""
    spec = PLAIN.model_copy(update={"sigma": 0.1})
    assert last_reason(spec, 0.5) is None
    assert last_reason(spec, 0.5, 0.79) is StopReason.NOISE
    assert last_reason(PLAIN.model_copy(update={"sigma": 0.01}), 0.5, 0.84) is None


@pytest.mark.req("R311")
def test_a_repair_costs_its_base_and_its_intensity() -> None:
    """The costs add up in the state."""
    spec = PLAIN.model_copy(update={"c_base": 10.0, "beta": 2.0})
    state, first = step(spec, ControlState(), 0.5)
    assert isinstance(first, RepairCommand)
    assert first.cost == pytest.approx(18.0)
    state, _ = step(spec, state, 0.7)
    assert state.cost == pytest.approx(18.0 + 14.0)


@pytest.mark.req("R306", "R311")
@pytest.mark.parametrize(("most", "is_repaired"), [(18.0, True), (17.999999, False)])
def test_all_of_the_money_may_be_spent_and_no_more(most: float, is_repaired: bool) -> None:
    """A repair that costs just what is left is made."""
    spec = PLAIN.model_copy(update={"c_base": 10.0, "beta": 2.0, "c_max": most})
    assert (last_reason(spec, 0.5) is None) == is_repaired


@pytest.mark.req("R314")
@pytest.mark.parametrize(
    ("intensity", "strategy"),
    [
        (0.0, "MINIMAL_EDIT"),
        (0.33, "MINIMAL_EDIT"),
        (0.34, "SECTION_REWRITE"),
        (0.66, "SECTION_REWRITE"),
        (0.67, "FULL_REGENERATION"),
        (5.0, "FULL_REGENERATION"),
    ],
)
def test_the_intensity_chooses_the_strategy(intensity: float, strategy: str) -> None:
    """From a minimal edit to a new beginning."""
    assert strategy_for(PLAIN, intensity) == strategy


VECTOR = ControlSpec(setpoint={"correct": 0.9, "complete": 0.8, "coherent": 0.8, "safe": 1.0}, epsilon=0.05)


@pytest.mark.req("R174", "R315")
def test_the_worst_dimension_decides() -> None:
    """Being far above one setpoint does not make up for being below another."""
    good = {"correct": 1.0, "complete": 1.0, "coherent": 1.0, "safe": 0.94}
    (command,) = measure(VECTOR, good)
    assert isinstance(command, RepairCommand)
    assert (command.worst, command.error) == ("safe", 0.06)
    assert last_reason(VECTOR, good | {"safe": 0.95}) is StopReason.REACHED


@pytest.mark.req("R174", "R315")
@given(
    st.fixed_dictionaries({name: st.floats(0.0, 1.0) for name in ("correct", "complete", "coherent", "safe")})
)
def test_it_is_reached_exactly_if_every_dimension_is(measured: dict[str, float]) -> None:
    """The largest error is compared, not a sum and not a mean."""
    setpoint: Any = VECTOR.setpoint
    is_good = all(round(setpoint[name] - round(value, 6), 6) <= 0.05 for name, value in measured.items())
    assert (last_reason(VECTOR, measured) is StopReason.REACHED) == is_good


@pytest.mark.parametrize("missing", [{}, {"correct": 1.0, "complete": 1.0, "coherent": 1.0}])
def test_a_dimension_that_was_not_measured_counts_as_zero(missing: dict[str, float]) -> None:
    """Nothing is accepted because nobody looked."""
    (command,) = measure(VECTOR, missing)
    assert (command.worst, command.error) == ("safe", 1.0)


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_what_is_no_number_counts_as_zero(number: float) -> None:
    """Also an infinitely good output is not believed."""
    (command,) = measure(PLAIN, number)
    assert command.error == 0.9


def test_one_number_and_several_meet() -> None:
    """A single number stands for every dimension; of several, the lowest stands for one setpoint."""
    assert measure(VECTOR, 0.5)[0].worst == "safe"
    assert measure(PLAIN, {"a": 0.5, "b": 0.7})[0].error == 0.4
    assert quality_of(PLAIN, 0.5) == 0.5
    assert quality_of(VECTOR, {"correct": 0.6, "complete": 1, "coherent": 1, "safe": 1}) == 0.7


@pytest.mark.req("R312")
def test_escalations_come_in_their_order() -> None:
    """The cheapest first, a person last, and after that nothing."""
    tried: list[Any] = []
    while (found := escalation_after(tried)) is not None:
        tried.append(found)
    assert tuple(tried) == ESCALATIONS
    assert tried[-1] == "ask_human"
