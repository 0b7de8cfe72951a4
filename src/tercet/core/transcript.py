"""From a run's events to what evaluators and records read: calls with their results, approvals, budgets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, cast

from msgspec import to_builtins
from pydantic import BaseModel

from tercet.contracts.gate import Approval
from tercet.contracts.plan import Plan
from tercet.contracts.runs.behaviour import Behaviour
from tercet.contracts.runs.record import Delivery, TakenDecision
from tercet.contracts.runs.run import Outcome, Run, SkippedStep, ToolCall, ToolResult, TranscriptEntry
from tercet.contracts.shape import JsonObject, unchecked
from tercet.contracts.values.canonical import canonical_dump
from tercet.core import events as e
from tercet.core.budget import budget_use
from tercet.core.config import ExecutionPlan, RunConfig
from tercet.core.state import State

_LAST_MS = 253_402_300_799_000
"""The last second of the year 9999, the largest value of a datetime."""


@lru_cache(maxsize=64)  # many steps begin in the same millisecond
def moment(ms: int) -> datetime:
    """Return a time in milliseconds as a datetime in UTC; one behind the end of the calendar is its end."""
    return datetime.fromtimestamp(min(ms, _LAST_MS) / 1000, UTC)


def timestamp(ms: int) -> str:
    """Return a time in milliseconds as ISO 8601."""
    return moment(ms).isoformat(timespec="milliseconds").replace("+00:00", "Z")


_DONE = Outcome.DONE
_OTHERS_OF_CALLS = frozenset({e.Abort, e.GateOpened, e.GateAnswered})
"""The other events that a transcript is made of; most events are skipped."""


def transcript(events: Iterable[e.Event], blobs: Mapping[str, Any]) -> tuple[TranscriptEntry, ...]:
    """Return every call with its result, in the order in which the results came.

    Of the large values only those in `blobs` stand here whole, the others by their digest.
    """
    return tuple(_entries(events, blobs))


def _entries(events: Iterable[e.Event], blobs: Mapping[str, Any]) -> Iterator[TranscriptEntry]:
    intents: dict[str, e.Intent] = {}
    gates: dict[str, str] = {}
    for event in events:
        if type(event) is e.Intent:  # most events of a run are these, or complete them
            if event.tool:
                intents[event.step] = event
            continue
        if type(event) is e.Complete:
            if event.step in intents:
                value = blobs.get(event.blob, {"$blob": event.blob}) if event.blob else event.value
                error = event.error or None
                # By position: this is done for every call of every run.
                yield _entry(
                    intents[event.step], _DONE, value, error, None, event.latency, event.tokens, event.cost
                )
            continue
        if type(event) not in _OTHERS_OF_CALLS:
            continue
        match event:
            case e.GateOpened():
                gates[event.gate] = event.step
            case e.GateAnswered(answer="happened") if gates[event.gate] in intents:
                intent = intents[gates[event.gate]]
                yield _entry(
                    intent,
                    Outcome.DONE,
                    value=event.value,
                    tokens=intent.tokens,
                    cost_microcents=intent.cost,
                )
            case e.Abort() if event.step in intents:
                yield _entry(
                    intents[event.step],
                    Outcome(event.outcome),
                    error=event.error,
                    error_code=event.code or None,
                    latency_ms=event.latency,
                )
            case _:
                pass


def _of_this_plan(state: State, events: Sequence[e.Event]) -> list[e.Event]:
    """Return the events of the current plan: those after it, and those of steps kept from before. Earlier plans were
    judged on their own. The record keeps all events.

    What an earlier plan did was judged with that plan. The record keeps all of it.
    """
    if state.revision == 1:
        return list(events)
    proposed = max((at for at, event in enumerate(events) if isinstance(event, e.PlanProposed)), default=0)
    begun = {event.step for event in events[proposed:] if isinstance(event, e.Intent)}
    kept = {name for name, step in state.steps.items() if step.status == "done" and name not in begun}
    gates = {event.gate: event.step for event in events if isinstance(event, e.GateOpened)}
    return [
        event
        for at, event in enumerate(events)
        if at >= proposed
        or getattr(event, "step", None) in kept
        or (isinstance(event, e.GateAnswered) and gates[event.gate] in kept)
    ]


def _entry(
    intent: e.Intent,
    outcome: Outcome,
    value: Any = None,
    error: str | None = None,
    error_code: str | None = None,
    latency_ms: int = 0,
    tokens: int = 0,
    cost_microcents: int = 0,
) -> TranscriptEntry:
    """Return a call and its result; its fields are those of events, which were validated."""
    call = {
        "step_id": intent.step,
        "tool": intent.tool,
        "params": intent.params,
        "idempotency_key": intent.key,
        "attempt": intent.attempt,
        "started_at": moment(intent.at),
    }
    result = {
        "step_id": intent.step,
        "outcome": outcome,
        "value": value,
        "error": error,
        "error_code": error_code,
        "latency_ms": latency_ms,
        "tokens": tokens,
        "cost_microcents": cost_microcents,
    }
    return unchecked(
        TranscriptEntry, {"call": unchecked(ToolCall, call), "result": unchecked(ToolResult, result)}
    )


def run_of(
    config: RunConfig,
    execution_plan: ExecutionPlan,
    state: State,
    events: Sequence[e.Event],
    blobs: Mapping[str, Any],
    *,
    is_whole: bool = False,
) -> Run:
    """Return the input of `score`; `is_whole` includes abandoned plans."""
    # Its parts are contracts that were checked when they were made: checking a plan again costs as much as scoring it.
    skipped = tuple(
        SkippedStep.model_validate({"step_id": name, "reason": step.error})
        for name, step in state.steps.items()
        if step.status == "skipped" and not step.compensates
    )
    return unchecked(
        Run,
        {
            "context": config.ctx,
            "spec": config.spec,
            "compiled": config.compiled,
            "plan": execution_plan.plan,
            "transcript": transcript(events if is_whole else _of_this_plan(state, events), blobs),
            "skipped": skipped + undelivered(execution_plan.plan, state),
            "approvals": approvals(state),
            "outputs": state.outputs,
            "used": budget_use(state.used),
        },
    )


def undelivered(plan: Plan, state: State) -> tuple[SkippedStep, ...]:
    """Return the steps that have not run because they deliver outputs, or wait for a step that does, and the outputs
    are not accepted."""
    if state.accepted is not None:
        return ()
    names = (plan.steps[index].id for index in sorted(plan.graph.delivery))
    return tuple(SkippedStep(step_id=name, reason="outputs_not_accepted") for name in names)


def delivery_of(plan: Plan, state: State) -> Delivery | None:
    """Return the delivered outputs of a run; None if they were not accepted for delivery."""
    if state.accepted is None:
        return None
    names = [plan.steps[index].id for index in sorted(plan.graph.delivery)]
    done = tuple(name for name in names if state.steps[name].status == "done")
    return Delivery(
        outputs_digest=state.accepted.digest,
        accepted_by=state.accepted.by,
        delivered=done,
        undelivered=tuple(name for name in names if name not in done),
    )


def approvals(state: State) -> tuple[Approval, ...]:
    """Return the answers of people to approval gates, and the grants of policies in their place.

    A call that waited for several gates has an answer for each of those that it counts for.
    """
    return tuple(
        Approval.model_validate(
            {
                "gate": name,
                "step_id": answer.step,
                "approver": answer.actor,
                "decision": answer.answer,
                "decided_at": moment(answer.at),
                "auth": answer.auth,
                "login": answer.login or None,
                "roles": answer.roles,
                "digest": answer.digest,
                "note": answer.note,
            }
        )
        for answer in state.answers
        if answer.answer in ("approve", "deny", "modify", "withdraw", "grant")
        for name in answer.names or ("",)
    )


TRANSCRIPT, RUN_VERDICT = "transcript", "run_verdict"
"""The parts of a record that are not stored with it: the events of the session hold them already."""
_VERDICTS = "verdicts"
_AFTER_ALL = "~"
"""Sorts behind the name of every field."""


def decisions_of(events: Iterable[e.Event]) -> tuple[TakenDecision, ...]:
    """Return the decisions that were taken at checkpoints of the plan, in order."""
    return tuple(
        TakenDecision(
            decision_id=event.decision,
            after_step=event.step,
            outcome=event.outcome,
            evidence_refs=event.evidence,
            reason=event.reason,
            decided_at=moment(event.at),
        )
        for event in events
        if type(event) is e.DecisionTaken
    )


def split_record(fields: Mapping[str, Any]) -> tuple[bytes, bytes]:
    """Return the canonical JSON of a record, given by its fields, and the part of it that is stored: all but what the
    events of the session hold already.

    A field is a contract or what one is dumped as.
    """
    printed = {
        TRANSCRIPT: canonical_dump([_dump_entry(entry) for entry in fields[TRANSCRIPT]]),
        _VERDICTS: b"[%s]" % b",".join([verdict.printed for verdict in fields[_VERDICTS]]),
    }
    if (verdict := fields.get(RUN_VERDICT)) is not None:
        printed[RUN_VERDICT] = canonical_dump(_dump(verdict))
    # Canonical JSON has its members in the order of their names, so the whole is made of the parts, each printed once.
    stored: list[bytes] = []
    whole: list[bytes] = []
    others: JsonObject = {}
    for name in (*sorted(fields), _AFTER_ALL):
        if name in fields and name not in printed:
            if (value := fields[name]) is not None:
                others[name] = _dump(value)
            continue
        if others:
            members = canonical_dump(others)[1:-1]
            stored.append(members)
            whole.append(members)
            others = {}
        if name in printed:
            whole.append(b'"%s":%s' % (name.encode(), printed[name]))
            if name == _VERDICTS:
                stored.append(whole[-1])
    return b"{%s}" % b",".join(whole), b"{%s}" % b",".join(stored)


def _dump(value: Any) -> Any:
    """Return a field of a record as JSON; a value that is not a contract is JSON already."""
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", exclude_none=True)
    return [_dump(each) for each in cast("tuple[Any, ...]", value)] if type(value) is tuple else value


def join_record(kept: JsonObject, entries: Iterable[TranscriptEntry], state: State) -> JsonObject:
    """Return a whole record: its stored part together with the events."""
    printed = [entry.model_dump(mode="json", exclude_none=True) for entry in entries]
    scored = {RUN_VERDICT: state.envelope} if holds_run_verdict(state) else {}
    return {**kept, TRANSCRIPT: printed, **scored}


def holds_run_verdict(state: State) -> bool:
    """Return whether the record of a run holds its verdict: it was scored, by the rules of today."""
    return bool(state.envelope) and Behaviour.RUN_VERDICT_RECORDED in state.start.behaviour


def _dump_entry(entry: TranscriptEntry) -> JsonObject:
    """Return what `model_dump(mode="json", exclude_none=True)` does, in less time: most of a record is its transcript."""
    call, result = vars(entry.call).copy(), vars(entry.result).copy()
    result["outcome"] = str(result["outcome"])
    for name in ("value", "error", "error_code"):
        if result[name] is None:
            del result[name]
    if call["started_at"] is not None:
        # As `isoformat` prints it, with Z for UTC, in a tenth of the time.
        call["started_at"] = to_builtins(call["started_at"])
    else:
        del call["started_at"]
    return {"call": call, "result": result}
