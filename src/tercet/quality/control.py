"""The controller of the quality loop: how hard to repair, when to stop, and what to expect of it.

`step` decides after each measurement, `predict` says beforehand how that will go, `estimate` learns the repair gain and
its noise from recorded repairs, and `is_stable` and `kp_bound` say which gains a pack may declare.

The order of the questions is fixed: near enough, out of repairs, stalled, lost in noise, too dear. Only then is there a
repair. All numbers that are kept are rounded, so a state that was stored and read again decides as the one in memory.

Which gains are stable.

Without clamp and noise the error obeys e' = e - G·u, and u = Kp·e + Ki·Σe + Kd·(e - e_before). Taking the difference of
two such lines removes the sum, and leaves a recurrence whose characteristic polynomial is

    z³ + (p + i + d - 2)·z² + (1 - p - 2d)·z + d        with p = G·Kp, i = G·Ki, d = G·Kd.

Where there is no integral term, that difference has brought in a root at 1 which the loop does not have; it is divided
out. The error dies away exactly if all roots lie inside the unit circle, which the Jury test says without finding them.
It is done with fractions: small gains put roots so near to the circle that floats would decide by their rounding.

The noise floor: how large an error noise alone keeps up.

Noise w disturbs the error once in every repair, and the loop answers each disturbance with the same errors h, so that
the expected square of the error is sigma² times the sum of h². With Kp alone h is geometric and the sum is
1 / (1 - (1 - G·Kp)²). In general h is the impulse response of N(z)/A(z), with A the characteristic polynomial; the sum of
its squares follows from the table of the Jury test without simulating anything (K. J. Åström, 1970).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from math import ceil, fsum, isfinite, log, log1p, sqrt
from typing import Any, NamedTuple

from tercet.contracts.control import (
    ESCALATIONS,
    MOST,
    PLACES,
    Character,
    ControlCommand,
    ControlPrediction,
    ControlSpec,
    ControlState,
    CostOption,
    Escalation,
    GainEstimate,
    NoiseFloor,
    Quality,
    RepairCommand,
    RepairObservation,
    StopCommand,
    StopReason,
    rounded,
)
from tercet.contracts.outputs.quality import RepairStrategy
from tercet.contracts.shape import JsonObject

_WATCHED = 100
"""For how many repairs a stable loop is watched for a change of sign."""
_GONE = 1e-3
"""An error that is smaller than this part of the first one is not looked at."""


class Gains(NamedTuple):
    """The four numbers that stability and noise depend on."""

    gain: float
    kp: float
    ki: float
    kd: float

    @classmethod
    def of(cls, spec: ControlSpec) -> Gains:
        """Return those of a controller."""
        return cls(spec.gain, spec.proportional, spec.ki, spec.kd)


def characteristic(gains: Gains) -> tuple[Fraction, ...]:
    """Return the coefficients of the loop's characteristic polynomial, the highest power first."""
    gain, one = Fraction(gains.gain), Fraction(1)
    p, i, d = gain * Fraction(gains.kp), gain * Fraction(gains.ki), gain * Fraction(gains.kd)
    if i == 0:
        return (one, p - 1) if d == 0 else (one, p + d - 1, -d)
    return (one, p + i + d - 2, 1 - p - 2 * d, d)


def passes_jury(polynomial: Sequence[Fraction]) -> bool:
    """Return whether all roots lie inside the unit circle: each row of the Jury table is led by its larger end."""
    row = list(polynomial)
    while len(row) > 1:
        first, last = row[0], row[-1]
        if abs(last) >= abs(first):
            return False
        mirrored = row[::-1]
        row = [first * own - last * other for own, other in zip(row[:-1], mirrored[:-1], strict=True)]
    return True


def is_stable(spec: ControlSpec) -> bool:
    """Return whether the error dies away, whatever it is at first."""
    return _is_stable(Gains.of(spec))


@lru_cache(maxsize=256)  # exact fractions take a while, and a loop asks again after every repair
def _is_stable(gains: Gains) -> bool:
    return passes_jury(characteristic(gains))


def kp_bound(spec: ControlSpec) -> float:
    """Return the upper limit of stable Kp values above zero, with the other gains as they are; zero or less if none is.

    It is what the Jury test demands of p where i and d are not negative: p < 2 - i/2 - 2d, which leaves no p above zero unless d < 1.
    """
    return 2.0 / spec.gain - spec.ki / 2.0 - 2.0 * spec.kd


def character_of(spec: ControlSpec) -> Character:
    """Return how the error will move, as far as that is known before a measurement.

    With Kp alone it goes to and fro above 1/G. With an integral term every loop passes the setpoint once, so there it
    is called oscillating only if it comes back and passes again.
    """
    if not is_stable(spec):
        return "unstable"
    if spec.is_proportional:
        return "oscillating" if spec.gain * spec.proportional > 1.0 else "monotone"
    seen = [error > 0.0 for error in _linear_errors(spec) if abs(error) > _GONE]
    turns = sum(one != other for one, other in pairwise(seen))
    return "oscillating" if turns > 1 else "monotone"


def _linear_errors(spec: ControlSpec) -> Iterator[float]:
    """Yield the errors that follow an error of one, without clamp and noise."""
    gain, kp, ki, kd = spec.gain, spec.proportional, spec.ki, spec.kd
    error, before, integral = 1.0, 1.0, 0.0
    for _ in range(_WATCHED):
        yield error
        integral += error
        intensity = kp * error + ki * integral + kd * (error - before)
        before, error = error, error - gain * intensity


def mean_square_floor(spec: ControlSpec) -> float | None:
    """Return the expected square of the error after many repairs, without the clamp; None for a loop that is not stable."""
    if not is_stable(spec):
        return None
    return spec.sigma**2 * _amplification(Gains.of(spec)) if spec.sigma else 0.0


@lru_cache(maxsize=256)
def _amplification(gains: Gains) -> float:
    """Return how much larger the mean square of the error is than that of the noise, in a loop that is stable."""
    polynomial = characteristic(gains)
    # An integral term forgets a lasting error, which is what the root of the numerator at 1 says.
    numerator = (1, -1, 0, 0) if gains.ki else (1, *[0] * (len(polynomial) - 1))
    return float(_energy([Fraction(each) for each in numerator], polynomial))


def noise_floor(spec: ControlSpec) -> NoiseFloor | None:
    """Return how near noise lets the quality come to the setpoint; None for a loop that is not stable."""
    square = mean_square_floor(spec)
    if square is None:
        return None
    root = sqrt(square)
    return NoiseFloor(
        mean_square=rounded(square),
        best_quality=rounded(spec.target - root),
        is_above_epsilon=root > spec.epsilon,
    )


def _energy(numerator: Sequence[Fraction], denominator: Sequence[Fraction]) -> Fraction:
    """Return the sum of the squares of the impulse response of a stable fraction of polynomials in z."""
    over, under = list(numerator), list(denominator)
    total = Fraction(0)
    while under:
        total += over[-1] ** 2 / under[0]
        alpha, beta = under[-1] / under[0], over[-1] / under[0]
        mirrored = under[::-1]
        over = [own - beta * other for own, other in zip(over[:-1], mirrored[:-1], strict=True)]
        under = [own - alpha * other for own, other in zip(under[:-1], mirrored[:-1], strict=True)]
    return total / denominator[0]


STALL_FROM = 3
"""After so many repairs an error that hardly changes counts as stalled."""


def step(spec: ControlSpec, state: ControlState, measured: Quality) -> tuple[ControlState, ControlCommand]:
    """Return what to do about an output of this quality, and what to remember of it.

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
    """Return the sum of errors to keep, and the intensity, clamped.

    Against wind-up: while the intensity is clamped and the error pushes it further out, the sum does not grow.
    """
    grown = integral + error
    wanted = spec.proportional * error + spec.ki * grown + spec.kd * change
    is_pushed_out = (wanted > spec.u_max and error > 0.0) or (wanted < spec.u_min and error < 0.0)
    intensity = rounded(min(max(wanted, spec.u_min), spec.u_max))
    return (integral if is_pushed_out else grown), intensity


def strategy_for(spec: ControlSpec, intensity: float) -> RepairStrategy:
    """Return the strategy that an intensity stands for."""
    if intensity >= spec.regenerate_from:
        return "FULL_REGENERATION"
    return "SECTION_REWRITE" if intensity >= spec.section_from else "MINIMAL_EDIT"


def quality_of(spec: ControlSpec, measured: Quality) -> float:
    """Return a measurement as one number: what is recorded of a repair, and what an error is counted from."""
    return rounded(spec.target - _worst_error(spec, measured)[0])


def escalation_after(tried: Collection[Escalation]) -> Escalation | None:
    """Return what to try next where repairing again does not help; None once a person was asked."""
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
    """Return whether noise alone could make an error of this size."""
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
    """Return the largest error and its dimension; of equal ones, the first by name."""
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


# ---- what to expect ----


class Course(NamedTuple):
    """Every error until the end, what the end was, and what the repairs cost."""

    errors: tuple[float, ...]
    end: StopReason
    cost: float


def foresee(spec: ControlSpec, quality: float) -> Course:
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
            return Course(tuple(errors), command.reason, state.cost)
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
    if course.end is StopReason.REACHED:
        yield option.model_copy(update={"iterations": len(course.errors) - 1, "cost": course.cost})


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
        iterations=len(course.errors) - 1,
        cost=course.cost,
        errors=course.errors,
        k_star=iterations_to_reach(spec, start_error),
        cost_to_reach=_cost_to_reach(spec, quality),
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


def _is_clamped(spec: ControlSpec, start_error: float) -> bool:
    """Return whether the clamp changes some intensity between the first one and the last."""
    first, last = spec.proportional * start_error, spec.proportional * spec.epsilon
    return first > spec.u_max or last < spec.u_min


def _cost_to_reach(spec: ControlSpec, quality: float) -> float | None:
    course = foresee(spec.model_copy(update={"c_max": None}), quality)
    return course.cost if course.end is StopReason.REACHED else None


# ---- what was recorded ----


LEAST_SAMPLE = 8
"""With fewer repairs than this a pack's own numbers are the better guess."""
LEAST_GAIN = 0.01
MOST_GAIN = 1.0
_TWO_SIDED = 1.959963984540054
"""The 97.5 per cent point of the normal distribution."""


def estimate(rows: Iterable[RepairObservation]) -> GainEstimate | None:
    """Return what these repairs say, with a confidence interval of 95 per cent; None if there are too few of them.

    Repairs without intensity say nothing about a gain, and neither do those that rules made alone, which are the same at
    every intensity: both are left out.
    """
    steered = (row for row in rows if row.intensity > 0.0 and row.means == "model")
    pairs = [(row.intensity, row.after - row.before) for row in steered]
    if len(pairs) < LEAST_SAMPLE:
        return None
    square = fsum(u * u for u, _ in pairs)
    if square <= 0.0:  # so small that their squares are nothing
        return None
    slope = fsum(u * rise for u, rise in pairs) / square
    freedom = len(pairs) - 1
    sigma = sqrt(fsum((rise - slope * u) ** 2 for u, rise in pairs) / freedom)
    spread = _quantile(freedom) * sigma / sqrt(square)
    gain = _bounded(slope)
    return GainEstimate(
        sample=len(pairs),
        gain=rounded(gain),
        low=rounded(_bounded(slope - spread)),
        high=rounded(_bounded(slope + spread)),
        sigma=rounded(sigma),
        is_at_bound=gain != slope,
    )


def _bounded(slope: float) -> float:
    return min(max(slope, LEAST_GAIN), MOST_GAIN)


def _quantile(freedom: int) -> float:
    """Return the 97.5 per cent point of Student's t, from that of the normal distribution by its usual expansion."""
    z = _TWO_SIDED
    first = (z**3 + z) / 4.0
    second = (5.0 * z**5 + 16.0 * z**3 + 3.0 * z) / 96.0
    third = (3.0 * z**7 + 19.0 * z**5 + 17.0 * z**3 - 15.0 * z) / 384.0
    return z + first / freedom + second / freedom**2 + third / freedom**3


def trajectories(rows: Iterable[RepairObservation]) -> Mapping[str, tuple[float, ...]]:
    """Return the qualities of each output, from before its first repair to after its last one, by its name."""
    runs: dict[str, list[RepairObservation]] = {}
    for row in rows:
        runs.setdefault(row.run, []).append(row)
    return {name: _qualities(sorted(runs[name], key=lambda row: row.iteration)) for name in sorted(runs)}


def mean_course(courses: Iterable[Sequence[float]]) -> tuple[float, ...]:
    """Return the mean quality after each repair; an output that needed no more keeps the quality that it had.

    Otherwise the last means would be those of the hardest outputs alone.
    """
    given = [course for course in courses if course]
    longest = max(map(len, given), default=0)
    return tuple(
        rounded(fsum(course[min(number, len(course) - 1)] for course in given) / len(given))
        for number in range(longest)
    )


def _qualities(rows: Sequence[RepairObservation]) -> tuple[float, ...]:
    return (rows[0].before, *(row.after for row in rows))


# ---- one step of a loop ----


def steer_on(
    spec: ControlSpec,
    measured: Quality,
    before: Mapping[str, Any],
    *,
    can_repair: bool,
    helpers: Collection[Escalation] = (),
) -> JsonObject:
    """Return what is remembered after a measurement: the quality, what was foreseen, and the command, where there can be one.

    `before` is what was remembered of the one before it; nothing at the first one. Where repairing again does not help,
    the next of the `helpers` that there are is named, and remembered as tried.
    """
    foreseen = ControlPrediction.model_validate(before["prediction"]) if before else predict(spec, measured)
    state = ControlState.model_validate(before.get("state") or {})
    said: JsonObject = {
        "quality": quality_of(spec, measured),
        "prediction": foreseen.model_dump(mode="json"),
        "state": state.model_dump(mode="json"),
    }
    if not can_repair:
        return said
    choice = foreseen.choice
    if choice is not None and choice.kind == "fail":
        refused = StopCommand(reason=StopReason.COST, error=foreseen.start_error)
        return {**said, "command": refused.model_dump(mode="json")}
    state, command = step(spec if choice is None else apply(spec, choice), state, measured)
    said |= {"state": state.model_dump(mode="json"), "command": command.model_dump(mode="json")}
    if isinstance(command, StopCommand) and command.outcome == "escalate":
        tried: list[Escalation] = before.get("tried", [])
        beyond: set[Escalation] = {each for each in ESCALATIONS if each in tried or each not in helpers}
        helper = escalation_after(beyond)
        return {**said, "helper": helper, "tried": [*tried, *([helper] if helper else [])]}
    return {**said, "tried": before["tried"]} if "tried" in before else said
