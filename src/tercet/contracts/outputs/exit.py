"""When a loop may end: measurements against limits, confidence, what asks for a person, and the decision."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from pydantic import Field

from tercet.contracts.decision import ThresholdName
from tercet.contracts.shape import Count, Name, Score, Shape

FeatureName = Literal["verify", "consistency", "evidence", "repairs", "logprob", "critic", "tests"]
FEATURES: tuple[FeatureName, ...] = (
    "verify", "consistency", "evidence", "repairs", "logprob", "critic", "tests",
)  # fmt: skip
"""What confidence is made of: the composite score of VERIFY, self-consistency, the share of claims that are grounded, how
often was repaired, the mean log-probability of the tokens, the critic's score, and the share of tests that passed."""

Features = dict[FeatureName, float]
"""What was measured of an output; what was not is left out."""

BIAS = "bias"


class Weights(Shape):
    """The logistic model of confidence: a bias, and for each feature a weight and the value at which it says nothing."""

    bias: float
    weights: dict[FeatureName, float]
    centers: dict[FeatureName, float]
    sample: int = Field(default=0, ge=0)
    """From how many outcomes it was fitted; 0 for the default."""


class Confidence(Shape):
    """How likely an output is right, and what that is made of."""

    value: Score
    parts: dict[str, float]
    """What each feature and the bias added, before the sigmoid."""
    missing: tuple[FeatureName, ...] = ()
    sample: int = 0
    """The sample of the weights that were used."""


class OutcomeRow(Shape):
    """One recorded output: what was measured of it, and whether it turned out to be right."""

    features: dict[FeatureName, float]
    is_correct: bool
    judge: str = ""
    """The model that judged it; empty where none did."""
    is_passed: bool | None = None
    """Whether that model called all of it right."""


class JudgeRecord(Shape):
    """How often a model called outputs right that a person then looked at, and how often the person refused them."""

    passed: Count = 0
    refused: Count = 0


class Disposition(StrEnum):
    """Where confidence leads, if the decision names bands."""

    AUTO_COMMIT = "AUTO_COMMIT"
    HUMAN_REVIEW = "HUMAN_REVIEW"
    REJECT = "REJECT"


class HumanTrigger(StrEnum):
    """What asks for a person, each by itself."""

    LOW_CONFIDENCE = "low_confidence"
    IRREVERSIBLE = "irreversible"
    REQUIRED = "required"
    NOVEL = "novel"
    PARTIAL = "partial"
    UNSAFE = "unsafe"
    UNJUDGED = "unjudged"


class ThresholdResult(Shape):
    """One threshold with what was measured, and whether that is enough."""

    name: ThresholdName
    score: float | None
    """None where nothing was measured; that fails."""
    limit: Score
    passed: bool


class Novelty(Shape):
    """How different a run is from earlier ones."""

    distance: Score
    limit: Score
    nearest: Name | None = None
    """The run before that is nearest; None if there is none."""

    @property
    def is_novel(self) -> bool:
        """Whether nothing like it was seen before."""
        return self.distance > self.limit


ExitOutcome = Literal["COMMIT", "CONTINUE_REPAIR", "ESCALATE", "FAIL"]


class ExitDecision(Shape):
    """Whether a loop ends and how, with all that it was decided by."""

    outcome: ExitOutcome
    reason: str
    thresholds: tuple[ThresholdResult, ...] = ()
    confidence: float | None = None
    disposition: Disposition | None = None
    triggers: tuple[HumanTrigger, ...] = ()
    needs_approval: bool = False
    """Whether a person must say yes before anything is committed."""

    @property
    def failures(self) -> tuple[ThresholdResult, ...]:
        """The thresholds that were missed."""
        return tuple(result for result in self.thresholds if not result.passed)
