"""What a run asks of the evidence: the queries that a plan declares, and the facts of the snapshot it is pinned to.

A retriever only names facts. What they say, their hashes and their labels always come from the frozen snapshot, so that an
index of somebody's own can rank, but not tell.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import NamedTuple, Protocol, runtime_checkable

from tercet.contracts.errors import LimitError
from tercet.contracts.evidence import Evidence, meets, parse_ref
from tercet.contracts.plan import EvidenceQuery
from tercet.evidence.errors import FactUnknown
from tercet.evidence.store import EvidenceStore, Fact, Hit

MOST_FACTS = 10_000
_PAGE = 1_000
_SUFFIX = "_evidence"


class Named(NamedTuple):
    """A fact that a retriever found, by its id; the higher the score, the better."""

    ref: str
    score: float


@runtime_checkable
class Retriever(Protocol):
    """Finds facts of a frozen snapshot for a query: by words, by embeddings, or by whatever means.

    Promised by an implementation: the same snapshot, query, classes and limit give the same answer, best first. What is
    named and is not in the snapshot, or of another class, is left out by whoever asked.
    """

    async def find(
        self, tenant: str, snapshot: str, query: str, *, classes: Sequence[str], limit: int
    ) -> Sequence[Named]:
        """At most `limit` facts of these classes."""
        ...


class WordRetriever:
    """Finds facts by the words that they share with the query: the search of the store itself."""

    def __init__(self, store: EvidenceStore) -> None:
        self._store = store

    async def find(
        self, tenant: str, snapshot: str, query: str, *, classes: Sequence[str], limit: int
    ) -> Sequence[Named]:
        """At most `limit` facts of these classes."""
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
    """The facts that each query finds, best first, cited with document, chunk and query.

    A fact that has expired at `now` is left out, and the next best takes its place. Without `now` no fact is judged.
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
        wanted *= 2  # some of those were stale or not there


async def _read(
    store: EvidenceStore, tenant: str, snapshot: str, ref: str, query: EvidenceQuery
) -> Fact | None:
    """A named fact as the snapshot has it; None if it is not there, or not of the class that was asked for."""
    parts = parse_ref(ref)
    if parts is None or parts.snapshot != snapshot or not meets(query.classification, parts.classification):
        return None
    try:
        evidence, citation = await store.fact(tenant, ref)
    except FactUnknown:
        return None
    return Fact(evidence, citation.model_copy(update={"query": query.query}))


def classes_for(requirement: str) -> tuple[str, ...]:
    """The classes that meet a requirement: `x_evidence` is met by `x` and by `x_evidence`."""
    shorter = requirement.removesuffix(_SUFFIX)
    return (requirement,) if shorter in (requirement, "") else (shorter, requirement)


def is_stale(evidence: Evidence, now: datetime | None) -> bool:
    """Whether a fact has expired: it must not decide anything any more."""
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
    """The facts of a snapshot in the order of class and key, without those that have expired at `now`.

    Raises `LimitError` if there are more than `most`: a run that needs so many should ask queries instead.
    """
    found = await first_facts(store, tenant, snapshot, classes=classes, now=now, most=most + 1)
    if len(found) > most:
        raise LimitError("evidence_facts", len(found), most, remedy="name classes, or retrieve by queries")
    return found
