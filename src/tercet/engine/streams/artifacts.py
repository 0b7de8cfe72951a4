"""Artifacts of runs: AgentResult, FailureReport or HaltRecord, derived from the events on request.

They are not stored, so every session that has stopped has its artifact. Only settlements of effects that could not be
compensated are added after the end; they are in a side stream of the session, which needs no lease.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

import msgspec

from tercet.contracts.errors import UsageError
from tercet.contracts.runs.record import AgentResult, FailureReport, HaltRecord
from tercet.contracts.runs.saga import RollbackEntry, RollbackResult, RollbackStatus
from tercet.contracts.values.canonical import digest
from tercet.core import effects as undoing
from tercet.core.message_rules import demand_settler
from tercet.core.messages import Reply
from tercet.core.state import State
from tercet.core.transcript import moment
from tercet.engine.checks.provenance import audit_of, provenance_of, read_trail
from tercet.engine.session_reader import load_state
from tercet.journal.protocol import Journal, StoredCheckpoint
from tercet.journal.side_stream import append_at, encode_entry, read_all

Artifact: TypeAlias = AgentResult | FailureReport | HaltRecord


async def artifact(journal: Journal, tenant: str, session: str) -> Artifact:
    """Return the artifact of a session; raises `UsageError` while it is in progress."""
    state = await load_state(journal, tenant, session)
    if state.status == "in_progress":
        raise UsageError(
            f"session {session} is in progress: it has left nothing yet",
            code="no_artifact",
            remedy=f"watch it with tercet sessions watch {session}, or continue it with tercet sessions resume {session}",
        )
    trail = await read_trail(journal, tenant, session)
    stored, origin = trail.checkpoints, provenance_of(trail)
    if state.status in ("paused", "awaiting_gate"):
        return _halt(state, stored).model_copy(update={"provenance": origin})
    if state.status == "completed":
        return AgentResult(
            output=state.outputs,
            provenance=origin,
            audit=audit_of(trail),
            content_hash=digest(state.outputs),
        )
    failure = _failure(state, stored, await rollback_result(journal, tenant, state))
    return failure.model_copy(update={"provenance": origin})


# --- FAIL ---


def _failure(
    state: State, stored: Sequence[StoredCheckpoint], rollback: RollbackResult | None
) -> FailureReport:
    return FailureReport(
        reason=state.reason,
        diagnosis=tuple(dict.fromkeys(_diagnosis(state))),
        partial_output=state.outputs,
        checkpoint=stored[-1].hash if stored else None,
        status=state.ending or "failed",
        rollback=rollback,
        next_commands=tuple(_next_commands(state, rollback)),
    )


def _diagnosis(state: State) -> Iterator[str]:
    """Yield the known reasons of a failure: refusals, failed steps and rejected outputs."""
    if state.verdict.get("outcome") in ("reject", "replan"):
        yield from state.verdict.get("reasons", ())
    for name, step in state.steps.items():
        if step.status == "failed" and not step.compensates:
            yield f"step {name}: {step.error or 'it failed'}"
    for name, why in state.missing.items():
        yield f"output {name}: {why}"
    if state.saga == "kept" and state.done:
        yield "what it did was left as it is"


def _next_commands(state: State, rollback: RollbackResult | None) -> Iterator[str]:
    session = state.start.session
    yield f"tercet sessions show {session}"
    for entry in rollback.log if rollback is not None else ():
        if entry.is_open:
            yield f"tercet sessions settle {session} {entry.step_id}"


# --- HALT ---


def _halt(state: State, stored: Sequence[StoredCheckpoint]) -> HaltRecord:
    gate = next(iter(state.gates.values()), None)
    return HaltRecord(
        reason=state.reason or (f"gate {gate.id} waits for an answer" if gate is not None else ""),
        checkpoint=stored[-1].hash if stored else "",
        halted_at=moment(state.at),
        gate=gate.id if gate is not None else None,
    )


# --- compensation ---


class Settlement(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A person settled an effect that could not be compensated."""

    step: str
    by: str
    at: int
    note: str = ""
    simulated_by: str = ""
    """The login of the person who acted as `by` in a development session; empty otherwise."""
    key: str = ""
    """The key of the call that wrote it, by which a repeat is recognised; empty if the call had none."""


_decode = msgspec.json.Decoder(Settlement).decode


def rollback_of(session: str) -> str:
    """Return the name of the side stream with a session's settlements."""
    return f"rollback:{session}"


async def rollback_result(journal: Journal, tenant: str, state: State) -> RollbackResult | None:
    """Return the result of compensation, with settlements by people; None if nothing was compensated."""
    result = undoing.rollback(state)
    if result is None or not result.requires_manual_intervention:
        return result
    return _merge_settlements(result, await _settlements(journal, tenant, state))


async def _settlements(journal: Journal, tenant: str, state: State) -> list[Settlement]:
    stored = await read_all(journal, tenant, rollback_of(state.start.session))
    return [_decode(each.data) for each in stored]


def _merge_settlements(result: RollbackResult, settled: Sequence[Settlement]) -> RollbackResult:
    by_step = {each.step: each for each in settled}
    log = tuple(
        entry.model_copy(update=_settled_fields(entry, by_step[entry.step_id]))
        if entry.step_id in by_step
        else entry
        for entry in result.log
    )
    return result.model_copy(
        update={"log": log, "requires_manual_intervention": any(entry.is_open for entry in log)}
    )


def _settled_fields(entry: RollbackEntry, settlement: Settlement) -> dict[str, str]:
    note = "; ".join(text for text in (entry.note, settlement.note) if text)
    return {"settled_by": settlement.by, "note": note}


async def settle_rollback(
    journal: Journal, tenant: str, state: State, step: str, said: Reply, now: int
) -> RollbackResult:
    """Record the settlement of an effect that could not be compensated, and return the result with it.

    Raises `UsageError` for a session that is not over, a step with nothing to settle, one that is already settled, and a
    person who may not settle it.
    """
    session = state.start.session
    if not state.is_over:
        raise UsageError(
            f"session {session} is not over: it is {state.status}",
            code="session_not_over",
            remedy=f"answer its gate first: tercet gates show {next(iter(state.gates))}"
            if state.gates
            else f"tercet sessions resume {session} brings it to its end",
        )
    settlement = Settlement(
        step=step, by=said.actor, at=now, note=said.note, simulated_by=said.simulated_by, key=said.nonce
    )
    stream = rollback_of(session)
    data = encode_entry(settlement, tenant, stream)
    while True:
        settled = await _settlements(journal, tenant, state)
        if said.nonce and any(each.key == said.nonce for each in settled):
            break  # the call was sent again
        _demand_open(state, settled, step)
        demand_settler(said, step, state)
        if await append_at(journal, tenant, stream, len(settled), data) is not None:
            break  # otherwise another settlement was written at the same moment
    result = await rollback_result(journal, tenant, state)
    return result or RollbackResult(success=True)


def _demand_open(state: State, settled: Sequence[Settlement], step: str) -> None:
    session = state.start.session
    result = undoing.rollback(state)
    log = _merge_settlements(result, settled).log if result is not None else ()
    entry = next((entry for entry in log if entry.step_id == step), None)
    if entry is None or entry.status is RollbackStatus.COMPENSATED:
        waiting = ", ".join(each.step_id for each in log if each.is_open) or "none"
        raise UsageError(
            f"session {session} left nothing to settle at step {step}",
            code="nothing_to_settle",
            remedy=f"the steps that wait for it: {waiting}",
        )
    if entry.settled_by is not None:
        raise UsageError(
            f"step {step} of session {session} was settled by {entry.settled_by} already",
            code="already_settled",
            remedy=f"tercet sessions show {session} shows how",
        )
