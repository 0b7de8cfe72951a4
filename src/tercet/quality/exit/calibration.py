"""Weights out of recorded outcomes, and how well confidence keeps its word.

The weights are those that make the outcomes likeliest, held near the ones before by a penalty on the square of each change
(a Gaussian prior): with few outcomes little changes, with many the prior no longer matters, and there is always one answer.
It is found by Newton's method, in plain arithmetic and a fixed order, so the same rows give the same weights.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tercet.contracts.errors import UsageError
from tercet.contracts.outputs.exit import FEATURES, OutcomeRow, Weights
from tercet.quality.exit.confidence import DEFAULT_WEIGHTS, PLACES, estimate, sigmoid, signals

PENALTY = 1.0
BINS = 10
FOLDS = 5
LEAST_ROWS = 20
"""From fewer outcomes nothing is fitted."""
_STEPS = 100
_ENOUGH = 1e-10

Row = tuple[list[float], float]


def fit(rows: Sequence[OutcomeRow], start: Weights = DEFAULT_WEIGHTS) -> Weights:
    """Return the weights that recorded outcomes speak for; raises `UsageError` where there are too few of them."""
    if len(rows) < LEAST_ROWS:
        raise UsageError(
            f"{len(rows)} outcomes are too few to learn from",
            code="too_few_outcomes",
            remedy=f"record at least {LEAST_ROWS}; until then the weights stay as they are",
        )
    return _fitted(rows, start)


def _fitted(rows: Sequence[OutcomeRow], start: Weights) -> Weights:
    data = [_vector(row, start) for row in rows]
    prior = [start.bias, *(start.weights.get(name, 0.0) for name in FEATURES)]
    found = _newton(data, prior)
    bias, *weights = [round(value, PLACES) + 0.0 for value in found]
    return Weights(
        bias=bias,
        weights=dict(zip(FEATURES, weights, strict=True)),
        centers=start.centers,
        sample=len(rows),
    )


def _vector(row: OutcomeRow, weights: Weights) -> Row:
    known = signals(row.features, weights)
    return [1.0, *(known.get(name, 0.0) for name in FEATURES)], float(row.is_correct)


def _newton(data: Sequence[Row], prior: Sequence[float]) -> list[float]:
    current = list(prior)
    loss = _loss(data, current, prior)
    for _ in range(_STEPS):
        gradient, hessian = _slopes(data, current, prior)
        if max(map(abs, gradient)) < _ENOUGH:
            break
        step = _solve(hessian, gradient)
        size = 1.0
        while size > 1e-6:  # a full step may overshoot where the data are nearly separable
            tried = [value - size * change for value, change in zip(current, step, strict=True)]
            lower = _loss(data, tried, prior)
            if lower <= loss:
                break
            size /= 2
        else:
            break
        current, loss = tried, lower
    return current


def _loss(data: Sequence[Row], at: Sequence[float], prior: Sequence[float]) -> float:
    misfit = [_misfit(_dot(at, vector), right) for vector, right in data]
    held = [PENALTY / 2 * (value - usual) ** 2 for value, usual in zip(at, prior, strict=True)]
    return math.fsum(misfit) + math.fsum(held)


def _misfit(score: float, right: float) -> float:
    """The negative logarithm of how likely the outcome was, for any score."""
    wrong_way = -score if right else score
    return max(wrong_way, 0.0) + math.log1p(math.exp(-abs(wrong_way)))


def _dot(one: Sequence[float], other: Sequence[float]) -> float:
    return math.fsum(left * right for left, right in zip(one, other, strict=True))


def _slopes(
    data: Sequence[Row], at: Sequence[float], prior: Sequence[float]
) -> tuple[list[float], list[list[float]]]:
    size = len(at)
    gradient = [PENALTY * (value - usual) for value, usual in zip(at, prior, strict=True)]
    hessian = [[PENALTY if row == column else 0.0 for column in range(size)] for row in range(size)]
    for vector, right in data:
        chance = sigmoid(_dot(at, vector))
        spread = chance * (1.0 - chance)
        for row in range(size):
            gradient[row] += (chance - right) * vector[row]
            for column in range(row + 1):
                hessian[row][column] += spread * vector[row] * vector[column]
    for row in range(size):
        for column in range(row):
            hessian[column][row] = hessian[row][column]
    return gradient, hessian


def _solve(matrix: Sequence[Sequence[float]], right: Sequence[float]) -> list[float]:
    """Return the solution of a system of linear equations, by elimination; the penalty keeps it from being singular."""
    rows = [[*line, value] for line, value in zip(matrix, right, strict=True)]
    size = len(rows)
    for at in range(size):
        best = max(range(at, size), key=lambda row: abs(rows[row][at]))
        rows[at], rows[best] = rows[best], rows[at]
        for row in range(size):
            if row != at:
                share = rows[row][at] / rows[at][at]
                rows[row] = [value - share * other for value, other in zip(rows[row], rows[at], strict=True)]
    return [rows[at][size] / rows[at][at] for at in range(size)]


# ---- how well it keeps its word -----------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Bin:
    """Outputs of about the same confidence: how sure one was on average, and how many were right."""

    low: float
    high: float
    count: int
    confidence: float
    accuracy: float


@dataclass(frozen=True, kw_only=True)
class Reliability:
    """How well confidence keeps its word."""

    count: int
    brier: float
    """The mean square of the distance between confidence and outcome: 0 is perfect, 0.25 what a coin gets."""
    ece: float
    """The expected calibration error: how far confidence is from the share that was right, on average."""
    base_rate: float
    """The share that was right."""
    bins: tuple[Bin, ...]


def reliability(pairs: Sequence[tuple[float, bool]], bins: int = BINS) -> Reliability:
    """Return how well confidences match what happened; bins without an output are left out."""
    if not pairs:
        return Reliability(count=0, brier=0.0, ece=0.0, base_rate=0.0, bins=())
    kept = [each for index in range(bins) if (each := _bin(pairs, index, bins)) is not None]
    gaps = [each.count * abs(each.confidence - each.accuracy) for each in kept]
    return Reliability(
        count=len(pairs),
        brier=_mean([(confidence - right) ** 2 for confidence, right in pairs]),
        ece=round(math.fsum(gaps) / len(pairs), PLACES),
        base_rate=_mean([float(right) for _, right in pairs]),
        bins=tuple(kept),
    )


def _bin(pairs: Sequence[tuple[float, bool]], index: int, bins: int) -> Bin | None:
    inside = [pair for pair in pairs if min(int(pair[0] * bins), bins - 1) == index]
    if not inside:
        return None
    return Bin(
        low=round(index / bins, PLACES),
        high=round((index + 1) / bins, PLACES),
        count=len(inside),
        confidence=_mean([confidence for confidence, _ in inside]),
        accuracy=_mean([float(right) for _, right in inside]),
    )


def _mean(values: Sequence[float]) -> float:
    return round(math.fsum(values) / len(values), PLACES)


def rate(rows: Sequence[OutcomeRow], weights: Weights) -> Reliability:
    """Return how well weights do on outcomes."""
    return reliability([(estimate(row.features, weights).value, row.is_correct) for row in rows])


def cross_rate(rows: Sequence[OutcomeRow], start: Weights = DEFAULT_WEIGHTS) -> Reliability:
    """Return how well fitted weights do on outcomes that they were not fitted to: every fifth row is held out in turn."""
    pairs: list[tuple[float, bool]] = []
    for fold in range(FOLDS):
        fitted = _fitted([row for at, row in enumerate(rows) if at % FOLDS != fold], start)
        held_out = rows[fold::FOLDS]
        pairs += [(estimate(row.features, fitted).value, row.is_correct) for row in held_out]
    return reliability(pairs)
