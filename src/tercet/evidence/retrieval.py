"""Answers the queries of a run: those that a plan declares, and the facts of the pinned snapshot.

A retriever only names facts. Their content, hashes and labels always come from the frozen snapshot, so that a custom
index can rank facts but not change them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple, Protocol, runtime_checkable

from tercet.contracts.errors import LimitError
from tercet.contracts.evidence import EPISODE, Evidence, meets, parse_ref
from tercet.contracts.mode import Trust
from tercet.contracts.plan import EvidenceQuery
from tercet.contracts.runs.record import MemoryProposal
from tercet.contracts.values.canonical import digest
from tercet.evidence.errors import FactUnknown
from tercet.evidence.store import EvidenceStore, Fact, Hit, NewFact

MOST_FACTS = 10_000
_PAGE = 1_000
_SUFFIX = "_evidence"


class Named(NamedTuple):
    """A fact that a retriever found, by its id; a higher score is better."""

    ref: str
    score: float


@runtime_checkable
class Retriever(Protocol):
    """Finds facts of a frozen snapshot for a query: by words, by embeddings, or by any other means.

    Promised by an implementation: the same snapshot, query, classes and limit give the same answer, best first. Facts
    that are not in the snapshot, or of another class, are dropped by the caller.
    """

    async def find(
        self, tenant: str, snapshot: str, query: str, *, classes: Sequence[str], limit: int
    ) -> Sequence[Named]:
        """Return at most `limit` facts of these classes."""
        ...


class WordRetriever:
    """Finds facts by words that they share with the query, using the store's own search."""

    def __init__(self, store: EvidenceStore) -> None:
        self._store = store

    async def find(
        self, tenant: str, snapshot: str, query: str, *, classes: Sequence[str], limit: int
    ) -> Sequence[Named]:
        """Return at most `limit` facts of these classes."""
        hits = await self._store.search(tenant, snapshot, query, classes=classes, limit=limit)
        return [Named(hit.fact.evidence.id, hit.score) for hit in hits]


async def retrieve(
    store: EvidenceStore,
    tenant: str,
    snapshot: str,
    queries: Iterable[EvidenceQuery],
    *,
    now: datetime | None = None,
    retriever: Retriever | None = None,
) -> dict[EvidenceQuery, tuple[Hit, ...]]:
    """Return the facts that each query finds, best first, cited with document, chunk and query.

    A fact that has expired at `now` is skipped, and the next best takes its place. Without `now` expiry is not checked.
    """
    source = retriever or WordRetriever(store)
    return {
        query: await _answer(store, source, tenant, snapshot, query, now) for query in dict.fromkeys(queries)
    }


async def _answer(
    store: EvidenceStore,
    retriever: Retriever,
    tenant: str,
    snapshot: str,
    query: EvidenceQuery,
    now: datetime | None,
) -> tuple[Hit, ...]:
    classes, wanted = classes_for(query.classification), query.limit
    while True:
        named = await retriever.find(tenant, snapshot, query.query, classes=classes, limit=wanted)
        hits = [
            Hit(fact, found.score)
            for found in named
            if (fact := await _read(store, tenant, snapshot, found.ref, query)) is not None
            and not is_stale(fact.evidence, now)
        ]
        if len(hits) >= query.limit or len(named) < wanted:
            return tuple(hits[: query.limit])
        wanted *= 2  # some were stale or missing


async def _read(
    store: EvidenceStore, tenant: str, snapshot: str, ref: str, query: EvidenceQuery
) -> Fact | None:
    """Return a named fact from the snapshot; None if it is missing or of another class."""
    parts = parse_ref(ref)
    if parts is None or parts.snapshot != snapshot or not meets(query.classification, parts.classification):
        return None
    try:
        evidence, citation = await store.fact(tenant, ref)
    except FactUnknown:
        return None
    return Fact(evidence, citation.model_copy(update={"query": query.query}))


def classes_for(requirement: str) -> tuple[str, ...]:
    """Return the classes that meet a requirement: `x_evidence` is met by `x` and by `x_evidence`."""
    shorter = requirement.removesuffix(_SUFFIX)
    return (requirement,) if shorter in (requirement, "") else (shorter, requirement)


def is_stale(evidence: Evidence, now: datetime | None) -> bool:
    """Return whether a fact has expired, so that it must not decide anything."""
    return now is not None and evidence.expires_at is not None and evidence.expires_at <= now


async def first_facts(
    store: EvidenceStore,
    tenant: str,
    snapshot: str,
    *,
    classes: Sequence[str] | None,
    now: datetime | None = None,
    most: int,
) -> tuple[Evidence, ...]:
    """Return the first facts of a snapshot in the order of class and key, without those that have expired at `now`."""
    found: list[Evidence] = []
    after = ("", "")
    while len(found) < most:
        page = await store.facts(tenant, snapshot, classes=classes, after=after, limit=_PAGE)
        found += [fact.evidence for fact in page if not is_stale(fact.evidence, now)]
        last = parse_ref(page[-1].evidence.id) if len(page) == _PAGE else None
        if last is None:
            break
        after = (last.classification, last.key)
    return tuple(found[:most])


async def facts_for(
    store: EvidenceStore,
    tenant: str,
    snapshot: str,
    *,
    classes: Sequence[str] | None = None,
    now: datetime | None = None,
    most: int = MOST_FACTS,
) -> tuple[Evidence, ...]:
    """Return the facts of a snapshot ordered by class and key, without those that have expired at `now`.

    Raises `LimitError` if there are more than `most`: a run that needs so many should use queries instead.
    """
    found = await first_facts(store, tenant, snapshot, classes=classes, now=now, most=most + 1)
    if len(found) > most:
        raise LimitError("evidence_facts", len(found), most, remedy="name classes, or retrieve by queries")
    return found


# --- episodes ---
# A run never writes evidence itself. What the critic accepted at commit is put into a draft, and later runs see it
# once a snapshot is made. An episode has the trust of its least trusted source: untrusted text must not become
# trusted by being remembered. For the same reason its content is only what was learned: its class and the names of
# its sources are text of a plan, and are kept in its source.


def accept(
    proposals: Iterable[MemoryProposal], *, session: str, trust: Mapping[str, Trust]
) -> tuple[NewFact, ...]:
    """Return the facts for accepted proposals, each once; `trust` is that of their sources by name.

    A source that is not in `trust`, and a proposal without sources, is untrusted. The key is derived from the content
    and its sources, so that accepting it again changes nothing.
    """
    found: dict[str, NewFact] = {}
    for proposal in proposals:
        key = f"{session}/{digest(_whole(proposal)).removeprefix('sha256:')[:16]}"
        found[key] = NewFact(
            classification=EPISODE,
            key=key,
            content={"learned": proposal.content},
            trust=lowest(trust.get(source, Trust.UNTRUSTED) for source in proposal.sources),
            source=f"session {session}: {proposal.classification}",
        )
    return tuple(found.values())


def lowest(trusts: Iterable[Trust]) -> Trust:
    """Return the lowest of several trusts; of none, untrusted."""
    return min(trusts, key=list(Trust).index, default=Trust.UNTRUSTED)


def _whole(proposal: MemoryProposal) -> dict[str, Any]:
    return {
        "class": proposal.classification,
        "learned": proposal.content,
        "sources": sorted(set(proposal.sources)),
    }
