"""What a step that is written in a pack is called with: parameters, results and evidence that there are.

A reference and a placeholder may become any value, so what depends on them is left open.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tercet.contracts import pointer, references
from tercet.contracts.effective import unaliased
from tercet.contracts.evidence import meets, parse_ref
from tercet.contracts.references import Place, Reference
from tercet.contracts.shape import JsonObject, as_list, as_object
from tercet.contracts.tool import ToolSpec
from tercet.critic.arguments import certain_faults
from tercet.packs.checks import (
    Problems,
    did_you_mean,
    fields_of,
    missing_field,
    named_fields,
    unknown_parameter,
)
from tercet.packs.parts import Parts
from tercet.planner.template import PLACEHOLDER

__all__ = ["PLACEHOLDER", "classes_exist", "parameters_fit", "results_have"]


def parameters_fit(parts: Parts, place: str, name: str, params: JsonObject) -> Problems:
    """What a tool is called with fits its schema, whatever the open values turn out to be."""
    tool = parts.tool.get(name)
    if tool is None:
        return
    given = unaliased(params, tool.aliases)[0]
    known = named_fields(tool.parameters)
    strange = [each for each in given if known is not None and each not in known]
    for each in strange:
        yield unknown_parameter(
            parts, "step_argument", f"{place}/{each}", each, (*(known or ()), *tool.aliases)
        )
    open_places: list[Place] = []
    arguments = {key: _settled(value, (key,), open_places) for key, value in given.items()}
    for fault in certain_faults(tool, arguments, open_places):
        if not strange or fault.keyword != "additionalProperties":
            takes = ", ".join(tool.parameter_names) or "no parameters"
            yield parts.problem(
                "step_argument", f"{place}{pointer.join(fault.place)}", fault.message, f"{name} takes {takes}"
            )


def _settled(value: Any, place: Place, open_places: list[Place]) -> Any:
    """A value as the tool would get it, with the places that are open."""
    if (members := as_object(value)) is not None:
        if references.LITERAL in members:
            return members[references.LITERAL]
        if references.as_reference(members) is not None:
            open_places.append(place)
            return None
        return {key: _settled(member, (*place, key), open_places) for key, member in members.items()}
    if (items := as_list(value)) is not None:
        return [_settled(item, (*place, index), open_places) for index, item in enumerate(items)]
    if isinstance(value, str) and "${" in value:
        open_places.append(place)
    return value


def results_have(parts: Parts, place: str, item: Reference, tools: Mapping[str, ToolSpec | None]) -> Problems:
    """The field that is read of a step's result is one that its tool describes."""
    for name, where in ((read.name, pointer.join(read.place)) for read in references.reads_of(item)):
        tool = tools.get(name)
        if tool is None or tool.result is None or "${" in where:
            continue
        field = missing_field(tool.result, where)
        if field is not None:
            known = fields_of(tool.result) or ()
            yield parts.problem(
                "result_field_unknown",
                place,
                f"the result of {tool.name} has no field {field}",
                did_you_mean(field, known) or f"it has {', '.join(known) or 'none'}",
            )


def classes_exist(
    parts: Parts, place: str, refs: Iterable[str], required: Iterable[str], looked_up: Iterable[str] = ()
) -> Problems:
    """The evidence that is pinned and required is of classes that the pack's files have, or that are looked up."""
    if parts.is_partial("evidence"):
        return
    classes = {*(fact.classification for fact in parts.evidence), *looked_up}
    wanted = [
        found.classification
        for ref in refs
        if (found := parse_ref(ref)) is not None and "${" not in found.classification
    ]
    for name in dict.fromkeys([*wanted, *required]):
        if not any(meets(name, each) for each in classes):
            short = name.removesuffix("_evidence")
            yield parts.problem(
                "evidence_class_unknown",
                place,
                f"no evidence file of the pack has the class {short}",
                did_you_mean(short, classes)
                or "add such a fact, or make sure that evidence of this class is retrieved",
                severity="warning",
            )
