"""An evidence store as runs use it: initial evidence, queries of plans, and facts that runs add."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from tercet.contracts.decision import DecisionSpec
from tercet.contracts.errors import UsageError
from tercet.contracts.evidence import Evidence, parse_ref
from tercet.contracts.mode import Trust
from tercet.contracts.plan import EvidenceQuery
from tercet.contracts.related import select_related
from tercet.contracts.relations import REQUEST, is_of_class, members, value_at
from tercet.contracts.request import Request
from tercet.contracts.runs.record import MemoryProposal
from tercet.core.transcript import moment
from tercet.evidence.errors import FactUnknown, SnapshotExists, SnapshotUnknown
from tercet.evidence.retrieval import Retriever, accept, classes_for, first_facts, is_stale, retrieve
from tercet.evidence.store import EvidenceStore, Fact

MOST_FACTS = 200
"""How many facts of the classes that a decision requires a run starts with; a plan may pin or search others."""
MOST_COUNTED = 2_000
"""How many facts of these classes are considered, ordered by class and id, besides those that a relation finds."""
MOST_VALUES = 20
"""How many values of the request are searched for to find the facts that are related to it."""


@dataclass(frozen=True, kw_only=True)
class LibraryEvidence:
    """The library's evidence that a run starts with: the pinned snapshot, and the facts that its decision requires."""

    snapshot: str = ""
    hash: str = ""
    facts: tuple[Evidence, ...] = ()
    left_out: Mapping[str, int] = field(default_factory=dict[str, int])
    """How many considered facts of each class are not among them."""


NO_LIBRARY_EVIDENCE = LibraryEvidence()


@dataclass(frozen=True)
class Library:
    """An evidence store and its retriever: the given one, else the store's own search."""

    store: EvidenceStore
    retriever: Retriever | None = None

    async def select_evidence(
        self, tenant: str, spec: DecisionSpec, request: Request, now: int
    ) -> LibraryEvidence:
        """Return the evidence that a run starts with: facts of the newest snapshot, those related to the request first."""
        head = await self.store.newest(tenant)
        if head is None:
            return NO_LIBRARY_EVIDENCE
        classes = tuple(dict.fromkeys(name for each in spec.required_evidence for name in classes_for(each)))
        if not classes:
            return LibraryEvidence(snapshot=head.name, hash=head.hash)
        first = await first_facts(
            self.store, tenant, head.name, classes=classes, now=moment(now), most=MOST_COUNTED
        )
        found = {fact.id: fact for fact in first}
        if len(found) > MOST_FACTS:
            searched = await self._search_related(tenant, head.name, spec, request, moment(now), classes)
            found |= {fact.id: fact for fact in searched}
        chosen = _choose_facts(list(found.values()), spec, request)
        left_out = Counter(fact.classification for fact in found.values())
        left_out.subtract(fact.classification for fact in chosen)
        return LibraryEvidence(snapshot=head.name, hash=head.hash, facts=chosen, left_out=dict(+left_out))

    async def _search_related(
        self,
        tenant: str,
        snapshot: str,
        spec: DecisionSpec,
        request: Request,
        now: datetime,
        classes: Sequence[str],
    ) -> list[Evidence]:
        """Return the facts of these classes that contain a value of the request named by a relation."""
        found: dict[str, Evidence] = {}
        for name, value in _related_values(spec, request)[:MOST_VALUES]:
            wanted = [each for each in classes if is_of_class(name, each)]
            if wanted:
                hits = await self.store.search(tenant, snapshot, str(value), classes=wanted, limit=MOST_FACTS)
                found |= {hit.fact.evidence.id: hit.fact.evidence for hit in hits}
        return [fact for fact in found.values() if not is_stale(fact, now)]

    async def read(
        self, tenant: str, snapshot: str, pinned: str, refs: Iterable[str], now: int
    ) -> list[Fact]:
        """Return the facts of the pinned snapshot with these ids, except missing and expired ones.

        Raises `UsageError` if the snapshot does not have the pinned hash, so that this is another store.
        """
        await self._demand_snapshot(tenant, snapshot, pinned)
        found: list[Fact] = []
        for ref in refs:
            with suppress(FactUnknown):
                fact = await self.store.fact(tenant, ref)
                if not is_stale(fact.evidence, moment(now)):
                    found.append(fact)
        return found

    async def find(
        self, tenant: str, snapshot: str, pinned: str, queries: Sequence[EvidenceQuery], now: int
    ) -> list[Fact]:
        """Return the facts that answer these queries and have not expired, each once, best first.

        Raises `UsageError` if the snapshot does not have the pinned hash, so that this is another store.
        """
        await self._demand_snapshot(tenant, snapshot, pinned)
        answers = await retrieve(
            self.store, tenant, snapshot, queries, now=moment(now), retriever=self.retriever
        )
        found = {hit.fact.evidence.id: hit.fact for hits in answers.values() for hit in hits}
        return list(found.values())

    async def _demand_snapshot(self, tenant: str, snapshot: str, pinned: str) -> None:
        if (await self.store.head(tenant, snapshot)).hash != pinned:
            raise UsageError(
                f"snapshot {snapshot} has other content than when the session was pinned to it",
                code="snapshot_version_mismatch",
                remedy="resume it with the store of evidence that it was started with",
            )

    async def remember(
        self, tenant: str, session: str, proposals: Iterable[tuple[MemoryProposal, bool]], now: int
    ) -> None:
        """Store the memories of a run as evidence in a snapshot of its own; each proposal says whether all its sources
        are trusted. This is idempotent, since another process may have done it and crashed before recording that."""
        name = f"episode-{session}"
        facts = [
            fact
            for proposal, is_trusted in proposals
            for fact in accept(
                (proposal,),
                session=session,
                trust=dict.fromkeys(proposal.sources, Trust.TRUSTED if is_trusted else Trust.UNTRUSTED),
            )
        ]
        with suppress(SnapshotUnknown):
            if (await self.store.head(tenant, name)).is_frozen:
                return
        with suppress(SnapshotExists):
            await self.store.create(tenant, name, now_ms=now)
        await self.store.put(tenant, name, facts)
        await self.store.freeze(tenant, name, now_ms=now)


def _choose_facts(facts: Sequence[Evidence], spec: DecisionSpec, request: Request) -> tuple[Evidence, ...]:
    """Return at most `MOST_FACTS` facts in the order of class and id: those that satisfy the relations of their class go
    before those that do not, and trusted ones before untrusted ones."""
    related = {fact.id for fact in select_related(facts, spec.bind, request.input, spec.untrusted_inputs)}
    ranked = sorted(
        facts, key=lambda fact: (fact.id not in related, fact.trust is not Trust.TRUSTED, _order(fact))
    )
    return tuple(sorted(ranked[:MOST_FACTS], key=_order))


def _order(fact: Evidence) -> tuple[str, str]:
    ref = parse_ref(fact.id)
    return (ref.classification, ref.key) if ref else ("", fact.id)


def _related_values(spec: DecisionSpec, request: Request) -> list[tuple[str, Any]]:
    """Return the request values that relations name, each with the evidence class that must contain it."""
    return [
        (relation.evidence, value)
        for relation in spec.bind
        if relation.evidence and (target := relation.target) is not None and target.owner == REQUEST
        for value in sorted(members(value_at(request.input, target.place)), key=str)
        if isinstance(value, str | int | float)
    ]
