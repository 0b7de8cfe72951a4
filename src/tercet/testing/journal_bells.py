"""Cases about the change counter: who increments it, and who sees it when."""

from __future__ import annotations

import asyncio

from tercet.journal.errors import PositionConflict
from tercet.journal.protocol import Journal
from tercet.journal.side_stream import append_next, read_all
from tercet.testing.expectation import expect, expect_refusal, new_tenant, with_new_tenant
from tercet.testing.journal_backend import Backend, unit


async def every_append_sees_the_rings_before_it(backend: Backend) -> None:
    """A ring on one stream is visible to the next append to any other stream of the tenant, and to no other tenant."""
    tenant, other = new_tenant(), new_tenant()
    async with backend.opened() as journal:
        quiet = await journal.append(unit(tenant, 0, b"1"))
        expect("a tenant that never rang", (quiet.bell, await journal.bell(tenant)), (0, 0))
        rung = await journal.append(unit(tenant, 0, b"stop", stream="inbox", ring=True))
        heard = await journal.append(unit(tenant, 1, b"2"))
        expect("the ringer and the next", (rung.bell, heard.bell), (1, 1))
        again = await journal.append(unit(tenant, 2, ring=True))
        expect("a ring without an event", (again.seq, again.bell), (2, 2))
        expect("the bell", await journal.bell(tenant), 2)
        expect("the head, which knows no bell", (await journal.head(tenant, "ses_1")).bell, 0)
        elsewhere = await journal.append(unit(other, 0, b"1"))
        expect("another tenant", (elsewhere.bell, await journal.bell(other)), (0, 0))


async def a_refused_unit_does_not_ring(journal: Journal, tenant: str) -> None:
    """A ring is part of its unit: if that is refused, the counter does not change."""
    await expect_refusal(PositionConflict, journal.append(unit(tenant, 3, b"no", ring=True)))
    results = await asyncio.gather(
        journal.append(unit(tenant, 0, b"1", ring=True)),
        journal.append(unit(tenant, 0, b"no", ring=True)),
        return_exceptions=True,
    )
    expect("the second", type(results[1]).__name__, "PositionConflict")
    expect("the bell", await journal.bell(tenant), 1)


async def rings_at_once_are_all_counted(journal: Journal, tenant: str) -> None:
    """Units submitted together each count once, and none sees less than its own ring."""
    units = [unit(tenant, 0, b"1", stream=f"s{n}", ring=n % 3 == 0) for n in range(30)]
    ends = await asyncio.gather(*map(journal.append, units))
    expect("the bell", await journal.bell(tenant), 10)
    expect("the loudest", max(end.bell for end in ends), 10)
    seen = [end.bell for each, end in zip(units, ends, strict=True) if each.ring]
    expect("ringers that saw no ring", [bell for bell in seen if bell < 1], [])


async def a_side_stream_takes_every_writer(journal: Journal, tenant: str) -> None:
    """Ten writers without a lease append to one stream at once; each lands once, and `make` knew its position."""

    async def write(name: str) -> None:
        await append_next(journal, tenant, "inbox", lambda end: (f"{name} at {end}".encode(),), ring=True)

    await asyncio.gather(*(write(f"w{number}") for number in range(10)))
    stored = await read_all(journal, tenant, "inbox")
    words = [event.data.decode().split(" at ") for event in stored]
    expect("the writers", sorted(name for name, _ in words), [f"w{number}" for number in range(10)])
    expect("where each one wrote", [int(end) for _, end in words], list(range(10)))
    expect("the rest", [event.seq for event in await read_all(journal, tenant, "inbox", after=7)], [8, 9, 10])
    expect("the bell", await journal.bell(tenant), 10)


async def rings_of_another_journal_are_heard(backend: Backend) -> None:
    """A ring by another journal is visible to the next append here, although this one caches its streams."""
    tenant = new_tenant()
    async with backend.opened() as ann, backend.opened() as bob:
        for turn in range(5):
            before = await ann.append(unit(tenant, 2 * turn, b"1"))
            rung = await bob.append(unit(tenant, turn, b"stop", stream="inbox", ring=True))
            after = await ann.append(unit(tenant, 2 * turn + 1, b"2"))
            expect("the bells", (before.bell, rung.bell, after.bell), (turn, turn + 1, turn + 1))


async def rings_of_several_journals_are_all_counted(backend: Backend) -> None:
    """Two journals that ring at once lose none of their rings."""
    tenant = new_tenant()
    async with backend.opened() as ann, backend.opened() as bob:
        await asyncio.gather(
            *(
                journal.append(unit(tenant, 0, b"1", stream=f"{name} {number}", ring=True))
                for number in range(20)
                for name, journal in (("ann", ann), ("bob", bob))
            )
        )
        expect("the bell", (await ann.bell(tenant), await bob.bell(tenant)), (40, 40))


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
