"""What holds of a controller whatever it is told and whatever is measured."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tercet.contracts.control import (
    ControlCommand,
    ControlSpec,
    ControlState,
    Quality,
    StopCommand,
)
from tercet.contracts.shape import as_list, as_object
from tercet.quality.control import predict, step

amounts = st.one_of(st.just(0.0), st.floats(0.0, 1e6), st.floats(0.0, 3.0))
scores = st.floats(0.0, 1.0)
names = st.sampled_from(["correct", "complete", "coherent", "safe"])
qualities: st.SearchStrategy[Quality] = st.one_of(
    scores, st.floats(), st.dictionaries(names, st.floats(), max_size=4)
)


@st.composite
def specs(draw: st.DrawFn) -> ControlSpec:
    """Any controller that a pack could declare, stable or not."""
    low, high = sorted((draw(scores), draw(amounts)))
    section, regenerate = sorted((draw(scores), draw(scores)))
    fields: dict[str, Any] = {
        "setpoint": draw(st.one_of(scores, st.dictionaries(names, scores, min_size=1))),
        "epsilon": draw(scores),
        "kp": draw(st.one_of(st.none(), st.just(1e-6), st.floats(1e-6, 1e6), st.floats(1e-3, 5.0))),
        "ki": draw(amounts),
        "kd": draw(amounts),
        "gain": draw(st.floats(1e-3, 1.0)),
        "sigma": draw(st.one_of(st.just(0.0), scores)),
        "u_min": low,
        "u_max": high,
        "section_from": section,
        "regenerate_from": regenerate,
        "k_max": draw(st.integers(0, 12)),
        "c_base": draw(amounts),
        "beta": draw(amounts),
        "c_max": draw(st.one_of(st.none(), amounts)),
        "delta_min": draw(scores),
        "on_over_cost": draw(st.sampled_from(["fail", "relax_epsilon", "reduce_kp"])),
        "epsilon_max": draw(st.one_of(st.none(), scores)),
    }
    return ControlSpec(**fields)


def numbers(value: Any) -> list[float]:
    """Every float in a dumped shape."""
    if isinstance(value, float):
        return [value]
    inner = [*(as_object(value) or {}).values(), *(as_list(value) or [])]
    return [number for each in inner for number in numbers(each)]


def play(spec: ControlSpec, measured: list[Quality], *, is_stored: bool) -> list[ControlCommand]:
    """The commands for these measurements; between two of them the state may be written down and read again."""
    state, commands = ControlState(), list[ControlCommand]()
    for quality in measured:
        state, command = step(spec, state, quality)
        commands.append(command)
        if is_stored:
            state = ControlState.model_validate_json(state.model_dump_json())
        if isinstance(command, StopCommand):
            break
    return commands


@given(specs(), st.lists(qualities, min_size=1, max_size=15))
def test_the_controller_is_total_and_keeps_its_bounds(spec: ControlSpec, measured: list[Quality]) -> None:
    """Any measurements give commands; there are never more repairs than allowed, nor do they cost more."""
    state, repairs = ControlState(), 0
    for quality in measured:
        state, command = step(spec, state, quality)
        if isinstance(command, StopCommand):
            break
        repairs += 1
        assert state.iteration == repairs <= spec.k_max
        assert spec.c_max is None or state.cost <= spec.c_max
        assert spec.u_min - 1e-6 <= command.intensity <= spec.u_max + 1e-6
        assert command.cost >= 0.0
    assert len(measured) <= spec.k_max or repairs <= spec.k_max


@given(specs(), st.lists(qualities, min_size=1, max_size=8))
def test_a_stored_state_decides_as_the_one_in_memory(spec: ControlSpec, measured: list[Quality]) -> None:
    """So a loop that is resumed goes on as if nothing had happened."""
    assert play(spec, measured, is_stored=True) == play(spec, measured, is_stored=False)


@given(specs(), qualities)
def test_what_is_stored_is_rounded(spec: ControlSpec, quality: Quality) -> None:
    """Six places, and no negative zero, in states, commands and predictions."""
    state, command = step(spec, ControlState(), quality)
    for shape in (state, command, predict(spec, quality)):
        dumped = json.loads(shape.model_dump_json())
        assert all(number == round(number, 6) for number in numbers(dumped))
        assert "-0.0" not in json.dumps([number for number in numbers(dumped) if number == 0.0])


@given(specs(), qualities)
def test_predictions_are_total_and_keep_the_bounds(spec: ControlSpec, quality: Quality) -> None:
    """Whatever is foreseen could happen under the limits, and so could what is proposed instead."""
    foreseen = predict(spec, quality)
    assert foreseen == predict(spec, quality)
    assert foreseen.iterations == len(foreseen.errors) - 1 <= spec.k_max
    for option in foreseen.options:
        assert spec.c_max is not None
        assert option.cost is None or option.cost <= spec.c_max
        assert option.iterations is None or option.iterations <= spec.k_max
        assert option.kp is None or option.kp < spec.proportional
        assert option.epsilon is None or option.epsilon <= (spec.epsilon_max or 0.0)
    assert bool(foreseen.options) == (foreseen.end == "cost_budget_exceeded")
