"""A broken schema as a diagnosis: it goes from VERIFY to REPAIR directly, since there is nothing to ask a critic about."""

from __future__ import annotations

import orjson

from tercet.contracts import pointer
from tercet.contracts.decision import DecisionSpec
from tercet.contracts.quality import CritiqueDiagnosis, Defect, DefectSeverity
from tercet.contracts.shape import JsonObject, as_list
from tercet.policy.schemas import Fault, faults

SCHEMA = "schema"
MOST = 100
"""More faults than this are not told of at once."""


def form_of(spec: DecisionSpec) -> JsonObject:
    """The schema of a decision's outputs, with those that it requires."""
    schema: JsonObject = spec.outputs_schema or {"type": "object"}
    required = [*(as_list(schema.get("required")) or ()), *spec.required_outputs]
    return {**schema, "required": list(dict.fromkeys(required))} if required else schema


def diagnose_form(schema: JsonObject, output: JsonObject) -> CritiqueDiagnosis:
    """Every way in which an output breaks its schema, as defects; the score is 0 if there is any."""
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


def is_form_mended(schema: JsonObject, output: JsonObject, defect: Defect) -> bool:
    """Whether a fault of the schema is gone, whatever others there are."""
    return all(
        (other.location, other.description) != (defect.location, defect.description)
        for other in diagnose_form(schema, output).defects
    )
