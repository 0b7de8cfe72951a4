"""Repairs that need no model: the same defect of the same output is always repaired in the same way, or not at all."""

from __future__ import annotations

from tercet.contracts.outputs.quality import Defect, RootCauseClass
from tercet.contracts.shape import JsonObject
from tercet.quality.repair.losses import Materials
from tercet.quality.repair.regions import Edit
from tercet.quality.repair.rules.coercion import coerce
from tercet.quality.repair.rules.redaction import redact
from tercet.quality.repair.rules.sections import add_section, replace_value
from tercet.quality.verification.locations import Location

_C = RootCauseClass


RULES: dict[RootCauseClass, tuple[str, ...]] = {
    _C.SCHEMA_VIOLATION: ("coerce",),
    _C.SAFETY_VIOLATION: ("redact",),
    _C.FACTUAL_ERROR: ("replace_value",),
    _C.HALLUCINATION: ("replace_value",),
    _C.INCOMPLETENESS: ("add_section", "coerce"),
}
"""Which rules are tried on which class, the one that keeps more first."""


def propose(
    output: JsonObject, defect: Defect, cause: RootCauseClass, place: Location | None, materials: Materials
) -> dict[str, tuple[Edit, ...]]:
    """Return what the rules for a class would change, by their names; those that do not apply propose nothing."""
    proposed = {name: _edits(name, output, defect, place, materials) for name in RULES.get(cause, ())}
    return {name: edits for name, edits in proposed.items() if edits}


def _edits(
    name: str, output: JsonObject, defect: Defect, place: Location | None, materials: Materials
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
