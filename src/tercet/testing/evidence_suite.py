"""The conformance suite that every evidence store passes: memory, SQLite, PostgreSQL, and yours.

A case is a coroutine function that takes an `EvidenceBackend` and raises `ConformanceError` if the store fails it. Each
case uses its own tenants, so cases may share one store.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, TypeAlias

from tercet.contracts.errors import UsageError
from tercet.testing import evidence_reading, evidence_snapshots
from tercet.testing.evidence_backend import EvidenceBackend, document, fact, take
from tercet.testing.expectation import ConformanceError, expect, expect_refusal, new_tenant

__all__ = ["Case", "ConformanceError", "EvidenceBackend", "cases"]

Case: TypeAlias = Callable[[EvidenceBackend], Coroutine[Any, Any, None]]
"""One test of the suite; it raises `ConformanceError` where a store falls short."""


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
    common = (*evidence_snapshots.CASES, *evidence_reading.CASES)
    return (*common, *DURABLE_CASES) if durable else common
