"""How likely an output is right: a logistic model over what was measured of it."""

from __future__ import annotations

import math
from collections.abc import Mapping

from tercet.contracts.outputs.exit import BIAS, FEATURES, Confidence, FeatureName, Weights

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
