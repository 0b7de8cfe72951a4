"""RETRIEVE: the questions of a plan, asked of the evidence that its session is pinned to.

Only what a plan asks is looked for. What is found is pinned to the step that asked, which makes another revision of the
plan; a caller's plan is never changed. A step that a plan before had in the same words keeps what was found for it, so
that a re-plan does not turn it into another step.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import msgspec

from tercet.contracts.behaviour import Behaviour
from tercet.contracts.canonical import hash_bytes
from tercet.contracts.errors import UsageError
from tercet.contracts.evidence import Evidence, parse_ref
from tercet.contracts.plan import EvidenceQuery, Plan, Step
from tercet.contracts.shape import JsonObject
from tercet.core import events as e
from tercet.core.config import RunConfig
from tercet.core.dependencies import evidence_in
from tercet.core.plans import read_plan
from tercet.core.state import State
from tercet.engine.evidence.library import Library
from tercet.evidence.store import Fact


@dataclass(frozen=True, kw_only=True)
class Found:
    """What RETRIEVE came to."""

    event: e.EvidenceRetrieved
    facts: tuple[Evidence, ...] = ()
    blob: bytes = b""
    """The facts as they are kept beside the events."""


def carried_over(plan: Plan, before: dict[str, object]) -> Plan:
    """The plan with what was found earlier for the steps that ask the same in the same words."""
    if not before or not any(step.evidence_queries for step in plan.steps):
        return plan
    earlier = {step.id: step for step in read_plan(before).steps}
    steps = tuple(_carried(step, earlier.get(step.id)) for step in plan.steps)
    return plan if steps == plan.steps else plan.model_copy(update={"steps": steps})


def _carried(step: Step, earlier: Step | None) -> Step:
    if earlier is None or not step.evidence_queries:
        return step
    found = step.model_copy(update={"evidence_refs": earlier.evidence_refs})
    return found if found == earlier else step


def asking(plan: Plan, state: State) -> list[Step]:
    """The steps whose questions have not been asked: those of a planner's plan that have nothing pinned yet and have not
    run."""
    if state.plan_origin == "caller":
        return []
    return [step for step in steps_asking(plan) if state.steps[step.id].status == "pending"]


def steps_asking(plan: Plan) -> list[Step]:
    """Return the steps of a plan that declare queries and have nothing pinned."""
    return [step for step in plan.steps if step.evidence_queries and not step.evidence_refs]


MOST_READ = 500
"""How many facts of the library a plan may name that the run did not begin with."""


def unread(plan: Plan, setting: RunConfig) -> tuple[str, ...]:
    """The evidence that a plan names, that is of the library's snapshot, and that the run does not have yet."""
    if not setting.library_snapshot or not setting.ctx.goes_by(Behaviour.STRICT_CALLS):
        return ()
    read = [
        value
        for step in plan.steps
        for value in (
            step.params,
            step.compensate.params if step.compensate else {},
            {"$cel": step.when} if step.when else {},
        )
    ]
    pins = (ref for step in plan.steps for ref in step.evidence_refs)
    named = dict.fromkeys((*pins, *evidence_in([*read, plan.outputs, plan.memory])))
    known = setting.compiled.evidence
    missing = [ref for ref in named if ref not in known and _snapshot_of(ref) == setting.library_snapshot]
    return tuple(missing[:MOST_READ])


def _snapshot_of(ref: str) -> str:
    parts = parse_ref(ref)
    return parts.snapshot if parts else ""


def pinned(
    plan: Plan, setting: RunConfig, now: int, facts: Sequence[Evidence] = (), digest: str = ""
) -> e.EvidenceRetrieved:
    """What a plan that asks nothing is based on, with the facts that were read for it, and their digest."""
    return e.EvidenceRetrieved(at=now, evidence=_pinned(plan, setting, facts), facts=digest)


@dataclass
class Spent:
    """What look-ups have taken so far: each counts as soon as it is made, whatever it brings."""

    calls: int = 0
    cost: int = 0


LookUp: TypeAlias = Callable[[str, EvidenceQuery, Spent], Awaitable[Fact | None]]
"""Asks the tool that a query of a step names, and books it; None where it may not be asked, or has no answer."""


async def retrieve(
    plan: Plan, steps: Sequence[Step], setting: RunConfig, library: Library | None, look_up: LookUp, now: int
) -> Found:
    """Read the evidence that a plan names, ask what these steps of it want to know, and pin to each what was found."""
    read = await _read_named(plan, setting, library, now)
    facts = {fact.evidence.id: fact for fact in read}
    if not steps:
        known, blob = tuple(fact.evidence for fact in read), keep(read)
        event = pinned(plan, setting, now, known, hash_bytes(blob) if blob else "")
        return Found(event=event, facts=known, blob=blob)
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
    revised = with_refs(plan, refs)
    known = tuple(fact.evidence for fact in facts.values())
    blob = keep(facts.values())
    event = e.EvidenceRetrieved(
        at=now,
        evidence=_pinned(revised, setting, known),
        plan=revised.model_dump(mode="json", exclude_defaults=True),
        hash=revised.hash,
        facts=hash_bytes(blob) if blob else "",
        calls=spent.calls,
        cost=spent.cost,
    )
    return Found(event=event, facts=known, blob=blob)


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


def read_facts(data: bytes) -> tuple[Evidence, ...]:
    """The facts that were kept beside the events."""
    return tuple(Evidence.model_validate(kept["evidence"]) for kept in msgspec.json.decode(data))


def with_refs(plan: Plan, refs: dict[str, tuple[str, ...]]) -> Plan:
    """The next revision of a plan: what was found is pinned to the steps that asked, and nothing else is another."""
    steps = tuple(
        step.model_copy(update={"evidence_refs": refs[step.id]}) if refs.get(step.id) else step
        for step in plan.steps
    )
    return plan.revise(steps=steps)


def _pinned(plan: Plan, setting: RunConfig, facts: Sequence[Evidence]) -> dict[str, str]:
    """Every piece of evidence that the plan pins, with the hash of its content."""
    known = {entry.id: entry.hash for entry in setting.compiled.evidence.values()}
    known |= {fact.id: fact.hash for fact in facts}
    return {ref: known[ref] for step in plan.steps for ref in step.evidence_refs if ref in known}
