"""Finds facts by their meaning, with a small offline embedding model (the extra `tercet[embeddings]`).

It only ranks. Similarity is not truth: "passed" and "did not pass" are close together, so what is found this way is
judged like any other evidence.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tercet.contracts.errors import extra_missing
from tercet.contracts.evidence import Evidence
from tercet.contracts.shape import as_object
from tercet.contracts.values.canonical import canonical
from tercet.evidence.retrieval import Named, facts_for
from tercet.evidence.store import EvidenceStore

MOST_FACTS = 50_000
"""The maximum number of facts to compare with a query; a larger snapshot needs an index."""
_KEPT = 4
"""The number of cached vector sets, by snapshot and classes: a snapshot never changes."""
_PLACES = 6
"""Scores are rounded, so that the order does not depend on rounding errors."""


class EmbeddingRetriever:
    """Finds the facts of a snapshot whose meaning is nearest to the query; equal scores are ordered by id.

    The first query of a snapshot reads all of its facts. Raises `LimitError` if there are too many.
    """

    def __init__(self, store: EvidenceStore) -> None:
        """Raises `UsageError` if the extra is not installed."""
        self._store = store
        self._model = _load()
        self._indexes: dict[tuple[str, str, tuple[str, ...]], tuple[list[str], Any]] = {}

    async def find(
        self, tenant: str, snapshot: str, query: str, *, classes: Sequence[str], limit: int
    ) -> Sequence[Named]:
        """Return at most `limit` facts of these classes, nearest first."""
        refs, vectors = await self._index(tenant, snapshot, tuple(classes))
        if not refs:
            return []
        [asked] = await asyncio.to_thread(self._embed, [query])
        scores = [round(float(score), _PLACES) for score in vectors @ asked]
        ranked = sorted(zip(refs, scores, strict=True), key=lambda found: (-found[1], found[0]))
        return [Named(ref, score) for ref, score in ranked[:limit]]

    async def _index(self, tenant: str, snapshot: str, classes: tuple[str, ...]) -> tuple[list[str], Any]:
        key = (tenant, snapshot, classes)
        if key not in self._indexes:
            facts = await facts_for(self._store, tenant, snapshot, classes=classes, most=MOST_FACTS)
            texts = [_text(fact) for fact in facts]
            vectors = await asyncio.to_thread(self._embed, texts) if texts else None
            while len(self._indexes) >= _KEPT:
                del self._indexes[next(iter(self._indexes))]
            self._indexes[key] = ([fact.id for fact in facts], vectors)
        return self._indexes[key]

    def _embed(self, texts: list[str]) -> Any:
        return self._model.embed(texts, norm=True)


def _load() -> Any:
    spec = find_spec("wordllama")
    if spec is None or spec.origin is None:
        raise extra_missing("finding evidence by its meaning", "wordllama", "embeddings")
    # The weights are in the package; without a folder it would look for them on the network.
    module: Any = import_module("wordllama")
    return module.WordLlama.load(cache_dir=Path(spec.origin).parent, disable_download=True)


def _text(fact: Evidence) -> str:
    """Return the text of a fact for the model: its text field if it has one, else the whole fact."""
    members = as_object(fact.content) or {}
    words = [str(members[name]) for name in ("heading", "text") if members.get(name)]
    return " ".join(words) or canonical(fact.content).decode()
