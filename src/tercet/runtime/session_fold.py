"""How a session begins, pauses, is resumed, gives up and ends, and how a run comes to its verdict.

Each function folds the event of its name.
"""

from __future__ import annotations

import msgspec

from tercet.contracts.loop import Phase
from tercet.journal import events as e
from tercet.runtime.changes import (
    INTERRUPTED,
    changed,
    demand,
    more,
)
from tercet.runtime.state import State, Used

P = Phase


def session_started(state: State, event: e.SessionStarted) -> State:
    demand(state, event, is_met=not state.start, why="it has started already")
    return changed(state, start=msgspec.to_builtins(event))


def session_resumed(state: State, _: e.SessionResumed) -> State:
    steps = dict(state.steps)
    unjudged = list(state.unjudged)
    for name in state.frontier:
        step = steps[name]
        if step.status == "in_flight":
            # Whether a call that was under way when its process stopped took effect is not known any more,
            # and it may still take effect until its deadline.
            steps[name] = msgspec.structs.replace(
                step,
                status="unknown",
                outcome="unknown",
                error="its process stopped",
                code=INTERRUPTED,
                not_before=step.deadline,
                since=step.deadline,
                asked=0,
            )
        elif step.status == "failed" and (state.halted_from or name not in unjudged):
            # It was handed to a person, who lets the run go on: what did not happen may be tried afresh.
            unjudged = [other for other in unjudged if other != name]
            if step.outcome == "done":
                unjudged.append(name)
            else:
                steps[name] = msgspec.structs.replace(step, status="pending", retries=0, not_before=0)
    return changed(
        state,
        phase=state.halted_from or state.phase,
        halted_from=None,
        status="in_progress",
        steps=steps,
        unjudged=tuple(unjudged),
        used=_interrupted(state.used),
        reason="" if state.halted_from else state.reason,
    )


def _interrupted(used: Used) -> Used:
    """Calls that a stopped process left behind count as made; what they cost is booked if they turn out to be done."""
    return msgspec.structs.replace(
        used,
        tool_calls=used.tool_calls + used.reserved_calls,
        reserved_calls=0,
        reserved_tokens=0,
        reserved_cost=0,
    )


def session_paused(state: State, event: e.SessionPaused) -> State:
    demand(state, event, is_met=not state.in_flight, why="a call is in flight")
    return changed(state, phase=P.HALT, halted_from=state.phase, status="paused", reason=event.reason)


def given_up(state: State, event: e.GivenUp) -> State:
    demand(state, event, is_met=not state.in_flight, why="a call is in flight")
    return changed(state, phase=P.FAIL, reason=event.reason)


def session_ended(state: State, event: e.SessionEnded) -> State:
    demand(state, event, is_met=not state.in_flight, why="a call is in flight")
    wanted = "completed" if state.phase is P.COMMIT else "failed"
    demand(state, event, is_met=event.status == wanted, why=f"it can only end {wanted}")
    return changed(state, status=wanted, reason=event.reason, record=event.record, kept=event.kept, gates={})


def outputs_produced(state: State, event: e.OutputsProduced) -> State:
    demand(state, event, is_met=not state.in_flight, why="a call is in flight")
    return changed(state, phase=P.VERIFY, outputs=event.outputs, missing=event.missing)


def run_reported(state: State, event: e.RunReported) -> State:
    reported = changed(state, report=event.report, envelope=event.envelope)
    match event.outcome:
        case "accept":
            return changed(reported, phase=P.COMMIT)
        case "replan":
            return changed(
                reported,
                phase=P.PLAN,
                used=more(state, replans=1),
                feedback=event.reasons,
                refused=(*state.refused, state.plan_hash),
            )
        case _:
            return changed(
                reported,
                phase=P.HALT,
                halted_from=P.VERIFY,
                status="paused",
                reason="escalated: " + "; ".join(event.reasons),
            )
