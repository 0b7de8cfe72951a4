"""Cases about what is stored besides events: pages, checkpoints, blobs, claims, sessions, and separate tenants."""

from __future__ import annotations

import asyncio
from itertools import product

import msgspec

from tercet.contracts.errors import UsageError
from tercet.contracts.values.canonical import hash_bytes
from tercet.journal.errors import BlobMissing, CheckpointExists, ClaimHeld
from tercet.journal.protocol import ClaimHolder, Journal, NewCheckpoint, SessionFilter
from tercet.testing.expectation import expect, expect_refusal, new_tenant, with_new_tenant
from tercet.testing.journal_backend import Backend, session_row, unit


async def a_stream_is_read_in_pages(journal: Journal, tenant: str) -> None:
    """`after` and `limit` cut the stream; pages join without a gap, and nothing lies behind the end."""
    await journal.append(unit(tenant, 0, *(str(number).encode() for number in range(1, 26))))
    pages = [await journal.read(tenant, "ses_1", after=after, limit=10) for after in (0, 10, 20, 30)]
    expect("the sizes", [len(page) for page in pages], [10, 10, 5, 0])
    expect("the positions", [event.seq for page in pages for event in page], list(range(1, 26)))
    expect("no page", await journal.read(tenant, "ses_1", limit=0), [])
    middle = await journal.read(tenant, "ses_1", after=7, limit=1)
    expect("one event", [(event.seq, event.data) for event in middle], [(8, b"8")])


async def the_newest_checkpoint_is_the_furthest(journal: Journal, tenant: str) -> None:
    """The newest of a kind has the highest position, whatever order they were written in."""
    await journal.append(unit(tenant, 0, b"1", b"2", b"3", checkpoints=(_point(3), _fold(1))))
    await journal.append(unit(tenant, 3, checkpoints=(_point(2),)))
    newest = await journal.newest(tenant, "ses_1", "point")
    expect("the newest point", newest and (newest.seq, newest.data), (3, b"point 3"))
    fold = await journal.newest(tenant, "ses_1", "fold")
    expect("the newest fold", fold and (fold.seq, fold.data), (1, b"fold 1"))


async def a_checkpoint_is_never_overwritten(journal: Journal, tenant: str) -> None:
    """The same bytes may be written again; other bytes at the same place are refused, whole unit and all."""
    await journal.append(unit(tenant, 0, b"1", checkpoints=(_point(1),)))
    await journal.append(unit(tenant, 1, b"2", checkpoints=(_point(1), _point(1))))
    changed = NewCheckpoint(kind="point", seq=1, data=b"changed")
    error = await expect_refusal(
        CheckpointExists, journal.append(unit(tenant, 2, b"3", checkpoints=(_point(2), changed)))
    )
    expect("the place", (error.kind, error.seq), ("point", 1))
    stored = await journal.checkpoints(tenant, "ses_1")
    expect("the checkpoints", [(each.seq, each.data) for each in stored], [(1, b"point 1")])
    expect("the end", (await journal.head(tenant, "ses_1")).seq, 2)


async def checkpoints_are_read_in_pages(journal: Journal, tenant: str) -> None:
    """Checkpoints come in the order of their positions, and a page never splits a position."""
    await journal.append(
        unit(tenant, 0, b"1", b"2", b"3", checkpoints=(_point(1), _point(2), _fold(2), _point(3)))
    )
    first = await journal.checkpoints(tenant, "ses_1", limit=2)
    expect("a page", [(each.seq, each.kind) for each in first], [(1, "point"), (2, "fold"), (2, "point")])
    rest = await journal.checkpoints(tenant, "ses_1", after=2, limit=2)
    expect("the rest", [(each.seq, each.kind) for each in rest], [(3, "point")])
    expect("the hash", rest[0].hash, hash_bytes(b"point 3"))
    expect("no page", await journal.checkpoints(tenant, "ses_1", limit=0), [])


async def blobs_are_named_by_their_bytes(journal: Journal, tenant: str) -> None:
    """A blob is found by its digest, may be stored again by any stream, and nothing else is found."""
    data = bytes(range(256)) * 1_000
    await journal.append(unit(tenant, 0, b"1", blobs=(data, b"", data)))
    await journal.append(unit(tenant, 0, b"1", stream="ses_2", blobs=(data,)))
    expect("the blob", await journal.blob(tenant, hash_bytes(data)), data)
    expect("the empty blob", await journal.blob(tenant, hash_bytes(b"")), b"")
    for digest in (hash_bytes(b"other"), "sha256:", "sha256:zz", "md5:00", ""):
        await expect_refusal(BlobMissing, journal.blob(tenant, digest))


async def the_blobs_of_a_stream_are_listed(journal: Journal, tenant: str) -> None:
    """A stream's blobs are listed in the order of their digests, also those that another stream brought as well."""
    datas = [str(number).encode() for number in range(5)]
    await journal.append(unit(tenant, 0, b"1", blobs=tuple(datas[:3])))
    await journal.append(unit(tenant, 0, b"1", stream="ses_2", blobs=tuple(datas[2:])))
    wanted = sorted(map(hash_bytes, datas[:3]))
    expect("the blobs", await journal.blob_digests(tenant, "ses_1"), wanted)
    first = await journal.blob_digests(tenant, "ses_1", limit=2)
    expect("a page", first, wanted[:2])
    expect("the rest", await journal.blob_digests(tenant, "ses_1", after=first[-1]), wanted[2:])
    expect("those of none", await journal.blob_digests(tenant, "ses_3"), [])
    expect("those of others", await journal.blob_digests(new_tenant(), "ses_1"), [])


async def the_first_claim_wins(journal: Journal, tenant: str) -> None:
    """A key stays with its first stream, which may claim it again; another stream is refused."""
    await journal.append(unit(tenant, 0, b"1", claims=("k", "k")))
    await journal.append(unit(tenant, 1, b"2", claims=("k", "l")))
    expect("the holder", await journal.claim(tenant, "k"), ClaimHolder("ses_1", 1))
    expect("the other key", await journal.claim(tenant, "l"), ClaimHolder("ses_1", 2))
    await expect_refusal(ClaimHeld, journal.append(unit(tenant, 0, b"1", stream="ses_2", claims=("m", "k"))))
    expect("the refused key", await journal.claim(tenant, "m"), None)


async def claims_are_listed_by_their_beginning(backend: Backend) -> None:
    """Keys come in the order of their bytes, with their holders, of one tenant only, and not more than wanted."""
    tenant, other = new_tenant(), new_tenant()
    async with backend.opened() as journal:
        await journal.append(
            unit(tenant, 0, b"1", claims=("paid:b", "paid:a", "pai", "paid;", "paid:\U0001f4b6"))
        )
        await journal.append(unit(tenant, 0, b"1", stream="ses_2", claims=("paid:aa", "paid:A")))
        await journal.append(unit(other, 0, b"1", claims=("paid:c",)))
        found = await journal.claims(tenant, "paid:")
        expected = ["paid:A", "paid:a", "paid:aa", "paid:b", "paid:\U0001f4b6"]
        expect("the keys", [key for key, _ in found], expected)
        expect(
            "the holders",
            [holder for _, holder in found[:2]],
            [ClaimHolder("ses_2", 1), ClaimHolder("ses_1", 1)],
        )
        expect("the first", [key for key, _ in await journal.claims(tenant, "paid:", limit=2)], expected[:2])
        expect("none", await journal.claims(tenant, "paid:c"), [])


async def session_ids_are_listed_by_their_beginning(backend: Backend) -> None:
    """Ids come in order, of one tenant only, and not more than wanted."""
    tenant, other = new_tenant(), new_tenant()
    async with backend.opened() as journal:
        for owner, name in ((tenant, "ses_ab"), (tenant, "ses_aa"), (tenant, "ses_b"), (other, "ses_ac")):
            await journal.append(unit(owner, 0, b"1", stream=name, row=session_row(owner, name)))
        expect("the ids", await journal.session_ids(tenant, "ses_a"), ["ses_aa", "ses_ab"])
        expect("the first", await journal.session_ids(tenant, "ses_", limit=1), ["ses_aa"])
        expect("the whole id", await journal.session_ids(tenant, "ses_b"), ["ses_b"])
        expect("none", await journal.session_ids(tenant, "ses_c"), [])


async def claims_are_checked_before_checkpoints(journal: Journal, tenant: str) -> None:
    """A unit that is wrong in both learns of the claim."""
    changed = NewCheckpoint(kind="point", seq=1, data=b"changed")
    await journal.append(unit(tenant, 0, b"1", stream="ses_2", claims=("k",)))
    await journal.append(unit(tenant, 0, b"1", checkpoints=(_point(1),)))
    await expect_refusal(ClaimHeld, journal.append(unit(tenant, 1, checkpoints=(changed,), claims=("k",))))
    await expect_refusal(
        CheckpointExists, journal.append(unit(tenant, 1, checkpoints=(changed,), claims=("l",)))
    )
    expect("the refused claim", await journal.claim(tenant, "l"), None)


async def rows_change_in_part_and_as_a_whole(journal: Journal, tenant: str) -> None:
    """Whichever columns a later row changes, it is found as it was last written, and in the right lists."""
    rows = [
        session_row(tenant, due_at=5),
        session_row(tenant, due_at=5, status="paused", updated_at=2, next_step=None, details=b"2"),
        session_row(tenant, due_at=7, status="in_progress", updated_at=3, owner="bob", pack_hash="sha256:01"),
        session_row(tenant, due_at=7, status="completed", updated_at=4, owner="bob", pack_hash="sha256:01"),
        session_row(tenant, started_at=9),
    ]
    for row in rows:
        await journal.append(unit(tenant, 0, row=row))
        expect("the row", await journal.session(tenant, "ses_1"), row)
        expect("the list", await journal.sessions(tenant), [row])
        expect("what is due", await journal.due(tenant, now_ms=9), [row] if row.due_at else [])
    await asyncio.gather(*(journal.append(unit(tenant, 0, row=row)) for row in rows))
    expect("the last of a batch", await journal.session(tenant, "ses_1"), rows[-1])
    await asyncio.gather(*(journal.append(unit(tenant, 0, row=row)) for row in reversed(rows)))
    expect("the last of another", await journal.session(tenant, "ses_1"), rows[0])


async def sessions_are_listed_newest_first(journal: Journal, tenant: str) -> None:
    """Sessions are ordered by start and id, filtered by status, and cut into pages."""
    starts = {"ses_a": 10, "ses_b": 30, "ses_c": 20, "ses_d": 20}
    for session_id, started_at in starts.items():
        row = session_row(tenant, session_id, started_at=started_at)
        await journal.append(unit(tenant, 0, b"1", stream=session_id, row=row))
    rows = await journal.sessions(tenant)
    order = ["ses_b", "ses_d", "ses_c", "ses_a"]
    expect("the order", [row.session_id for row in rows], order)
    first = await journal.sessions(tenant, limit=2)
    rest = await journal.sessions(tenant, before=first[-1].session_id)
    expect("the pages", [row.session_id for row in (*first, *rest)], order)
    done = session_row(tenant, "ses_c", started_at=20, status="completed", updated_at=99, next_step=None)
    await journal.append(unit(tenant, 1, b"2", stream="ses_c", row=done))
    expect("the completed", await journal.sessions(tenant, status="completed"), [done])
    expect("the row", await journal.session(tenant, "ses_c"), done)
    open_rows = await journal.sessions(tenant, status="in_progress", before="ses_b", limit=1)
    expect("a page of a status", [row.session_id for row in open_rows], ["ses_d"])
    await expect_refusal(UsageError, journal.sessions(tenant, before="ses_z"))


async def sessions_are_filtered(journal: Journal, tenant: str) -> None:
    """A list holds the sessions of a status, of intents, of an owner and with a text, and each combination."""
    for number in range(8):
        row = session_row(
            tenant,
            f"ses_{number}",
            started_at=number,
            status=("completed", "paused")[number % 2],
            intent=("pay", "Ship")[number // 2 % 2],
            owner=("rosa", "olga_50%")[number // 4],
        )
        await journal.append(unit(tenant, 0, b"1", stream=row.session_id, row=row))
    rows = await journal.sessions(tenant)
    for status, intents, owner, text in product(
        (None, "paused", "failed"),
        (None, (), ("pay",), ("Ship",), ("pay", "Ship"), ("other",)),
        (None, "rosa", "ghost"),
        (None, "SHIP", "0%", "ses_7", "_"),
    ):
        where = SessionFilter(status=status, intents=intents, owner=owner, text=text)
        wanted = [row for row in rows if where.admits(row)]
        expect(f"the list with {where}", await journal.sessions(tenant, where=where), wanted)
        skipped = await journal.sessions(tenant, where=where, skip=2)
        expect(f"the list with {where} behind two", skipped, wanted[2:])
        recent = msgspec.structs.replace(where, oldest=(3, "ses_3"))
        newer = [row for row in wanted if row.started_at >= 3]
        expect(f"the newest with {where}", await journal.sessions(tenant, where=recent), newer)
        if len(wanted) > 1:
            first = await journal.sessions(tenant, where=where, limit=1)
            rest = await journal.sessions(tenant, where=where, before=first[0].session_id)
            expect(f"the pages of {where}", [*first, *rest], wanted)


async def tenants_see_nothing_of_each_other(backend: Backend) -> None:
    """The same names under two tenants are two streams, claims, blobs, leases and rows."""
    ann, bob = new_tenant(), new_tenant()
    async with backend.opened() as journal:
        await journal.append(
            unit(ann, 0, b"1", blobs=(b"x",), claims=("k",), checkpoints=(_point(1),), row=session_row(ann))
        )
        await journal.acquire(ann, "ses_1", owner="ann", now_ms=0, ttl_ms=1_000)
        expect("the events", await journal.read(bob, "ses_1"), [])
        expect("the checkpoints", await journal.checkpoints(bob, "ses_1"), [])
        expect("the claim", await journal.claim(bob, "k"), None)
        expect("the sessions", await journal.sessions(bob), [])
        await expect_refusal(BlobMissing, journal.blob(bob, hash_bytes(b"x")))
        await journal.append(unit(bob, 0, b"2", claims=("k",), checkpoints=(_fold(1),)))
        lease = await journal.acquire(bob, "ses_1", owner="bob", now_ms=0, ttl_ms=1_000)
        expect("the epoch", lease.epoch, 1)
        expect("the first tenant's events", [e.data for e in await journal.read(ann, "ses_1")], [b"1"])


def _point(seq: int) -> NewCheckpoint:
    return NewCheckpoint(kind="point", seq=seq, data=f"point {seq}".encode())


def _fold(seq: int) -> NewCheckpoint:
    return NewCheckpoint(kind="fold", seq=seq, data=f"fold {seq}".encode())


CASES = (
    *with_new_tenant(
        a_stream_is_read_in_pages,
        the_newest_checkpoint_is_the_furthest,
        a_checkpoint_is_never_overwritten,
        checkpoints_are_read_in_pages,
        blobs_are_named_by_their_bytes,
        the_blobs_of_a_stream_are_listed,
        the_first_claim_wins,
        claims_are_checked_before_checkpoints,
        rows_change_in_part_and_as_a_whole,
        sessions_are_listed_newest_first,
        sessions_are_filtered,
    ),
    claims_are_listed_by_their_beginning,
    session_ids_are_listed_by_their_beginning,
    tenants_see_nothing_of_each_other,
)
