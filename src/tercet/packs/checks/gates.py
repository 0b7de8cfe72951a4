"""Checks gates, roles, policies and authority: who approves what, and whose values may carry it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import combinations

from tercet.contracts.decision import DecisionSpec
from tercet.contracts.gate import Gate
from tercet.contracts.mode import MODE_RANK, ApprovalMode, Trust
from tercet.contracts.relations import REQUEST, Relation, is_of_class, parse_path
from tercet.contracts.request import Actor
from tercet.contracts.tool import ToolSpec
from tercet.packs.checks import (
    Check,
    Problems,
    did_you_mean,
    fields_of,
    missing_field,
    offers,
    unknown_gate,
    unknown_parameter,
    unknown_tool,
)
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
        elif gate.quorum > 1 and len(holders := _holders(parts, gate)) == gate.quorum:
            yield parts.problem(
                "gate_without_owner",
                f"gate {gate.name}, roles",
                f"it needs all of {' and '.join(holders)}, and no one approves a run of their own: it cannot open for a "
                "run that one of them starts",
                f"give the role {' or '.join(gate.roles)} to another actor, or let only others start runs",
                severity="note",
            )


def _obstacle(parts: Parts, gate: Gate) -> tuple[str, str] | None:
    """Return why a gate cannot be approved, and the remedy."""
    if not gate.roles:
        return "it names no role, so no one can approve it", 'add roles = ["…"]'
    holders, roles = _holders(parts, gate), " or ".join(gate.roles)
    if not holders:
        who = "no actor holds" if parts.actors else "the pack has no actors, so none holds"
        return f"{who} the role {roles}", "give the role to an actor in actors.toml"
    if len(holders) < gate.quorum:
        return (
            f"it needs {gate.quorum} approvers, and only {' and '.join(holders)} can approve",
            f"give the role {roles} to more actors, or lower the quorum",
        )
    return None


def _holders(parts: Parts, gate: Gate) -> list[str]:
    return [actor.id for actor in parts.actors if _may_open(actor, gate)]


def gates_of_a_call_are_for_different_people(parts: Parts) -> Problems:
    """No actor alone can approve a call that waits for gates with different roles, unless one of them counts people."""
    waited_for = dict[tuple[str, str], str]()
    for tool in parts.tools:
        gates = [parts.gate[name] for name in sorted(_gates_of_tool(parts, tool)) if name in parts.gate]
        if any(gate.quorum > 1 for gate in gates):
            continue
        for first, second in combinations(gates, 2):
            if set(first.roles) != set(second.roles):
                waited_for.setdefault((first.name, second.name), tool.name)
    for actor in parts.actors:
        held = [pair for pair in waited_for if all(_may_open(actor, parts.gate[name]) for name in pair)]
        if held:
            gates = sorted({name for pair in held for name in pair})
            yield parts.warning(
                "gates_of_one_person",
                f"actor {actor.id}, roles",
                f"{actor.id} alone can approve {' and '.join(gates)}, for which {waited_for[held[0]]} waits: each gate "
                "asks for a role, and none for a second person",
                "for two people, give the roles to different actors, or use one gate with quorum = 2",
            )


def _gates_of_tool(parts: Parts, tool: ToolSpec) -> set[str]:
    """Return the gates that one call of a tool may wait for; a policy counts unless it is about other tools."""
    names = set(tool.gates)
    if tool.mode is not ApprovalMode.READ_ONLY:
        names.update(*(decision.gates for decision in parts.decisions if offers(decision, tool.name)))
    for policy in parts.policies:
        about = {name for name in parts.tool if name in policy.expression}
        if policy.effect == "gate" and policy.gate is not None and (not about or tool.name in about):
            names.add(policy.gate)
    for plan in parts.templates:
        names.update(*(step.gates or () for step in plan.steps if step.tool == tool.name))
    names.update(*(task.gates or () for task in parts.library.tasks if task.tool == tool.name))
    return names


def _may_open(actor: Actor, gate: Gate) -> bool:
    return not set(actor.roles).isdisjoint(gate.roles)


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
            yield parts.warning(
                "policy_gate_unused",
                place,
                f"its effect is deny, so {policy.gate} is never asked",
                'say effect = "gate", or drop the gate',
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
    gates_of_a_call_are_for_different_people,
    policies_lead_to_gates,
    tool_roles_are_held,
)


# --- authority ---


def authority_is_related(parts: Parts) -> Problems:
    """A decision whose tools carry authority declares how its sources relate to the request."""
    if parts.is_partial("tool") or parts.is_partial("decision"):
        return
    for decision in parts.decisions:
        tools = _tools_of(parts, decision)
        carries = [tool.name for tool in tools if _carries_authority(tool)]
        if carries and not decision.bind and _has_other_sources(parts, tools):
            yield parts.warning(
                "authority_unrelated",
                f"decision {decision.id}, bind",
                f"{' and '.join(carries)} may take authority from evidence or results, and nothing says that these belong "
                "to the request",
                f"declare a relation in the decision, such as bind = [{{ {_example(parts, carries[0])} }}]",
            )


def _example(parts: Parts, tool: str) -> str:
    """Return a relation as the pack could write it: about its evidence, or about a parameter of a tool."""
    classes = sorted({fact.classification for fact in parts.evidence if fact.trust is Trust.TRUSTED})
    if classes:
        return f'evidence = "{classes[0]}", field = "…", equals = "request.…"'
    named = (*parts.tool[tool].authority_parameters, "…")[0]
    return f'tool = "{tool}", param = "{named}", equals = "request.…"'


def relations_name_known_things(parts: Parts) -> Problems:
    """Relations and kinds of fields name tools, parameters and classes of evidence that the pack has."""
    classes = {fact.classification for fact in parts.evidence}
    classes |= {name for tool in parts.tools for name in tool.attests}
    classes |= {name for tool in parts.tools for name in tool.requires_evidence}
    for decision in parts.decisions:
        classes |= set(decision.required_evidence)
    for decision in parts.decisions:
        for relation in decision.bind:
            yield from _relation(parts, decision, relation)
        if parts.is_partial("evidence") or parts.is_partial("tool"):
            continue
        place = f"decision {decision.id}, "
        named = [(f"{place}bind", owner) for relation in decision.bind for owner in _classes(relation)]
        named += [(f"{place}fields", field.path.owner) for field in decision.fields]
        for where, name in named:
            if name != REQUEST and not any(is_of_class(name, each) for each in classes):
                yield parts.warning(
                    "relation_unknown",
                    where,
                    f"nothing in the pack has or requires evidence of the class {name}",
                    did_you_mean(name, {REQUEST, *classes})
                    or f"name one of {', '.join((REQUEST, *sorted(classes)))}",
                )


def relations_read_fields_of_the_request(parts: Parts) -> Problems:
    """A relation does not read a field of the request that is spelt otherwise where templates read it."""
    read = {str(name) for plan in parts.templates for name in _REQUEST_FIELD.findall(plan.model_dump_json())}
    for decision in parts.decisions:
        for relation in decision.bind:
            path = relation.target
            if path is None or path.owner != REQUEST or path.place[0] in read:
                continue
            if (remedy := did_you_mean(path.place[0], read)) is not None:
                yield parts.warning(
                    "request_field_unknown",
                    f"decision {decision.id}, bind",
                    f"no template reads {relation.equals}",
                    remedy,
                )


_REQUEST_FIELD = re.compile(r"\brequest(?:#/|\.)(\w+)")


def unbound_values_can_be_asked_about(parts: Parts) -> Problems:
    """A tool that asks about unbound values belongs to decisions that name a gate for them."""
    for decision in parts.decisions:
        for tool in _tools_of(parts, decision):
            asked = [name for name, outcome in tool.unbound.items() if outcome == "ask"]
            if asked and decision.unbound_gate is None:
                yield parts.problem(
                    "unbound_gate_missing",
                    f"decision {decision.id}, unbound_gate",
                    f"{tool.name} asks about {asked[0]} where it has no source, and the decision names no gate for that",
                    "name a gate in unbound_gate, or say unbound = refuse",
                )


def kinds_name_known_fields(parts: Parts) -> Problems:
    """Declared kinds of results belong to fields that the result can have."""
    for tool in parts.tools:
        for name in tool.result_kinds if tool.result is not None else ():
            where = name if name.startswith("/") else f"/{name}"
            if (field := missing_field(tool.result or {}, where)) is not None:
                yield parts.problem(
                    "result_kind_unknown",
                    f"tool {tool.name}, result_kinds",
                    f"{name} leads nowhere: the result has no field {field!r}",
                    f"it has {', '.join(fields_of(tool.result or {}) or ()) or 'none'}",
                )


def _relation(parts: Parts, decision: DecisionSpec, relation: Relation) -> Problems:
    place = f"decision {decision.id}, bind"
    if relation.tool is None:
        return
    if parts.lacks_tool(relation.tool):
        yield unknown_tool(parts, place, relation.tool)
        return
    tool = parts.tool.get(relation.tool)
    known = None if tool is None else fields_of(tool.parameters)
    for name in filter(None, (relation.param_place[0], *relation.one_source)):
        if known is not None and name not in known:
            yield unknown_parameter(parts, "relation_unknown", place, name, known)


def _classes(relation: Relation) -> Iterator[str]:
    if relation.evidence is not None:
        yield relation.evidence
    if relation.equals is not None:
        yield parse_path(relation.equals).owner


def _tools_of(parts: Parts, decision: DecisionSpec) -> list[ToolSpec]:
    return [tool for tool in parts.tools if offers(decision, tool.name)]


def _carries_authority(tool: ToolSpec) -> bool:
    is_strong = MODE_RANK[tool.mode] > MODE_RANK[ApprovalMode.LOCAL_WRITE]
    return is_strong and bool(tool.has_authority_everywhere or tool.authority_parameters)


def _has_other_sources(parts: Parts, tools: list[ToolSpec]) -> bool:
    """Return whether authority can come from other sources than the request: evidence, or a trusted look-up."""
    is_looked_up = any(
        tool.mode is ApprovalMode.READ_ONLY and tool.result_trust is Trust.TRUSTED and tool.parameter_names
        for tool in tools
    )
    return is_looked_up or any(fact.trust is Trust.TRUSTED for fact in parts.evidence)


AUTHORITY_CHECKS: tuple[Check, ...] = (
    authority_is_related,
    relations_name_known_things,
    relations_read_fields_of_the_request,
    unbound_values_can_be_asked_about,
    kinds_name_known_fields,
)
