"""When a run ends: criteria that look at its progress, and the reasons they give.

A criterion is a pure check. The shell measures (steps, time, tokens) and hands over the figures.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, Protocol

from tercet.contracts.errors import UsageError
from tercet.critic.pluggable.result import Action


class StopReason(StrEnum):
    """Why a run ended, or why it does not go on for now."""

    FINAL = "final"
    MAX_STEPS = "max_steps"
    MAX_RUNTIME = "max_runtime"
    MAX_TOKENS = "max_tokens"
    STAGNATION = "stagnation"
    CRITIC_STOP = "critic_stop"
    CRITIC_ESCALATE = "critic_escalate"
    RETRIES_EXHAUSTED = "retries_exhausted"
    """A critic wanted another try, and the budget had none left."""
    AGENT_RAISED = "agent_raised"
    """The agent could not take in what a step brought."""
    REFUSED = "refused"
    """What the agent decided was rejected for good before anything happened."""
    WAITING = "waiting"
    """A person is asked, and the run goes on with their answer."""
    ESCALATED = "escalated"
    """Only a person can help on."""
    PAUSED = "paused"
    PARTIAL = "partial"
    """A person accepted what there was, without a final answer."""
    FAILED = "failed"
    REJECTED = "rejected"
    """A person denied a call."""
    EXPIRED = "expired"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a run has come. A step that was tried again counts each time: an attempt costs what it costs."""

    steps: int = 0
    elapsed_ms: int = 0
    tokens: int = 0
    has_final_answer: bool = False
    signatures: tuple[str, ...] = ()


class StopCriterion(Protocol):
    """One reason to end a run. It is pure: the same progress brings the same answer, and it raises nothing."""

    def check(self, progress: Progress, /) -> StopReason | None:
        """The reason to stop now, or None."""
        ...


@dataclass(frozen=True, slots=True)
class FinalResult:
    """Ends a run that has its final answer."""

    def check(self, progress: Progress, /) -> StopReason | None:
        """Stop at the final answer."""
        return StopReason.FINAL if progress.has_final_answer else None


@dataclass(frozen=True, slots=True)
class MaxSteps:
    """Ends a run after this many steps."""

    limit: int

    def __post_init__(self) -> None:
        _check_limit("MaxSteps", self.limit)

    def check(self, progress: Progress, /) -> StopReason | None:
        """Stop when the steps are used up."""
        return StopReason.MAX_STEPS if progress.steps >= self.limit else None


@dataclass(frozen=True, slots=True)
class MaxRuntime:
    """Ends a run after this many milliseconds."""

    limit_ms: int

    def __post_init__(self) -> None:
        _check_limit("MaxRuntime", self.limit_ms)

    def check(self, progress: Progress, /) -> StopReason | None:
        """Stop when the time is used up."""
        return StopReason.MAX_RUNTIME if progress.elapsed_ms >= self.limit_ms else None


@dataclass(frozen=True, slots=True)
class MaxTokens:
    """Ends a run after this many tokens."""

    limit: int

    def __post_init__(self) -> None:
        _check_limit("MaxTokens", self.limit)

    def check(self, progress: Progress, /) -> StopReason | None:
        """Stop when the tokens are used up."""
        return StopReason.MAX_TOKENS if progress.tokens >= self.limit else None


@dataclass(frozen=True, slots=True)
class Stagnation:
    """Ends a run whose last `window` steps decided the same and got the same."""

    window: int = 3

    def __post_init__(self) -> None:
        _check_limit("Stagnation", self.window, least=2)

    def check(self, progress: Progress, /) -> StopReason | None:
        """Stop when nothing moves any more."""
        latest = progress.signatures[-self.window :]
        return StopReason.STAGNATION if len(latest) == self.window and len(set(latest)) == 1 else None


def step_signature(decision: object, results: Sequence[object]) -> str:
    """What a step decided and got, as one short string; two steps are the same when both print the same."""
    return hashlib.sha256(f"{decision!r}\n{results!r}".encode(errors="surrogatepass")).hexdigest()


def first_stop(criteria: Iterable[StopCriterion], progress: Progress) -> StopReason | None:
    """The reason of the first criterion that says stop."""
    return next((reason for each in criteria if (reason := each.check(progress)) is not None), None)


def critic_stop(action: Action | Literal["escalate"]) -> StopReason | None:
    """The reason to end a run that lies in what its critics said."""
    return {"stop": StopReason.CRITIC_STOP, "escalate": StopReason.CRITIC_ESCALATE}.get(action)


def _check_limit(criterion: str, limit: object, *, least: int = 1) -> None:
    if not isinstance(limit, int) or isinstance(limit, bool) or limit < least:
        raise UsageError(
            f"{criterion} has the limit {limit!r}", remedy=f"give a whole number, {least} or more"
        )
