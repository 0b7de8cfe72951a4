"""Whether outputs may be committed, as lines: each limit with its score, confidence, and what asks for a person."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.text import Text

from tercet.cli.text import printable
from tercet.contracts.outputs.exit import ExitDecision, ExitOutcome, ThresholdResult
from tercet.quality.exit.decision import TRIGGERS
from tercet.view.judging import DISPOSITIONS
from tercet.view.text import score

_EXITS: dict[ExitOutcome, tuple[str, str]] = {
    "COMMIT": ("✓", "green"),
    "CONTINUE_REPAIR": ("↻", "yellow"),
    "ESCALATE": ("?", "yellow"),
    "FAIL": ("✗", "red"),
}


def exit_text(given: Mapping[str, Any]) -> Text:
    """How the loop ended, and why."""
    decided = ExitDecision.model_validate(given)
    mark, style = _EXITS[decided.outcome]
    return Text.assemble((f"{mark} ", style), f"exit {decided.outcome}: {printable(decided.reason)}")


def exit_lines(given: Mapping[str, Any]) -> list[Text]:
    """Every threshold with its score and limit on one line, then confidence and what asks for a person."""
    decided = ExitDecision.model_validate(given)
    lines = [Text(", ").join(map(threshold_text, decided.thresholds))] if decided.thresholds else []
    if decided.confidence is not None:
        lines.append(Text(confidence_text(decided)))
    return [*lines, *(Text(f"? {TRIGGERS[trigger]}", style="yellow") for trigger in decided.triggers)]


def threshold_text(result: ThresholdResult) -> Text:
    """A threshold with what was measured and the least that it may be."""
    mark, style, sign = ("✓", "green", "≥") if result.passed else ("✗", "red", "<")
    if result.score is None:
        return Text.assemble((f"{mark} ", style), f"{result.name} was not measured")
    # Enough places to see on which side of the limit it is.
    return Text.assemble((f"{mark} ", style), f"{result.name} {result.score:g} {sign} {result.limit:g}")


def confidence_text(decided: ExitDecision) -> str:
    """How sure it is, and where that leads."""
    leads = f": {DISPOSITIONS[decided.disposition][0]}" if decided.disposition else ""
    return f"confidence {score(decided.confidence)}{leads}"
