"""Reads the data of one run from a journal, or from a bundle as a journal, and verifies it on the way."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import msgspec
from pydantic import ValidationError

from tercet.contracts.errors import UsageError
from tercet.contracts.evidence import Citation, Evidence
from tercet.contracts.shape import JsonObject, as_list, as_object
from tercet.core import events as e
from tercet.core.state import State
from tercet.engine.personal.reveal import Revealer
from tercet.engine.session_reader import load_history, read_policies, read_record
from tercet.engine.streams.artifacts import rollback_result
from tercet.journal.errors import BlobMissing
from tercet.journal.protocol import Journal
from tercet.packs.declared import read_declarations
from tercet.view.events import RunData, StoredFact
from tercet.view.run import unreadable

_SHELVED = "library"
"""Marks the stored facts of a library, beside the fields of the fact."""


async def read_run(journal: Journal, tenant: str, session: str) -> RunData:
    """Return a run from a journal. Raises `UsageError` if it is not there, `JournalCorrupt` or `ReplayError` if it was changed."""
    history = await load_history(journal, tenant, session)
    state, events = history.state, history.events
    revealer = Revealer(journal, tenant, session)
    return RunData(
        state=await revealer.reveal_struct(state),
        events=tuple([await revealer.reveal_struct(event) for event in events]),
        chain=history.stored[-1].chain.hex(),
        facts=tuple(await read_facts(journal, tenant, state, events)),
        texts=await revealer.reveal(await read_texts(journal, tenant, events)),
        record=await revealer.reveal(await read_record(journal, tenant, state)) if state.record else None,
        rollback=await rollback_result(journal, tenant, state),
        policies=await read_policies(journal, tenant, state),
        minimums=await read_minimums(journal, tenant, state, events),
    )


async def read_facts(
    journal: Journal, tenant: str, state: State, events: Iterable[e.Event]
) -> list[StoredFact]:
    """Return the facts that a session stored at its start, and those that its plans found, each once."""
    found: dict[str, StoredFact] = {}
    for fields in _list(await _decoded(journal, tenant, state.start.evidence)):
        kept = {name: each for name, each in fields.items() if name != _SHELVED}
        fact = _found_facts({"evidence": kept})
        found[fact.evidence.id] = fact
    looked_up = (e.EvidenceRetrieved, e.EvidenceFetched)
    for digest in (event.facts for event in events if isinstance(event, looked_up)):
        for fields in _list(await _decoded(journal, tenant, digest)):
            fact = _found_facts(fields)
            found[fact.evidence.id] = fact
    revealer = Revealer(journal, tenant, state.start.session)
    return [await _revealed(revealer, fact) for fact in found.values()]


async def _revealed(revealer: Revealer, fact: StoredFact) -> StoredFact:
    """Return a fact with its personal values, under the hash that was pinned."""
    content = await revealer.reveal(fact.evidence.content)
    if content == fact.evidence.content:
        return fact
    shown = fact.evidence.model_copy(update={"content": content})
    vars(shown)["hash"] = fact.evidence.hash
    return replace(fact, evidence=shown)


def _list(value: Any) -> list[JsonObject]:
    return [as_object(each) or {} for each in as_list(value) or ()]


def _found_facts(fields: JsonObject) -> StoredFact:
    citation = fields.get("citation")
    try:
        return StoredFact(
            evidence=Evidence.model_validate(fields.get("evidence")),
            citation=None if citation is None else Citation.model_validate(citation),
        )
    except ValidationError as error:
        raise unreadable("a fact that the run has kept") from error


async def read_minimums(
    journal: Journal, tenant: str, state: State, events: Iterable[e.Event]
) -> dict[str, float]:
    """Return the minimum of each dimension of the rubric; empty for a run that moved to another pack, and so had two rubrics."""
    is_judged = any(isinstance(event, e.OutputsCritiqued) for event in events)
    if not is_judged or any(isinstance(event, e.SessionMigrated) for event in events):
        return {}
    try:
        pack = read_declarations(await journal.blob(tenant, state.start.pack_hash))
        quality = pack.decision_for(state.start.decision).quality
    except (BlobMissing, UsageError):  # an older run kept no pack, and another version reads packs otherwise
        return {}
    return {each.name: each.minimum for each in quality.rubric.dimensions} if quality else {}


async def read_texts(journal: Journal, tenant: str, events: Iterable[e.Event]) -> dict[str, Any]:
    """Return the prompts to models, and the answers that were too long for an event."""
    digests = [event.prompt for event in events if isinstance(event, e.ModelAsked)]
    digests += [event.blob for event in events if isinstance(event, e.ModelAnswered) and event.blob]
    read = {digest: await _decoded(journal, tenant, digest) for digest in dict.fromkeys(digests)}
    return {digest: value for digest, value in read.items() if value is not None}


async def _decoded(journal: Journal, tenant: str, digest: str) -> Any:
    """Return the value stored under a digest; None if it was deleted."""
    if not digest:
        return None
    try:
        return msgspec.json.decode(await journal.blob(tenant, digest))
    except BlobMissing:
        return None
    except msgspec.DecodeError as error:
        raise unreadable(f"the value under {digest[:20]}…") from error
