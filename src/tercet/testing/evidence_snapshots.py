"""Cases about drafts and snapshots: frozen ones never change, drafts are invisible, and differences are reported."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterator
from hashlib import sha256
from typing import Any

from tercet.contracts.errors import UsageError
from tercet.evidence.errors import (
    BadFact,
    FactUnknown,
    SnapshotExists,
    SnapshotFrozen,
    SnapshotOpen,
    SnapshotPinned,
    SnapshotUnknown,
    StoreClosed,
)
from tercet.evidence.store import Change, Difference, EvidenceStore, Removal
from tercet.testing.evidence_backend import CLASS, EvidenceBackend, contents, document, fact, found, take
from tercet.testing.expectation import ConformanceError, expect, expect_refusal, new_tenant, with_new_tenant


async def a_draft_is_not_seen(store: EvidenceStore, tenant: str) -> None:
    """Before it is frozen, a draft cannot be read, searched, pinned or compared; its changes are counted."""
    head = await store.create(tenant, "d", now_ms=7)
    expect("a new draft", (head.number, head.facts, head.created_at, head.is_frozen), (None, 0, 7, False))
    added = await store.put(tenant, "d", [fact("a", 1), fact("b", 2), Removal(classification="x", key="y")])
    expect("what was added", tuple(added), (2, 0, 1))
    expect("the changes", (await store.head(tenant, "d")).facts, 3)
    for call in (
        store.facts(tenant, "d"),
        store.search(tenant, "d", "a"),
        store.pin(tenant, "d", "ses_1"),
        store.pins(tenant, "d"),
        store.diff(tenant, "d", "d"),
        store.forget(tenant, "d"),
        store.fact(tenant, f"kg:{CLASS}:a#snapshot_d"),
    ):
        await expect_refusal(SnapshotOpen, call)
    expect("the newest", await store.newest(tenant), None)


async def a_frozen_snapshot_never_changes(store: EvidenceStore, tenant: str) -> None:
    """Adding to it, freezing it again, dropping it as a draft and taking its name are refused."""
    head = await take(store, tenant, "s", fact("a", 1))
    expect("the snapshot", (head.number, head.facts, head.frozen_at, head.is_frozen), (1, 1, 2, True))
    await expect_refusal(SnapshotFrozen, store.put(tenant, "s", [fact("b", 2)]))
    await expect_refusal(SnapshotFrozen, store.freeze(tenant, "s", now_ms=3))
    await expect_refusal(SnapshotFrozen, store.discard(tenant, "s"))
    await expect_refusal(SnapshotExists, store.create(tenant, "s", now_ms=3))
    await store.create(tenant, "d", now_ms=3)
    await expect_refusal(SnapshotExists, store.freeze(tenant, "d", name="s", now_ms=3))
    expect("its facts", await contents(store, tenant, "s"), {"a": 1})
    expect("its head", await store.head(tenant, "s"), head)


async def later_changes_are_invisible(store: EvidenceStore, tenant: str) -> None:
    """Facts that are changed, added and removed later leave facts, hashes, order and scores of a snapshot alone."""
    await take(
        store, tenant, "s1", fact("a", "red apples"), fact("b", "red pears"), fact("c", "a green plum")
    )
    facts = await store.facts(tenant, "s1")
    hits = await store.search(tenant, "s1", "red apple")
    for number in range(2, 12):
        changes: list[Change] = [fact("a", f"red {number}"), fact(f"new{number}", "apple apple red")]
        if number == 5:
            changes.append(Removal(classification=CLASS, key="b"))
        await take(store, tenant, f"s{number}", *changes)
    expect("the facts", await store.facts(tenant, "s1"), facts)
    expect("the hits", await store.search(tenant, "s1", "red apple"), hits)
    newest = await contents(store, tenant, "s11")
    expect("the newest", (newest["a"], "b" in newest, len(newest)), ("red 11", False, 12))


async def snapshots_build_on_each_other(store: EvidenceStore, tenant: str) -> None:
    """A snapshot is the one before with the changes of its draft, whenever that draft was begun."""
    await store.create(tenant, "slow", now_ms=1)
    await store.put(tenant, "slow", [fact("a", "slow"), fact("s", 1)])
    await take(store, tenant, "quick", fact("a", "quick"), fact("q", 1))
    head = await store.freeze(tenant, "slow", now_ms=9, name="slow-2")
    expect("its place", (head.name, head.number), ("slow-2", 2))
    expect("the first", await contents(store, tenant, "quick"), {"a": "quick", "q": 1})
    expect("the second", await contents(store, tenant, "slow-2"), {"a": "slow", "q": 1, "s": 1})
    await expect_refusal(SnapshotUnknown, store.head(tenant, "slow"))
    names = [each.name for each in await store.heads(tenant)]
    expect("the list", names, ["slow-2", "quick"])
    newest = await store.newest(tenant)
    expect("the newest", newest and newest.name, "slow-2")


async def equal_histories_have_equal_hashes(backend: EvidenceBackend) -> None:
    """A snapshot's hash follows from what was put into the line, in whatever order and under whatever names."""
    ann, bob = new_tenant(), new_tenant()
    async with backend.opened() as store:
        first = await take(
            store, ann, "x", fact("a", {"n": 1.0}), fact("b", None, trust="trusted", source="me")
        )
        again = await take(
            store, bob, "y", fact("b", None, trust="trusted", source="me"), fact("a", {"n": 1})
        )
        expect("equal", again.hash, first.hash)
        expect(
            "golden", first.hash, "sha256:d256cdda36c5b54be7749a69648d2f3b8066326d415e71b335fde969c4ccb1f7"
        )
        later = await take(store, ann, "z", fact("a", {"n": 1}))
        expect("a snapshot without changes", (later.facts, later.hash == first.hash), (2, False))
        other = await take(store, bob, "z", fact("a", {"n": 2}))
        expect("two hashes", len({other.hash, later.hash}), 2)


async def what_changes_nothing_adds_nothing(store: EvidenceStore, tenant: str) -> None:
    """The same facts again, and the removal of what is not there, leave no difference."""
    changes = [*document("a.md", "one two", "three"), fact("f", 1)]
    await take(store, tenant, "s1", *changes)
    await take(store, tenant, "s2", *changes, Removal(classification=CLASS, key="missing"))
    expect("the difference", await store.diff(tenant, "s1", "s2"), [])
    expect("the hits", len(await store.search(tenant, "s2", "two three")), 2)
    await take(store, tenant, "s3", fact("f", 1, trust="trusted"))
    kinds = [each.kind for each in await store.diff(tenant, "s2", "s3")]
    expect("another trust is a change", kinds, ["changed"])


async def a_document_takes_its_old_chunks_away(store: EvidenceStore, tenant: str) -> None:
    """A document that got shorter loses its old chunks; other facts are unchanged."""
    await take(store, tenant, "s1", *document("a.md", "one", "two", "three"), *document("b.md", "four"))
    await take(store, tenant, "s2", *document("a.md", "uno"))
    expect(
        "the facts",
        await contents(store, tenant, "s2"),
        {"a.md/0": {"text": "uno"}, "b.md/0": {"text": "four"}},
    )
    expect("the old search", await store.search(tenant, "s2", "three"), [])
    changed = [(each.key, each.kind) for each in await store.diff(tenant, "s1", "s2")]
    expect("the diff", changed, [("a.md/0", "changed"), ("a.md/1", "removed"), ("a.md/2", "removed")])
    await store.create(tenant, "d", now_ms=1)
    await store.put(tenant, "d", document("a.md", "x", "y"))
    await store.put(tenant, "d", document("a.md", "z"))
    await store.freeze(tenant, "d", now_ms=2)
    texts = await contents(store, tenant, "d")
    expect("put twice", texts, {"a.md/0": {"text": "z"}, "b.md/0": {"text": "four"}})


async def the_last_change_of_a_fact_counts(store: EvidenceStore, tenant: str) -> None:
    """Within a draft a later change replaces an earlier one, in one call and in several."""
    await store.create(tenant, "d", now_ms=1)
    await store.put(
        tenant, "d", [fact("a", 1), fact("a", 2), fact("b", 1), Removal(classification=CLASS, key="b")]
    )
    await store.put(tenant, "d", [fact("c", 1), fact("a", 3)])
    await store.freeze(tenant, "d", now_ms=2)
    expect("the facts", await contents(store, tenant, "d"), {"a": 3, "c": 1})


async def a_put_is_all_or_nothing(store: EvidenceStore, tenant: str) -> None:
    """A bad fact at the end, or a source that breaks off, leaves the draft as it was."""

    def broken() -> Iterator[Change]:
        yield from (fact(f"b{number}", number) for number in range(2_500))
        raise RuntimeError("the disk is gone")

    await store.create(tenant, "d", now_ms=1)
    await store.put(tenant, "d", [fact("a", 1)])
    bad = (
        fact("a b", 1), fact("", 1), fact("k#", 1), fact("k", float("nan")), fact("k", 2**60), fact("k", "\ud800"),
        fact("k", 1, classification="x:y"), fact("k", 1, document="missing.md"), fact("k", 1, source="\0"),
        fact("k", "x" * 1_000_001), fact("n" * 600, 1),
    )  # fmt: skip
    for each in bad:
        refused = await _expect_wrong_use(store.put(tenant, "d", [fact("z", 1), each]))
        expect("a remedy", refused.remedy or "none", refused.remedy)
    await expect_refusal(RuntimeError, store.put(tenant, "d", broken()))
    expect("the draft", (await store.head(tenant, "d")).facts, 1)


async def snapshots_are_compared_both_ways(store: EvidenceStore, tenant: str) -> None:
    """A diff lists what was added, changed and removed, with both hashes; in reverse, the opposite."""
    await take(store, tenant, "s1", fact("a", 1), fact("b", 1), fact("c", 1))
    await take(store, tenant, "s2", fact("a", 2))
    await take(store, tenant, "s3", fact("d", 1), Removal(classification=CLASS, key="b"), fact("a", 3))
    one, three = (f"sha256:{sha256(number).hexdigest()}" for number in (b"1", b"3"))
    expect(
        "forwards",
        await store.diff(tenant, "s1", "s3"),
        [
            Difference(CLASS, "a", "changed", one, three),
            Difference(CLASS, "b", "removed", one, None),
            Difference(CLASS, "d", "added", None, one),
        ],
    )
    backwards = [(each.key, each.kind) for each in await store.diff(tenant, "s3", "s1")]
    expect("backwards", backwards, [("a", "changed"), ("b", "added"), ("d", "removed")])
    expect("nothing", await store.diff(tenant, "s2", "s2"), [])
    await expect_refusal(SnapshotUnknown, store.diff(tenant, "s1", "s9"))


async def a_pinned_snapshot_is_kept(store: EvidenceStore, tenant: str) -> None:
    """A snapshot that a session pins, and the newest one, cannot be removed; another goes with what only it had."""
    for number in range(1, 5):
        await take(store, tenant, f"s{number}", fact("a", f"word{number}"), fact(f"k{number}", "all"))
    await store.pin(tenant, "s2", "ses_1")
    await store.pin(tenant, "s2", "ses_1")
    await store.pin(tenant, "s2", "ses_0")
    expect("the pins", await store.pins(tenant, "s2"), ("ses_0", "ses_1"))
    expect("their number", (await store.head(tenant, "s2")).pins, 2)
    await expect_refusal(SnapshotPinned, store.forget(tenant, "s2"))
    await expect_refusal(SnapshotPinned, store.forget(tenant, "s4"))
    third = await store.facts(tenant, "s3")
    await store.unpin(tenant, "s2", "ses_0")
    await store.unpin(tenant, "s2", "ses_1")
    await store.unpin(tenant, "s2", "ses_1")
    await store.unpin(tenant, "s9", "ses_1")
    await store.forget(tenant, "s2")
    await expect_refusal(SnapshotUnknown, store.facts(tenant, "s2"))
    expect("the first", await contents(store, tenant, "s1"), {"a": "word1", "k1": "all"})
    expect("the third", await store.facts(tenant, "s3"), third)
    expect("its search", len(await found(store, tenant, "s3", "all")), 3)
    expect("the diff", len(await store.diff(tenant, "s1", "s3")), 3)
    await take(store, tenant, "s2", fact("a", "word2"))
    expect("the name is free", (await store.head(tenant, "s2")).number, 5)


async def a_draft_can_be_dropped(store: EvidenceStore, tenant: str) -> None:
    """A discarded draft is gone with all that was in it, and its name is free."""
    await store.create(tenant, "d", now_ms=1)
    await store.put(tenant, "d", document("a.md", "one", "two"))
    await store.discard(tenant, "d")
    await expect_refusal(SnapshotUnknown, store.head(tenant, "d"))
    head = await take(store, tenant, "d", fact("a", 1))
    expect("its facts", head.facts, 1)
    expect("its words", await store.search(tenant, "d", "one"), [])


async def tenants_see_nothing_of_each_other(backend: EvidenceBackend) -> None:
    """The same names under two tenants are two snapshots with facts of their own, and neither counts in a score."""
    ann, bob = new_tenant(), new_tenant()
    async with backend.opened() as store:
        await take(store, ann, "s", fact("a", "a red apple"), fact("b", "a pear"))
        alone = await found(store, ann, "s", "red apple")
        await take(store, bob, "s", *(fact(f"x{number}", "apple red apple") for number in range(20)))
        await store.pin(bob, "s", "ses_1")
        expect("the hits", await found(store, ann, "s", "red apple"), alone)
        expect("the pins", await store.pins(ann, "s"), ())
        expect("the facts", sorted(await contents(store, ann, "s")), ["a", "b"])
        await expect_refusal(FactUnknown, store.fact(ann, f"kg:{CLASS}:x1#snapshot_s"))
        await expect_refusal(SnapshotUnknown, store.facts(new_tenant(), "s"))


async def unknown_names_are_refused(backend: EvidenceBackend) -> None:
    """Unknown and invalid names raise typed errors."""
    tenant = new_tenant()
    async with backend.opened() as store:
        await expect_refusal(SnapshotUnknown, store.put(tenant, "s", []))
        await expect_refusal(SnapshotUnknown, store.freeze(tenant, "s", now_ms=1))
        await expect_refusal(SnapshotUnknown, store.discard(tenant, "s"))
        await expect_refusal(SnapshotUnknown, store.search(tenant, "s", "x"))
        await expect_refusal(BadFact, store.create(tenant, "a b", now_ms=1))
        await expect_refusal(BadFact, store.create(tenant, "a#b", now_ms=1))
        await expect_refusal(UsageError, store.create(tenant, "", now_ms=1))
        await expect_refusal(UsageError, store.create("", "s", now_ms=1))
        await expect_refusal(FactUnknown, store.fact(tenant, "no ref"))
    await expect_refusal(StoreClosed, store.head(tenant, "s"))


async def drafts_are_frozen_at_once(store: EvidenceStore, tenant: str) -> None:
    """Drafts that several tasks fill and freeze concurrently become snapshots with distinct numbers."""
    heads = await asyncio.gather(
        *(
            take(store, tenant, f"s{number}", fact(f"k{number}", number), fact("a", number))
            for number in range(6)
        )
    )
    expect("the numbers", sorted(head.number or 0 for head in heads), [1, 2, 3, 4, 5, 6])
    for head in heads:
        expect("its facts", head.facts, (head.number or 0) + 1)
        facts = await contents(store, tenant, head.name)
        expect("its own", facts["a"], int(head.name[1:]))


async def _expect_wrong_use(call: Awaitable[Any]) -> UsageError:
    """Return the error of a wrong use, of any kind."""
    try:
        await call
    except UsageError as error:
        return error
    raise ConformanceError("expected a UsageError, but the call returned")


CASES = (
    *with_new_tenant(
        a_draft_is_not_seen,
        a_frozen_snapshot_never_changes,
        later_changes_are_invisible,
        snapshots_build_on_each_other,
        what_changes_nothing_adds_nothing,
        a_document_takes_its_old_chunks_away,
        the_last_change_of_a_fact_counts,
        a_put_is_all_or_nothing,
        snapshots_are_compared_both_ways,
        a_pinned_snapshot_is_kept,
        a_draft_can_be_dropped,
        drafts_are_frozen_at_once,
    ),
    equal_histories_have_equal_hashes,
    tenants_see_nothing_of_each_other,
    unknown_names_are_refused,
)
