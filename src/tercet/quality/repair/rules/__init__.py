"""Repairs that need no model: the same defect of the same output is always repaired in the same way, or not at all."""

from __future__ import annotations

from dataclasses import dataclass

from tercet.contracts.outputs.quality import Defect, RepairStrategy, RootCauseClass
from tercet.contracts.shape import JsonObject
from tercet.quality.repair.materials import Materials
from tercet.quality.repair.regions import Edit, Region
from tercet.quality.repair.rules.coercion import coerce
from tercet.quality.repair.rules.redaction import redact
from tercet.quality.repair.rules.sections import add_section, replace_value

_C = RootCauseClass


@dataclass(frozen=True, kw_only=True, slots=True)
class Proposal:
    """What a rule would change."""

    name: str
    strategy: RepairStrategy
    edits: tuple[Edit, ...]


RULES: dict[RootCauseClass, tuple[str, ...]] = {
    _C.SCHEMA_VIOLATION: ("coerce",),
    _C.SAFETY_VIOLATION: ("redact",),
    _C.FACTUAL_ERROR: ("replace_value",),
    _C.HALLUCINATION: ("replace_value",),
    _C.INCOMPLETENESS: ("add_section", "coerce"),
}
"""Which rules are tried on which class, the one that keeps more first."""


def propose(
    output: JsonObject, defect: Defect, cause: RootCauseClass, place: Region | None, materials: Materials
) -> list[Proposal]:
    """Return what the rules for a class would change; those that do not apply propose nothing."""
    found: list[Proposal] = []
    for name in RULES.get(cause, ()):
        edits = _edits(name, output, defect, place, materials)
        if edits:
            strategy: RepairStrategy = "SECTION_REWRITE" if name == "add_section" else "MINIMAL_EDIT"
            found.append(Proposal(name=name, strategy=strategy, edits=edits))
    return found


def _edits(
    name: str, output: JsonObject, defect: Defect, place: Region | None, materials: Materials
) -> tuple[Edit, ...]:
    match name:
        case "coerce":
            return coerce(output, place, materials)
        case "redact":
            return redact(output, place)
        case "replace_value":
            return replace_value(output, defect, place, materials)
        case _:
            return add_section(output, defect, place, materials)
