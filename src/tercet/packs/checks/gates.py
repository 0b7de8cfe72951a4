"""Checks gates, roles and policies: gates can be approved, roles are held, and policies name gates where they need one."""

from __future__ import annotations

from collections.abc import Iterator

from tercet.contracts.gate import Gate
from tercet.packs.checks import Check, Problems, unknown_gate
from tercet.packs.parts import Parts


def gates_can_be_approved(parts: Parts) -> Problems:
    """Enough actors of the pack hold a role of each gate."""
    if parts.is_partial("actor"):
        return
    for gate in parts.gates:
        fault = _obstacle(parts, gate)
        if fault is not None:
            message, remedy = fault
            yield parts.problem("gate_unapprovable", f"gate {gate.name}, roles", message, remedy)


def _obstacle(parts: Parts, gate: Gate) -> tuple[str, str] | None:
    """Return why a gate cannot be approved, and the remedy."""
    if not gate.roles:
        return "it names no role, so no one can approve it", 'add roles = ["…"]'
    holders = [actor.id for actor in parts.actors if set(actor.roles).intersection(gate.roles)]
    roles = " or ".join(gate.roles)
    if not holders:
        who = "no actor holds" if parts.actors else "the pack has no actors, so none holds"
        return f"{who} the role {roles}", "give the role to an actor in actors.toml"
    if len(holders) < gate.quorum:
        return (
            f"it needs {gate.quorum} approvers, and only {', '.join(holders)} can be one",
            f"give the role {roles} to more actors, or lower the quorum",
        )
    return None


def gates_named(parts: Parts) -> Iterator[tuple[str, str]]:
    """Return the gates that a pack refers to, with the places; the gate of outputs is checked elsewhere."""
    for tool in parts.tools:
        yield from ((f"tool {tool.name}, gates", name) for name in tool.gates)
        if tool.once_per is not None and tool.once_per.gate is not None:
            yield f"tool {tool.name}, once_per", tool.once_per.gate
    for decision in parts.decisions:
        yield from ((f"decision {decision.id}, gates", name) for name in decision.gates)
        if decision.unbound_gate is not None:
            yield f"decision {decision.id}, unbound_gate", decision.unbound_gate
    yield from ((f"policy {each.name}, gate", each.gate) for each in parts.policies if each.gate is not None)
    for plan in parts.templates:
        for index, step in enumerate(plan.steps):
            yield from ((f"template {plan.intent}, /steps/{index}/gates", name) for name in step.gates or ())
    for task in parts.library.tasks:
        yield from ((f"task {task.name}, gates", name) for name in task.gates or ())


def gates_exist(parts: Parts) -> Problems:
    """Every gate that is named is declared."""
    yield from (
        unknown_gate(parts, place, name) for place, name in gates_named(parts) if parts.lacks_gate(name)
    )


def policies_lead_to_gates(parts: Parts) -> Problems:
    """A policy names a gate if its effect is a gate, and none otherwise."""
    for policy in parts.policies:
        place = f"policy {policy.name}, gate"
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
    """A policy that grants has the scope step and names no gate."""
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


def os_users_are_distinct(parts: Parts) -> Problems:
    """Each operating system user is one actor."""
    first: dict[str, str] = {}
    for actor in parts.actors:
        if actor.os_user is None:
            continue
        holder = first.setdefault(actor.os_user, actor.id)
        if holder != actor.id:
            yield parts.problem(
                "duplicate_os_user",
                f"actor {actor.id}, os_user",
                f"the user {actor.os_user} already belongs to {holder}",
                "list each os_user at one actor; an actor may hold several roles",
            )


def tool_roles_are_held(parts: Parts) -> Problems:
    """At least one actor holds a role of each tool that requires one."""
    if parts.is_partial("actor"):
        return
    held = {role for actor in parts.actors for role in actor.roles}
    for tool in parts.tools:
        if tool.roles and held.isdisjoint(tool.roles):
            who = "no actor holds" if parts.actors else "the pack has no actors, so none holds"
            yield parts.problem(
                "tool_unusable",
                f"tool {tool.name}, roles",
                f"{who} the role {' or '.join(tool.roles)}, so every plan that calls it is refused",
                "give the role to an actor in actors.toml, or drop it from the tool",
            )


GATE_CHECKS: tuple[Check, ...] = (
    gates_exist,
    gates_can_be_approved,
    policies_lead_to_gates,
    tool_roles_are_held,
)
