"""Finding facts by their meaning, with the real model of the extra."""

from __future__ import annotations

import importlib.util
from typing import Any

import pytest

from tercet.contracts.errors import UsageError
from tercet.contracts.plan import EvidenceQuery
from tercet.evidence import embeddings
from tercet.evidence.embeddings import EmbeddingRetriever
from tercet.evidence.retrieval import retrieve
from tercet.evidence.sqlite import SqliteEvidence
from tercet.evidence.store import NewFact

TEXTS = {
    "parts": "Broken parts are replaced free of charge.",
    "shipping": "Parcels leave the house within two days.",
    "data": "Addresses are deleted after a year.",
}


async def shelved() -> SqliteEvidence:
    """A store with a few rules, and one of another class."""
    store = SqliteEvidence.in_memory()
    await store.create("acme", "draft", now_ms=1)
    facts = [NewFact(classification="policy", key=key, content={"text": text}) for key, text in TEXTS.items()]
    other = NewFact(classification="joke", key="parts", content={"text": "A damaged piece walks into a bar."})
    await store.put("acme", "draft", [*facts, other])
    await store.freeze("acme", "draft", now_ms=2, name="may")
    return store


@pytest.mark.parametrize(
    ("question", "key"),
    [
        ("replacement of a damaged piece", "parts"),
        ("when will my delivery be sent?", "shipping"),
    ],
)
async def test_facts_are_found_that_share_no_word_with_the_query(question: str, key: str) -> None:
    """The nearest rule is the one that is meant; what it says comes from the snapshot, and other classes do not count."""

    store = await shelved()
    query = EvidenceQuery(classification="policy", query=question)
    assert not await store.search("acme", "may", question, classes=["policy"])
    retriever = EmbeddingRetriever(store)
    found = await retrieve(store, "acme", "may", [query], retriever=retriever)
    again = await retrieve(store, "acme", "may", [query], retriever=EmbeddingRetriever(store))
    assert found == again
    [hit] = found[query]
    assert hit.fact.evidence.id == f"kg:policy:{key}#snapshot_may"
    assert hit.fact.evidence.content == {"text": TEXTS[key]}


async def test_a_class_without_facts_finds_nothing() -> None:
    """There is nothing to compare with."""

    store = await shelved()
    found = await EmbeddingRetriever(store).find("acme", "may", "anything", classes=["law"], limit=3)
    assert found == []


def test_without_the_extra_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """The library is optional."""

    def absent(name: str) -> Any:
        return None if name == "wordllama" else importlib.util.find_spec(name)

    monkeypatch.setattr(embeddings, "find_spec", absent)
    with pytest.raises(UsageError) as caught:
        EmbeddingRetriever(SqliteEvidence.in_memory())
    assert caught.value.code == "extra_missing"
