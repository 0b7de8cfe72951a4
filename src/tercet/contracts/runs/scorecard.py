"""The findings of the evaluators about a run."""

from __future__ import annotations

from typing import Literal

from tercet.contracts.shape import Absent, Published, Score, Shape

EvaluatorName = Literal["policy", "utility", "latency", "safety", "cost"]
FLOORS: tuple[EvaluatorName, ...] = ("policy", "safety")
"""The evaluators whose failure refuses a run, whatever the others say."""


class Finding(Published):
    """One finding of an evaluator."""

    code: str
    message: str
    step_id: Absent[str] = None


class Evaluation(Shape):
    """The result of one evaluator."""

    status: Literal["pass", "warn", "fail"]
    score: Score
    findings: tuple[Finding, ...] = ()
    version: str


class Scorecard(Shape):
    """One evaluation for each evaluator."""

    scores: dict[EvaluatorName, Evaluation]
