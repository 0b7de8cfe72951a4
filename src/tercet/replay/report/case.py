"""What a report is made from: a run with everything that is kept of it, read once and checked on the way.

A bundle that can be read as a journal is read in the same way.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from pydantic import ValidationError

from tercet.contracts.errors import ReplayError, UsageError
from tercet.contracts.evidence import Citation, Evidence
from tercet.contracts.outputs.quality import RepairEntry
from tercet.contracts.runs.record import RollbackResult
from tercet.contracts.shape import JsonObject, as_list, as_object
from tercet.core import events as e
from tercet.core.state import State
from tercet.engine.session_reader import load_history, read_record
from tercet.engine.streams.artifacts import rollback_result
from tercet.journal.errors import BlobMissing
from tercet.journal.protocol import Journal
from tercet.packs.declared import read_declarations

_SHELVED = "library"
"""Marks what a session has kept of a library, beside the fields of the fact."""


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """A fact that a session has kept, and where it was found if it was looked for."""

    evidence: Evidence
    citation: Citation | None = None


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """A run: how it stands, every event that led there, and what is kept beside the events."""

    state: State
    events: tuple[e.Event, ...]
    chain: str = ""
    """The last link of the chain, which was followed from the first event on."""
    facts: tuple[Found, ...] = ()
    texts: Mapping[str, Any] = msgspec.field(default_factory=dict[str, Any])
    """Questions to models and long answers by their digests, as far as they are still there."""
    record: Mapping[str, Any] | None = None
    """The decision record, which came to its hash."""
    rollback: RollbackResult | None = None
    minimums: Mapping[str, float] = msgspec.field(default_factory=dict[str, float])
    """The least that each dimension of the rubric may be, by the pack that the run has kept; empty where that is not known."""

    @property
    def repairs(self) -> tuple[RepairEntry, ...]:
        """Every attempt to mend the outputs, in order."""
        logs = (event.log for event in self.events if isinstance(event, e.OutputsRepaired))
        return tuple(RepairEntry.model_validate(entry) for log in logs for entry in log)


async def read_case(journal: Journal, tenant: str, session: str) -> Case:
    """A run out of a journal. Raises `UsageError` if it is not there, `JournalCorrupt` or `ReplayError` if it was changed."""
    history = await load_history(journal, tenant, session)
    state, events = history.state, history.events
    return Case(
        state=state,
        events=events,
        chain=history.stored[-1].chain.hex(),
        facts=tuple(await _facts(journal, tenant, state, events)),
        texts=await _texts(journal, tenant, events),
        record=await read_record(journal, tenant, state) if state.record else None,
        rollback=await rollback_result(journal, tenant, state),
        minimums=await _minimums(journal, tenant, state, events),
    )


async def _facts(journal: Journal, tenant: str, state: State, events: Iterable[e.Event]) -> list[Found]:
    """What a session kept from its start, and what its plans have found, each fact once."""
    found: dict[str, Found] = {}
    for fields in _list(await _decoded(journal, tenant, str(state.start.evidence))):
        kept = {name: each for name, each in fields.items() if name != _SHELVED}
        fact = _found({"evidence": kept})
        found[fact.evidence.id] = fact
    looked_up = (e.EvidenceRetrieved, e.EvidenceFetched)
    for digest in (event.facts for event in events if isinstance(event, looked_up)):
        for fields in _list(await _decoded(journal, tenant, digest)):
            fact = _found(fields)
            found[fact.evidence.id] = fact
    return list(found.values())


def _list(value: Any) -> list[JsonObject]:
    return [as_object(each) or {} for each in as_list(value) or ()]


def _found(fields: JsonObject) -> Found:
    citation = fields.get("citation")
    try:
        return Found(
            evidence=Evidence.model_validate(fields.get("evidence")),
            citation=None if citation is None else Citation.model_validate(citation),
        )
    except ValidationError as error:
        raise unreadable("a fact that the run has kept") from error


def unreadable(what: str) -> ReplayError:
    """What is said of something recorded that does not have the shape that it should have."""
    return ReplayError(
        recorded=f"{what} in another shape",
        expected="what this version writes",
        check="the record was changed or made up, or another version of Tercet wrote it",
    )


async def _minimums(
    journal: Journal, tenant: str, state: State, events: Iterable[e.Event]
) -> dict[str, float]:
    """What the rubric asks of each dimension. A run that was moved to another pack has been held to two of them."""
    is_judged = any(isinstance(event, e.OutputsCritiqued) for event in events)
    if not is_judged or any(isinstance(event, e.SessionMigrated) for event in events):
        return {}
    try:
        pack = read_declarations(await journal.blob(tenant, str(state.start.pack_hash)))
        quality = pack.decision_for(state.start.decision).quality
    except (
        BlobMissing,
        UsageError,
    ):  # an older run has not kept its pack, and another version reads packs otherwise
        return {}
    return {each.name: each.minimum for each in quality.rubric.dimensions} if quality else {}


async def _texts(journal: Journal, tenant: str, events: Iterable[e.Event]) -> dict[str, Any]:
    """The questions to models, and the answers that were too long to stand in an event."""
    digests = [event.prompt for event in events if isinstance(event, e.ModelAsked)]
    digests += [event.blob for event in events if isinstance(event, e.ModelAnswered) and event.blob]
    read = {digest: await _decoded(journal, tenant, digest) for digest in dict.fromkeys(digests)}
    return {digest: value for digest, value in read.items() if value is not None}


async def _decoded(journal: Journal, tenant: str, digest: str) -> Any:
    """A value that is kept under its digest; None where it is there no more."""
    if not digest:
        return None
    try:
        return msgspec.json.decode(await journal.blob(tenant, digest))
    except BlobMissing:
        return None
    except msgspec.DecodeError as error:
        raise unreadable(f"the value under {digest[:20]}…") from error
