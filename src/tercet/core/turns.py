"""Turns of agents that decide step by step.

A turn is one decision, carried out as a plan of its own, and what the agent and its critics made of the results. All of
it can be read from the events, so an agent that another process began with is brought to where it stood by taking in its
turns again: nothing is called for it, and no one decides again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tercet.contracts.plan import Plan
from tercet.contracts.runs.behaviour import Behaviour
from tercet.contracts.shape import JsonObject, as_object
from tercet.core import events as e
from tercet.core.events.plan import TurnAction
from tercet.core.plans import read_plan
from tercet.critic.pluggable.result import StepOutcome


@dataclass(frozen=True, kw_only=True)
class Turn:
    """One decision of an agent, and the results of its calls."""

    number: int
    plan: Plan
    decision: JsonObject
    """The decision as the agent's adapter had it recorded."""
    results: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    """One for each step, in their order; one that failed, or was refused, has an `error`."""
    judged: e.TurnJudged | None = None


@dataclass(frozen=True, kw_only=True)
class Sofar:
    """The progress of a run when a turn is judged, and the outcome of a critic's `retry`."""

    steps: int
    """The turns, this one included."""
    elapsed_ms: int
    tokens: int
    on_retry: StepOutcome
    """`retry`; `replan` where an effect stands; `escalate` where the budget has no try left."""
    can_complete: bool = False
    """Whether a stop criterion may complete the run: the decision was not refused, and rule 10 applies."""


@dataclass(frozen=True, kw_only=True)
class Reflection:
    """The judgement of a turn by an agent and its critics: the fields of its event."""

    action: TurnAction
    reason: str = ""
    critic: str = ""
    score: float = 1.0
    trace: tuple[JsonObject, ...] = ()
    stop: str = ""
    prompt: str | None = None
    patch: JsonObject = field(default_factory=dict[str, Any])
    metadata: JsonObject = field(default_factory=dict[str, Any])
    left_out: tuple[str, ...] = ()


def is_recorded_whole(decision: JsonObject) -> bool:
    """Return whether the journal holds all of a decision: deciding changed no state, and the agent returned no object of its own."""
    return not (decision.get("left_out") or decision.get("own"))


def turns_of(events: Iterable[e.Event], blobs: Mapping[str, Any]) -> list[Turn]:
    """Return the turns of a run, the last of which may not be judged yet."""
    told = enumerate(_told(events), 1)
    return [_turn(number, own, blobs, is_strict=is_strict) for number, (own, is_strict) in told]


def last_turn(events: Sequence[e.Event], blobs: Mapping[str, Any], number: int, *, is_strict: bool) -> Turn:
    """Return the turn that was decided last, without reading those before it. `is_strict`: rule 5 applies."""
    began = next(index for index in reversed(range(len(events))) if isinstance(events[index], e.PlanProposed))
    return _turn(number, list(events[began:]), blobs, is_strict=is_strict)


def _told(events: Iterable[e.Event]) -> Iterator[tuple[list[e.Event], bool]]:
    """Return the events of each turn, from its decision on, and whether rule 5 applied when the turn was judged."""
    told: list[e.Event] = []
    is_strict = is_judged = was_strict = False
    for event in events:
        if isinstance(event, e.PlanProposed):
            if told:
                yield told, was_strict
            told = [event]
            is_judged = False
        elif told:
            told.append(event)
        if isinstance(event, e.SessionStarted | e.SessionMigrated) and event.behaviour:
            is_strict = Behaviour.STRICT_CALLS in event.behaviour
        if not is_judged:
            was_strict = is_strict
        is_judged = is_judged or isinstance(event, e.TurnJudged)
    if told:
        yield told, was_strict


def _turn(number: int, told: list[e.Event], blobs: Mapping[str, Any], *, is_strict: bool) -> Turn:
    proposed = told[0]
    assert isinstance(proposed, e.PlanProposed)  # noqa: S101 - by construction, and pyright cannot see it
    plan = read_plan(proposed.plan)
    return Turn(
        number=number,
        plan=plan,
        decision=proposed.decision,
        results=_results(plan, told, blobs, is_strict=is_strict),
        judged=next((event for event in told if isinstance(event, e.TurnJudged)), None),
    )


def _results(
    plan: Plan, told: list[e.Event], blobs: Mapping[str, Any], *, is_strict: bool
) -> list[dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    gates: dict[str, str] = {}
    refusal: dict[str, Any] | None = None
    for event in told:
        match event:
            case e.PlanReviewed() if event.verdict.get("outcome") != "ok":
                refusal = _refusal(event.verdict)
            case e.Complete():
                value = blobs.get(event.blob) if event.blob else event.value
                found[event.step] = _error(event.error, "unusable_result") if event.error else _result(value)
            case e.Abort():
                found[event.step] = _error(event.error, event.code or event.outcome)
            case e.StepRefused():
                found[event.step] = _error(event.reason, event.code)
            case e.LoopGuardTripped():
                found[event.step] = _error(event.reason, "loop_guard")
            case e.GateOpened():
                gates[event.gate] = event.step
            case e.GateAnswered(answer="happened"):
                found[gates[event.gate]] = _result(event.value)
            case e.GateAnswered(answer="modify"):
                found[gates[event.gate]] = _error(f"a person asks for a change: {event.note}", "modified")
            case _:
                pass
    called = [step.id for step in plan.steps if step.tool is not None]
    if refusal is not None:
        return [refusal for _ in called] or [refusal]
    if not is_strict:  # before rule 5, an empty object counted as no result
        found = {name: result for name, result in found.items() if result}
    return [found.get(name, _error("it did not run", "not_done")) for name in called]


def _refusal(verdict: JsonObject) -> dict[str, Any]:
    reasons = "; ".join(verdict.get("reasons", ())) or "the critic refused it"
    said = _error(reasons, str(verdict.get("code") or verdict.get("kind") or "refused"))
    return {**said, "remedy": verdict["remedy"]} if verdict.get("remedy") else said


def _error(message: str, kind: str) -> dict[str, Any]:
    return {"error": message or kind, "error_type": kind}


def _result(value: Any) -> dict[str, Any]:
    members = as_object(value)
    return {"result": value} if members is None else members
