"""Cases about the change counter: who increments it, and who sees it when."""

from __future__ import annotations

import asyncio

from tercet.journal.errors import PositionConflict
from tercet.journal.protocol import Journal
from tercet.journal.side_stream import append_next, read_all
from tercet.testing.expectation import expect, expect_refusal, new_tenant, with_new_tenant
from tercet.testing.journal_backend import Backend, unit


async def every_append_sees_the_rings_before_it(backend: Backend) -> None:
    """A notification on one stream is visible to the next append to any other stream of the tenant, and to no other tenant."""
    tenant, other = new_tenant(), new_tenant()
    async with backend.opened() as journal:
        quiet = await journal.append(unit(tenant, 0, b"1"))
        expect("a tenant that never rang", (quiet.change_count, await journal.change_count(tenant)), (0, 0))
        notified = await journal.append(unit(tenant, 0, b"stop", stream="inbox", notify=True))
        heard = await journal.append(unit(tenant, 1, b"2"))
        expect("the notifier and the next", (notified.change_count, heard.change_count), (1, 1))
        again = await journal.append(unit(tenant, 2, notify=True))
        expect("a notification without an event", (again.seq, again.change_count), (2, 2))
        expect("the change counter", await journal.change_count(tenant), 2)
        expect("the head, which has no change counter", (await journal.head(tenant, "ses_1")).change_count, 0)
        elsewhere = await journal.append(unit(other, 0, b"1"))
        expect("another tenant", (elsewhere.change_count, await journal.change_count(other)), (0, 0))


async def a_refused_unit_does_not_ring(journal: Journal, tenant: str) -> None:
    """A notification is part of its unit: if that is refused, the counter does not change."""
    await expect_refusal(PositionConflict, journal.append(unit(tenant, 3, b"no", notify=True)))
    results = await asyncio.gather(
        journal.append(unit(tenant, 0, b"1", notify=True)),
        journal.append(unit(tenant, 0, b"no", notify=True)),
        return_exceptions=True,
    )
    expect("the second", type(results[1]).__name__, "PositionConflict")
    expect("the change counter", await journal.change_count(tenant), 1)


async def rings_at_once_are_all_counted(journal: Journal, tenant: str) -> None:
    """Units submitted together each count once, and none sees less than its own notification."""
    units = [unit(tenant, 0, b"1", stream=f"s{n}", notify=n % 3 == 0) for n in range(30)]
    ends = await asyncio.gather(*map(journal.append, units))
    expect("the change counter", await journal.change_count(tenant), 10)
    expect("the loudest", max(end.change_count for end in ends), 10)
    seen = [end.change_count for each, end in zip(units, ends, strict=True) if each.notify]
    expect("notifiers that saw no change", [change_count for change_count in seen if change_count < 1], [])


async def a_side_stream_takes_every_writer(journal: Journal, tenant: str) -> None:
    """Ten writers without a lease append to one stream at once; each lands once."""

    async def write(name: str) -> None:
        await append_next(journal, tenant, "inbox", name.encode(), notify=True)

    await asyncio.gather(*(write(f"w{number}") for number in range(10)))
    stored = await read_all(journal, tenant, "inbox")
    names = sorted(event.data.decode() for event in stored)
    expect("the writers", names, [f"w{number}" for number in range(10)])
    expect("the rest", [event.seq for event in await read_all(journal, tenant, "inbox", after=7)], [8, 9, 10])
    expect("the change counter", await journal.change_count(tenant), 10)


async def rings_of_another_journal_are_heard(backend: Backend) -> None:
    """A notification by another journal is visible to the next append here, although this one caches its streams."""
    tenant = new_tenant()
    async with backend.opened() as ann, backend.opened() as bob:
        for turn in range(5):
            before = await ann.append(unit(tenant, 2 * turn, b"1"))
            notified = await bob.append(unit(tenant, turn, b"stop", stream="inbox", notify=True))
            after = await ann.append(unit(tenant, 2 * turn + 1, b"2"))
            expect(
                "the change counters",
                (before.change_count, notified.change_count, after.change_count),
                (turn, turn + 1, turn + 1),
            )


async def rings_of_several_journals_are_all_counted(backend: Backend) -> None:
    """Two journals that notify at once lose no notification."""
    tenant = new_tenant()
    async with backend.opened() as ann, backend.opened() as bob:
        await asyncio.gather(
            *(
                journal.append(unit(tenant, 0, b"1", stream=f"{name} {number}", notify=True))
                for number in range(20)
                for name, journal in (("ann", ann), ("bob", bob))
            )
        )
        expect(
            "the change counter", (await ann.change_count(tenant), await bob.change_count(tenant)), (40, 40)
        )


CASES = (
    *with_new_tenant(
        a_refused_unit_does_not_ring,
        rings_at_once_are_all_counted,
        a_side_stream_takes_every_writer,
    ),
    every_append_sees_the_rings_before_it,
)
DURABLE_CASES = (
    rings_of_another_journal_are_heard,
    rings_of_several_journals_are_all_counted,
)
