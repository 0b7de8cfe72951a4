"""What to expect of a controller before it starts.

Without noise the loop is a recurrence, so it is simply run: that is exact with every gain, clamp and limit. With Kp alone
and no clamp there is also a formula, which is given beside it.
"""

from __future__ import annotations

from math import ceil, log, log1p

from tercet.contracts.control import ControlPrediction, ControlSpec, Quality, StopReason, rounded
from tercet.repair.control.affordability import affordable_options, chosen
from tercet.repair.control.controller import quality_of
from tercet.repair.control.course import foresee
from tercet.repair.control.noise import noise_floor
from tercet.repair.control.stability import character_of, kp_bound


def predict(spec: ControlSpec, measured: Quality) -> ControlPrediction:
    """What the controller will do with an output of this quality, if every repair brings what is expected of it."""
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
    """The repairs by the formula, k* = ⌈ln(epsilon / e0) / ln(1 - G·Kp)⌉; None where it does not apply.

    It holds for Kp alone with 0 < G·Kp < 1, and while the clamp does not bind.
    """
    if start_error <= spec.epsilon:
        return 0
    reach = spec.gain * spec.proportional
    if spec.epsilon == 0.0 or not spec.is_proportional or reach >= 1.0 or _is_clamped(spec, start_error):
        return None
    return ceil(log(spec.epsilon / start_error) / log1p(-reach))


def closed_cost(spec: ControlSpec, start_error: float) -> float | None:
    """The cost by the formula: the base cost k* times, and beta for each unit of a geometric sum of intensities."""
    count = iterations_to_reach(spec, start_error)
    if count is None:
        return None
    covered = start_error * (1.0 - (1.0 - spec.gain * spec.proportional) ** count)
    return rounded(spec.c_base * (count + spec.beta * covered / spec.gain))


def _is_clamped(spec: ControlSpec, start_error: float) -> bool:
    """Whether the clamp changes some intensity between the first one and the last."""
    first, last = spec.proportional * start_error, spec.proportional * spec.epsilon
    return first > spec.u_max or last < spec.u_min


def _cost_to_reach(spec: ControlSpec, quality: float) -> float | None:
    course = foresee(spec.model_copy(update={"c_max": None}), quality)
    return course.cost if course.is_reached else None
