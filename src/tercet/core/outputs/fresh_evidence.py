"""Which evidence a REPAIR phase lacks: what defects are about that nothing known bears out, or that goes round in circles.

Only classes are asked for that the plan or its decision asks for, and only of the snapshot that the run is pinned to.
"""

from __future__ import annotations

from collections.abc import Iterable

from tercet.contracts.plan import EvidenceQuery
from tercet.contracts.quality import CritiqueDiagnosis, Defect
from tercet.contracts.repair import LoopBreak, LoopMemory
from tercet.core.config import RunConfig
from tercet.core.state import State
from tercet.repair.causes import TYPICAL, Circumstances, classify
from tercet.repair.loops import LADDER
from tercet.repair.regions import locate, text_at

MOST_QUERIES = 8
EACH = 3
"""How many facts are taken for one defect and class."""
_LONGEST = 400


def missing_evidence(state: State, setting: RunConfig) -> tuple[EvidenceQuery, ...]:
    """What to look for before outputs are mended; nothing where nothing is missing, or nobody can be asked."""
    classes = _classes(state, setting)
    if not setting.library_snapshot or not classes or not state.quality.diagnosis:
        return ()
    diagnosis = CritiqueDiagnosis.model_validate(state.quality.diagnosis)
    loops = LoopMemory.model_validate(state.quality.memory or {}).loops
    is_asked = state.quality.control.get("helper") == "retrieve_evidence"
    is_circling = is_asked or loops + 1 > LADDER.index(LoopBreak.FRESH_EVIDENCE)
    known = Circumstances(has_evidence=bool(setting.evidence))
    wanted = [each for each in diagnosis.defects if is_circling or _needs_evidence(each, known)]
    asked = dict.fromkeys(
        EvidenceQuery(classification=name, query=words, limit=EACH)
        for words in _words(state, wanted)
        for name in classes
    )
    return tuple(asked)[:MOST_QUERIES]


def _classes(state: State, setting: RunConfig) -> tuple[str, ...]:
    steps: list[dict[str, list[dict[str, str]]]] = state.plan.get("steps", [])
    asked = (query["classification"] for step in steps for query in step.get("evidence_queries", ()))
    return tuple(dict.fromkeys((*setting.spec.required_evidence, *asked)))


def _needs_evidence(defect: Defect, known: Circumstances) -> bool:
    cause = classify(defect, known).root_cause
    return cause in TYPICAL and TYPICAL[cause].needs_evidence


def _words(state: State, defects: Iterable[Defect]) -> Iterable[str]:
    """What each defect is about: the words at its place, else those that describe it."""
    for defect in defects:
        place = locate(state.outputs, defect.location)
        text = text_at(state.outputs, place.pointer) if place is not None and place.is_range else None
        found = text[place.start : place.end].strip() if place is not None and text is not None else ""
        yield (found or defect.description)[:_LONGEST]
