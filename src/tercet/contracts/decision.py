"""The specification of one decision."""

from __future__ import annotations

from enum import StrEnum
from functools import cached_property
from typing import Literal, Self

from pydantic import Field, model_validator

from tercet.contracts.outputs.quality_rules import QualityRules
from tercet.contracts.relations import FieldSpec, Relation
from tercet.contracts.shape import Authored, Score
from tercet.contracts.values.canonical import canonical
from tercet.contracts.values.plain import PlainObject

OnFailure = Literal["compensate", "ask", "keep"]
"""What happens to effects when a run ends without success."""


class RiskTier(StrEnum):
    """How much is at stake; the pack's table says what is checked for each tier."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"
    CRITICAL = "critical"


PLANNER_TIMEOUTS: dict[RiskTier, int] = {
    RiskTier.LOW: 5_000,
    RiskTier.MEDIUM: 10_000,
    RiskTier.HIGH: 20_000,
    RiskTier.CRITICAL: 30_000,
}
"""A planner's time limit in milliseconds if neither decision nor pack sets one: longer for higher risk."""

ThresholdName = Literal[
    "schema",
    "policy",
    "safety",
    "correctness",
    "completeness",
    "coherence",
    "test_pass_rate",
    "self_consistency",
    "confidence",
]

USUAL_MINIMUM: dict[ThresholdName, float] = {
    "schema": 1.0,
    "policy": 1.0,
    "safety": 0.98,
    "correctness": 0.85,
    "completeness": 0.80,
    "coherence": 0.80,
    "test_pass_rate": 1.0,
    "self_consistency": 0.70,
    "confidence": 0.90,
}


class Threshold(Authored):
    """A quality limit: a named measurement and its minimum."""

    name: ThresholdName
    minimum: Score | None = None
    """None means the default in `USUAL_MINIMUM`."""

    @property
    def effective_minimum(self) -> float:
        """The minimum that applies."""
        return USUAL_MINIMUM[self.name] if self.minimum is None else self.minimum


def usual_thresholds() -> tuple[Threshold, ...]:
    """Return the thresholds of a decision that names none."""
    return (Threshold(name="schema"), Threshold(name="policy"), Threshold(name="safety"))


def quality_thresholds(rules: QualityRules) -> tuple[Threshold, ...]:
    """Return the default thresholds of a decision whose outputs are judged: for its rubric, its tests and its samples,
    as far as it has them.
    """
    scored = {dimension.name for dimension in rules.rubric.dimensions}
    judged: dict[ThresholdName, bool] = {
        "correctness": "correctness" in scored,
        "completeness": "completeness" in scored,
        "coherence": "coherence" in scored,
        "test_pass_rate": bool(rules.tests),
        "self_consistency": rules.consistency is not None,
    }
    return (*usual_thresholds(), *(Threshold(name=name) for name, is_judged in judged.items() if is_judged))


class ConfidenceBands(Authored):
    """The confidence from which a result is committed automatically, and below which it is rejected.

    A person decides in between.
    """

    auto_commit: Score = 0.95
    human_review: Score = 0.70


class DecisionSpec(Authored):
    """What a decision must produce, which evidence it needs, and how strictly it is judged."""

    id: str = Field(min_length=1, max_length=200)
    description: str = ""
    intents: tuple[str, ...] = ()
    """The intents that map to this decision; its own id always does."""
    required_outputs: tuple[str, ...] = ()
    outputs_schema: PlainObject | None = None
    required_evidence: tuple[str, ...] = ()
    untrusted_evidence: tuple[str, ...] = ()
    """Evidence classes that untrusted facts may satisfy too; all others need trusted facts."""
    risk_tier: RiskTier = RiskTier.HIGH
    gates: tuple[str, ...] = ()
    """Gates that every step above read_only waits for, in addition to its own."""
    thresholds: tuple[Threshold, ...] = Field(default_factory=usual_thresholds)
    confidence: ConfidenceBands | None = None
    quality: QualityRules | None = None
    """How outputs are judged and repaired before they are committed; None commits outputs that match the schema as they are."""
    tools: tuple[str, ...] | None = None
    """The tools that this decision may use; None means all tools of the pack."""
    prohibited_tools: tuple[str, ...] = ()
    repeatable: tuple[str, ...] = ()
    """Tools that may be called again with the same identity in one run; reads among them may be polled."""
    conditions: tuple[str, ...] = ()
    """Conditions that hold when this decision begins."""
    untrusted_inputs: tuple[str, ...] = ()
    """Request fields with untrusted text: `note`, `order.note` or the JSON Pointer `/order/note`; lists on the way
    change nothing."""
    bind: tuple[Relation, ...] = ()
    """How evidence, look-ups and parameters relate to the request; unrelated sources carry no authority."""
    fields: tuple[FieldSpec, ...] = ()
    """The kinds of fields of the request and of evidence."""
    unbound_gate: str | None = None
    """The gate that decides on an authority value without a trusted source, instead of a refusal."""
    requires_human_approval: bool = False
    """Whether outputs are committed only if a person other than the owner of the run accepts them."""
    output_gate: str | None = None
    """The gate of the pack that says who may accept them; None means anyone except the owner."""
    planner_timeout_ms: int | None = Field(default=None, ge=1)
    """The planner's time limit for this decision; None means the pack's, else the default of the risk tier."""
    on_failure: OnFailure | None = None
    """What happens to effects when a run for this decision ends without success; None means the pack's setting."""

    @model_validator(mode="after")
    def _add_quality_thresholds(self) -> Self:
        """Give a decision whose outputs are judged the quality thresholds, unless its own differ from the
        usual ones.

        Only the values count, not whether they were written out: a pack that is dumped and read back must be
        the same pack.
        """
        if self.quality is not None and self.thresholds == usual_thresholds():
            object.__setattr__(self, "thresholds", quality_thresholds(self.quality))
        return self

    @cached_property
    def outputs_text(self) -> str:
        """The schema of the outputs as text, the key of its cached validator; empty if there is none."""
        return "" if self.outputs_schema is None else canonical(self.outputs_schema).decode()

    @property
    def planned_outputs(self) -> tuple[str, ...]:
        """The required outputs that a plan must produce: those that the pack does not render from templates."""
        return tuple(name for name in self.required_outputs if name not in self.rendered_outputs)

    @property
    def rendered_outputs(self) -> frozenset[str]:
        """The outputs that the pack renders from templates."""
        return frozenset(each.output for each in self.quality.documents) if self.quality else frozenset()

    @property
    def decision_key(self) -> str:
        """The name of this decision in reports."""
        return self.id
