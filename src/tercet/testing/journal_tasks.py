"""Cases about many tasks, cancellation, closing, and two journals on one store."""

from __future__ import annotations

import asyncio

from tercet.journal.chain import START, verify_chain
from tercet.journal.errors import ClaimHeld, JournalClosed, LeaseHeld, LeaseLost, PositionConflict
from tercet.journal.protocol import ClaimHolder, Journal, NewCheckpoint, Position
from tercet.testing.expectation import ConformanceError, expect, expect_refusal, new_tenant, with_new_tenant
from tercet.testing.journal_backend import Backend, session_row, unit


async def many_streams_grow_at_once(journal: Journal, tenant: str) -> None:
    """Fifty tasks append to fifty streams; every stream holds its own events in order."""
    await asyncio.gather(*(_fill(journal, tenant, f"ses_{number}", 6) for number in range(50)))
    for number in range(50):
        end = await verify_chain(journal, tenant, f"ses_{number}")
        stored = await journal.read(tenant, f"ses_{number}")
        wanted = [f"ses_{number} {step}".encode() for step in range(12)]
        expect(f"stream {number}", [event.data for event in stored], wanted)
        expect(f"the end of stream {number}", end.seq, 12)


async def racing_appends_have_one_winner(journal: Journal, tenant: str) -> None:
    """Of twenty appends to the same position one is stored, and the others learn of the conflict."""
    for expected in range(3):
        units = [unit(tenant, expected, f"{expected} {racer}".encode()) for racer in range(20)]
        results = await asyncio.gather(*map(journal.append, units), return_exceptions=True)
        won = [index for index, result in enumerate(results) if isinstance(result, Position)]
        lost = [result for result in results if isinstance(result, PositionConflict)]
        expect("winners and losers", (len(won), len(lost)), (1, 19))
        (last,) = await journal.read(tenant, "ses_1", after=expected)
        expect("the stored event", last.data, units[won[0]].events[0])


async def racing_claims_have_one_winner(journal: Journal, tenant: str) -> None:
    """Of twenty streams that claim the same key at once one gets it, and only its events are stored."""
    units = [unit(tenant, 0, b"1", stream=f"ses_{racer}", claims=("k",)) for racer in range(20)]
    results = await asyncio.gather(*map(journal.append, units), return_exceptions=True)
    won = [units[index].stream for index, result in enumerate(results) if isinstance(result, Position)]
    expect("the losers", sum(isinstance(result, ClaimHeld) for result in results), 19)
    holder = await journal.claim(tenant, "k")
    expect("the winner", won, [holder and holder.stream])
    heads = [await journal.head(tenant, each.stream) for each in units]
    expect("the streams that grew", sum(head.seq for head in heads), 1)


async def racing_owners_have_one_winner(journal: Journal, tenant: str) -> None:
    """Of ten owners that acquire a free stream at once one gets it."""
    results = await asyncio.gather(
        *(
            journal.acquire(tenant, "ses_1", owner=f"owner-{number}", now_ms=0, ttl_ms=100)
            for number in range(10)
        ),
        return_exceptions=True,
    )
    expect("the losers", sum(isinstance(result, LeaseHeld) for result in results), 9)


async def appends_without_waiting_keep_their_order(journal: Journal, tenant: str) -> None:
    """Units for one stream that are submitted together are stored in the order of their positions."""
    units = [unit(tenant, 2 * number, b"%d" % number, b"+") for number in range(10)]
    ends = await asyncio.gather(*map(journal.append, units))
    expect("the positions", [end.seq for end in ends], list(range(2, 21, 2)))
    expect("the verified end", await verify_chain(journal, tenant, "ses_1"), ends[-1])


async def units_of_one_stream_see_each_other(journal: Journal, tenant: str) -> None:
    """Units submitted together see the claims and checkpoints of those before them."""
    points = [NewCheckpoint(kind="point", seq=1, data=data) for data in (b"p", b"p", b"changed")]
    await journal.append(unit(tenant, 0, b"1"))
    units = [unit(tenant, 1, checkpoints=(point,), claims=("k",)) for point in points]
    units.append(unit(tenant, 0, b"1", stream="ses_2", claims=("k",)))
    results = await asyncio.gather(*map(journal.append, units), return_exceptions=True)
    kinds = [type(result).__name__ for result in results]
    expect("the results", kinds, ["Position", "Position", "CheckpointExists", "ClaimHeld"])


async def a_cancelled_append_is_whole_or_absent(journal: Journal, tenant: str) -> None:
    """Cancelling appends at any instant leaves each stored whole or not at all, and the journal usable."""
    for turn in range(30):
        stream = f"ses_{turn}"
        whole = unit(
            tenant, 0, b"1", b"2", stream=stream, claims=(stream,), row=session_row(tenant, stream),
            checkpoints=(NewCheckpoint(kind="point", seq=2, data=b"p"),),
        )  # fmt: skip
        task = asyncio.ensure_future(journal.append(whole))
        for _ in range(turn % 6):
            await asyncio.sleep(0)
        task.cancel()
        (result,) = await asyncio.gather(task, return_exceptions=True)
        if isinstance(result, Exception):
            raise ConformanceError(f"a cancelled append raised {result!r}") from result
        # A later append shows whether it was stored.
        await journal.append(unit(tenant, 0, b"after", stream=f"after_{turn}"))
        head = await journal.head(tenant, stream)
        there = head != START
        expect("the events", len(await journal.read(tenant, stream)), 2 if there else 0)
        expect("the claim", await journal.claim(tenant, stream) is not None, there)
        expect("the row", await journal.session(tenant, stream) is not None, there)
        expect("the checkpoint", await journal.newest(tenant, stream, "point") is not None, there)


async def closing_finishes_what_is_under_way(backend: Backend) -> None:
    """Appends submitted before the close succeed, later calls are refused, and closing again is harmless."""
    tenant = new_tenant()
    journal = await backend.open()
    tasks = [
        asyncio.ensure_future(journal.append(unit(tenant, 0, b"1", stream=f"ses_{number}")))
        for number in range(20)
    ]
    await asyncio.sleep(0)
    await journal.close()
    ends = await asyncio.gather(*tasks)
    expect("the positions", [end.seq for end in ends], [1] * 20)
    await journal.close()
    await expect_refusal(JournalClosed, journal.append(unit(tenant, 0, b"no")))
    await expect_refusal(JournalClosed, journal.read(tenant, "ses_1"))
    await expect_refusal(JournalClosed, journal.acquire(tenant, "ses_1", owner="ann", now_ms=0, ttl_ms=1))


async def what_was_stored_is_there_after_reopening(backend: Backend) -> None:
    """Everything a unit held, and the lease, is found by a journal that is opened later."""
    tenant = new_tenant()
    async with backend.opened() as journal:
        lease = await journal.acquire(tenant, "ses_1", owner="ann", now_ms=0, ttl_ms=100)
        end = await journal.append(
            unit(
                tenant,
                0,
                b"1",
                b"2",
                epoch=lease.epoch,
                claims=("k",),
                row=session_row(tenant),
                checkpoints=(NewCheckpoint(kind="fold", seq=2, data=b"f"),),
                blobs=(b"x",),
            )
        )
    async with backend.opened() as journal:
        expect("the end", await verify_chain(journal, tenant, "ses_1"), end)
        expect("the claim", await journal.claim(tenant, "k"), ClaimHolder("ses_1", 2))
        expect("the row", await journal.session(tenant, "ses_1"), session_row(tenant))
        fold = await journal.newest(tenant, "ses_1", "fold")
        expect("the fold", fold and fold.data, b"f")
        await expect_refusal(LeaseHeld, journal.acquire(tenant, "ses_1", owner="bob", now_ms=99, ttl_ms=100))
        grown = await journal.append(unit(tenant, 2, b"3", epoch=lease.epoch))
        expect("the position", grown.seq, 3)


async def two_journals_share_one_truth(backend: Backend) -> None:
    """What one journal does to a stream binds another that is open on the same store."""
    tenant = new_tenant()
    async with backend.opened() as ann, backend.opened() as bob:
        old = await ann.acquire(tenant, "ses_1", owner="ann", now_ms=0, ttl_ms=10)
        await ann.append(unit(tenant, 0, b"1", epoch=old.epoch, claims=("k",)))
        new = await bob.acquire(tenant, "ses_1", owner="bob", now_ms=10, ttl_ms=10)
        await expect_refusal(LeaseLost, ann.append(unit(tenant, 1, b"no", epoch=old.epoch)))
        await bob.append(unit(tenant, 1, b"2", epoch=new.epoch))
        await expect_refusal(PositionConflict, bob.append(unit(tenant, 1, b"no", epoch=new.epoch)))
        await expect_refusal(ClaimHeld, bob.append(unit(tenant, 0, b"1", stream="ses_2", claims=("k",))))
        again = await ann.acquire(tenant, "ses_1", owner="ann", now_ms=20, ttl_ms=10)
        await expect_refusal(LeaseLost, bob.append(unit(tenant, 2, b"no", epoch=new.epoch)))
        await ann.append(unit(tenant, 2, b"3", epoch=again.epoch))
        expect("the bytes", [e.data for e in await bob.read(tenant, "ses_1")], [b"1", b"2", b"3"])
        await ann.append(unit(tenant, 0, b"1", stream="shared"))
        await bob.append(unit(tenant, 1, b"2", stream="shared"))
        await expect_refusal(PositionConflict, ann.append(unit(tenant, 1, claims=("l",), stream="shared")))
        expect("the refused claim", await bob.claim(tenant, "l"), None)
        await verify_chain(bob, tenant, "ses_1")


async def journals_that_race_have_one_winner(backend: Backend) -> None:
    """Two journals that append to the same positions at once never both succeed."""
    tenant = new_tenant()
    async with backend.opened() as ann, backend.opened() as bob:
        for expected in range(20):
            results = await asyncio.gather(
                ann.append(unit(tenant, expected, b"ann", claims=(f"k{expected}",))),
                bob.append(unit(tenant, expected, b"bob", claims=(f"k{expected}",))),
                return_exceptions=True,
            )
            kinds = sorted(type(result).__name__ for result in results)
            expect("the results", kinds, ["Position", "PositionConflict"])
        expect("the end", (await verify_chain(ann, tenant, "ses_1")).seq, 20)


async def _fill(journal: Journal, tenant: str, stream: str, turns: int) -> None:
    lease = await journal.acquire(tenant, stream, owner="ann", now_ms=0, ttl_ms=100)
    for turn in range(turns):
        events = [f"{stream} {step}".encode() for step in (2 * turn, 2 * turn + 1)]
        await journal.append(
            unit(tenant, 2 * turn, *events, stream=stream, epoch=lease.epoch, claims=(f"{stream} {turn}",))
        )


CASES = (
    *with_new_tenant(
        many_streams_grow_at_once,
        racing_appends_have_one_winner,
        racing_claims_have_one_winner,
        racing_owners_have_one_winner,
        appends_without_waiting_keep_their_order,
        units_of_one_stream_see_each_other,
        a_cancelled_append_is_whole_or_absent,
    ),
    closing_finishes_what_is_under_way,
)
DURABLE_CASES = (
    what_was_stored_is_there_after_reopening,
    two_journals_share_one_truth,
    journals_that_race_have_one_winner,
)
