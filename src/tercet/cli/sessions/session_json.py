"""A session and its gates as JSON, for programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from tercet.cli.journals import RecordedSession
from tercet.cli.sessions.next_commands import Commands
from tercet.cli.sessions.revision_view import revisions_json, timing_json
from tercet.core import events as e
from tercet.core.budget import budget_of
from tercet.core.state import OpenGate, State, StepState
from tercet.core.transcript import timestamp
from tercet.engine.progress import envelope, make_session_row
from tercet.view.phases import PhaseEvent
from tercet.view.terminal.events import Columns
from tercet.view.vocabulary import standing


def as_json(recorded: RecordedSession, commands: Commands) -> dict[str, Any]:
    """Return a session as one JSON object."""
    state = recorded.state
    start = state.start
    latencies, tools, results = recorded.latencies, Columns.of(state.plan).tools, _results(recorded)
    return {
        "session_id": start.session,
        "status": state.status,
        "standing": standing(state),
        "reason": state.reason,
        "code": state.paused_for,
        "ending": state.ending,
        "is_shadow": bool(start.shadow),
        "phase": state.phase,
        "intent": start.request["intent"],
        "input": start.request.get("input", {}),
        "decision": start.decision,
        "owner": start.actor["id"],
        "dev": bool(start.dev),
        "run_id": start.run,
        "pack": start.pack,
        "pack_hash": start.pack_hash,
        "snapshot": start.snapshot,
        "library": start.library,
        "safety_mode": start.safety_mode,
        "started_at": timestamp(start.at),
        "updated_at": timestamp(state.at),
        "plan": state.plan,
        "plan_hash": state.plan_hash,
        "revisions": revisions_json(recorded),
        "schedule": timing_json(recorded),
        "steps": [
            {
                "id": name,
                "tool": tools.get(name),
                "status": step.status,
                "attempts": step.attempt,
                "latency_ms": latencies.get(name),
                "error": step.error,
                "result": results.get(name),
                "gate": step.gate,
                **({"lane": _lane(step)} if step.is_lane else {}),
            }
            for name, step in state.steps.items()
        ],
        "gates": [gate_json(gate) for gate in state.gates.values()],
        "answers": msgspec.to_builtins(state.answers),
        "outputs": state.outputs,
        "missing": state.missing,
        "quality": _quality(state, recorded.events),
        "verdict": state.verdict,
        "report": state.report,
        "used": {name: getattr(state.used, name) for name in state.used.__struct_fields__},
        "budget": budget_of(state).model_dump(mode="json"),
        "extended": state.extended,
        "rollback": recorded.rollback.model_dump(mode="json") if recorded.rollback else None,
        "record": state.record,
        "published": _published(recorded),
        "next": commands.commands(state, recorded.rollback),
    }


def _published(recorded: RecordedSession) -> dict[str, Any]:
    """Return the session row, its progress at the last event, and the verdict on the run in their published shapes."""
    state = recorded.state
    row = make_session_row(state, recorded.events, recorded.checkpoints)
    return {
        "session": row.model_dump(mode="json"),
        "progress": envelope(state, state.at).model_dump(mode="json"),
        "verdict": state.envelope or None,
    }


def _lane(step: StepState) -> dict[str, Any]:
    """Return the lane that a step has started: its session, and what it used."""
    used = {"tool_calls": step.lane_calls, "tokens": step.tokens, "cost_microcents": step.cost}
    return {"session_id": step.lane, "used": used if step.lane else None}


def _quality(state: State, events: Sequence[e.Event]) -> dict[str, Any] | None:
    """Return every recorded phase of the quality loop and its state; None if outputs were not reviewed."""
    phases = [msgspec.to_builtins(event) for event in events if isinstance(event, PhaseEvent)]
    if not phases and not state.quality.exit:
        return None
    quality = state.quality
    return {
        "task_class": quality.drawn.get("task_class"),
        "phases": phases,
        "repairs": state.used.repairs,
        "restored": quality.restored or None,
        "course": list(quality.course),
        "exit": quality.exit or None,
        "confidence": quality.confidence or None,
        "left": quality.escalation or None,
    }


def _results(recorded: RecordedSession) -> dict[str, Any]:
    """Return the last result of each step; a large value by its digest."""
    return {
        event.step: {"$blob": event.blob} if event.blob else event.value
        for event in recorded.events
        if isinstance(event, e.Complete)
    }


def gate_json(gate: OpenGate) -> dict[str, Any]:
    """Return an open gate as one JSON object."""
    return {
        "id": gate.id,
        "kind": gate.kind,
        "step": gate.step,
        "names": list(gate.names),
        "needs": msgspec.to_builtins(gate.needs),
        "approvals": msgspec.to_builtins(gate.approvals),
        "digest": gate.digest,
        "covers": gate.covers,
        "shown": gate.shown,
        "opened_at": timestamp(gate.at),
        "expires_at": timestamp(gate.expires) if gate.expires else None,
    }
