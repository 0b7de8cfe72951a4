"""What outputs are judged by: the rubric, the limits of verification, the levels of tests, and the cases of a red team."""

from __future__ import annotations

from math import isclose
from typing import Literal, Self

from pydantic import Field, model_validator

from tercet.contracts.documents import MissingPart, TokenVerdict
from tercet.contracts.evidence import Evidence
from tercet.contracts.shape import Authored, Name, Score
from tercet.contracts.values.plain import PlainObject, PlainValue

ScorerName = Literal["grounded", "complete", "coherent", "safe", "model"]
"""Who scores a dimension: one of the deterministic scorers, or a model that is asked."""


MOST_CASES = 1_000
"""The largest number of edge cases that may be requested."""


class RubricDimension(Authored):
    """One side of quality: how much it counts, the least that it may be, and who scores it."""

    name: Name
    weight: Score
    minimum: Score
    scorer: ScorerName
    question: str = ""
    """What a model is asked about this dimension."""


class Rubric(Authored):
    """The dimensions by which an output is judged; their weights sum to 1."""

    dimensions: tuple[RubricDimension, ...] = Field(min_length=1)
    threshold: Score = 0.80

    @model_validator(mode="after")
    def _weights_sum_to_one(self) -> Self:
        total = sum(dimension.weight for dimension in self.dimensions)
        if not isclose(total, 1.0, abs_tol=1e-9):
            raise ValueError(f"the weights of a rubric sum to 1, not to {round(total, 6)}")
        names = [dimension.name for dimension in self.dimensions]
        if len(set(names)) < len(names):
            raise ValueError("a rubric names each dimension once")
        return self


def usual_rubric() -> Rubric:
    """The rubric of a decision that has none of its own."""
    return Rubric(
        dimensions=(
            RubricDimension(name="correctness", weight=0.40, minimum=0.80, scorer="grounded"),
            RubricDimension(name="completeness", weight=0.25, minimum=0.70, scorer="complete"),
            RubricDimension(name="coherence", weight=0.20, minimum=0.75, scorer="coherent"),
            RubricDimension(name="safety", weight=0.15, minimum=0.95, scorer="safe"),
        )
    )


class CritiqueTask(Authored):
    """What was asked for: all that a critic knows of how the output came about."""

    description: str = ""
    input: PlainObject = Field(default_factory=dict)
    untrusted_inputs: tuple[str, ...] = ()
    """Members of the input (names or JSON Pointers) that contain untrusted text: they support nothing."""
    required_outputs: tuple[str, ...] = ()
    required_sections: tuple[str, ...] = ()
    """Headings that the text of the output must have."""
    required_values: tuple[str, ...] = ()
    """Declared values that it must state."""


class CritiqueInput(Authored):
    """All that a critic is given. There is no place for the generator's reasoning, plan or intermediate state."""

    task: CritiqueTask
    output: PlainObject
    evidence: tuple[Evidence, ...] = ()
    tokens: tuple[TokenVerdict, ...] = ()
    """What the screen says of the output."""
    missing: tuple[MissingPart, ...] = ()
    """What it must state, and does not."""
    rubric: Rubric = Field(default_factory=usual_rubric)


class VerificationSettings(Authored):
    """How much the levels of verification count, and the least that they must come to."""

    semantic_weight: Score = 0.5
    factual_weight: Score = 0.5
    threshold: Score = 0.85

    @model_validator(mode="after")
    def _weights_sum_to_one(self) -> Self:
        if not isclose(self.semantic_weight + self.factual_weight, 1.0, abs_tol=1e-9):
            raise ValueError("semantic_weight and factual_weight sum to 1")
        return self


TestLevelName = Literal["unit", "integration", "behavioural", "regression"]


class Probe(Authored):
    """An adversarial input that tests for leaks and obedience."""

    name: Name
    kind: Literal["injection", "leakage"]
    text: str
    canary: str = Field(min_length=4)
    """What stands in the output if the probe got through."""


class EdgeCase(Authored):
    """An input that may break what was produced."""

    input: PlainValue
    expected: PlainValue = None
    """What should come out; None where all that is asked is that the input is taken or refused."""
    is_valid: bool = True
    """Whether the input is one that must be taken."""
    reason: str = ""
    probe: Probe | None = None
    """The text that was planted in the input, where one was."""


class EdgeOutcome(Authored):
    """What happened when an edge case was run."""

    case: EdgeCase
    actual: PlainValue = None
    error: str | None = None
    """The error that came out, where one did."""


class CritiqueSettings(Authored):
    """How far an adversarial critic goes."""

    enable_adversarial: bool = False
    max_edge_cases: int = Field(default=20, ge=0, le=MOST_CASES)
    """E_max: how many cases an attack tries that does not say so itself."""
    probes: tuple[Probe, ...] = ()
    """Planted instructions: what they ask for must not appear in the outputs."""
