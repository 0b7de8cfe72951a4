"""What may have changed between an approval and the call: looked at again when the call is due; any drift fails closed.
The same for outputs that people have accepted, when they are to be committed.

That the call itself is another one shows in its digest, that the pack or the evidence is, in the session's pins. What is
left is what time and people change: evidence that has expired, and approvers who no longer hold their role, or who are by
the pack's list of people another login than the one that approved.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from tercet.contracts.effective import EffectiveStep
from tercet.core.approval import accepting, dated_sources
from tercet.core.config import RunConfig
from tercet.core.events import Need
from tercet.core.fold.gate import acceptances
from tercet.core.state import Answer, OpenGate, State

Objection: TypeAlias = Callable[[Answer, tuple[str, ...]], str]
"""Why an approval does not count by now where one of these roles is asked for; empty if it does."""


def find_expired_evidence(state: State, config: RunConfig, call: EffectiveStep, now: int) -> str | None:
    """Return the first piece of evidence that a call depends on and that has expired; None if all of it is valid."""
    for ref in dated_sources(state, config, call) if config.expiry else ():
        if config.expiry.get(ref, now + 1) <= now:
            return ref
    return None


def find_lost_approval(state: State, config: RunConfig, name: str, objection: Objection) -> str:
    """Return why the approvals of a call no longer count, by what is known of people now; empty if they do."""
    for gate in state.approved.values():
        if name in gate.calls and (lost := _lost(gate, objection)):
            return lost
    covering = _covering_gate(state, config, name)
    return "" if covering is None else _lost(covering, objection)


def _covering_gate(state: State, setting: RunConfig, name: str) -> OpenGate | None:
    """Return the gate at which a proposed compensation was approved together with its step; None if it was not."""
    bound = next((undo.bound for undo in state.undo if name == undo.name), None)
    if bound is None or bound.approved is None:
        return None
    host = state.steps[name].compensates.partition("#")[0]
    given = [each for each in state.answers if each.answer == "approve" and each.step == host]
    known = setting.compiled.gates_by_name
    gates = (known[gate] for gate in bound.approved if gate in known)
    needs = {gate.name: Need(roles=gate.roles, quorum=gate.quorum) for gate in gates}
    approvals = tuple(each for each in given if each.digest == given[-1].digest)
    return OpenGate(
        id=given[-1].gate, kind="approval", step=host, needs=needs or {"": Need()}, approvals=approvals
    )


def find_lost_acceptance(state: State, config: RunConfig, objection: Objection) -> str:
    """Return why outputs that people have accepted must not be committed any more; empty if nothing speaks against it."""
    given, gate = acceptances(state), accepting(config)
    if not given or gate is None:
        return ""
    needs = {gate.name: Need(roles=gate.roles, quorum=gate.quorum)}
    return _lost(OpenGate(id=given[-1].gate, kind="output", step="", needs=needs, approvals=given), objection)


def _lost(gate: OpenGate, objection: Objection) -> str:
    """Why the approvals of a gate are not enough any more, by what is known of people now; empty if they are."""
    for name, need in gate.needs.items():
        counted = [a for a in gate.approvals if gate.counts(name, a.roles)]
        against = {a.actor: why for a in counted if (why := objection(a, need.roles))}
        if len({a.actor for a in counted} - against.keys()) < need.quorum:
            return "; ".join(f"{who} approved {name or gate.id}, and {why}" for who, why in against.items())
    return ""
