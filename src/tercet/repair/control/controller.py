"""The controller: one measurement in, one command out.

The order of the questions is fixed: near enough, out of repairs, stalled, lost in noise, too dear. Only then is there a
repair. All numbers that are kept are rounded, so a state that was stored and read again decides as the one in memory.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from math import isfinite, sqrt

from tercet.contracts.control import (
    ESCALATIONS,
    MOST,
    ControlCommand,
    ControlSpec,
    ControlState,
    Escalation,
    Quality,
    RepairCommand,
    StopCommand,
    StopReason,
    rounded,
)
from tercet.contracts.quality import RepairStrategy
from tercet.repair.control.stability import mean_square_floor

STALL_FROM = 3
"""After so many repairs an error that hardly changes counts as stalled."""


def step(spec: ControlSpec, state: ControlState, measured: Quality) -> tuple[ControlState, ControlCommand]:
    """What to do about an output of this quality, and what to remember of it.

    It is total: a dimension that was not measured, or whose number is none, counts as zero.
    """
    error, worst = _worst_error(spec, measured)
    change = 0.0 if state.last_error is None else error - state.last_error
    reason = _reason_to_stop(spec, state, error, change)
    if reason is not None:
        return _stopped(state, reason, error, worst)
    integral, intensity = steer(spec, state.integral, error, change)
    cost = rounded(spec.c_base * (1.0 + spec.beta * intensity))
    total = rounded(state.cost + cost)
    if spec.c_max is not None and total > spec.c_max:
        return _stopped(state, StopReason.COST, error, worst)
    after = ControlState(
        iteration=state.iteration + 1, integral=rounded(integral), last_error=error, cost=total
    )
    strategy = strategy_for(spec, intensity)
    return after, RepairCommand(intensity=intensity, strategy=strategy, cost=cost, error=error, worst=worst)


def steer(spec: ControlSpec, integral: float, error: float, change: float) -> tuple[float, float]:
    """The sum of errors to keep, and the intensity, clamped.

    Against wind-up: while the intensity is clamped and the error pushes it further out, the sum does not grow.
    """
    grown = integral + error
    wanted = spec.proportional * error + spec.ki * grown + spec.kd * change
    is_pushed_out = (wanted > spec.u_max and error > 0.0) or (wanted < spec.u_min and error < 0.0)
    intensity = rounded(min(max(wanted, spec.u_min), spec.u_max))
    return (integral if is_pushed_out else grown), intensity


def strategy_for(spec: ControlSpec, intensity: float) -> RepairStrategy:
    """The strategy that an intensity stands for."""
    if intensity >= spec.regenerate_from:
        return "FULL_REGENERATION"
    return "SECTION_REWRITE" if intensity >= spec.section_from else "MINIMAL_EDIT"


def quality_of(spec: ControlSpec, measured: Quality) -> float:
    """A measurement as one number: what is recorded of a repair, and what an error is counted from."""
    return rounded(spec.target - _worst_error(spec, measured)[0])


def escalation_after(tried: Collection[Escalation]) -> Escalation | None:
    """What to try next where repairing again does not help; None once a person was asked."""
    return next((each for each in ESCALATIONS if each not in tried), None)


def _reason_to_stop(spec: ControlSpec, state: ControlState, error: float, change: float) -> StopReason | None:
    if error <= spec.epsilon:
        return StopReason.REACHED
    if state.iteration >= spec.k_max:
        return StopReason.ITERATIONS
    if state.iteration >= STALL_FROM and abs(change) < spec.delta_min:
        return StopReason.STALLED
    return StopReason.NOISE if _is_lost_in_noise(spec, error) else None


def _is_lost_in_noise(spec: ControlSpec, error: float) -> bool:
    """Whether the error is no larger than noise alone would make it."""
    if spec.sigma == 0.0:
        return False
    floor = mean_square_floor(spec)
    return floor is not None and error <= sqrt(floor)


def _stopped(
    state: ControlState, reason: StopReason, error: float, worst: str | None
) -> tuple[ControlState, ControlCommand]:
    after = ControlState(
        iteration=state.iteration, integral=state.integral, last_error=error, cost=state.cost
    )
    return after, StopCommand(reason=reason, error=error, worst=worst)


def _worst_error(spec: ControlSpec, measured: Quality) -> tuple[float, str | None]:
    """The largest error and its dimension; of equal ones, the first by name."""
    if not isinstance(spec.setpoint, dict):
        given = _only(measured)
        return rounded(spec.setpoint - _number(given)), None
    values = measured if isinstance(measured, Mapping) else dict.fromkeys(spec.setpoint, measured)
    errors = {name: rounded(wanted - _number(values.get(name))) for name, wanted in spec.setpoint.items()}
    worst = min(errors, key=lambda name: (-errors[name], name))
    return errors[worst], worst


def _only(measured: Quality) -> float | None:
    """The lowest of several numbers, where the setpoint is one."""
    if isinstance(measured, Mapping):
        return min((_number(value) for value in measured.values()), default=None)
    return measured


def _number(value: float | None) -> float:
    if value is None or not isfinite(value):
        return 0.0
    return rounded(min(max(value, -MOST), MOST))
