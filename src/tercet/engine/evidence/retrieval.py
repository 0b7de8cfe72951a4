"""RETRIEVE: the queries of a plan, asked of the evidence that its session is pinned to. Only what a plan asks is looked for."""

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
    """What look-ups have taken so far: each counts as soon as it is made, whatever it brings."""

    calls: int = 0
    cost: int = 0


LookUp: TypeAlias = Callable[[str, EvidenceQuery, Spent], Awaitable[Fact | None]]
"""Asks the tool that a query of a step names, and books it; None where it may not be asked, or has no answer."""


async def retrieve(
    plan: Plan, steps: Sequence[Step], setting: RunConfig, library: Library | None, look_up: LookUp, now: int
) -> Retrieved:
    """Read the evidence that a plan names, and look for what these steps of it ask."""
    read = await _read_named(plan, setting, library, now)
    facts = {fact.evidence.id: fact for fact in read}
    if not steps:
        known, blob = tuple(fact.evidence for fact in read), keep(read)
        return Retrieved(at=now, facts=known, data=blob, digest=hash_bytes(blob) if blob else "")
    refs: dict[str, tuple[str, ...]] = {}
    spent = Spent()
    for step in steps:
        searches = [query for query in step.evidence_queries if query.tool is None]
        found: list[Fact] = []
        if searches and setting.library_snapshot:
            found = await search(setting, library, searches, now)
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
    setting: RunConfig, library: Library | None, searches: Sequence[EvidenceQuery], now: int
) -> list[Fact]:
    """What the pinned snapshot answers; raises `UsageError` where it is not here: that is not the same as no answer."""
    opened = _demand_library(setting, library)
    return await opened.find(
        setting.ctx.tenant, setting.library_snapshot, setting.library_hash, searches, now
    )


async def _read_named(plan: Plan, setting: RunConfig, library: Library | None, now: int) -> list[Fact]:
    """The facts of the library that a plan names and the run does not have yet."""
    missing = unread(plan, setting)
    if not missing:
        return []
    opened = _demand_library(setting, library)
    return await opened.read(setting.ctx.tenant, setting.library_snapshot, setting.library_hash, missing, now)


def _demand_library(setting: RunConfig, library: Library | None) -> Library:
    if library is None:
        raise UsageError(
            f"the session is pinned to snapshot {setting.library_snapshot} of a store of evidence, and none is open here",
            code="library_missing",
            remedy="resume it with the store of evidence that it was started with",
        )
    return library


def keep(facts: Collection[Fact]) -> bytes:
    """Facts as they are kept beside the events, with whole floats as floats; nothing for none."""
    return msgspec.json.encode([_kept(fact) for fact in facts], order="sorted") if facts else b""


def _kept(fact: Fact) -> JsonObject:
    """A fact as it is kept beside the events: whole, and with where it was found."""
    dumped = fact.evidence.model_dump(mode="json")
    return {"evidence": dumped, "citation": fact.citation.model_dump(mode="json", exclude_none=True)}
