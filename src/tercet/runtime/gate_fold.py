"""Questions to people, and what their answers change.

Each function folds the event of its name.
"""

from __future__ import annotations

from tercet.contracts.loop import Phase
from tercet.journal import events as e
from tercet.runtime.changes import (
    ANSWERS,
    changed,
    demand,
    illegal,
    step_of,
    with_step,
)
from tercet.runtime.state import Answer, OpenGate, State
from tercet.runtime.step_fold import complete

P = Phase


def gate_opened(state: State, event: e.GateOpened) -> State:
    step = step_of(state, event.step, event)
    demand(state, event, is_met=event.gate not in state.gates, why="this gate is open already")
    demand(
        state, event, is_met=step.status in ("pending", "unknown"), why=f"step {event.step} is {step.status}"
    )
    gate = OpenGate(
        id=event.gate,
        kind=event.kind,
        step=event.step,
        names=event.names,
        digest=event.digest,
        shown=event.shown,
        at=event.at,
    )
    status = "gated" if event.kind == "approval" else "unknown"
    return changed(
        state,
        gates={**state.gates, event.gate: gate},
        opened=state.opened + 1,
        steps=with_step(state, event.step, status=status, gate=event.gate),
    )


def gate_answered(state: State, event: e.GateAnswered) -> State:
    gate = state.gates.get(event.gate)
    if gate is None:
        raise illegal(state, event, f"gate {event.gate} is not open")
    demand(state, event, is_met=event.digest == gate.digest, why="the answer is about another call")
    is_fitting = event.answer in ANSWERS[gate.kind]
    demand(state, event, is_met=is_fitting, why=f"{event.answer} is no answer to a gate of kind {gate.kind}")
    answer = Answer(
        gate=event.gate,
        names=gate.names,
        step=gate.step,
        actor=event.actor,
        auth=event.auth,
        answer=event.answer,
        digest=event.digest,
        at=event.at,
        note=event.note,
    )
    rest = {name: other for name, other in state.gates.items() if name != event.gate}
    answered = changed(state, gates=rest, answers=(*state.answers, answer))
    if event.answer == "deny":
        return changed(
            answered,
            phase=P.FAIL,
            halted_from=None,
            status="in_progress",
            # What a person was asked about a call that may have happened stays asked.
            gates={name: other for name, other in rest.items() if other.kind == "reconcile"},
            reason=f"{event.actor} denied {gate.step}: {event.note}".rstrip(": "),
        )
    if event.answer == "approve":
        answered = changed(
            answered, steps=with_step(answered, gate.step, status="pending", gate="", approved=gate.digest)
        )
    elif event.answer == "did_not_happen":
        answered = changed(
            answered,
            steps=with_step(
                answered, gate.step, status="pending", outcome="not_done", gate="", asked=0, not_before=0
            ),
        )
    else:
        answered = complete(answered, _found(state, gate, event))
    return answered


def _found(state: State, gate: OpenGate, event: e.GateAnswered) -> e.Complete:
    """The end of a call that a person says happened."""
    step = state.steps[gate.step]
    return e.Complete(
        at=event.at,
        step=gate.step,
        attempt=step.attempt,
        value=event.value,
        tokens=step.tokens,
        cost=step.cost,
        reconciled=True,
    )
