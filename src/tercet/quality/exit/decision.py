"""The exit decision of a quality loop: commit, repair again, escalate, or fail.

A commit needs the floors of `score`, every threshold that the decision enables, and that nothing else speaks against it: a
broken schema, a rubric that is not met, a test that fails. A threshold that was not measured is missed.
Confidence decides where the output goes after that, if the decision names bands. A person is asked only under one of seven
conditions. A person's answer takes precedence, except that an approval does not override a missed threshold.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from tercet.contracts.decision import ConfidenceBands, Threshold
from tercet.contracts.outputs.exit import (
    Disposition,
    ExitDecision,
    ExitOutcome,
    HumanTrigger,
    Novelty,
    ThresholdResult,
)

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
