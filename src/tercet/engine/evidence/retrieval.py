"""RETRIEVE: answers the queries of a plan from the evidence that its session is pinned to."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import msgspec

from tercet.contracts.errors import UsageError
from tercet.contracts.plan import EvidenceQuery, Plan, Step
from tercet.contracts.shape import JsonObject
from tercet.contracts.values.canonical import hash_bytes
from tercet.core.answers import Retrieved
from tercet.core.config import RunConfig
from tercet.core.retrieval import unread
from tercet.engine.evidence.library import Library
from tercet.evidence.store import Fact


@dataclass
class Spent:
    """The number and cost of look-ups so far; each counts as soon as it is made, whatever its outcome."""

    calls: int = 0
    cost: int = 0


LookUp: TypeAlias = Callable[[str, EvidenceQuery, Spent], Awaitable[Fact | None]]
"""Calls the tool that a step's query names, and adds to `Spent`; None if it is not allowed or finds nothing."""


async def retrieve(
    plan: Plan, steps: Sequence[Step], config: RunConfig, library: Library | None, look_up: LookUp, now: int
) -> Retrieved:
    """Read the evidence that a plan pins, and answer the queries of these steps."""
    read = await _read_named(plan, config, library, now)
    facts = {fact.evidence.id: fact for fact in read}
    if not steps:
        known, blob = tuple(fact.evidence for fact in read), keep(read)
        return Retrieved(at=now, facts=known, data=blob, digest=hash_bytes(blob) if blob else "")
    refs: dict[str, tuple[str, ...]] = {}
    spent = Spent()
    for step in steps:
        searches = [query for query in step.evidence_queries if query.tool is None]
        found: list[Fact] = []
        if searches and config.library_snapshot:
            found = await search(config, library, searches, now)
        for query in step.evidence_queries:
            if query.tool is not None and (fact := await look_up(step.id, query, spent)) is not None:
                found.append(fact)
        facts |= {fact.evidence.id: fact for fact in found}
        refs[step.id] = tuple(dict.fromkeys(fact.evidence.id for fact in found))
    blob = keep(facts.values())
    return Retrieved(
        at=now,
        facts=tuple(fact.evidence for fact in facts.values()),
        data=blob,
        digest=hash_bytes(blob) if blob else "",
        refs=refs,
        calls=spent.calls,
        cost=spent.cost,
    )


async def search(
    config: RunConfig, library: Library | None, searches: Sequence[EvidenceQuery], now: int
) -> list[Fact]:
    """Return the facts of the pinned snapshot; raises `UsageError` if it is not available, which differs from an empty
    result."""
    opened = _demand_library(config, library)
    return await opened.find(config.ctx.tenant, config.library_snapshot, config.library_hash, searches, now)


async def _read_named(plan: Plan, config: RunConfig, library: Library | None, now: int) -> list[Fact]:
    """Return the library's facts that a plan pins and the run does not have yet."""
    missing = unread(plan, config)
    if not missing:
        return []
    opened = _demand_library(config, library)
    return await opened.read(config.ctx.tenant, config.library_snapshot, config.library_hash, missing, now)


def _demand_library(config: RunConfig, library: Library | None) -> Library:
    if library is None:
        raise UsageError(
            f"the session is pinned to snapshot {config.library_snapshot} of a store of evidence, and none is open here",
            code="library_missing",
            remedy="resume it with the store of evidence that it was started with",
        )
    return library


def keep(facts: Collection[Fact]) -> bytes:
    """Return facts as the bytes of a blob, with whole floats as floats; empty for no facts."""
    return msgspec.json.encode([_stored_form(fact) for fact in facts], order="sorted") if facts else b""


def _stored_form(fact: Fact) -> JsonObject:
    """Return a fact with all its fields and its source, in its stored form."""
    dumped = fact.evidence.model_dump(mode="json")
    return {"evidence": dumped, "citation": fact.citation.model_dump(mode="json", exclude_none=True)}
