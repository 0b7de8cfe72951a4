"""The noise floor: how large an error noise alone keeps up.

Noise w disturbs the error once in every repair, and the loop answers each disturbance with the same errors h, so that
the expected square of the error is sigma² times the sum of h². With Kp alone h is geometric and the sum is
1 / (1 - (1 - G·Kp)²). In general h is the impulse response of N(z)/A(z), with A the characteristic polynomial; the sum of
its squares follows from the table of the Jury test without simulating anything (K. J. Åström, 1970).
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from math import sqrt

from tercet.contracts.control import ControlSpec, NoiseFloor, rounded
from tercet.repair.control.stability import Gains, characteristic, is_stable


def mean_square_floor(spec: ControlSpec) -> float | None:
    """The expected square of the error after many repairs, without the clamp; None for a loop that is not stable."""
    if not is_stable(spec):
        return None
    return spec.sigma**2 * _amplification(Gains.of(spec)) if spec.sigma else 0.0


@lru_cache(maxsize=256)
def _amplification(gains: Gains) -> float:
    """How much larger the mean square of the error is than that of the noise, in a loop that is stable."""
    polynomial = characteristic(gains)
    # An integral term forgets a lasting error, which is what the root of the numerator at 1 says.
    numerator = (1, -1, 0, 0) if gains.ki else (1, *[0] * (len(polynomial) - 1))
    return float(_energy([Fraction(each) for each in numerator], polynomial))


def noise_floor(spec: ControlSpec) -> NoiseFloor | None:
    """How near noise lets the quality come to the setpoint; None for a loop that is not stable."""
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
    """The sum of the squares of the impulse response of a stable fraction of polynomials in z."""
    over, under = list(numerator), list(denominator)
    total = Fraction(0)
    while under:
        total += over[-1] ** 2 / under[0]
        alpha, beta = under[-1] / under[0], over[-1] / under[0]
        mirrored = under[::-1]
        over = [own - beta * other for own, other in zip(over[:-1], mirrored[:-1], strict=True)]
        under = [own - alpha * other for own, other in zip(under[:-1], mirrored[:-1], strict=True)]
    return total / denominator[0]
