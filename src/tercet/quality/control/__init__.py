"""The controller of the quality loop: how hard to repair, when to stop, and what to expect of it.

`step` decides after each measurement, `predict` says beforehand how that will go, `estimate` learns the repair gain and
its noise from recorded repairs, and `is_stable` and `kp_bound` say which gains a pack may declare.
"""

from tercet.quality.control.controller import (
    character_of,
    escalation_after,
    is_stable,
    kp_bound,
    noise_floor,
    quality_of,
    step,
    strategy_for,
)
from tercet.quality.control.estimation import (
    LEAST_SAMPLE,
    estimate,
    mean_course,
    trajectories,
)
from tercet.quality.control.prediction import apply, closed_cost, iterations_to_reach, predict

__all__ = [
    "LEAST_SAMPLE",
    "apply",
    "character_of",
    "closed_cost",
    "escalation_after",
    "estimate",
    "is_stable",
    "iterations_to_reach",
    "kp_bound",
    "mean_course",
    "noise_floor",
    "predict",
    "quality_of",
    "step",
    "strategy_for",
    "trajectories",
]
