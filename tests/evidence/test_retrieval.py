"""What a run asks: the queries of a plan, the facts of its snapshot, and what it may remember."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tercet.contracts.errors import LimitError
from tercet.contracts.evidence import EvidenceRef, parse_ref
from tercet.contracts.mode import Trust
from tercet.contracts.plan import EvidenceQuery
from tercet.contracts.runs.record import MemoryProposal
from tercet.contracts.values.canonical import digest
from tercet.evidence.retrieval import (
    EPISODE,
    Named,
    Retriever,
    WordRetriever,
    accept,
    classes_for,
    facts_for,
    lowest,
    retrieve,
)
from tercet.evidence.sqlite import SqliteEvidence
from tercet.testing.evidence_backend import document, fact, take

NOW = datetime(2026, 5, 9, 12, 0, tzinfo=UTC)
TENANT = "acme"


def query(text: str, limit: int = 1, classification: str = "policy_evidence") -> EvidenceQuery:
    """A query of a plan."""
    return EvidenceQuery(classification=classification, query=text, limit=limit)


async def filled() -> SqliteEvidence:
    """A store with a snapshot of policies and orders, of which one is stale."""
    store = SqliteEvidence.in_memory()
    await take(
        store,
        TENANT,
        "s",
        *document("guide.md", "Refunds take two days.", "Limits of refunds: 500."),
        fact("old", "refund refund refund", expires_at=NOW),
        fact("new", "refund refund", expires_at=NOW + timedelta(seconds=1)),
        fact("o1", {"total": 5, "note": "refund"}, classification="order"),
    )
    return store


@pytest.mark.req("R210")
async def test_the_queries_of_a_plan_are_answered() -> None:
    """Each query finds facts of the class that meets it, with hashes, cited with document, chunk and query; and again."""

    store = await filled()
    asked = [query("refund limit"), query("total refund", 5, "order_evidence"), query("zebra")]
    answers = await retrieve(store, TENANT, "s", asked, now=NOW)
    assert list(answers) == asked
    (limits,) = answers[asked[0]]
    assert limits.fact.evidence.hash == digest({"text": "Limits of refunds: 500."})
    cited = limits.fact.citation
    assert (cited.document, cited.chunk, cited.query) == ("guide.md", 1, "refund limit")
    assert cited.content_hash == limits.fact.evidence.hash
    assert cited.hash == (await retrieve(store, TENANT, "s", asked))[asked[0]][0].fact.citation.hash
    assert [hit.fact.evidence.classification for hit in answers[asked[1]]] == ["order"]
    assert answers[asked[2]] == ()


async def test_a_stale_fact_gives_way_to_the_next() -> None:
    """What has expired is not retrieved, at the very moment it expires; without a time nothing is judged."""

    store = await filled()
    asked = query("refund")
    (found,) = (await retrieve(store, TENANT, "s", [asked], now=NOW))[asked]
    assert found.fact.evidence.id == "kg:policy:new#snapshot_s"
    (found,) = (await retrieve(store, TENANT, "s", [asked]))[asked]
    assert found.fact.evidence.id == "kg:policy:old#snapshot_s"
    later = NOW + timedelta(days=1)
    many = query("refund", 100)
    assert len((await retrieve(store, TENANT, "s", [many], now=later))[many]) == 2
    fresh = await facts_for(store, TENANT, "s", classes=["policy"], now=later)
    assert [each.id for each in fresh] == [f"kg:policy:guide.md/{n}#snapshot_s" for n in (0, 1)]


class ByVowels:
    """A tiny retriever of somebody's own: it ranks facts by how many vowels they have, and is not always right."""

    def __init__(self, store: SqliteEvidence) -> None:
        self._store = store

    async def find(
        self, tenant: str, snapshot: str, query: str, *, classes: Sequence[str], limit: int
    ) -> Sequence[Named]:
        """Facts with vowels, and some that are not there."""
        facts = await self._store.facts(tenant, snapshot)
        named = [Named(each.evidence.id, float(str(each.evidence.content).count("o"))) for each in facts]
        wrong = [
            Named("kg:policy:nobody#snapshot_s", 99.0),
            Named("no ref", 98.0),
            Named("kg:policy:new#snapshot_t", 97.0),
        ]
        return (wrong + sorted(named, key=lambda each: (-each.score, each.ref)))[:limit]


async def test_a_retriever_ranks_but_does_not_tell() -> None:
    """Its order holds; what is not in the snapshot, or of another class, is left out, and the words are the store's."""

    store = await filled()
    retriever = ByVowels(store)
    assert isinstance(retriever, Retriever)
    assert isinstance(WordRetriever(store), Retriever)
    asked = query("anything", 2)
    hits = (await retrieve(store, TENANT, "s", [asked], retriever=retriever))[asked]
    assert [hit.fact.evidence.id for hit in hits] == [f"kg:policy:guide.md/{n}#snapshot_s" for n in (0, 1)]
    assert [hit.score for hit in hits] == [1.0, 1.0]
    assert {hit.fact.citation.query for hit in hits} == {"anything"}


def test_a_requirement_names_its_classes() -> None:
    """`x_evidence` is met by both spellings, anything else by itself alone."""
    assert classes_for("order_evidence") == ("order", "order_evidence")
    assert classes_for("order") == ("order",)
    assert classes_for("_evidence") == ("_evidence",)


async def test_a_snapshot_is_read_whole_or_not() -> None:
    """All facts come in their order over several pages; more than were asked for is a limit, not a silent cut."""

    store = SqliteEvidence.in_memory()
    await take(store, TENANT, "s", *(fact(f"k{number:04}", number) for number in range(2_500)))
    facts = await facts_for(store, TENANT, "s")
    assert [each.content for each in facts] == list(range(2_500))
    with pytest.raises(LimitError):
        await facts_for(store, TENANT, "s", most=2_499)


NAMES = st.text(
    st.characters(exclude_categories=["Cs", "Z", "C"], exclude_characters=":#"), min_size=1, max_size=20
)


@pytest.mark.req("R16")
@given(NAMES, NAMES, NAMES)
def test_a_ref_of_the_store_is_read_back(classification: str, key: str, snapshot: str) -> None:
    """Whatever a fact is called, its id is `kg:<class>:<id>#snapshot_<name>`, and finds it."""

    async def main() -> None:
        store = SqliteEvidence.in_memory()
        await take(store, TENANT, snapshot, fact(key, 1, classification=classification))
        (found,) = await store.facts(TENANT, snapshot)
        assert parse_ref(found.evidence.id) == EvidenceRef(classification, key, snapshot)
        assert await store.fact(TENANT, found.evidence.id) == found

    asyncio.run(main())


def test_an_episode_is_trusted_like_its_lowest_source() -> None:
    """What was learned from anything untrusted, unknown, or from nothing is untrusted."""
    trust = {"request": Trust.TRUSTED, "kg:policy:a#snapshot_s": Trust.TRUSTED, "mail": Trust.UNTRUSTED}
    cases = [
        (("request", "kg:policy:a#snapshot_s"), Trust.TRUSTED),
        (("request", "mail"), Trust.UNTRUSTED),
        (("request", "nobody"), Trust.UNTRUSTED),
        ((), Trust.UNTRUSTED),
    ]
    for sources, expected in cases:
        proposal = MemoryProposal(classification="customer", content={"likes": "tea"}, sources=sources)
        (made,) = accept([proposal], session="ses_1", trust=trust)
        assert (made.classification, made.trust, made.source) == (
            EPISODE,
            expected,
            "session ses_1: customer",
        )
        assert made.content == {"learned": {"likes": "tea"}}


@given(st.lists(st.sampled_from(list(Trust))))
def test_the_lowest_trust_wins(trusts: list[Trust]) -> None:
    """Trusted only where there is something, and all of it is."""
    assert (lowest(trusts) is Trust.TRUSTED) == (
        bool(trusts) and all(each is Trust.TRUSTED for each in trusts)
    )


async def test_episodes_become_evidence_of_later_snapshots() -> None:
    """An accepted proposal is found once a snapshot is made; accepting it again changes nothing."""

    store = await filled()
    proposal = MemoryProposal(classification="customer", content="prefers vouchers", sources=("request",))
    made = accept([proposal, proposal], session="ses_1", trust={"request": Trust.TRUSTED})
    assert len(made) == 1
    await take(store, TENANT, "s2", *made)
    asked = query("vouchers", 1, EPISODE)
    assert (await retrieve(store, TENANT, "s", [asked]))[asked] == ()
    (hit,) = (await retrieve(store, TENANT, "s2", [asked]))[asked]
    assert hit.fact.evidence.trust is Trust.TRUSTED
    await take(store, TENANT, "s3", *accept([proposal], session="ses_1", trust={"request": Trust.TRUSTED}))
    assert await store.diff(TENANT, "s2", "s3") == []
