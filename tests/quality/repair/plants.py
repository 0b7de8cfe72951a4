"""Random plants, and the runs of real controllers on them: what the tests assert and the picture in the docs shows.

A plant is y' = y + G·u + w. It is simulated here, apart from the predictions that it is to judge; the controller in the
loop is the real one. Everything is drawn from a fixed seed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import log
from random import Random
from typing import Any

from tercet.contracts.control import (
    ControlSpec,
    ControlState,
    RepairCommand,
    RepairObservation,
    StopCommand,
)
from tercet.quality.control import iterations_to_reach, mean_square_floor, steer, step

PLANTS = 10_000
SEED = 15
SETTLING = 40
"""After so many repairs the slowest error that is drawn here has forgotten how it began."""
LONG = 1_000
FORGOTTEN = 400
"""After so many repairs all but the slowest part has died away."""
FREE: dict[str, Any] = {"u_max": 1e6, "k_max": 1_000, "delta_min": 0.0}
"""No clamp, no stall, and more repairs than anybody needs."""


@dataclass(frozen=True, kw_only=True)
class Trial:
    """A controller and the quality that it begins with."""

    spec: ControlSpec
    quality: float

    @property
    def start_error(self) -> float:
        """The error that it begins with."""
        return round(self.spec.target - self.quality, 6)


@dataclass(frozen=True, kw_only=True)
class Ending:
    """How a run went."""

    repairs: tuple[RepairCommand, ...]
    stop: StopCommand
    cost: float


def lots() -> Random:
    """The same lots at every call."""
    return Random(SEED)  # noqa: S311 - no secret depends on them


def run(trial: Trial, noise: Random | None = None, *, gain: float | None = None) -> Ending:
    """The real controller on a plant; its true gain may differ from the one that the controller believes in."""
    spec, quality, state = trial.spec, trial.quality, ControlState()
    repairs: list[RepairCommand] = []
    while True:
        state, command = step(spec, state, quality)
        if isinstance(command, StopCommand):
            return Ending(repairs=tuple(repairs), stop=command, cost=state.cost)
        repairs.append(command)
        quality += (spec.gain if gain is None else gain) * command.intensity
        quality += noise.gauss(0.0, spec.sigma) if noise else 0.0


def draw_start(random: Random) -> dict[str, Any]:
    """What every trial has: where it wants to go, and what that costs."""
    return {
        "setpoint": round(random.uniform(0.8, 1.0), 6),
        "epsilon": random.uniform(0.005, 0.1),
        "gain": random.uniform(0.02, 1.0),
        "c_base": random.uniform(0.5, 50.0),
        "beta": random.uniform(0.0, 5.0),
    }


def draw_proportional(random: Random) -> Trial:
    """Kp alone, without clamp, with 0 < G·Kp < 1."""
    fields = draw_start(random)
    kp = random.uniform(0.05, 0.99) / fields["gain"]
    return Trial(spec=ControlSpec(**fields, **FREE, kp=kp), quality=round(random.uniform(0.0, 0.6), 6))


def draw_any(random: Random) -> Trial:
    """Any stable mixture of terms, with a clamp and limits of all sizes."""
    fields = draw_start(random)
    gain = fields["gain"]
    ki, kd = (
        random.choice((0.0, random.uniform(0, 0.8))) / gain,
        random.choice((0.0, random.uniform(0, 0.8))) / gain,
    )
    kp = random.uniform(0.02, 0.98) * (2.0 / gain - ki / 2.0 - 2.0 * kd)
    fields |= {"ki": ki, "kd": kd, "kp": max(kp, 1e-6)}
    fields |= {"u_min": random.choice((0.0, 0.1)), "u_max": random.choice((0.5, 1.0, 1e6))}
    fields |= {"k_max": random.randint(0, 30), "delta_min": random.choice((0.0, 0.01, 0.05))}
    fields |= {"c_max": random.choice((None, random.uniform(0.0, 200.0)))}
    return Trial(spec=ControlSpec(**fields), quality=round(random.uniform(0.0, 1.0), 6))


def draw_noisy(random: Random) -> Trial:
    """Kp alone, without clamp, damped between G·Kp = 0.4 and 1.6; it starts at its setpoint, and repairs for ever."""
    gain = random.uniform(0.02, 1.0)
    spec = ControlSpec(
        gain=gain,
        kp=random.uniform(0.4, 1.6) / gain,
        sigma=random.uniform(0.01, 0.2),
        u_min=-1e6,
        u_max=1e6,
        beta=0.0,
    )
    return Trial(spec=spec, quality=1.0)


def is_on_the_edge(trial: Trial) -> bool:
    """Whether some error comes so near to epsilon that rounding at six places decides."""
    spec = trial.spec
    ratio = 1.0 - spec.gain * spec.proportional
    exact = log(spec.epsilon / trial.start_error) / log(ratio)
    errors = [trial.start_error * ratio**count for count in (int(exact), int(exact) + 1)]
    return any(abs(error - spec.epsilon) < 1e-5 for error in errors)


def mean_square_error(spec: ControlSpec, count: int, random: Random) -> float:
    """The mean square of the error over so many repairs, after some that are not counted."""
    error = before = integral = total = 0.0
    for number in range(-SETTLING, count):
        integral, intensity = steer(spec, integral, error, error - before)
        before, error = error, error - spec.gain * intensity - random.gauss(0.0, spec.sigma)
        total += error * error if number >= 0 else 0.0
    return total / count


def growth(spec: ControlSpec) -> float:
    """By how much the logarithm of the error grows in each repair: that of the largest root's absolute value."""
    gain, kp, ki, kd = spec.gain, spec.proportional, spec.ki, spec.kd
    error, before, total = 1.0, -0.7, 0.3 if ki else 0.0
    grown = 0.0
    for number in range(LONG):
        if ki:
            total += error
        intensity = kp * error + ki * total + kd * (error - before)
        before, error = error, error - gain * intensity
        if number % 10 == 0:  # kept at a size of one, so that nothing overflows or vanishes
            size = max(abs(error), abs(before), abs(total), 1e-300)
            error, before, total = error / size, before / size, total / size
            grown += log(size) if number > FORGOTTEN else 0.0
    return grown / (LONG - FORGOTTEN)


def closed_cost(spec: ControlSpec, start_error: float) -> float | None:
    """The cost by the formula: the base cost k* times, and beta for each unit of a geometric sum of intensities."""
    count = iterations_to_reach(spec, start_error)
    if count is None:
        return None
    covered = start_error * (1.0 - (1.0 - spec.gain * spec.proportional) ** count)
    return round(spec.c_base * (count + spec.beta * covered / spec.gain), 6)


@dataclass(frozen=True, kw_only=True)
class Foreseen:
    """What the formulas said of a plant, and what happened."""

    expected: int | None
    happened: int
    expected_cost: float | None
    cost: float
    is_on_the_edge: bool


def proportional_campaign(count: int = PLANTS) -> Iterator[Foreseen]:
    """The formulas against the plants."""
    random = lots()
    for _ in range(count):
        trial = draw_proportional(random)
        ending = run(trial)
        yield Foreseen(
            expected=iterations_to_reach(trial.spec, trial.start_error),
            happened=len(ending.repairs),
            expected_cost=closed_cost(trial.spec, trial.start_error),
            cost=ending.cost,
            is_on_the_edge=is_on_the_edge(trial),
        )


@dataclass(frozen=True, kw_only=True)
class Floor:
    """The mean square error that was expected, and the one that there was."""

    reach: float
    """G·Kp."""
    expected: float
    measured: float


def noise_campaign(count: int, repairs: int) -> Iterator[Floor]:
    """The noise floor of so many plants, each over so many repairs."""
    random = lots()
    for _ in range(count):
        spec = draw_noisy(random).spec
        expected = mean_square_floor(spec)
        assert expected is not None
        measured = mean_square_error(spec, repairs, random)
        yield Floor(reach=spec.gain * spec.proportional, expected=expected, measured=measured)


def record(trial: Trial, name: str, noise: Random, *, task_class: str = "letter") -> list[RepairObservation]:
    """A run as it is recorded."""
    spec, quality, state = trial.spec, trial.quality, ControlState()
    rows: list[RepairObservation] = []
    while True:
        state, command = step(spec, state, quality)
        if isinstance(command, StopCommand):
            return rows
        after = quality + spec.gain * command.intensity + noise.gauss(0.0, spec.sigma)
        rows.append(
            RepairObservation(
                task_class=task_class,
                run=name,
                iteration=len(rows),
                intensity=command.intensity,
                before=round(quality, 6),
                after=round(after, 6),
            )
        )
        quality = after
