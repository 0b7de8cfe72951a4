"""What may have changed between an approval and the call: looked at again when the call is due; any drift fails closed.
The same for outputs that people have accepted, when they are to be committed.

That the call itself is another one shows in its digest, that the pack or the evidence is, in the session's pins. What is
left is what time and people change: evidence that has expired, and approvers who no longer hold their role.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from tercet.contracts.effective import EffectiveStep
from tercet.journal.events import Need
from tercet.runtime.asking import accepting
from tercet.runtime.changes import ROLE_LOST
from tercet.runtime.gate_fold import acceptances
from tercet.runtime.setting import Setting
from tercet.runtime.state import Answer, OpenGate, State


@dataclass(frozen=True, kw_only=True)
class Drift:
    """Why an approved call must not be made any more."""

    code: str
    reason: str


def approved_drift(
    state: State,
    setting: Setting,
    name: str,
    call: EffectiveStep,
    now: int,
    roles: Callable[[str], tuple[str, ...] | None],
) -> Drift | None:
    """The first thing that speaks against a call that was reviewed and approved; None if nothing does."""
    for ref in call.step.evidence_refs if setting.expiry else ():
        if setting.expiry.get(ref, now + 1) <= now:
            return Drift(code="evidence_expired", reason=f"the evidence {ref} has expired")
    for gate in state.approved.values():
        if name in gate.calls and (lost := _lost(gate, roles)):
            return Drift(code=ROLE_LOST, reason=lost)
    return None


def accepted_drift(
    state: State, setting: Setting, roles: Callable[[str], tuple[str, ...] | None]
) -> Drift | None:
    """Why outputs that people have accepted must not be committed any more; None if nothing speaks against it."""
    given, gate = acceptances(state), accepting(setting)
    if not given or gate is None:
        return None
    needs = {gate.name: Need(roles=gate.roles, quorum=gate.quorum)}
    lost = _lost(OpenGate(id=given[-1].gate, kind="output", step="", needs=needs, approvals=given), roles)
    return Drift(code=ROLE_LOST, reason=lost) if lost else None


def _lost(gate: OpenGate, roles: Callable[[str], tuple[str, ...] | None]) -> str:
    """Why the approvals of a gate are not enough any more, by the roles that people hold now; empty if they are."""
    for name, need in gate.needs.items():
        if not need.roles:
            continue
        holding = {approval.actor for approval in _holding(gate.approvals, need.roles, roles)}
        if len(holding) < need.quorum:
            before = ", ".join(a.actor for a in gate.approvals if a.actor not in holding)
            return f"{before} approved {name or gate.id}, and no longer holds {' or '.join(need.roles)}"
    return ""


def _holding(
    approvals: Iterable[Answer], wanted: tuple[str, ...], roles: Callable[[str], tuple[str, ...] | None]
) -> Iterable[Answer]:
    for approval in approvals:
        held = roles(approval.actor)
        if held is None:
            # Whoever was on the list and is not any more holds nothing; of others only their answers are known.
            held = () if approval.listed else approval.roles
        if not set(wanted).isdisjoint(held):
            yield approval
