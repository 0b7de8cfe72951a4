"""The evidence files of a pack: each holds facts of one snapshot; several files may belong to the same snapshot."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from pydantic import AwareDatetime, Field, ValidationError

from tercet.contracts.evidence import Evidence, EvidenceRef
from tercet.contracts.mode import Trust
from tercet.contracts.shape import Authored, as_object
from tercet.contracts.values.plain import PlainValue
from tercet.packs.declarations import explain, note_duplicate
from tercet.packs.folder import Draft
from tercet.packs.parts import Spot
from tercet.tools.strict_json import JsonFault, read_strictly

FOLDER = "evidence"
MAX_PROBLEMS = 50
"""The limit on listed problems per file: generated files often have the same problem in every fact."""


class Fact(Authored):
    """One fact of a file."""

    classification: str = Field(alias="class", pattern=r"^[^:#\s]+$")
    id: str = Field(pattern=r"^[^#\s]+$")
    content: PlainValue
    trust: Trust = Trust.TRUSTED
    """Trusted by default: the author of the pack vouches for its facts."""
    source: str = ""
    expires_at: AwareDatetime | None = None


class EvidenceFile(Authored):
    """A file of facts, which are read one by one."""

    snapshot: str = Field(pattern=r"^[^#\s]+$")
    created_at: AwareDatetime | None = None
    facts: list[Any]


def read_evidence(draft: Draft) -> tuple[tuple[Evidence, ...], dict[str, datetime]]:
    """Return the facts of the folder ordered by id, and the time of each snapshot."""
    found: dict[str, Evidence] = {}
    times: dict[str, tuple[datetime, str]] = {}
    for name in draft.list_files(FOLDER, ".json"):
        file = _read_file(draft, name)
        if file is None:
            draft.unread.add("evidence")
            continue
        if file.created_at is not None:
            _note_other_time(draft, name, file, times.setdefault(file.snapshot, (file.created_at, name)))
        for evidence in _read_facts(draft, name, file):
            place = f"evidence {evidence.id}"
            if evidence.id in found:
                note_duplicate(draft, place, draft.spots[place], Spot(name))
                continue
            found[evidence.id] = evidence
            draft.spots[place] = Spot(name)
    return tuple(found[key] for key in sorted(found)), {name: time for name, (time, _) in times.items()}


def _note_other_time(draft: Draft, name: str, file: EvidenceFile, first: tuple[datetime, str]) -> None:
    if file.created_at != first[0]:
        draft.note(
            "snapshot_time",
            f"snapshot {file.snapshot} was taken at another time in {first[1]}",
            "give both files one time, or the later one a snapshot of its own",
            file=name,
            place="created_at",
        )


def _read_file(draft: Draft, name: str) -> EvidenceFile | None:
    document = _read_json(draft, name)
    if document is None:
        return None
    try:
        return EvidenceFile.model_validate(document)
    except ValidationError as error:
        for detail in error.errors(include_url=False):
            code, message, remedy = explain(detail, EvidenceFile)
            draft.note(code, message, remedy, file=name, place=".".join(map(str, detail["loc"])))
        return None


def _read_facts(draft: Draft, name: str, file: EvidenceFile) -> Iterator[Evidence]:
    limit = len(draft.problems) + MAX_PROBLEMS
    for number, raw in enumerate(file.facts):
        if len(draft.problems) >= limit:
            draft.note(
                "too_many_problems",
                f"the facts from number {number + 1} on were not read",
                "correct the ones above first",
                file=name,
            )
            draft.unread.add("evidence")
            return
        evidence = _read_fact(draft, name, file.snapshot, number, raw)
        if evidence is None:
            draft.unread.add("evidence")
        else:
            yield evidence


def _read_fact(draft: Draft, name: str, snapshot: str, number: int, raw: Any) -> Evidence | None:
    place = f"facts.{number}"
    try:
        fact = Fact.model_validate(raw)
        return Evidence(
            id=str(EvidenceRef(fact.classification, fact.id, snapshot)),
            classification=fact.classification,
            content=fact.content,
            trust=fact.trust,
            source=fact.source,
            expires_at=fact.expires_at,
        )
    except ValidationError as error:
        for detail in error.errors(include_url=False):
            code, message, remedy = explain(detail, Fact)
            draft.note(code, message, remedy, file=name, place=".".join((place, *map(str, detail["loc"]))))
    return None


def _read_json(draft: Draft, name: str) -> Any:
    text = draft.read_text(name)
    if text is None:
        return None
    try:
        document = read_strictly(text)
    except JsonFault as fault:
        draft.note(
            "json_syntax",
            f"not JSON that can be used: {fault.quoted}",
            "write plain JSON",
            file=name,
            row=fault.row,
        )
    else:
        if as_object(document) is not None:
            return document
        draft.note(
            "wrong_value",
            "an evidence file is one JSON object",
            'begin with {"snapshot": …, "facts": […]}',
            file=name,
        )
    return None
