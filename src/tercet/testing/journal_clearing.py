"""Cases about cleaning up: what is due, what has ended, who holds it, and how it is forgotten."""

from __future__ import annotations

import asyncio

from tercet.contracts.values.canonical import hash_bytes
from tercet.journal.chain import START, verify_chain
from tercet.journal.errors import BlobMissing, LeaseLost, PositionConflict
from tercet.journal.protocol import Append, ClaimHolder, Journal, Lease, NewCheckpoint, SessionRow
from tercet.testing.expectation import expect, expect_refusal, new_tenant, with_new_tenant
from tercet.testing.journal_backend import Backend, session_row, unit


async def what_is_due_comes_earliest_first(journal: Journal, tenant: str) -> None:
    """Rows whose time has come are listed by it; others, and those that wait for nothing, are not."""
    for name, due_at in {"a": 30, "b": 10, "c": None, "d": 20, "e": 10}.items():
        await _put(journal, session_row(tenant, name, due_at=due_at))
    expect("what is due at 20", await _due(journal, tenant, 20), ["b", "e", "d"])
    expect("the first of it", await _due(journal, tenant, 20, limit=1), ["b"])
    expect("nothing yet", await _due(journal, tenant, 9), [])
    expect("another tenant", await _due(journal, new_tenant(), 99), [])
    later = session_row(tenant, "b", due_at=None)
    await journal.append(unit(tenant, 1, stream="b", row=later))
    expect("what is left", await _due(journal, tenant, 99), ["e", "d", "a"])
    expect("the row", await journal.session(tenant, "b"), later)
    (first,) = await journal.due(tenant, now_ms=10)
    expect("the whole row", first, session_row(tenant, "e", due_at=10))


async def what_waits_comes_oldest_first(journal: Journal, tenant: str) -> None:
    """Sessions with an open gate are listed by its time and their id, in pages; others, and those of other tenants, are not."""
    for name, waits_since in {"a": 30, "b": 10, "c": None, "d": 20, "e": 10}.items():
        await _put(journal, session_row(tenant, name, waits_since=waits_since))

    async def waiting(after: tuple[int, str] | None = None, limit: int = 100) -> list[str]:
        return [row.session_id for row in await journal.waiting(tenant, after=after, limit=limit)]

    expect("what waits", await waiting(), ["b", "e", "d", "a"])
    expect("the first page", await waiting(limit=2), ["b", "e"])
    expect("the page behind", await waiting((10, "e"), limit=2), ["d", "a"])
    expect("the page behind one that waits no more", await waiting((10, "c")), ["e", "d", "a"])
    expect("another tenant", await journal.waiting(new_tenant()), [])
    later = session_row(tenant, "b", waits_since=40)
    await journal.append(unit(tenant, 1, stream="b", row=later))
    await journal.append(unit(tenant, 1, stream="e", row=session_row(tenant, "e", waits_since=None)))
    expect("what waits later", await waiting(), ["d", "a", "b"])
    (last,) = await journal.waiting(tenant, after=(30, "a"))
    expect("the whole row", last, later)


async def reminders_come_earliest_first(journal: Journal, tenant: str) -> None:
    """Reminders are set, moved and removed with a unit, by any stream of the tenant, and listed once they are due."""

    async def due(now_ms: int, limit: int = 100) -> list[tuple[str, int]]:
        found = await journal.reminders(now_ms=now_ms, tenant=tenant, limit=limit)
        return [(each.name, each.due_at) for each in found]

    await journal.append(unit(tenant, 0, b"1", reminders=(("a", 30), ("b", 10), ("c", 20))))
    expect("what is due at 20", await due(20), [("b", 10), ("c", 20)])
    expect("the first of it", await due(20, limit=1), [("b", 10)])
    expect("nothing yet", await due(9), [])
    everywhere = await journal.reminders(now_ms=20, limit=10_000)
    expect(
        "among those of all tenants", [each.name for each in everywhere if each.tenant == tenant], ["b", "c"]
    )
    expect("another tenant", await journal.reminders(now_ms=99, tenant=new_tenant()), [])
    await expect_refusal(PositionConflict, journal.append(unit(tenant, 5, b"no", reminders=(("d", 1),))))
    await journal.append(
        unit(tenant, 0, b"1", stream="other", reminders=(("b", None), ("a", 5), ("x", None)))
    )
    expect("moved and removed", await due(99), [("a", 5), ("c", 20)])
    await asyncio.gather(
        journal.append(unit(tenant, 1, b"2", reminders=(("a", None), ("e", 1)))),
        journal.append(unit(tenant, 2, b"3", reminders=(("a", 7), ("e", None)))),
    )
    expect("the later of two units counts", await due(99), [("a", 7), ("c", 20)])


async def what_nobody_holds_comes_oldest_first(journal: Journal, tenant: str) -> None:
    """Sessions in progress or due are listed once their lease is released or has ended; held and waiting ones are not."""
    for name, status, updated_at, due_at in (
        ("a", "in_progress", 30, 90), ("b", "in_progress", 10, 90), ("c", "awaiting_gate", 5, None),
        ("d", "in_progress", 20, 90), ("e", "awaiting_gate", 6, 61), ("f", "paused", 7, 62),
    ):  # fmt: skip
        await _put(journal, session_row(tenant, name, status=status, updated_at=updated_at, due_at=due_at))
    held = await journal.acquire(tenant, "d", owner="ann", now_ms=50, ttl_ms=10)

    async def resumable(now_ms: int, limit: int = 100) -> list[str]:
        rows = await journal.resumable(now_ms=now_ms, limit=limit)
        return [row.session_id for row in rows if row.tenant == tenant]

    expect("without a lease", await resumable(59), ["b", "a"])
    expect("once the lease has ended", await resumable(60), ["b", "d", "a"])
    await journal.release(held)
    expect("once it is released", await resumable(0), ["b", "d", "a"])
    expect("once a waiting one is due", await resumable(61), ["e", "b", "d", "a"])
    expect("once all are due", await resumable(62), ["e", "f", "b", "d", "a"])
    over = session_row(tenant, "b", status="completed", updated_at=11)
    await journal.append(unit(tenant, 1, b"2", stream="b", row=over))
    expect("what is left", await resumable(0), ["d", "a"])
    await _put(journal, session_row(new_tenant(), "x", status="in_progress", updated_at=1))
    expect("as many of each tenant as are asked for", await resumable(0, limit=1), ["d"])
    (first,) = [row for row in await journal.resumable(now_ms=0, limit=1) if row.tenant == tenant]
    behind = await journal.resumable(now_ms=0, limit=1, after=first)
    expect("what comes behind a row", [row.session_id for row in behind if row.tenant == tenant], ["a"])
    nothing = await journal.resumable(now_ms=0, after=behind[-1])
    expect("what comes behind the last", [row for row in nothing if row.tenant == tenant], [])


async def what_has_not_ended_is_counted_by_pack(journal: Journal, tenant: str) -> None:
    """Sessions of a pack version are counted by status, of all tenants; other versions, builds and statuses are not."""
    pack, other = f"{tenant}@1.0.0", new_tenant()
    for owner, name, status, started_at, version, built in (
        (tenant, "a", "awaiting_gate", 30, "1.0.0", "sha256:12"), (other, "b", "awaiting_gate", 10, "1.0.0", "sha256:13"),
        (tenant, "c", "awaiting_gate", 20, "1.0.0", "sha256:12"), (other, "d", "in_progress", 5, "1.0.0", "sha256:12"),
        (tenant, "e", "completed", 6, "1.0.0", "sha256:12"), (tenant, "f", "in_progress", 7, "1.0.01", "sha256:12"),
    ):  # fmt: skip
        named = {"pack": f"{tenant}@{version}", "pack_hash": built}
        await _put(journal, session_row(owner, name, status=status, started_at=started_at, **named))

    async def found(pack_hash: str = "", limit: int = 20) -> list[tuple[str, int, list[str]]]:
        wanted = ("awaiting_gate", "in_progress", "paused")
        counts = await journal.unfinished(pack, pack_hash=pack_hash, statuses=wanted, limit=limit)
        return [(each.status, each.total, [row.session_id for row in each.oldest]) for each in counts]

    expect("by status", await found(), [("awaiting_gate", 3, ["b", "c", "a"]), ("in_progress", 1, ["d"])])
    expect("the oldest", await found(limit=1), [("awaiting_gate", 3, ["b"]), ("in_progress", 1, ["d"])])
    expect("one build", await found("sha256:13"), [("awaiting_gate", 1, ["b"])])
    expect("no status", await journal.unfinished(pack, statuses=()), [])


async def what_has_ended_comes_oldest_first(journal: Journal, tenant: str) -> None:
    """Rows are listed by their last change, before a time and with one of the statuses."""
    for name, status, updated_at in (
        ("a", "completed", 30), ("b", "failed", 10), ("c", "paused", 5), ("d", "completed", 20),
    ):  # fmt: skip
        await _put(journal, session_row(tenant, name, status=status, updated_at=updated_at))

    async def ended(before_ms: int, *statuses: str, limit: int = 100) -> list[str]:
        rows = await journal.ended(tenant, before_ms=before_ms, statuses=statuses, limit=limit)
        return [row.session_id for row in rows]

    expect("what ended", await ended(31, "completed", "failed"), ["b", "d", "a"])
    expect("what ended before", await ended(30, "completed", "failed"), ["b", "d"])
    expect("one status", await ended(99, "completed"), ["d", "a"])
    expect("the oldest", await ended(99, "completed", "failed", limit=1), ["b"])
    expect("no status", await ended(99), [])


async def the_holder_of_a_lease_is_shown(journal: Journal, tenant: str) -> None:
    """Reading a lease shows who has it, also after its end, and changes nothing."""
    expect("an unknown stream", await journal.lease(tenant, "ses_1"), None)
    await journal.append(unit(tenant, 0, b"1"))
    expect("a stream without a lease", await journal.lease(tenant, "ses_1"), None)
    lease = await journal.acquire(tenant, "ses_1", owner="ann", now_ms=5, ttl_ms=10)
    expect("the lease", await journal.lease(tenant, "ses_1"), lease)
    await journal.append(unit(tenant, 1, b"2", epoch=lease.epoch))
    renewed = await journal.renew(lease, now_ms=50, ttl_ms=10)
    expect("the renewed lease", await journal.lease(tenant, "ses_1"), renewed)
    await journal.release(renewed)
    expect("a lease given up", await journal.lease(tenant, "ses_1"), None)


async def a_forgotten_stream_is_gone(journal: Journal, tenant: str) -> None:
    """Nothing that the stream held is found any more, and its name can begin again."""
    lease = await _fill(journal, tenant, "ses_1", b"mine")
    await _fill(journal, tenant, "ses_2", b"other")
    await journal.forget(lease)
    expect("the head", await journal.head(tenant, "ses_1"), START)
    expect("the events", await journal.read(tenant, "ses_1"), [])
    expect("the checkpoints", await journal.checkpoints(tenant, "ses_1"), [])
    expect("the claim", await journal.claim(tenant, "ses_1 key"), None)
    expect("the lease", await journal.lease(tenant, "ses_1"), None)
    expect("the row", await journal.session(tenant, "ses_1"), None)
    expect("what is due", await _due(journal, tenant, 99), ["ses_2"])
    expect("the change counter", await journal.change_count(tenant), 2)
    await expect_refusal(BlobMissing, journal.blob(tenant, hash_bytes(b"mine")))
    await expect_refusal(LeaseLost, journal.append(unit(tenant, 2, b"no", epoch=lease.epoch)))
    expect("the other stream's end", (await verify_chain(journal, tenant, "ses_2")).seq, 2)
    expect("its claim", await journal.claim(tenant, "ses_2 key"), ClaimHolder("ses_2", 2))
    expect("its blob", await journal.blob(tenant, hash_bytes(b"other")), b"other")
    again = await _fill(journal, tenant, "ses_1", b"again")
    expect("the first epoch again", again.epoch, 1)
    expect("the new end", (await verify_chain(journal, tenant, "ses_1")).seq, 2)


async def forgetting_needs_the_lease(journal: Journal, tenant: str) -> None:
    """Who has no lease, lost it or gave it up can forget nothing."""
    old = await _fill(journal, tenant, "ses_1", b"mine")
    unknown = Lease(tenant=tenant, stream="ses_9", owner="ann", epoch=1, until=9)
    await expect_refusal(LeaseLost, journal.forget(unknown))
    new = await journal.acquire(tenant, "ses_1", owner="bob", now_ms=100, ttl_ms=10)
    error = await expect_refusal(LeaseLost, journal.forget(old))
    expect("the epochs", (error.epoch, error.current), (1, 2))
    await journal.release(new)
    await expect_refusal(LeaseLost, journal.forget(new))
    expect("the end", (await verify_chain(journal, tenant, "ses_1")).seq, 2)
    expect("the blob", await journal.blob(tenant, hash_bytes(b"mine")), b"mine")
    expect("the claim", await journal.claim(tenant, "ses_1 key"), ClaimHolder("ses_1", 2))


async def a_shared_blob_goes_with_its_last_stream(backend: Backend) -> None:
    """A blob stays as long as a stream of the tenant brought it; another tenant's equal bytes are its own."""
    tenant, other = new_tenant(), new_tenant()
    digest = hash_bytes(b"shared")
    async with backend.opened() as journal:
        first = await _fill(journal, tenant, "ses_1", b"shared")
        second = await _fill(journal, tenant, "ses_2", b"shared")
        await _fill(journal, other, "ses_1", b"shared")
        await journal.forget(first)
        expect("the blob", await journal.blob(tenant, digest), b"shared")
        await journal.forget(second)
        await expect_refusal(BlobMissing, journal.blob(tenant, digest))
        expect("the other tenant's", await journal.blob(other, digest), b"shared")


async def forgetting_keeps_its_place_among_others(journal: Journal, tenant: str) -> None:
    """Operations submitted together see the stream before it is forgotten, and its name and claims free after."""
    lease = await _fill(journal, tenant, "ses_1", b"mine")
    results = await asyncio.gather(
        journal.append(unit(tenant, 0, b"no", stream="ses_2", claims=("ses_1 key",))),
        journal.append(unit(tenant, 2, b"3", epoch=lease.epoch, claims=("late",), blobs=(b"late",))),
        journal.forget(lease),
        journal.append(unit(tenant, 0, b"1", claims=("late",), blobs=(b"new",))),
        journal.append(unit(tenant, 0, b"1", stream="ses_2", claims=("ses_1 key",))),
        return_exceptions=True,
    )
    names = [type(result).__name__ for result in results]
    expect("the results", names, ["ClaimHeld", "Position", "NoneType", "Position", "Position"])
    expect("the new stream", [event.data for event in await journal.read(tenant, "ses_1")], [b"1"])
    expect("the claim", await journal.claim(tenant, "late"), ClaimHolder("ses_1", 1))
    expect("the other claim", await journal.claim(tenant, "ses_1 key"), ClaimHolder("ses_2", 1))
    await expect_refusal(BlobMissing, journal.blob(tenant, hash_bytes(b"late")))
    expect("the new blob", await journal.blob(tenant, hash_bytes(b"new")), b"new")


async def what_was_forgotten_elsewhere_is_gone_here(backend: Backend) -> None:
    """A journal that remembers a stream learns that another took it over and removed it."""
    tenant = new_tenant()
    async with backend.opened() as ann, backend.opened() as bob:
        old = await _fill(ann, tenant, "ses_1", b"mine")
        new = await bob.acquire(tenant, "ses_1", owner="bob", now_ms=100, ttl_ms=10)
        await bob.forget(new)
        await expect_refusal(LeaseLost, ann.append(unit(tenant, 2, b"no", epoch=old.epoch)))
        await expect_refusal(LeaseLost, ann.forget(old))
        expect("the end", (await ann.append(unit(tenant, 0, b"1", claims=("ses_1 key",)))).seq, 1)
        await expect_refusal(BlobMissing, ann.blob(tenant, hash_bytes(b"mine")))


async def _put(journal: Journal, row: SessionRow) -> None:
    await journal.append(unit(row.tenant, 0, b"1", stream=row.session_id, row=row))


async def _due(journal: Journal, tenant: str, now_ms: int, **page: int) -> list[str]:
    return [row.session_id for row in await journal.due(tenant, now_ms=now_ms, **page)]


async def _fill(journal: Journal, tenant: str, stream: str, blob: bytes) -> Lease:
    """Write a stream with everything that a stream can have."""
    lease = await journal.acquire(tenant, stream, owner="ann", now_ms=0, ttl_ms=10)
    whole = Append(
        tenant=tenant, stream=stream, expected=0, epoch=lease.epoch, events=(b"1", b"2"), blobs=(blob,),
        checkpoints=(NewCheckpoint(kind="fold", seq=2, data=b"f"),), claims=(f"{stream} key",),
        row=session_row(tenant, stream, due_at=5), notify=True,
    )  # fmt: skip
    await journal.append(whole)
    return lease


CASES = (
    *with_new_tenant(
        what_is_due_comes_earliest_first,
        what_waits_comes_oldest_first,
        reminders_come_earliest_first,
        what_nobody_holds_comes_oldest_first,
        what_has_not_ended_is_counted_by_pack,
        what_has_ended_comes_oldest_first,
        the_holder_of_a_lease_is_shown,
        a_forgotten_stream_is_gone,
        forgetting_needs_the_lease,
        forgetting_keeps_its_place_among_others,
    ),
    a_shared_blob_goes_with_its_last_stream,
)
DURABLE_CASES = (what_was_forgotten_elsewhere_is_gone_here,)
