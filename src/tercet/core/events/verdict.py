"""What the critic says while a run goes on, and at its end."""

from __future__ import annotations

from typing import Any

from tercet.core.events.fact import Fact


class StepJudged(Fact, frozen=True, kw_only=True, tag="step_judged"):
    """The critic judged the result of a step."""

    step: str
    attempt: int
    outcome: str
    reason: str = ""


class LoopGuardTripped(Fact, frozen=True, kw_only=True, tag="loop_guard_tripped"):
    """The same call brought the same result once too often, or the run made no progress."""

    step: str
    reason: str
    count: int


class RunReported(Fact, frozen=True, kw_only=True, tag="run_reported"):
    """The critic scored the run, and said what follows."""

    report: dict[str, Any]
    outcome: str
    envelope: dict[str, Any] = {}
    """The verdict in its published shape: the scores of each step, trips of the loop guard, re-plans."""
    reasons: tuple[str, ...] = ()
    exit: dict[str, Any] = {}
    """Thresholds, confidence and what asks for a person, where the outputs went through the quality loop or to a person."""
    restored: dict[str, Any] = {}
    """The round whose outputs are handed over because they were judged better than the last: after how many repairs, of
    how many, and what is left to be mended in them; empty where the last are the best."""
