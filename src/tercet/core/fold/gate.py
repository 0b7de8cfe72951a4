"""Folds of gates and their answers.

Each function folds the event of its name. Who may answer what is decided before an answer becomes an event, since that
needs to know who people are; here an answer must only fit the gate that is open.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from tercet.contracts.loop import Phase
from tercet.contracts.runs.behaviour import Behaviour
from tercet.contracts.shape import as_object
from tercet.core import events as e
from tercet.core.budget import add, amounts_of
from tercet.core.fold.base import (
    MODIFIED,
    POLICY,
    answers_to,
    changed,
    copy_fields,
    demand,
    illegal,
    named_among,
    owner_named,
    owners_of,
    step_of,
    with_step,
)
from tercet.core.fold.quality import with_quality
from tercet.core.fold.session import effects_kept, ending, extended, revived
from tercet.core.fold.step import complete, did_not_happen
from tercet.core.outputs.rounds import told_round
from tercet.core.state import Answer, Change, Entered, OpenGate, SetValue, State, StepState

P = Phase

DROPPED_KEPT = 8
"""How many dropped messages a state remembers."""


def gate_opened(state: State, event: e.GateOpened) -> State:
    demand(state, event, is_met=event.gate not in state.gates, why="this gate is open already")
    is_of_phase = (event.kind == "output") == (state.phase is P.VERIFY)
    demand(state, event, is_met=is_of_phase, why="a gate of kind output is for outputs that were scored")
    opened = changed(state, opened=state.opened + 1)
    if event.kind in ("approval", "reconcile"):
        opened = _hold_steps(opened, event)
    gate = copy_fields(OpenGate, event, id=event.gate)
    return changed(opened, gates={**state.gates, event.gate: gate})


def _hold_steps(state: State, event: e.GateOpened) -> State:
    """Let the steps that a gate is about wait for it."""
    status = "gated" if event.kind == "approval" else "unknown"
    for name in (event.step, *event.covers):
        step = step_of(state, name, event)
        is_open = step.status in ("pending", "unknown") and not step.gate
        demand(state, event, is_met=is_open, why=f"step {name} is {step.status}")
        state = changed(state, steps=with_step(state, name, status=status, gate=event.gate))
    return state


def gate_for(state: State, gate: str, answer: str) -> OpenGate | None:
    """Return the gate that an answer refers to: an open one or, for a withdrawal, one that had all its approvals."""
    found = state.gates.get(gate)
    return state.approved.get(gate) if found is None and answer == "withdraw" else found


def gate_answered(state: State, event: e.GateAnswered) -> State:
    gate = gate_for(state, event.gate, event.answer)
    if gate is None:
        raise illegal(state, event, f"gate {event.gate} is not open")
    demand(state, event, is_met=event.digest == gate.digest, why="the answer is about another call")
    is_fitting = event.answer in answers_to(gate)
    demand(
        state, event, is_met=is_fitting, why=f"{event.answer} is not an answer to a gate of kind {gate.kind}"
    )
    # Taking an approval back is never too late while its call waits: the gate is open again, and its time is over.
    is_stale = bool(gate.stale) and event.at >= gate.stale and event.answer == "approve"
    demand(state, event, is_met=not is_stale, why=f"the evidence of gate {gate.id} has expired")
    is_late = bool(gate.expires) and event.at >= gate.expires and event.answer != "withdraw"
    demand(state, event, is_met=not is_late, why="its time to live is over")
    # A withdrawal says nothing of the calls that have begun: they ran with an approval.
    is_kept = event.answer == "withdraw"
    about = [step for step in gate.calls if not is_kept or can_be_held(state.steps[step], gate)]
    answered = changed(
        state,
        answers=(*state.answers, *(_as_answer(gate, event, step) for step in about)),
        inbox=max(state.inbox, event.inbox),
    )
    return _FOLDS[event.answer](answered, gate, event)


def _as_answer(gate: OpenGate, event: e.GateAnswered, step: str) -> Answer:
    """Return an answer with the names that it counts for: an approval under the names whose roles its giver holds, any
    other answer under all of them."""
    is_approval = event.answer == "approve"
    counted = (
        tuple(name for name in gate.names if gate.counts(name, event.roles)) if is_approval else gate.names
    )
    return copy_fields(Answer, event, names=counted, step=step, digest=gate.calls[step])


def _without(state: State, gate: OpenGate) -> dict[str, OpenGate]:
    return {name: other for name, other in state.gates.items() if name != gate.id}


# --- approval gates ---


def _approve(state: State, gate: OpenGate, event: e.GateAnswered) -> State:
    login = event.login
    is_own = bool(owner_named(state, event.actor, login))
    demand(state, event, is_met=not is_own, why="they started this run, or one that it is nested in")
    is_changer = has_set_values(state, gate, event.actor, login)
    demand(state, event, is_met=not is_changer, why="they set values in it")
    is_second = any(a.actor == event.actor or (login and a.login == login) for a in gate.approvals)
    demand(state, event, is_met=not is_second, why="they approved it already")
    gate = msgspec.structs.replace(gate, approvals=(*gate.approvals, _as_answer(gate, event, gate.step)))
    if gate.unmet:
        return changed(state, gates={**state.gates, gate.id: gate})
    if gate.lane:
        return _pass_on(state, gate)
    if gate.kind == "output":
        return changed(state, gates=_without(state, gate), phase=P.COMMIT)
    let_through = changed(state, gates=_without(state, gate), approved={**state.approved, gate.id: gate})
    for name, digest in gate.calls.items():
        let_through = changed(
            let_through, steps=with_step(let_through, name, status="pending", gate="", approved=digest)
        )
    return let_through


def _pass_on(state: State, gate: OpenGate) -> State:
    """Call the step of a lane again, so that the lane receives the answers to its gate."""
    steps = with_step(state, gate.step, status="pending", gate="")
    return changed(state, gates=_without(state, gate), steps=steps)


def has_set_values(state: State, gate: OpenGate, actor: str, login: str) -> bool:
    """Return whether a person has set values in one of the calls that a gate is about."""
    mine = (each for each in state.changed if each.step in gate.calls)
    return any(each.by == actor or (bool(login) and each.login == login) for each in mine)


def can_be_held(step: StepState, gate: OpenGate) -> bool:
    """Return whether a gate can still keep a call from being made: it has not begun, no attempt at it may have happened, and it
    does not wait at another gate."""
    is_apart = step.gate not in ("", gate.id)
    return step.status in ("gated", "pending") and not step.is_unsettled and not is_apart


def _withdraw(state: State, gate: OpenGate, event: e.GateAnswered) -> State:
    """Return the state without one approval; if the gate had them all, it is open again, and its calls that have not
    begun wait."""
    left = tuple(a for a in gate.approvals if a.actor != event.actor)
    demand(state, event, is_met=len(left) < len(gate.approvals), why="there is no approval of theirs")
    waiting = [name for name in gate.calls if can_be_held(state.steps[name], gate)]
    demand(state, event, is_met=bool(waiting), why="its calls have begun")
    for name in waiting:
        state = changed(state, steps=with_step(state, name, status="gated", gate=gate.id, approved=""))
    approved = {name: other for name, other in state.approved.items() if name != gate.id}
    first, *others = waiting
    reopened = msgspec.structs.replace(
        gate,
        approvals=left,
        step=first,
        digest=gate.calls[first],
        covers={name: gate.calls[name] for name in others},
        shown=_shown(gate, waiting),
    )
    return changed(state, approved=approved, gates={**state.gates, gate.id: reopened})


def _shown(gate: OpenGate, waiting: list[str]) -> dict[str, Any]:
    """Return the content of a gate over a sequence: the first waiting call and the others after it, without those that
    have begun."""
    calls = {call["step"]: call for call in gate.shown.get("sequence", ())}
    left = [calls[name] for name in waiting if name in calls]
    if gate.step in waiting or not left:
        return {**gate.shown, "sequence": left} if calls else gate.shown
    first = {name: value for name, value in left[0].items() if name != "step"}
    return {**gate.shown, **first, "sequence": left[1:]}


def is_of_compensation(state: State, gate: OpenGate) -> bool:
    """Return whether a gate is about a compensation."""
    return gate.step in state.steps and bool(state.steps[gate.step].compensates)


def _deny(state: State, gate: OpenGate, event: e.GateAnswered) -> State:
    if gate.lane:  # only the lane ends
        return _pass_on(state, gate)
    if is_of_compensation(state, gate):  # the run is ending already: only this compensation is not made
        return _refuse_call(state, gate, f"{event.actor} denied it: {event.note}".rstrip(": "), "denied")
    about = "the outputs" if gate.kind == "output" else gate.step
    reason = f"{event.actor} denied {about}: {event.note}".rstrip(": ")
    return ending(changed(state, gates=_without(state, gate)), "rejected", reason)


def _modify(state: State, gate: OpenGate, event: e.GateAnswered) -> State:
    """Send the call back to the planner with what the person says: its step counts as refused, and those that the same
    gate was about wait for the next plan. Where the person sets values, the next plan is this one with those values, and
    no planner is asked. Outputs go into repair."""
    is_call = gate.kind == "approval"
    demand(state, event, is_met=is_call or not event.changes, why="values are set in calls only")
    if gate.kind == "output":
        quality = with_quality(state, feedback=event.note, stage="", escalation={})
        return changed(state, gates=_without(state, gate), phase=P.REPAIR, quality=quality)
    is_planned = not is_of_compensation(state, gate)
    demand(state, event, is_met=is_planned, why="a compensation can no longer be changed")
    for name in gate.covers:
        state = changed(state, steps=with_step(state, name, status="pending", gate="", approved=""))
    if event.changes:
        demand(state, event, is_met=state.change is None, why="another change is being reviewed")
        state = changed(state, change=_requested_change(gate, event))
    return _refuse_call(state, gate, event.note, MODIFIED)


def _requested_change(gate: OpenGate, event: e.GateAnswered) -> Change:
    """Return the change that an answer asks for."""
    values = tuple(
        SetValue(
            step=gate.step,
            tool=str(gate.shown.get("tool", "")),
            place=place,
            value=value,
            by=event.actor,
            login=event.login,
            gates=gate.names,
        )
        for place, value in event.changes.items()
    )
    return Change(
        step=gate.step,
        values=values,
        note=event.note,
        params=gate.shown.get("params", {}),
        defaults=tuple(gate.shown.get("defaults", ())),
    )


def _refuse_call(state: State, gate: OpenGate, reason: str, code: str) -> State:
    """Return the state in which the call of a gate is not made, because of a person's answer."""
    refused = with_step(
        state,
        gate.step,
        status="failed",
        outcome="refused",
        gate="",
        approved="",
        error=reason,
        code=code,
        is_retriable=False,
    )
    return changed(state, steps=refused, gates=_without(state, gate), unjudged=(*state.unjudged, gate.step))


# --- calls of unknown outcome ---


def _did_not_happen(state: State, gate: OpenGate, _: e.GateAnswered) -> State:
    state = did_not_happen(state, gate.step)
    steps = with_step(state, gate.step, status="pending", gate="", asked=0, not_before=0)
    return changed(state, gates=_without(state, gate), steps=steps)


def _happened(state: State, gate: OpenGate, event: e.GateAnswered) -> State:
    """Return the state after a person has confirmed that a call happened."""
    step = state.steps[gate.step]
    found = e.Complete(
        at=event.at,
        step=gate.step,
        attempt=step.attempt,
        value=event.value,
        reconciled=True,
        **amounts_of(step),
    )
    asked = changed(state, gates=_without(state, gate))
    done = changed(asked, **complete(asked, found))
    if Behaviour.STRICT_CALLS not in state.start.behaviour:
        return done
    is_trusted = is_trusted_settler(owners_of(state.start), gate.shown, event)
    entered = Entered(by=event.actor, is_trusted=is_trusted)
    return changed(done, entered={**state.entered, gate.step: entered})


def is_trusted_settler(
    owners: Iterable[Mapping[str, Any]], shown: Mapping[str, Any], event: e.GateAnswered
) -> bool:
    """Return whether a person holds a role whose entries the pack trusts; an owner of the run never does."""
    if named_among(owners, event.actor, event.login):
        return False
    return not set(shown.get("trusted_roles", ())).isdisjoint(event.roles)


# --- escalated runs ---


def _extend(state: State, gate: OpenGate, event: e.GateAnswered) -> State:
    amounts = as_object(event.value) or {}
    return revived(extended(changed(state, gates=_without(state, gate)), event, amounts))


def _replan(state: State, gate: OpenGate, event: e.GateAnswered) -> State:
    return changed(
        state,
        gates={},
        approved={},
        phase=P.PLAN,
        halted_from=None,
        status="in_progress",
        reason="",
        escalation=None,
        change=None,
        feedback=(event.note or gate.shown.get("reason", "a person asks for another plan"),),
        setbacks=(*state.setbacks, (gate.step,) if gate.step else ()),
        refused=(*state.refused, state.plan_hash),
        used=add(state.used, replans=1),
    )


def _accept_partial(state: State, _: OpenGate, event: e.GateAnswered) -> State:
    is_known = not any(state.steps[name].is_reserving for name in state.frontier)
    demand(state, event, is_met=is_known, why="the outcome of a call is not known")
    said = f"accepted as partial by {event.actor}: {event.note}".rstrip(": ")
    told = told_round(state.quality.restored)
    return changed(
        state,
        gates={},
        approved={},
        phase=P.COMMIT,
        halted_from=None,
        status="in_progress",
        escalation=None,
        partial=event.actor,
        reason=f"{said}; {told}" if told else said,
    )


def _abandon(state: State, gate: OpenGate, event: e.GateAnswered) -> State:
    reason = f"abandoned by {event.actor}: {event.note or gate.shown.get('reason', '')}".rstrip(": ")
    return ending(changed(state, gates=_without(state, gate)), "failed", reason)


# --- effects of a run that did not succeed ---


def _compensate(state: State, gate: OpenGate, _: e.GateAnswered) -> State:
    """Return the state in which compensation is agreed; the resolved calls follow in an event of their own."""
    return changed(state, gates=_without(state, gate), saga="agreed")


def _keep(state: State, gate: OpenGate, event: e.GateAnswered) -> State:
    return effects_kept(
        changed(state, gates=_without(state, gate)), e.EffectsKept(at=event.at, by=event.actor)
    )


_FOLDS: dict[str, Callable[[State, OpenGate, e.GateAnswered], State]] = {
    "approve": _approve,
    "withdraw": _withdraw,
    "deny": _deny,
    "modify": _modify,
    "happened": _happened,
    "did_not_happen": _did_not_happen,
    "extend": _extend,
    "replan": _replan,
    "accept_partial": _accept_partial,
    "abandon": _abandon,
    "compensate": _compensate,
    "keep": _keep,
}


# --- outputs that are about to be committed ---


def acceptances(state: State) -> tuple[Answer, ...]:
    """Return the approvals for committing the outputs; none if no one was asked, or the outputs are being delivered."""
    if state.phase is not P.COMMIT or state.quality.stage != "asking" or state.accepted is not None:
        return ()
    given = [answer for answer in state.answers if answer.answer == "approve" and not answer.step]
    return tuple(answer for answer in given if answer.gate == given[-1].gate)


def acceptance_lapsed(state: State, event: e.AcceptanceLapsed) -> State:
    is_theirs = event.gate in {answer.gate for answer in acceptances(state)}
    demand(state, event, is_met=is_theirs, why="the outputs were not accepted there")
    return changed(state, phase=P.VERIFY, quality=with_quality(state, lapsed=event.reason))


# --- grants by policies, and dropped messages ---


def approval_granted(state: State, event: e.ApprovalGranted) -> State:
    step = step_of(state, event.step, event)
    demand(state, event, is_met=step.status == "pending", why=f"step {event.step} is {step.status}")
    why = "a re-plan added this step, or it was planned after untrusted data was read"
    demand(state, event, is_met=not step.is_added, why=why)
    actor = f"{POLICY}{event.policy}"
    granted = copy_fields(Answer, event, gate="", names=(), actor=actor, auth="policy", answer="grant")
    return changed(
        state, steps=with_step(state, event.step, approved=event.digest), answers=(*state.answers, granted)
    )


def message_dropped(state: State, event: e.MessageDropped) -> State:
    kept = (*state.dropped, (event.inbox, event.code, event.reason))[-DROPPED_KEPT:]
    return changed(state, inbox=max(state.inbox, event.inbox), dropped=kept)
