"""Tool results as a critic sees them, a critic's result for one step, and the outcome that it leads to."""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal, TypeGuard, cast

from tercet.critic.pluggable.errors import CriticReturnError

Action = Literal["continue", "stop", "retry"]
"""The actions of a critic."""

ACTIONS: tuple[Action, ...] = ("continue", "stop", "retry")


UNSCORED = float("1.0")
"""The default score, distinguished from a given 1.0 by identity.

It must be a plain float, since encoders refuse subclasses of float; and a second field, saying whether the score was
given, would be lost by `dataclasses.replace`. Created by a call, it is identical to no literal.
"""


@dataclass(frozen=True, slots=True)
class CriticResult:
    """One critic's answer: what to do next, why, and how good the step was.

    The fields are checked when a critic returns the result, since the critic can be named there. The three patches
    guide the next attempt; they have an effect only if the action is retry.
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
        """Whether a score was given, even if it is 1.0."""
        return self.score is not UNSCORED

    def to_dict(self) -> dict[str, Any]:
        """Return all fields as a dict."""
        return asdict(self)

    @classmethod
    def from_dict(cls, members: Mapping[str, Any]) -> CriticResult:
        """Return the result with these fields, of which only `action` is required; raise `CriticReturnError` for an
        unknown field or a wrong value.
        """
        if (fault := find_fault(members)) is not None:
            raise CriticReturnError(
                f"{fault} makes no CriticResult",
                remedy=f"give action, one of {', '.join(ACTIONS)}, and any of {', '.join(FIELDS[1:])}",
            )
        return cls(**members)


FIELDS = tuple(each.name for each in fields(CriticResult))


def is_score(value: object) -> TypeGuard[float]:
    """Return whether this is a finite number from 0 to 1; booleans do not count as numbers."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1


def find_fault(members: Mapping[Any, Any]) -> str | None:
    """Return what keeps a dict from being the fields of a result, in words; None if nothing does."""
    unknown = [name for name in members if name not in FIELDS]
    if unknown:
        return f"a dict with the unknown field {reprlib.repr(unknown[0])}"
    if "action" not in members:
        return "a dict without an action"
    return next((fault for each in members.items() if (fault := _wrong_value(*each))), None)


def _wrong_value(name: str, value: object) -> str | None:
    fits, wanted = _RULES[name]
    return None if fits(value) else f"the {name} {reprlib.repr(value)}, which is not {wanted}"


_RULES: dict[str, tuple[Callable[[object], bool], str]] = {
    "action": (lambda value: value in ACTIONS, f"one of {', '.join(ACTIONS)}"),
    "reason": (lambda value: isinstance(value, str), "a string"),
    "score": (is_score, "a number from 0 to 1"),
    "details": (lambda value: isinstance(value, Mapping), "a dict"),
    "instruction_patch": (lambda value: isinstance(value, str | None), "a string or None"),
    "state_patch": (lambda value: isinstance(value, Mapping | None), "a dict or None"),
    "modified_prompt": (lambda value: isinstance(value, str | None), "a string or None"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Escalation:
    """The result of a critic that raised: its name and the error.

    A broken critic has judged nothing, so the step is neither passed nor retried; a person has to look.
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
"""The four outcomes of a step."""

Attempt = Literal["done", "not_done", "unknown"]
"""How the call of a step ended."""


def as_results(outcomes: Iterable[object]) -> list[dict[str, Any]]:
    """Return tool outcomes, values or exceptions, as critics see them: dicts, with an "error" on failure."""
    return [_as_result(outcome) for outcome in outcomes]


def _as_result(outcome: object) -> dict[str, Any]:
    match outcome:
        case BaseException():
            kind = type(outcome).__name__
            # An error without a message must still be truthy.
            return {"error": str(outcome) or kind, "error_type": kind}
        case dict():
            return cast("dict[str, Any]", outcome)
        case Mapping():
            return dict(cast("Mapping[str, Any]", outcome))
        case _:
            return {"result": outcome}


def step_outcome(action: Action | Literal["escalate"], *, pure: bool, attempt: Attempt) -> StepOutcome:
    """Return the outcome of a step for an answer of the critics.

    `pure` says that the step may be repeated: it is pure, or only reads. A stop becomes an escalate: of the four
    outcomes it is the one after which nothing continues automatically.
    """
    if action == "continue":
        return "accept"
    if action != "retry":
        return "escalate"
    return "retry" if pure else _ON_RETRY[attempt]


_ON_RETRY: dict[Attempt, StepOutcome] = {
    "not_done": "retry",
    "done": "replan",  # the effect remains; only another plan can help
    "unknown": "escalate",  # neither a retry nor another plan is safe until the outcome is known
}
