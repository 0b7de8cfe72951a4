"""The conformance suite that every evidence store passes: memory, SQLite, PostgreSQL, and yours.

A case is a coroutine function that takes an `EvidenceBackend` and raises `ConformanceError` if the store fails it. Each
case uses its own tenants, so cases may share one store.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from typing import Any, TypeAlias

from tercet.contracts.errors import UsageError
from tercet.contracts.mode import Trust
from tercet.contracts.values.canonical import digest
from tercet.evidence.errors import FactUnknown
from tercet.evidence.store import EvidenceStore
from tercet.testing import evidence_snapshots
from tercet.testing.evidence_backend import CLASS, EvidenceBackend, document, fact, found, take
from tercet.testing.expectation import (
    ConformanceError,
    expect,
    expect_refusal,
    new_tenant,
    with_new_tenant,
)

__all__ = ["Case", "ConformanceError", "EvidenceBackend", "cases"]

Case: TypeAlias = Callable[[EvidenceBackend], Coroutine[Any, Any, None]]
"""One test of the suite; it raises `ConformanceError` where a store falls short."""


# --- reading ---


async def a_fact_is_read_as_it_was_put(store: EvidenceStore, tenant: str) -> None:
    """Content, class, trust, source and expiry come back; the hash is that of the content, and expiry is not judged."""
    long_ago = datetime(2001, 2, 3, 4, 5, 6, 789_000, UTC)
    content = {"b": [1, 2.5, None, True, "é\u0000𝄞"], "a": {"": "x"}}
    new = fact("key:1/ü", content, trust=Trust.TRUSTED, source="https://x/?a=b", expires_at=long_ago)
    head = await take(store, tenant, "s", new)
    ref = f"kg:{CLASS}:key:1/ü#snapshot_s"
    evidence, citation = await store.fact(tenant, ref)
    expect("the content", evidence.content, content)
    expect("the hash", (evidence.hash, citation.content_hash), (digest(content), digest(content)))
    expect("the labels", (evidence.trust, evidence.source), (Trust.TRUSTED, "https://x/?a=b"))
    expect("the names", (evidence.id, evidence.classification, evidence.snapshot), (ref, CLASS, "s"))
    expect("the expiry", evidence.expires_at, long_ago)
    expect("the snapshot", citation.snapshot_hash, head.hash)
    expect("no query", citation.query, None)
    await expect_refusal(FactUnknown, store.fact(tenant, f"kg:{CLASS}:other#snapshot_s"))


async def a_chunk_is_cited_with_its_document(store: EvidenceStore, tenant: str) -> None:
    """A chunk leads back to the document, its hash, the chunk's number and its bytes, and to the query."""
    changes = document("guide.md", "Refunds take two days. ", "Über limits: ask.")
    await take(store, tenant, "s", *changes)
    (hit,) = await store.search(tenant, "s", "uber LIMIT?")
    citation = hit.fact.citation
    expect("the document", (citation.document, citation.chunk), ("guide.md", 1))
    expect("its hash", citation.document_hash, getattr(changes[0], "hash", ""))
    expect("the bytes", (citation.start, citation.end), (23, 41))
    expect("the query", citation.query, "uber LIMIT?")
    expect("the fact", citation.evidence, f"kg:{CLASS}:guide.md/1#snapshot_s")
    read = await store.fact(tenant, citation.evidence)
    expect("the same but for the query", read.citation.model_copy(update={"query": "uber LIMIT?"}), citation)


async def facts_are_read_in_pages(store: EvidenceStore, tenant: str) -> None:
    """Facts come in the order of class and key; pages join without a gap, and can be narrowed to classes."""
    keys = ["Z", "a", "a/1", "a/10", "a/2", "é", "𝄞"]
    changes = [fact(key, key, classification=name) for name in ("b", "a", "c") for key in reversed(keys)]
    await take(store, tenant, "s", *changes)
    names = [(each.evidence.classification, each.evidence.content) for each in await store.facts(tenant, "s")]
    expect("the order", names, [(name, key) for name in "abc" for key in keys])
    first = await store.facts(tenant, "s", limit=10)
    rest = await store.facts(tenant, "s", after=names[9])
    expect("two pages", [*first, *rest], await store.facts(tenant, "s"))
    some = await store.facts(tenant, "s", classes=["c", "x"])
    expect("one class", [each.evidence.classification for each in some], ["c"] * 7)
    expect("no class", await store.facts(tenant, "s", classes=[]), [])
    expect("no page", await store.facts(tenant, "s", limit=0), [])


async def a_search_ranks_what_it_finds(store: EvidenceStore, tenant: str) -> None:
    """Rare words count more than common ones, more often more than once, short facts more than long ones."""
    texts = {
        "often": "refund refund refund policy",
        "once": "refund policy and other things",
        "long": "refund policy " + "filler words of no use at all " * 20,
        "rare": "chargeback policy",
        "none": "entirely different",
    }
    await take(store, tenant, "s", *(fact(key, {"text": text}) for key, text in texts.items()))
    order = [name.split(":")[2].partition("#")[0] for name, _ in await found(store, tenant, "s", "refund")]
    expect("by one word", order, ["often", "once", "long"])
    (best, *_) = await found(store, tenant, "s", "chargeback policy")
    expect("the rare word", best[0], f"kg:{CLASS}:rare#snapshot_s")
    scores = [score for _, score in await found(store, tenant, "s", "the refund policy")]
    expect("best first", scores, sorted(scores, reverse=True))
    expect("golden scores", scores, GOLDEN)
    expect("nothing", await found(store, tenant, "s", "zebra"), [])


async def equal_scores_are_ordered_by_id(store: EvidenceStore, tenant: str) -> None:
    """Facts that a query fits alike come in the order of class and key, also where the limit cuts."""
    names = [(name, f"k{number:02}") for name in ("b", "a") for number in range(20, 0, -1)]
    await take(store, tenant, "s", *(fact(key, "same words", classification=name) for name, key in names))
    ids = [name for name, _ in await found(store, tenant, "s", "words", limit=25)]
    expected = [f"kg:{name}:{key}#snapshot_s" for name, key in sorted(names)][:25]
    expect("the order", ids, expected)
    expect("no limit", await found(store, tenant, "s", "words", limit=0), [])
    ids = [name for name, _ in await found(store, tenant, "s", "words", classes=["b"], limit=2)]
    expect("of a class", ids, ["kg:b:k01#snapshot_s", "kg:b:k02#snapshot_s"])


async def a_search_is_of_its_classes_only(backend: EvidenceBackend) -> None:
    """Facts of other classes are neither found nor counted."""
    one, two = new_tenant(), new_tenant()
    mine = [fact("1", "red apple"), fact("2", "green apple"), fact("3", "plum")]
    others = [fact(f"x{number}", "apple", classification="noise") for number in range(30)]
    async with backend.opened() as store:
        await take(store, one, "s", *mine)
        await take(store, two, "s", *mine, *others)
        alone = await found(store, one, "s", "red apple")
        expect("the same", await found(store, two, "s", "red apple", classes=[CLASS]), alone)
        expect("no class", await found(store, two, "s", "apple", classes=[]), [])
        expect("everywhere", len(await found(store, two, "s", "apple", limit=99)), 32)


async def a_query_is_only_words(store: EvidenceStore, tenant: str) -> None:
    """Operators, quotes, brackets and control characters have no meaning; case, accents and plurals make no difference."""
    queries = (
        'apple AND "plum', "apple OR NOT", "NEAR(apple plum, 2)", "apple*", "^apple", "text:apple", "-apple", "apple & !x",
        "'apple':*", "apple<->plum", "{apple} : plum", "apple\0plum", "APPLES", "äpplé", "apple; DROP TABLE facts",
        "apple \ud800", "$1 apple", "%apple%",
    )  # fmt: skip
    await take(store, tenant, "s", fact("a", {"text": "an Äpple"}), fact("b", {"n": 1204, "other": "東京都"}))
    for query in queries:
        expect(
            repr(query),
            [name for name, _ in await found(store, tenant, "s", query)],
            [f"kg:{CLASS}:a#snapshot_s"],
        )
    for query in ("", " ", "''", "*", "\0", "!!", "(", "\ud800", "--"):
        expect(repr(query), await found(store, tenant, "s", query), [])
    for query in ("1204", "京", "OTHER"):
        expect(
            repr(query),
            [name for name, _ in await found(store, tenant, "s", query)],
            [f"kg:{CLASS}:b#snapshot_s"],
        )
    expect("a long query", len(await found(store, tenant, "s", "apple zebra " * 50_000)), 1)


GOLDEN = [1.473257, 1.238259, 0.457174, 0.341739]
"""The same in every store and in every future version: waiting sessions rely on it."""

_READING_CASES = (
    *with_new_tenant(
        a_fact_is_read_as_it_was_put,
        a_chunk_is_cited_with_its_document,
        facts_are_read_in_pages,
        a_search_ranks_what_it_finds,
        equal_scores_are_ordered_by_id,
        a_query_is_only_words,
    ),
    a_search_is_of_its_classes_only,
)


# --- durable stores ---


async def what_was_written_is_there_when_reopened(backend: EvidenceBackend) -> None:
    """A store that is opened again has the same snapshots, drafts, pins and hits."""
    tenant = new_tenant()
    async with backend.opened() as store:
        await take(store, tenant, "s", *document("a.md", "one two", "three"), fact("f", 1))
        await store.create(tenant, "d", now_ms=1)
        await store.put(tenant, "d", [fact("f", 2)])
        await store.pin(tenant, "s", "ses_1")
        before = [
            await store.facts(tenant, "s"),
            await store.search(tenant, "s", "two"),
            await store.heads(tenant),
        ]
    async with backend.opened() as store:
        after = [
            await store.facts(tenant, "s"),
            await store.search(tenant, "s", "two"),
            await store.heads(tenant),
        ]
        expect("everything", after, before)
        await expect_refusal(UsageError, store.create(tenant, "", now_ms=1))
        head = await store.freeze(tenant, "d", now_ms=3)
        expect("the draft", (head.number, head.facts), (2, 3))


async def two_openings_share_a_store(backend: EvidenceBackend) -> None:
    """What one writes, the other reads, and both may freeze."""
    tenant = new_tenant()
    async with backend.opened() as one, backend.opened() as two:
        await take(one, tenant, "s1", fact("a", 1))
        await two.pin(tenant, "s1", "ses_1")
        await take(two, tenant, "s2", fact("a", 2))
        expect("the pins", await one.pins(tenant, "s1"), ("ses_1",))
        expect("the line", [head.number for head in await one.heads(tenant)], [2, 1])


DURABLE_CASES = (what_was_written_is_there_when_reopened, two_openings_share_a_store)


def cases(*, durable: bool) -> tuple[Case, ...]:
    """Return the cases for a store; a durable one has a few more."""
    common = (*evidence_snapshots.CASES, *_READING_CASES)
    return (*common, *DURABLE_CASES) if durable else common
