"""The exit of a quality loop: whether a run may commit its outputs, repair them again, escalate, or fail.

A commit needs the floors of `score`, every threshold that the decision enables, and that nothing else speaks against it: a
broken schema, a rubric that is not met, a test that fails. A threshold that was not measured is missed.
Confidence, a logistic model over what was measured, decides where the output goes after that, if the decision names bands. A
person is asked only under one of seven conditions. A person's answer takes precedence, except that an approval does not
override a missed threshold.

Weights are learned from recorded outcomes: those that make the outcomes likeliest, held near the ones before by a penalty on
the square of each change (a Gaussian prior). With few outcomes little changes, with many the prior no longer matters, and
there is always one answer. It is found by Newton's method, in plain arithmetic and a fixed order, so the same rows give the
same weights.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from tercet.contracts.decision import ConfidenceBands, Threshold
from tercet.contracts.errors import UsageError
from tercet.contracts.outputs.exit import (
    BIAS,
    FEATURES,
    Confidence,
    Disposition,
    ExitDecision,
    ExitOutcome,
    FeatureName,
    HumanTrigger,
    Novelty,
    OutcomeRow,
    ThresholdResult,
    Weights,
)

PLACES = 6
MOST_REPAIRS = 20.0
LEAST_LOGPROB = -10.0

DEFAULT_WEIGHTS = Weights(
    bias=1.0,
    weights={
        "verify": 3.0, "consistency": 2.0, "evidence": 2.0, "repairs": -0.5, "logprob": 0.5, "critic": 3.0, "tests": 3.0,
    },
    centers={
        "verify": 0.7, "consistency": 0.7, "evidence": 0.7, "repairs": 0.0, "logprob": -0.5, "critic": 0.7, "tests": 0.9,
    },
)  # fmt: skip
"""Weights before anything is recorded.

An output that verification, evidence and critic find without fault, at the first go, comes to 0.97 and commits by itself;
at 0.85, 0.8 and 0.8 it comes to 0.88 and asks a person; at one half each it comes to 0.35.
"""


def estimate(features: Mapping[FeatureName, float], weights: Weights = DEFAULT_WEIGHTS) -> Confidence:
    """Return the confidence in an output, with what each feature added; one that was not measured adds nothing."""
    parts: dict[str, float] = {BIAS: round(weights.bias, PLACES)}
    for name, value in signals(features, weights).items():
        parts[name] = round(weights.weights.get(name, 0.0) * value, PLACES) + 0.0
    return Confidence(
        value=round(sigmoid(math.fsum(parts.values())), PLACES),
        parts=parts,
        missing=tuple(name for name in FEATURES if name not in features),
        sample=weights.sample,
    )


def signals(features: Mapping[FeatureName, float], weights: Weights) -> dict[FeatureName, float]:
    """Return each feature as its distance from the value at which it says nothing, in a fixed order."""
    return {
        name: _bounded(name, features[name]) - weights.centers.get(name, 0.0)
        for name in FEATURES
        if name in features
    }


def _bounded(name: FeatureName, value: float) -> float:
    if name == "repairs":
        return min(max(value, 0.0), MOST_REPAIRS)
    low, high = (LEAST_LOGPROB, 0.0) if name == "logprob" else (0.0, 1.0)
    return min(max(value, low), high)


def sigmoid(value: float) -> float:
    """Return the logistic function, for any number."""
    if value >= 0:
        return 1.0 / (1.0 + math.exp(-min(value, 700.0)))
    grown = math.exp(max(value, -700.0))
    return grown / (1.0 + grown)


TRIGGERS: dict[HumanTrigger, str] = {
    HumanTrigger.LOW_CONFIDENCE: "confidence is too low to commit without asking",
    HumanTrigger.IRREVERSIBLE: "it leads to something that cannot be taken back",
    HumanTrigger.REQUIRED: "the decision wants a person to accept it",
    HumanTrigger.NOVEL: "nothing like it was run before",
    HumanTrigger.PARTIAL: "it is only a part of what was asked for",
    HumanTrigger.UNSAFE: "safety is below its limit",
    HumanTrigger.UNJUDGED: "it has words that nothing and nobody vouches for",
}
"""Why a person is asked, for people."""


@dataclass(frozen=True, kw_only=True)
class ExitFacts:
    """What a loop is ended by."""

    thresholds: tuple[Threshold, ...]
    measured: Mapping[str, float]
    floors_hold: bool = True
    """Whether the evaluators that are floors let the run pass."""
    objections: tuple[str, ...] = ()
    """What else speaks against a commit, in words: by the schema, the rubric, tests and probes."""
    bands: ConfidenceBands | None = None
    confidence: float | None = None
    can_repair: bool = False
    """Whether the budget has a repair left."""
    is_partial: bool = False
    """Whether there is an output that is of use in part."""
    is_irreversible: bool = False
    """Whether the output leads to a change that cannot be compensated."""
    is_unjudged: bool = False
    """Whether it has words that nothing vouches for: then a person decides, whatever the confidence is."""
    requires_approval: bool = False
    """Whether the task says that a person must accept it."""
    novelty: Novelty | None = None
    """None if no one looked."""

    @property
    def scores(self) -> Mapping[str, float]:
        """All measurements, confidence included."""
        return self.measured if self.confidence is None else {**self.measured, "confidence": self.confidence}


def check_thresholds(
    thresholds: Sequence[Threshold], measured: Mapping[str, float]
) -> tuple[ThresholdResult, ...]:
    """Return each threshold with its score and limit; one without a measurement fails."""
    return tuple(
        ThresholdResult(
            name=each.name,
            score=(score := measured.get(each.name)),
            limit=each.effective_minimum,
            passed=score is not None and score >= each.effective_minimum,
        )
        for each in thresholds
    )


def disposition_of(confidence: float | None, bands: ConfidenceBands | None) -> Disposition | None:
    """Return where confidence leads; None if the decision names no bands."""
    if bands is None:
        return None
    if confidence is None or confidence < bands.human_review:
        return Disposition.REJECT
    return Disposition.AUTO_COMMIT if confidence >= bands.auto_commit else Disposition.HUMAN_REVIEW


def exit_decision(facts: ExitFacts) -> ExitDecision:
    """Return whether the loop ends; every threshold is recorded with what it was decided by."""
    results = check_thresholds(facts.thresholds, facts.scores)
    passes = facts.floors_hold and not facts.objections and all(result.passed for result in results)
    disposition = disposition_of(facts.confidence, facts.bands)
    if facts.is_unjudged:
        disposition = Disposition.HUMAN_REVIEW
    triggers = _triggers(facts, results, passes=passes)
    outcome, reason = _decide(facts, results, disposition, triggers, passes=passes)
    return ExitDecision(
        outcome=outcome,
        reason=reason,
        thresholds=results,
        confidence=facts.confidence,
        disposition=disposition,
        triggers=triggers,
        needs_approval=outcome == "ESCALATE" and passes,
    )


def _is_unsure(facts: ExitFacts) -> bool:
    return disposition_of(facts.confidence, facts.bands) in (Disposition.HUMAN_REVIEW, Disposition.REJECT)


def _triggers(
    facts: ExitFacts, results: Sequence[ThresholdResult], *, passes: bool
) -> tuple[HumanTrigger, ...]:
    holds = {
        HumanTrigger.LOW_CONFIDENCE: _is_unsure(facts),
        HumanTrigger.IRREVERSIBLE: facts.is_irreversible,
        HumanTrigger.REQUIRED: facts.requires_approval,
        HumanTrigger.NOVEL: facts.novelty is not None and facts.novelty.is_novel,
        HumanTrigger.PARTIAL: facts.is_partial and not facts.can_repair and not passes,
        HumanTrigger.UNSAFE: any(each.name == "safety" and not each.passed for each in results),
        HumanTrigger.UNJUDGED: facts.is_unjudged,
    }
    return tuple(trigger for trigger, is_so in holds.items() if is_so)


def _decide(
    facts: ExitFacts,
    results: Sequence[ThresholdResult],
    disposition: Disposition | None,
    triggers: Sequence[HumanTrigger],
    *,
    passes: bool,
) -> tuple[ExitOutcome, str]:
    if not passes:
        return _or_else(facts, "ESCALATE", _missed(facts, results))
    if disposition is Disposition.REJECT:
        return _or_else(facts, "FAIL", _too_unsure(facts))
    if triggers:
        return "ESCALATE", f"a person must say yes: {', '.join(triggers)}"
    return "COMMIT", "every threshold holds"


def _or_else(facts: ExitFacts, outcome: ExitOutcome, reason: str) -> tuple[ExitOutcome, str]:
    if facts.can_repair:
        return "CONTINUE_REPAIR", reason
    return outcome, f"{reason}; no repair is left"


def _missed(facts: ExitFacts, results: Sequence[ThresholdResult]) -> str:
    floors = () if facts.floors_hold else ("a floor does not hold",)
    missed = (
        f"{each.name} was not measured"
        if each.score is None
        else f"{each.name} is {each.score}, below {each.limit}"
        for each in results
        if not each.passed
    )
    return ", ".join((*floors, *missed, *facts.objections))


def _too_unsure(facts: ExitFacts) -> str:
    if facts.confidence is None:
        return "confidence was not measured"
    return f"confidence is {facts.confidence}, too low to ask a person"


def recommend(decision: ExitDecision) -> Literal["approve", "reject", "modify"]:
    """Return what a person who is asked is advised to say: change what was missed, reject what is unsafe or too unsure."""
    if HumanTrigger.UNSAFE in decision.triggers or decision.disposition is Disposition.REJECT:
        return "reject"
    return "modify" if decision.failures else "approve"


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
