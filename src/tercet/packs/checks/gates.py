"""Gates that somebody can approve, and policies that lead to them."""

from __future__ import annotations

from tercet.contracts.gate import Gate
from tercet.packs.checks import Check, Problems
from tercet.packs.checks.names import unknown_gate
from tercet.packs.parts import Parts


def gates_can_be_approved(parts: Parts) -> Problems:
    """Enough of the pack's actors hold a role that each gate asks for."""
    if parts.is_partial("actor"):
        return
    for gate in parts.gates:
        fault = _obstacle(parts, gate)
        if fault is not None:
            message, remedy = fault
            yield parts.problem("gate_unapprovable", f"gate {gate.name}, roles", message, remedy)


def _obstacle(parts: Parts, gate: Gate) -> tuple[str, str] | None:
    """Why nobody can approve a gate, and what to do about it."""
    if not gate.roles:
        return "it names no role, so nobody can approve it", 'add roles = ["…"]'
    holders = [actor.id for actor in parts.actors if set(actor.roles).intersection(gate.roles)]
    roles = " or ".join(gate.roles)
    if not holders:
        who = "no actor holds" if parts.actors else "the pack has no actors, so nobody holds"
        return f"{who} the role {roles}", "give the role to an actor in actors.toml"
    if len(holders) < gate.quorum:
        return (
            f"it needs {gate.quorum} approvers, and only {', '.join(holders)} can be one",
            f"give the role {roles} to more actors, or lower the quorum",
        )
    return None


def policies_lead_to_gates(parts: Parts) -> Problems:
    """A policy that sends steps to a gate names one that exists."""
    for policy in parts.policies:
        place = f"policy {policy.name}, gate"
        if policy.gate is not None and parts.lacks_gate(policy.gate):
            yield unknown_gate(parts, place, policy.gate)
        if policy.effect == "gate" and policy.gate is None:
            yield parts.problem(
                "policy_without_gate",
                place,
                "its effect is a gate, and it names none",
                'add gate = "…", or effect = "deny"',
            )
        if policy.effect == "deny" and policy.gate is not None:
            yield parts.problem(
                "policy_gate_unused",
                place,
                f"its effect is deny, so {policy.gate} is never asked",
                'say effect = "gate", or drop the gate',
                severity="warning",
            )


def grants_are_for_steps(parts: Parts) -> Problems:
    """A policy that grants looks at one step at a time, and stands for no gate."""
    for policy in parts.policies:
        if policy.effect != "grant":
            continue
        if policy.scope != "step":
            yield parts.problem(
                "grant_of_plan",
                f"policy {policy.name}, scope",
                "its effect is a grant, and a grant is given to a step, not to a plan",
                'add scope = "step"',
            )
        if policy.gate is not None:
            yield parts.problem(
                "grant_of_gate",
                f"policy {policy.name}, gate",
                f"its effect is a grant, and no policy opens {policy.gate}: a named gate waits for people",
                'drop the gate, or say effect = "gate"',
            )


GATE_CHECKS: tuple[Check, ...] = (gates_can_be_approved, policies_lead_to_gates)
