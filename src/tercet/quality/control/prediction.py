"""What to expect of a controller before it starts.

Without noise the loop is a recurrence, so it is simply run: that is exact with every gain, clamp and limit. With Kp alone
and no clamp there is also a formula, which is given beside it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil, log, log1p

from tercet.contracts.control import (
    PLACES,
    ControlPrediction,
    ControlSpec,
    ControlState,
    CostOption,
    Quality,
    StopCommand,
    StopReason,
    rounded,
)
from tercet.quality.control.controller import character_of, kp_bound, noise_floor, quality_of, step


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """Every error until the end, and what the end was."""

    errors: tuple[float, ...]
    end: StopReason
    cost: float

    @property
    def iterations(self) -> int:
        """The repairs."""
        return len(self.errors) - 1

    @property
    def is_reached(self) -> bool:
        """Whether the output came near enough to its setpoint."""
        return self.end is StopReason.REACHED


def foresee(spec: ControlSpec, quality: float) -> Forecast:
    """Return what the controller does with an output of this quality if every repair brings just what is expected of it.

    A prediction is about one number, so the setpoint counts as one, and noise is left out: also from the decision to
    stop because of it.
    """
    plain = spec.model_copy(update={"setpoint": spec.target, "sigma": 0.0})
    state, errors = ControlState(), list[float]()
    # It ends: every turn but the last is a repair, and there are at most `k_max` of them.
    while True:
        state, command = step(plain, state, quality)
        errors.append(command.error)
        if isinstance(command, StopCommand):
            return Forecast(errors=tuple(errors), end=command.reason, cost=state.cost)
        quality += spec.gain * command.intensity


def affordable_options(spec: ControlSpec, quality: float) -> tuple[CostOption, ...]:
    """Everything that would help, and to fail, which always can be done."""
    return (*_relaxed(spec, quality), *_gentler(spec, quality), CostOption(kind="fail"))


def chosen(spec: ControlSpec, options: Sequence[CostOption]) -> CostOption:
    """Return what the pack asks for; the last option, which is to fail, where that does not help."""
    return next((option for option in options if option.kind == spec.on_over_cost), options[-1])


def apply(spec: ControlSpec, option: CostOption) -> ControlSpec:
    """Return the controller as an option changes it."""
    changed = {"epsilon": option.epsilon, "kp": option.kp}
    return spec.model_copy(update={name: value for name, value in changed.items() if value is not None})


def _relaxed(spec: ControlSpec, quality: float) -> Iterator[CostOption]:
    """The smallest tolerance that can be paid for, if the pack allows one so large."""
    nearest = min(foresee(spec, quality).errors)
    if spec.epsilon_max is not None and spec.epsilon < nearest <= spec.epsilon_max:
        yield from _working(spec, CostOption(kind="relax_epsilon", epsilon=nearest), quality)


def _gentler(spec: ControlSpec, quality: float) -> Iterator[CostOption]:
    """The largest smaller Kp that can be paid for.

    Repairs that go further than they need are what a smaller Kp saves. So the candidates are those that come out just
    at the tolerance, after one repair, after two, and so on.
    """
    error = spec.target - quality
    for count in range(1, spec.k_max + 1):
        shrinkage = (spec.epsilon / error) ** (1.0 / count)
        kp = _rounded_up((1.0 - shrinkage) / spec.gain)
        option = CostOption(kind="reduce_kp", kp=kp)
        found = next(_working(spec, option, quality), None) if kp < spec.proportional else None
        if found is not None:
            yield found
            return


def _working(spec: ControlSpec, option: CostOption, quality: float) -> Iterator[CostOption]:
    """The option with what it costs, if it does help."""
    course = foresee(apply(spec, option), quality)
    if course.is_reached:
        yield option.model_copy(update={"iterations": course.iterations, "cost": course.cost})


def _rounded_up(value: float) -> float:
    scale = 10**PLACES
    return rounded(ceil(value * scale + 1.0) / scale)


def predict(spec: ControlSpec, measured: Quality) -> ControlPrediction:
    """Return what the controller will do with an output of this quality, if every repair brings what is expected of it."""
    quality = quality_of(spec, measured)
    course = foresee(spec, quality)
    start_error = course.errors[0]
    is_too_dear = course.end is StopReason.COST
    options = affordable_options(spec, quality) if is_too_dear else ()
    return ControlPrediction(
        start_error=start_error,
        kp=rounded(spec.proportional),
        kp_bound=rounded(kp_bound(spec)),
        character=character_of(spec),
        end=course.end,
        iterations=course.iterations,
        cost=course.cost,
        errors=course.errors,
        k_star=iterations_to_reach(spec, start_error),
        cost_to_reach=_cost_to_reach(spec, quality)
        if is_too_dear
        else course.cost
        if course.is_reached
        else None,
        floor=noise_floor(spec),
        options=options,
        choice=chosen(spec, options) if options else None,
    )


def iterations_to_reach(spec: ControlSpec, start_error: float) -> int | None:
    """Return the repairs by the formula, k* = ⌈ln(epsilon / e0) / ln(1 - G·Kp)⌉; None if it does not apply.

    It holds for Kp alone with 0 < G·Kp < 1, and while the clamp does not bind.
    """
    if start_error <= spec.epsilon:
        return 0
    reach = spec.gain * spec.proportional
    if spec.epsilon == 0.0 or not spec.is_proportional or reach >= 1.0 or _is_clamped(spec, start_error):
        return None
    return ceil(log(spec.epsilon / start_error) / log1p(-reach))


def closed_cost(spec: ControlSpec, start_error: float) -> float | None:
    """Return the cost by the formula: the base cost k* times, and beta for each unit of a geometric sum of intensities."""
    count = iterations_to_reach(spec, start_error)
    if count is None:
        return None
    covered = start_error * (1.0 - (1.0 - spec.gain * spec.proportional) ** count)
    return rounded(spec.c_base * (count + spec.beta * covered / spec.gain))


def _is_clamped(spec: ControlSpec, start_error: float) -> bool:
    """Return whether the clamp changes some intensity between the first one and the last."""
    first, last = spec.proportional * start_error, spec.proportional * spec.epsilon
    return first > spec.u_max or last < spec.u_min


def _cost_to_reach(spec: ControlSpec, quality: float) -> float | None:
    course = foresee(spec.model_copy(update={"c_max": None}), quality)
    return course.cost if course.is_reached else None
