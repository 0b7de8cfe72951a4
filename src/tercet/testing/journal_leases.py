"""Cases about leases: epochs, who may write, take-over, renewal and release."""

from __future__ import annotations

import asyncio
from typing import Any

from msgspec.structs import replace

from tercet.journal.chain import START
from tercet.journal.errors import ClaimHeld, LeaseHeld, LeaseLost, PositionConflict
from tercet.journal.protocol import FirstLease, Journal, Lease
from tercet.testing.expectation import expect, expect_refusal, with_new_tenant
from tercet.testing.journal_backend import session_row, unit


async def every_acquire_begins_an_epoch(journal: Journal, tenant: str) -> None:
    """Epochs count up from 1, also for the same owner, and an acquired stream is still empty."""
    first = await journal.acquire(tenant, "ses_1", owner="ann", now_ms=100, ttl_ms=50)
    wanted = Lease(tenant=tenant, stream="ses_1", owner="ann", epoch=1, until=150)
    expect("the first lease", first, wanted)
    again = await journal.acquire(tenant, "ses_1", owner="ann", now_ms=110, ttl_ms=50)
    expect("the second lease", (again.epoch, again.until), (2, 160))
    expect("the head", await journal.head(tenant, "ses_1"), START)
    await expect_refusal(LeaseLost, journal.append(unit(tenant, 0, b"no", epoch=first.epoch)))
    await journal.append(unit(tenant, 0, b"1", epoch=again.epoch))


async def a_running_lease_keeps_others_out(journal: Journal, tenant: str) -> None:
    """Another owner waits for the end of the lease and of the grace after it, to the millisecond."""
    await journal.acquire(tenant, "ses_1", owner="ann", now_ms=0, ttl_ms=100)
    for now_ms, grace_ms in ((0, 0), (99, 0), (100, 30), (129, 30)):
        error = await expect_refusal(
            LeaseHeld,
            journal.acquire(tenant, "ses_1", owner="bob", now_ms=now_ms, ttl_ms=100, grace_ms=grace_ms),
        )
        expect("who holds it", (error.owner, error.until), ("ann", 100))
    taken = await journal.acquire(tenant, "ses_1", owner="bob", now_ms=130, ttl_ms=100, grace_ms=30)
    expect("the lease", (taken.owner, taken.epoch, taken.until), ("bob", 2, 230))


async def a_take_over_fences_the_old_owner(journal: Journal, tenant: str) -> None:
    """After a take-over the old epoch can neither append nor renew nor release, and disturbs nothing."""
    old = await journal.acquire(tenant, "ses_1", owner="ann", now_ms=0, ttl_ms=10)
    await journal.append(unit(tenant, 0, b"1", epoch=old.epoch))
    new = await journal.acquire(tenant, "ses_1", owner="bob", now_ms=10, ttl_ms=10)
    error = await expect_refusal(LeaseLost, journal.append(unit(tenant, 1, b"no", epoch=old.epoch)))
    expect("the epochs", (error.epoch, error.current), (1, 2))
    await expect_refusal(LeaseLost, journal.append(unit(tenant, 1, b"no", epoch=3)))
    await expect_refusal(LeaseLost, journal.renew(old, now_ms=5, ttl_ms=100))
    await journal.release(old)
    end = await journal.append(unit(tenant, 1, b"2", epoch=new.epoch))
    expect("the position", end.seq, 2)


async def the_lease_is_checked_before_the_position(journal: Journal, tenant: str) -> None:
    """A fenced owner with an old position learns that it lost its lease."""
    old = await journal.acquire(tenant, "ses_1", owner="ann", now_ms=0, ttl_ms=10)
    new = await journal.acquire(tenant, "ses_1", owner="bob", now_ms=10, ttl_ms=10)
    await journal.append(unit(tenant, 0, b"1", epoch=new.epoch))
    await expect_refusal(LeaseLost, journal.append(unit(tenant, 0, b"no", epoch=old.epoch)))
    await expect_refusal(PositionConflict, journal.append(unit(tenant, 0, b"no", epoch=new.epoch)))


async def a_leased_stream_needs_an_epoch(journal: Journal, tenant: str) -> None:
    """A stream without a lease takes appends without an epoch, until it is leased for the first time."""
    await journal.append(unit(tenant, 0, b"1"))
    await expect_refusal(LeaseLost, journal.append(unit(tenant, 1, b"no", epoch=0)))
    await expect_refusal(LeaseLost, journal.append(unit(tenant, 1, b"no", epoch=1)))
    lease = await journal.acquire(tenant, "ses_1", owner="ann", now_ms=0, ttl_ms=10)
    error = await expect_refusal(LeaseLost, journal.append(unit(tenant, 1, b"no")))
    expect("the epochs", (error.epoch, error.current), (None, 1))
    await journal.append(unit(tenant, 1, b"2", epoch=lease.epoch))


async def a_first_lease_comes_with_an_append(journal: Journal, tenant: str) -> None:
    """One append begins a stream and leases it: epoch 1, which fences like any other, or nothing of both."""
    first = FirstLease(owner="ann", until=100)
    wanted = Lease(tenant=tenant, stream="ses_1", owner="ann", epoch=1, until=100)
    await journal.append(unit(tenant, 0, b"other", stream="ses_2", claims=("key",)))
    await expect_refusal(ClaimHeld, journal.append(unit(tenant, 0, b"no", lease=first, claims=("key",))))
    await expect_refusal(PositionConflict, journal.append(unit(tenant, 1, b"no", lease=first)))
    expect("no lease", await journal.lease(tenant, "ses_1"), None)
    end = await journal.append(unit(tenant, 0, b"1", lease=first, row=session_row(tenant)))
    expect("the position", end.seq, 1)
    expect("the lease", await journal.lease(tenant, "ses_1"), wanted)
    for again in (unit(tenant, 1, b"no", lease=first), unit(tenant, 1, b"no", lease=first, epoch=1)):
        await expect_refusal(LeaseLost, journal.append(again))
    await expect_refusal(LeaseLost, journal.append(unit(tenant, 1, b"no")))
    await expect_refusal(LeaseHeld, journal.acquire(tenant, "ses_1", owner="bob", now_ms=99, ttl_ms=10))
    await journal.append(unit(tenant, 1, b"2", epoch=1))
    renewed = await journal.renew(wanted, now_ms=90, ttl_ms=20)
    taken = await journal.acquire(tenant, "ses_1", owner="bob", now_ms=renewed.until, ttl_ms=10)
    expect("the epoch", taken.epoch, 2)
    await expect_refusal(LeaseLost, journal.append(unit(tenant, 2, b"no", epoch=1)))
    await journal.append(unit(tenant, 1, b"late", stream="ses_2", lease=first))
    expect("an old stream's", await journal.lease(tenant, "ses_2"), replace(wanted, stream="ses_2"))


async def of_two_first_leases_one_is_granted(journal: Journal, tenant: str) -> None:
    """Two writers that begin the same stream at once: one has it, the other is refused and left nothing."""
    units = [
        unit(tenant, 0, owner.encode(), lease=FirstLease(owner=owner, until=9)) for owner in ("ann", "bob")
    ]
    outcomes = await asyncio.gather(*map(journal.append, units), return_exceptions=True)
    expect("refusals", [isinstance(each, LeaseLost) for each in outcomes].count(True), 1)
    lease, stored = await journal.lease(tenant, "ses_1"), await journal.read(tenant, "ses_1")
    expect("who wrote", [each.data.decode() for each in stored], [lease and lease.owner])


async def a_renewed_lease_keeps_its_epoch(journal: Journal, tenant: str) -> None:
    """Renewing moves the end and nothing else, also after the end has passed."""
    lease = await journal.acquire(tenant, "ses_1", owner="ann", now_ms=0, ttl_ms=10)
    renewed = await journal.renew(lease, now_ms=40, ttl_ms=10)
    expect("the lease", (renewed.owner, renewed.epoch, renewed.until), ("ann", 1, 50))
    await expect_refusal(LeaseHeld, journal.acquire(tenant, "ses_1", owner="bob", now_ms=49, ttl_ms=10))
    await journal.append(unit(tenant, 0, b"1", epoch=lease.epoch))


async def a_released_lease_is_gone(journal: Journal, tenant: str) -> None:
    """After a release the epoch cannot write, releasing again is harmless, and others need not wait."""
    lease = await journal.acquire(tenant, "ses_1", owner="ann", now_ms=0, ttl_ms=1_000)
    await journal.release(lease)
    await journal.release(lease)
    await expect_refusal(LeaseLost, journal.append(unit(tenant, 0, b"no", epoch=lease.epoch)))
    await expect_refusal(LeaseLost, journal.renew(lease, now_ms=1, ttl_ms=10))
    await expect_refusal(LeaseLost, journal.append(unit(tenant, 0, b"no")))
    taken = await journal.acquire(tenant, "ses_1", owner="bob", now_ms=1, ttl_ms=10, grace_ms=500)
    expect("the epoch", taken.epoch, 2)


async def a_watched_lease_is_replaced_only_while_it_is_the_same(journal: Journal, tenant: str) -> None:
    """A lease that has not ended is replaced if its owner, epoch and end are the ones named, and not after a renewal."""
    seen = await journal.acquire(tenant, "ses_1", owner="ann", now_ms=1_000, ttl_ms=100)
    renewed = await journal.renew(seen, now_ms=900, ttl_ms=100)
    other: dict[str, Any] = {"owner": "bob", "ttl_ms": 100}
    error = await expect_refusal(
        LeaseHeld, journal.acquire(tenant, "ses_1", now_ms=0, replacing=seen, **other)
    )
    expect("who holds it", error.lease, renewed)
    taken = await journal.acquire(tenant, "ses_1", now_ms=0, replacing=renewed, **other)
    expect("the lease", (taken.owner, taken.epoch, taken.until), ("bob", 2, 100))


CASES = with_new_tenant(
    every_acquire_begins_an_epoch,
    a_running_lease_keeps_others_out,
    a_take_over_fences_the_old_owner,
    the_lease_is_checked_before_the_position,
    a_leased_stream_needs_an_epoch,
    a_first_lease_comes_with_an_append,
    of_two_first_leases_one_is_granted,
    a_renewed_lease_keeps_its_epoch,
    a_released_lease_is_gone,
    a_watched_lease_is_replaced_only_while_it_is_the_same,
)
