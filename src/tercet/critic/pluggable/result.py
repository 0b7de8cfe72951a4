"""What a critic says about one step, and what is said for it when it breaks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

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
