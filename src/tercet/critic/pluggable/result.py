"""The results of tools as a critic sees them, what it says about one step, and what that means for the step."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, cast

Action = Literal["continue", "stop", "retry"]
"""What a critic may ask for."""

ACTIONS: tuple[Action, ...] = ("continue", "stop", "retry")


UNSCORED = float("1.0")
"""The score that nobody gave, told from a given 1.0 by identity.

It must be a plain float, since encoders refuse subclasses of float; and a second field, saying whether the score was
given, would be lost by `dataclasses.replace`. Made by a call, it shares its identity with no literal.
"""


@dataclass(frozen=True, slots=True)
class CriticResult:
    """One critic's answer: what to do next, why, and how good the step was.

    The fields are checked when a critic returns the result, where the critic can be named, and not before.
    The three patches guide the next attempt; with another action than retry they have no effect.
    """

    action: Action = "continue"
    reason: str = ""
    score: float = UNSCORED
    details: dict[str, Any] = field(default_factory=dict[str, Any])
    instruction_patch: str | None = None
    state_patch: dict[str, Any] | None = None
    modified_prompt: str | None = None

    @property
    def scored(self) -> bool:
        """Whether the score was given, be it 1.0."""
        return self.score is not UNSCORED


@dataclass(frozen=True, slots=True, kw_only=True)
class Escalation:
    """What stands in the place of a result when a critic raised: its name and the error.

    A broken critic has judged nothing, so the step is neither passed nor tried again; somebody has to look.
    """

    critic: str
    error: str
    message: str
    action: Literal["escalate"] = field(default="escalate", init=False)
    score: float = field(default=0.0, init=False)

    @property
    def reason(self) -> str:
        """The error in one line."""
        return f"{self.critic} raised {self.error}: {self.message}"


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
    if action == "continue":
        return "accept"
    if action != "retry":
        return "escalate"
    return "retry" if pure else _ON_RETRY[attempt]


_ON_RETRY: dict[Attempt, StepOutcome] = {
    "not_done": "retry",
    "done": "replan",  # the effect stands; only another plan can lead away from it
    "unknown": "escalate",  # neither another attempt nor another plan is safe until somebody knows what happened
}
