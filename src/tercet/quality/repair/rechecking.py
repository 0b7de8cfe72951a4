"""Diagnoses out of a broken schema, and whether a defect is gone: by what it is about and where, not by its words."""

from __future__ import annotations

from collections.abc import Callable

import orjson

from tercet.contracts.decision import DecisionSpec
from tercet.contracts.outputs.quality import CritiqueDiagnosis, Defect, DefectSeverity
from tercet.contracts.shape import JsonObject, as_list
from tercet.contracts.values import pointer
from tercet.policy.schemas import Fault, faults
from tercet.quality.repair.regions import locate
from tercet.quality.verification.places import Location

Diagnose = Callable[[JsonObject], CritiqueDiagnosis]


def gone_by(diagnose: Diagnose) -> Callable[[JsonObject, Defect], bool]:
    """A function that says whether a defect is gone from an output, for `repair`."""

    def is_gone(output: JsonObject, defect: Defect) -> bool:
        return not any(is_same(output, defect, other) for other in diagnose(output).defects)

    return is_gone


def is_same(output: JsonObject, one: Defect, other: Defect) -> bool:
    """Return whether two defects of an output are one: of one dimension and at one place, or in the same words where one has none."""
    if one.dimension != other.dimension:
        return False
    first, second = locate(output, one.location), locate(output, other.location)
    if first is None or second is None or _is_point(first) or _is_point(second):
        return one.description == other.description
    return _overlaps(first, second)


def _is_point(region: Location) -> bool:
    """Return whether it is a place between two characters: something is missing there, or was taken out."""
    return region.is_range and region.start == region.end


def _overlaps(one: Location, other: Location) -> bool:
    if one.pointer != other.pointer:
        return one.pointer.startswith(f"{other.pointer}/") or other.pointer.startswith(f"{one.pointer}/")
    if one.start is None or other.start is None or one.end is None or other.end is None:
        return True
    return one.start < other.end and other.start < one.end


SCHEMA = "schema"
MOST = 100
"""The most faults that are reported at once."""


def form_of(spec: DecisionSpec) -> JsonObject:
    """Return the schema of a decision's outputs, with those that it requires."""
    schema: JsonObject = spec.outputs_schema or {"type": "object"}
    required = [*(as_list(schema.get("required")) or ()), *spec.required_outputs]
    return {**schema, "required": list(dict.fromkeys(required))} if required else schema


def diagnose_form(schema: JsonObject, output: JsonObject) -> CritiqueDiagnosis:
    """Return every way in which an output breaks its schema, as defects; the score is 0 if there is any."""
    found = tuple(_defect(fault) for fault in faults(orjson.dumps(schema).decode(), output)[:MOST])
    return CritiqueDiagnosis(
        scores={SCHEMA: 0.0 if found else 1.0},
        defects=found,
        severity=DefectSeverity.HIGH if found else DefectSeverity.NONE,
    )


def _defect(fault: Fault) -> Defect:
    return Defect(
        dimension=SCHEMA,
        severity=DefectSeverity.HIGH,
        description=f"{fault.keyword}: {fault.message}",
        location=pointer.join(fault.place),
        scope="LOCAL" if fault.place else "SECTION",
    )


def is_form_fixed(schema: JsonObject, output: JsonObject, defect: Defect) -> bool:
    """Return whether a fault of the schema is gone, whatever others there are."""
    return all(
        (other.location, other.description) != (defect.location, defect.description)
        for other in diagnose_form(schema, output).defects
    )
