"""A session, its gates and its plan revisions as JSON, for programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import msgspec
from rich.text import Text

from tercet.cli.journals import RecordedSession
from tercet.cli.screen import Screen
from tercet.cli.sessions.next_commands import Commands
from tercet.core import events as e
from tercet.core.budget import budget_of
from tercet.core.plans import read_plan
from tercet.core.state import OpenGate, State, StepState
from tercet.core.transcript import timestamp
from tercet.engine.progress import envelope, make_session_row
from tercet.planner.schedule import Schedule, schedule
from tercet.view.diff import Revision, revisions
from tercet.view.phases import PhaseEvent
from tercet.view.questions import consequences
from tercet.view.terminal.outputs import Columns
from tercet.view.terminal.text import count, duration_text, listed, printable
from tercet.view.vocabulary import standing

MOST_REVISIONS = 6
"""The number of last revisions that are shown: a step-by-step agent has one for each step."""


def timing(recorded: RecordedSession) -> Schedule | None:
    """Return the schedule of the current plan: measured durations of ended steps, planned ones of the others."""
    state = recorded.state
    if not state.plan:
        return None
    ended = {name: step.status for name, step in state.steps.items() if step.status in ("done", "skipped")}
    duration_text = {
        name: recorded.latencies.get(name, 0) if how == "done" else 0 for name, how in ended.items()
    }
    return schedule(read_plan(state.plan), {}, duration_text)


def show_revisions(screen: Screen, recorded: RecordedSession) -> None:
    """Print the changes of each revision; nothing if there is only one."""
    later = [each for each in revisions(recorded.events) if each.number > 1]
    if not later:
        return
    screen.say()
    if len(later) > MOST_REVISIONS:
        left_out = f"… {count(len(later) - MOST_REVISIONS, 'earlier revision')}; --json lists them"
        screen.put(Text(left_out, style="dim"))
    for revision in later[-MOST_REVISIONS:]:
        _show_revision(screen, revision)


def _show_revision(screen: Screen, revision: Revision) -> None:
    why = f": {printable('; '.join(revision.why), 300)}" if revision.why else ""
    planner = f" by {printable(revision.planner, 40)}" if revision.planner else ""
    screen.put(Text.assemble((f"plan {revision.number}", "bold"), f"{planner}{why}"), rest="  ")
    for step in revision.given_up:
        more = "" if step.why == "; ".join(revision.why) else f": {printable(step.why, 200)}"
        screen.put(Text(f"{printable(step.id, 80)} ({step.status}){more}"), first="  given up  ")
    rows = {
        "new": [step.id for step in revision.new],
        "changed": [f"{step.id} ({', '.join(step.fields)})" for step in revision.changed],
        "kept": [f"{step.id}{' (done)' if step.is_done else ''}" for step in revision.kept],
    }
    for label, names in rows.items():
        if names:
            screen.put(Text(listed(names, most=12), style="dim"), first=f"  {label:<10}")


def timing_rows(recorded: RecordedSession) -> dict[str, str]:
    """Return labelled rows about the duration of the plan; none if it is unknown."""
    found = timing(recorded)
    if found is None or not found.sequential_ms:
        return {}
    state = recorded.state
    has_ended = state.is_over and not state.start.shadow
    return {"time": time_text(found), **({} if has_ended else waiting_rows(found))}


# --- time ---


LONGEST_PATH = 12
"""The middle of a longer critical path is left out."""


def schedule_json(schedule: Schedule) -> dict[str, Any]:
    """Return a schedule as one JSON object."""
    return {
        "total_ms": schedule.total_ms,
        "sequential_ms": schedule.sequential_ms,
        "critical_path": list(schedule.critical_path),
        "steps": {
            name: {
                "duration_ms": window.duration_ms,
                "source": window.source,
                "earliest_ms": window.earliest_ms,
                "latest_ms": window.latest_ms,
                "slack_ms": window.slack_ms,
            }
            for name, window in schedule.windows.items()
        },
    }


def time_text(schedule: Schedule) -> str:
    """Return the least duration of the plan, and its critical path."""
    path = [printable(name, 80) for name in schedule.critical_path]
    shown = path if len(path) <= LONGEST_PATH else [*path[:6], "…", *path[-5:]]
    apart = f" ({duration_text(schedule.sequential_ms)} one after the other)"
    total = duration_text(schedule.total_ms) + (apart if schedule.sequential_ms != schedule.total_ms else "")
    return f"{total} along {' → '.join(shown)}"


def waiting_rows(schedule: Schedule) -> dict[str, str]:
    """Return labelled rows about the steps that may wait without delaying the plan, and those of unknown duration."""
    known = [(name, window) for name, window in schedule.windows.items() if window.source != "unknown"]
    waiting = [f"{name} {duration_text(window.slack_ms)}" for name, window in known if window.slack_ms]
    unknown = [name for name, window in schedule.windows.items() if window.source == "unknown"]
    rows = {
        "may wait": listed(waiting, most=6),
        "unknown": f"how long {listed(unknown)} takes" if unknown else "",
    }
    return {label: text for label, text in rows.items() if text}


# --- session json ---


def as_json(recorded: RecordedSession, commands: Commands) -> dict[str, Any]:
    """Return a session as one JSON object."""
    state = recorded.state
    start = state.start
    latencies, tools, results = recorded.latencies, Columns.of(state.plan).tools, _results(recorded)
    planned = timing(recorded)
    return {
        "session_id": start.session,
        "status": state.status,
        "standing": standing(state),
        "reason": state.reason,
        "code": state.paused_for,
        **({"refusal": asdict(recorded.refusal)} if recorded.refusal else {}),
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
        "revisions": msgspec.to_builtins(revisions(recorded.events)),
        "schedule": None if planned is None else schedule_json(planned),
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
        "gates": [
            {**gate_json(gate), "leads_to": [asdict(each) for each in consequences(gate, state)]}
            for gate in state.gates.values()
        ],
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
    """Return the lane that a step has started: its session and its usage."""
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
