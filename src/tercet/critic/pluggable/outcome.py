"""Outcomes on both sides of a critic: what tools brought in, and what its answer means for the step."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal, assert_never, cast

from tercet.critic.pluggable.result import Action

StepOutcome = Literal["accept", "retry", "replan", "escalate"]
"""The four words of a verdict on a step."""

Attempt = Literal["done", "not_done", "unknown"]
"""How the call of a step ended."""


def as_results(outcomes: Iterable[object]) -> list[dict[str, Any]]:
    """Show tool outcomes, values or exceptions, as critics see them: dicts, with an "error" on failure."""
    return [_as_result(outcome) for outcome in outcomes]


def _as_result(outcome: object) -> dict[str, Any]:
    match outcome:
        case BaseException():
            kind = type(outcome).__name__
            # An error without words must still read as an error.
            return {"error": str(outcome) or kind, "error_type": kind}
        case dict():
            return cast("dict[str, Any]", outcome)
        case Mapping():
            return dict(cast("Mapping[str, Any]", outcome))
        case _:
            return {"result": outcome}


def step_outcome(action: Action | Literal["escalate"], *, pure: bool, attempt: Attempt) -> StepOutcome:
    """The verdict on a step that an answer of the critics amounts to.

    `pure` says that the step may run any number of times: it is pure, or only reads.
    A stop is an escalate: of the four words it is the one after which nothing goes on by itself.
    """
    match action:
        case "continue":
            return "accept"
        case "retry":
            return _retry_outcome(pure=pure, attempt=attempt)
        case "stop" | "escalate":
            return "escalate"
        case _:
            assert_never(action)


def _retry_outcome(*, pure: bool, attempt: Attempt) -> StepOutcome:
    if pure:
        return "retry"
    match attempt:
        case "not_done":
            return "retry"
        case "done":
            # The effect stands; only another plan can lead away from it.
            return "replan"
        case "unknown":
            # Neither another attempt nor another plan is safe until somebody knows what happened.
            return "escalate"
        case _:
            assert_never(attempt)
