"""Helpers of the evidence suite: a way to open a store, and small changes to put into it."""

from __future__ import annotations

from typing import Any, TypeAlias

from tercet.contracts.values.canonical import hash_bytes
from tercet.evidence.store import Change, EvidenceStore, NewDocument, NewFact, SnapshotHead
from tercet.testing.expectation import StoreBackend

CLASS = "policy"


EvidenceBackend: TypeAlias = StoreBackend[EvidenceStore]
"""How the suite opens the store under test."""


def fact(key: str, content: Any, **fields: Any) -> NewFact:
    """Return a fact of the default class."""
    values: dict[str, Any] = {"classification": CLASS, "key": key, "content": content, **fields}
    return NewFact(**values)


def document(name: str, *texts: str, **fields: Any) -> list[Change]:
    """Return a document with its chunks."""
    body = "".join(texts)
    changes: list[Change] = [NewDocument(name=name, hash=hash_bytes(body.encode()), size=len(body))]
    start = 0
    for number, text in enumerate(texts):
        end = start + len(text.encode())
        place = {"document": name, "chunk": number, "start": start, "end": end}
        changes.append(fact(f"{name}/{number}", {"text": text}, **place, **fields))
        start = end
    return changes


async def take(store: EvidenceStore, tenant: str, name: str, *changes: Change) -> SnapshotHead:
    """Return a frozen snapshot with these changes."""
    await store.create(tenant, name, now_ms=1)
    await store.put(tenant, name, changes)
    return await store.freeze(tenant, name, now_ms=2)


async def contents(store: EvidenceStore, tenant: str, snapshot: str) -> dict[str, Any]:
    """Return the content of a snapshot's facts, by key."""
    return {
        each.evidence.id.partition("#")[0].split(":", 2)[2]: each.evidence.content
        for each in await store.facts(tenant, snapshot)
    }


async def found(
    store: EvidenceStore, tenant: str, snapshot: str, query: str, **options: Any
) -> list[tuple[str, float]]:
    """Return the ids that a search finds, with their scores."""
    hits = await store.search(tenant, snapshot, query, **options)
    return [(hit.fact.evidence.id, hit.score) for hit in hits]
