"""Whether outputs may be committed: every limit with its score, confidence with its parts, and what asks for a person."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tercet.contracts.outputs.exit import BIAS, Confidence, ExitDecision, ThresholdResult
from tercet.quality.exit.decision import TRIGGERS, recommend
from tercet.replay.report.loop_page import Chip, ExitCard, Grade, Row, Tone
from tercet.replay.report.wording import Wording, count, score
from tercet.view.judging import ADVICE, DISPOSITIONS

_FEATURES: dict[str, str] = {
    "verify": "verification",
    "consistency": "self-consistency",
    "evidence": "values bound or found",
    "repairs": "repairs so far",
    "logprob": "log-probability",
    "critic": "rubric",
    "tests": "tests passed",
}


def grade(name: str, value: float | None, limit: float | None, tone: Tone) -> Grade:
    """A score with its limit, where it has one."""
    return Grade(
        name=name,
        number=score(value),
        limit="" if limit is None else f"min {limit:g}",
        share=0.0 if value is None else round(100 * min(1.0, max(0.0, value)), 1),
        mark=None if limit is None else round(100 * limit, 1),
        tone=tone,
    )


def exit_card(given: Mapping[str, Any], sure: Mapping[str, Any], wording: Wording) -> ExitCard:
    """An exit as it was decided; `sure` is the confidence that was estimated, and empty where none was."""
    decided = ExitDecision.model_validate(given)
    return ExitCard(
        outcome=outcome_chip(decided),
        reason=wording.text(decided.reason, 1_000),
        thresholds=tuple(_threshold(result) for result in decided.thresholds),
        confidence=_confidence(decided, sure),
        confidence_note=wording.text(_leads(decided, sure), 400),
        confidence_parts=tuple(_parts(sure)),
        triggers=tuple(TRIGGERS[trigger] for trigger in decided.triggers),
        # What was handed over takes no approval and no wish for changes: its gate says what can be chosen.
        advice=ADVICE[recommend(decided)] if decided.needs_approval else "",
    )


def outcome_chip(decided: ExitDecision) -> Chip:
    """What was decided, in a few words."""
    match decided.outcome:
        case "COMMIT":
            return Chip(text="commit", tone="good")
        case "CONTINUE_REPAIR":
            return Chip(text="repair goes on", tone="wait")
        case "ESCALATE" if decided.needs_approval:
            return Chip(text="a person is asked", tone="wait")
        case "ESCALATE":
            return Chip(text="handed to a person", tone="bad")
        case "FAIL":
            return Chip(text="fail", tone="bad")


def _threshold(result: ThresholdResult) -> Grade:
    name = result.name.replace("_", " ")
    return grade(name, result.score, result.limit, "good" if result.passed else "bad")


# --- confidence ---


def _confidence(decided: ExitDecision, sure: Mapping[str, Any]) -> Grade | None:
    value = decided.confidence if decided.confidence is not None else sure.get("value")
    if value is None:
        return None
    tone = DISPOSITIONS[decided.disposition][1] if decided.disposition else "quiet"
    return grade("confidence", float(value), None, tone)


def _leads(decided: ExitDecision, sure: Mapping[str, Any]) -> str:
    """Where confidence leads, and what it was estimated by."""
    if decided.disposition:
        leads = DISPOSITIONS[decided.disposition][0]
    else:
        leads = "the decision names no bands for it, so it leads nowhere"
    if not sure:
        return leads
    known = _estimated(sure)
    by = f"weights from {count(known.sample, 'outcome')}" if known.sample else "the default weights"
    missing = ", ".join(_FEATURES[name] for name in known.missing)
    return f"{leads}; by {by}{f'; not measured: {missing}' if missing else ''}"


def _parts(sure: Mapping[str, Any]) -> Iterator[Row]:
    """What each feature adds, before the sigmoid."""
    if not sure:
        return
    features: Mapping[str, Any] = sure.get("features", {})
    for name, part in _estimated(sure).parts.items():
        label = "to begin with" if name == BIAS else _FEATURES[name]
        measured = f"at {float(features[name]):.2g}" if name in features else ""
        yield Row(label=label, text=f"{part:+.2f}".replace("-", "−"), note=measured)


def _estimated(sure: Mapping[str, Any]) -> Confidence:
    return Confidence.model_validate({name: sure[name] for name in sure if name != "features"})
