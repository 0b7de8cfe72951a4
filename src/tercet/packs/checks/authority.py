"""Checks relations, kinds and unbound values: they name things in the pack, and authority has a relation."""

from __future__ import annotations

from collections.abc import Iterator

from tercet.contracts.decision import DecisionSpec
from tercet.contracts.mode import MODE_RANK, ApprovalMode, Trust
from tercet.contracts.relations import REQUEST, Relation, is_of_class, parse_path
from tercet.contracts.tool import ToolSpec
from tercet.packs.checks import (
    Check,
    Problems,
    fields_of,
    missing_field,
    offers,
    unknown_parameter,
    unknown_tool,
)
from tercet.packs.parts import Parts


def authority_is_related(parts: Parts) -> Problems:
    """A decision whose tools carry authority declares how its sources relate to the request."""
    if parts.is_partial("tool") or parts.is_partial("decision"):
        return
    for decision in parts.decisions:
        tools = _tools_of(parts, decision)
        carries = [tool.name for tool in tools if _carries_authority(tool)]
        if carries and not decision.bind and _has_other_sources(parts, tools):
            yield parts.problem(
                "authority_unrelated",
                f"decision {decision.id}, bind",
                f"{carries[0]} takes authority from evidence or results, and nothing says that they belong to the request",
                'declare a relation: [[decision.bind]] evidence = "…" field = "…" equals = "request.…"',
                severity="warning",
            )


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
                yield parts.problem(
                    "relation_unknown",
                    where,
                    f"nothing in the pack has or requires evidence of the class {name}",
                    f"name request or one of {', '.join(sorted(classes)) or 'no classes'}",
                    severity="warning",
                )


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
    unbound_values_can_be_asked_about,
    kinds_name_known_fields,
)
