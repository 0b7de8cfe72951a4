"""The result of an agent's run, read from the journal: each step with its critics, the answer, and why it ended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal

from tercet.core.events.plan import TurnAction
from tercet.core.turns import Turn
from tercet.critic.pluggable.stop import StopReason
from tercet.critics.decision import Decision, decision_of
from tercet.critics.hooks import HookError
from tercet.engine.result import RunResult


@dataclass(frozen=True, kw_only=True)
class CriticTrace:
    """One critic's answer about a step."""

    critic: str
    action: str
    score: float
    reason: str


@dataclass(frozen=True, kw_only=True)
class StepRecord:
    """One decision, its results, and the critics' answers."""

    number: int
    decision: Decision
    results: tuple[dict[str, Any], ...]
    critics: tuple[CriticTrace, ...]
    """All critics that were asked, in order; the last one decided."""
    action: TurnAction | Literal["open"]
    """The action that followed; `open` if it is not known yet."""
    reason: str
    attempt: int
    """The number of the attempt: after a retry it is the next attempt at the same step."""


@dataclass(frozen=True, kw_only=True)
class EngineResult(RunResult):
    """The result of a run of an agent: its steps and answer beside what every run leaves."""

    state: Any
    """The agent's own state after the last step."""
    final_answer: Any
    """None unless every critic let it pass and the run is completed."""
    stop_reason: StopReason
    steps: tuple[StepRecord, ...]
    hook_errors: tuple[HookError, ...] = ()


def tell(result: RunResult, turns: Sequence[Turn], state: Any) -> EngineResult:
    """Return the result of an agent's run, from the result of its session and its turns."""
    steps = steps_of(turns)
    is_answered = result.status == "completed" and bool(steps) and steps[-1].action == "final"
    return EngineResult(
        **{each.name: getattr(result, each.name) for each in fields(RunResult)},
        state=state,
        final_answer=steps[-1].decision.final_answer if is_answered else None,
        stop_reason=stop_reason_of(result, turns),
        steps=steps,
    )


def steps_of(turns: Sequence[Turn]) -> tuple[StepRecord, ...]:
    """Return the turns of a run."""
    steps: list[StepRecord] = []
    for turn in turns:
        attempt = steps[-1].attempt + 1 if steps and steps[-1].action in ("retry", "replan") else 1
        steps.append(_step(turn, attempt))
    return tuple(steps)


def _step(turn: Turn, attempt: int) -> StepRecord:
    said = turn.judged
    # A turn that has not been judged may still run, so a missing result is not a failure.
    results = turn.results if said else [r for r in turn.results if r.get("error_type") != "not_done"]
    return StepRecord(
        number=turn.number,
        decision=decision_of(turn.plan, turn.decision),
        results=tuple(results),
        critics=tuple(
            CriticTrace(
                critic=each["critic"], action=each["action"], score=each["score"], reason=each["reason"]
            )
            for each in (said.trace if said else ())
        ),
        action=said.action if said else "open",
        reason=said.reason if said else "",
        attempt=attempt,
    )


ENDINGS: dict[str, StopReason] = {
    "awaiting_gate": StopReason.WAITING,
    "paused": StopReason.PAUSED,
    "in_progress": StopReason.PAUSED,
    "completed": StopReason.PARTIAL,
    "failed": StopReason.FAILED,
    "rejected": StopReason.REJECTED,
    "expired": StopReason.EXPIRED,
    "cancelled": StopReason.CANCELLED,
}
"""Why a run does not continue, by the state of its session, if its last step has no reason."""


def stop_reason_of(result: RunResult, turns: Sequence[Turn]) -> StopReason:
    """Return why a run ended or paused: from the last step, or else from the session."""
    said = turns[-1].judged if turns else None
    stop = StopReason(said.stop) if said is not None and said.stop else None
    match result.status, stop:
        case ("completed", StopReason.FINAL):
            return StopReason.FINAL
        case ("paused" | "failed", StopReason()) if stop is not StopReason.FINAL:
            return stop
        case ("paused" | "failed", _) if result.verdict is not None and result.verdict.outcome in (
            "reject",
            "replan",
        ):
            return StopReason.REFUSED
        case ("paused", _) if result.gate is not None:
            return StopReason.ESCALATED
        case ("failed", _) if result.reason == "iteration_budget_exceeded":
            return StopReason.MAX_STEPS
        case _:
            return ENDINGS[result.status]
