"""Stop criteria: pure checks of a run's progress, and the reasons they give.

The shell measures steps, time and tokens and passes the figures.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal, Protocol

from tercet.contracts.errors import UsageError
from tercet.critic.pluggable.result import Action


class StopReason(StrEnum):
    """Why a run ended or paused."""

    FINAL = "final"
    MAX_STEPS = "max_steps"
    MAX_RUNTIME = "max_runtime"
    MAX_TOKENS = "max_tokens"
    STAGNATION = "stagnation"
    CRITIC_STOP = "critic_stop"
    CRITIC_ESCALATE = "critic_escalate"
    RETRIES_EXHAUSTED = "retries_exhausted"
    """A critic asked for a retry, and no retries were left."""
    AGENT_RAISED = "agent_raised"
    """The agent failed on the result of a step."""
    REFUSED = "refused"
    """The agent's decision was permanently rejected before anything happened."""
    WAITING = "waiting"
    """A person is asked, and the run continues with their answer."""
    ESCALATED = "escalated"
    """Only a person can resolve this."""
    PAUSED = "paused"
    PARTIAL = "partial"
    """A person accepted the partial result, without a final answer."""
    FAILED = "failed"
    REJECTED = "rejected"
    """A person denied a call."""
    EXPIRED = "expired"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """The progress of a run. Retries of a step count as steps."""

    steps: int = 0
    elapsed_ms: int = 0
    tokens: int = 0
    has_final_answer: bool = False
    signatures: tuple[str, ...] = ()
    """One string for each step; equal steps have equal strings."""
    states: tuple[Any, ...] = ()
    """The states of the agent after the latest steps, as many as the criteria look back on."""

    @property
    def state(self) -> Any:
        """The state of the agent after the last step, which criteria must not change."""
        return self.states[-1] if self.states else None


class StopCriterion(Protocol):
    """A criterion that ends a run: `final` completes it, and any other reason lets it fail. It is pure: the same progress
    gives the same answer, and it never raises.
    """

    def check(self, progress: Progress, /) -> StopReason | None:
        """Return the reason to stop now, or None."""
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
    """Ends a run whose last `window` steps had the same decision and the same results; or, with a `key`, left the same
    value of `key(state)`.
    """

    window: int = 3
    key: Callable[[Any], object] | None = None

    def __post_init__(self) -> None:
        _check_limit("Stagnation", self.window, least=2)

    def check(self, progress: Progress, /) -> StopReason | None:
        """Stop when there is no progress."""
        if self.key is None:
            latest: list[object] = list(progress.signatures[-self.window :])
        else:
            latest = [self.key(state) for state in progress.states[-self.window :]]
        is_stuck = len(latest) == self.window and all(each == latest[0] for each in latest)
        return StopReason.STAGNATION if is_stuck else None


def looks_back(criteria: Iterable[StopCriterion]) -> int:
    """Return how many states these criteria look at."""
    return max((each.window for each in criteria if isinstance(each, Stagnation) and each.key), default=1)


def step_signature(decision: object, results: Sequence[object]) -> str:
    """Return a short string for the decision and results of a step; equal steps have equal strings."""
    return hashlib.sha256(f"{decision!r}\n{results!r}".encode(errors="surrogatepass")).hexdigest()


def first_stop(criteria: Iterable[StopCriterion], progress: Progress) -> StopReason | None:
    """Return the reason of the first criterion that stops the run."""
    return next((reason for each in criteria if (reason := each.check(progress)) is not None), None)


def critic_stop(action: Action | Literal["escalate"]) -> StopReason | None:
    """Return the stop reason for a critic's answer."""
    return {"stop": StopReason.CRITIC_STOP, "escalate": StopReason.CRITIC_ESCALATE}.get(action)


def _check_limit(criterion: str, limit: object, *, least: int = 1) -> None:
    if not isinstance(limit, int) or isinstance(limit, bool) or limit < least:
        raise UsageError(
            f"{criterion} has the limit {limit!r}", remedy=f"give a whole number, {least} or more"
        )
