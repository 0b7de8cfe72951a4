"""Cases about appending: positions, chains, atomicity, what is refused, and who hears of it by the change counter."""

from __future__ import annotations

import asyncio
import hashlib

from msgspec.structs import replace

from tercet.contracts.errors import UsageError
from tercet.contracts.values.canonical import hash_bytes
from tercet.journal.chain import START, verify_chain
from tercet.journal.errors import BlobMissing, CheckpointExists, ClaimHeld, LeaseLost, PositionConflict
from tercet.journal.protocol import Append, ClaimHolder, Journal, NewCheckpoint, Position
from tercet.journal.side_stream import append_next, read_all
from tercet.testing.expectation import expect, expect_refusal, new_tenant, with_new_tenant
from tercet.testing.journal_backend import Backend, session_row, unit


async def an_unknown_stream_is_empty(journal: Journal, tenant: str) -> None:
    """A stream without events ends at position 0 with a chain of zero bytes, and contains nothing."""
    expect("the head", await journal.head(tenant, "ses_1"), START)
    expect("the events", await journal.read(tenant, "ses_1"), [])
    expect("the newest checkpoint", await journal.newest(tenant, "ses_1", "fold"), None)
    expect("the checkpoints", await journal.checkpoints(tenant, "ses_1"), [])
    expect("the session", await journal.session(tenant, "ses_1"), None)
    expect("the sessions", await journal.sessions(tenant), [])
    expect("the holder", await journal.claim(tenant, "key"), None)


async def events_come_back_as_they_went_in(journal: Journal, tenant: str) -> None:
    """Bytes of any kind are numbered from 1, chained by SHA-256, and read back unchanged."""
    events = (b"{}", b"", bytes(range(256)), "ü".encode(), b"x" * 100_000)
    first = await journal.append(unit(tenant, 0, *events[:2]))
    second = await journal.append(unit(tenant, 2, *events[2:]))
    stored = await journal.read(tenant, "ses_1")
    expect("the positions", [event.seq for event in stored], [1, 2, 3, 4, 5])
    expect("the bytes", tuple(event.data for event in stored), events)
    chain = bytes(32)
    for event in stored:
        chain = hashlib.sha256(chain + event.data).digest()
        expect(f"the chain at {event.seq}", event.chain, chain)
    expect("the first position", first, Position(2, stored[1].chain))
    expect("the second position", second, Position(5, chain))
    expect("the head", await journal.head(tenant, "ses_1"), second)
    expect("the verified end", await verify_chain(journal, tenant, "ses_1"), second)


async def the_expected_position_must_hold(journal: Journal, tenant: str) -> None:
    """An append that expects another end is refused, says where the end is, and writes nothing."""
    await journal.append(unit(tenant, 0, b"one"))
    for expected in (0, 2):
        error = await expect_refusal(PositionConflict, journal.append(unit(tenant, expected, b"no")))
        expect("what was expected", (error.expected, error.actual), (expected, 1))
    await expect_refusal(PositionConflict, journal.append(unit(tenant, 1, b"no", stream="new")))
    expect("the events", [event.data for event in await journal.read(tenant, "ses_1")], [b"one"])
    expect("the other stream", await journal.read(tenant, "new"), [])


async def a_unit_is_stored_whole(journal: Journal, tenant: str) -> None:
    """Events, checkpoints, blobs, claims and the session's row of one unit are all there afterwards."""
    await journal.append(_everything(tenant))
    point = await journal.newest(tenant, "ses_1", "point")
    fold = await journal.newest(tenant, "ses_1", "fold")
    expect("the point", point and (point.seq, point.data, point.hash), (1, b"p", hash_bytes(b"p")))
    expect("the fold", fold and (fold.seq, fold.data, fold.hash), (2, b"f", hash_bytes(b"f")))
    expect("the blob", await journal.blob(tenant, hash_bytes(b"large")), b"large")
    expect("the claim", await journal.claim(tenant, "key"), ClaimHolder("ses_1", 2))
    expect("the row", await journal.session(tenant, "ses_1"), session_row(tenant))


async def a_refused_unit_leaves_no_trace(journal: Journal, tenant: str) -> None:
    """Whatever a unit is refused for, none of its parts is stored."""
    await journal.append(unit(tenant, 0, b"1", stream="other", claims=("taken",)))
    await journal.append(unit(tenant, 0, b"1", stream="leased"))
    await journal.acquire(tenant, "leased", owner="ann", now_ms=0, ttl_ms=10)
    whole = _everything(tenant)
    await expect_refusal(PositionConflict, journal.append(replace(whole, expected=7)))
    await expect_refusal(LeaseLost, journal.append(replace(whole, epoch=3)))
    error = await expect_refusal(ClaimHeld, journal.append(replace(whole, claims=("key", "taken"))))
    expect("the holder", (error.key, error.holder), ("taken", "other"))
    twice = NewCheckpoint(kind="point", seq=1, data=b"another")
    await expect_refusal(
        CheckpointExists, journal.append(replace(whole, checkpoints=(*whole.checkpoints, twice)))
    )
    expect("the head", await journal.head(tenant, "ses_1"), START)
    expect("the events", await journal.read(tenant, "ses_1"), [])
    expect("the checkpoints", await journal.checkpoints(tenant, "ses_1"), [])
    expect("the claim", await journal.claim(tenant, "key"), None)
    expect("the row", await journal.session(tenant, "ses_1"), None)
    await expect_refusal(BlobMissing, journal.blob(tenant, hash_bytes(b"large")))
    await journal.append(whole)


async def a_unit_without_events_moves_nothing(journal: Journal, tenant: str) -> None:
    """A unit may hold only a row, a claim or a checkpoint; the stream ends where it did."""
    end = await journal.append(unit(tenant, 0, b"1"))
    later = session_row(tenant, status="paused")
    checkpoint = NewCheckpoint(kind="point", seq=1, data=b"p")
    found = await journal.append(unit(tenant, 1, checkpoints=(checkpoint,), claims=("k",), row=later))
    expect("the position", found, end)
    expect("the row", await journal.session(tenant, "ses_1"), later)
    expect("the claim", await journal.claim(tenant, "k"), ClaimHolder("ses_1", 1))


async def bad_units_are_refused_as_wrong_use(journal: Journal, tenant: str) -> None:
    """Names that a store cannot hold, a checkpoint outside the stream and a foreign row are the caller's mistakes."""
    for name in ("", "a\0b", "\ud800", "x" * 513, "ü" * 257):
        await expect_refusal(UsageError, journal.append(unit(tenant, 0, b"1", stream=name)))
        await expect_refusal(UsageError, journal.append(unit(name, 0, b"1")))
        await expect_refusal(UsageError, journal.append(unit(tenant, 0, b"1", claims=(name,))))
        await expect_refusal(UsageError, journal.read(tenant, name))
    for seq in (0, 2):
        outside = NewCheckpoint(kind="point", seq=seq, data=b"p")
        await expect_refusal(UsageError, journal.append(unit(tenant, 0, b"1", checkpoints=(outside,))))
    foreign = session_row(tenant, "ses_2")
    await expect_refusal(UsageError, journal.append(unit(tenant, 0, b"1", row=foreign)))
    expect("the head", await journal.head(tenant, "ses_1"), START)


async def names_are_kept_apart(journal: Journal, tenant: str) -> None:
    """Names that differ only in case, in spaces or in their Unicode form are different."""
    streams = ("a", "A", "a ", "ä", "a\u0308", "'; --", '["x"]', "x" * 512, "ü" * 256)
    for stream in streams:
        await journal.append(unit(tenant, 0, stream.encode(), stream=stream, claims=(stream,)))
    for stream in streams:
        stored = await journal.read(tenant, stream)
        expect(f"the stream {stream!r}", [event.data for event in stored], [stream.encode()])
        expect(f"the claim {stream!r}", await journal.claim(tenant, stream), ClaimHolder(stream, 1))


def _everything(tenant: str) -> Append:
    """Return a unit that has every part."""
    checkpoints = (
        NewCheckpoint(kind="point", seq=1, data=b"p"),
        NewCheckpoint(kind="fold", seq=2, data=b"f"),
    )
    return unit(
        tenant, 0, b"1", b"2",
        checkpoints=checkpoints, blobs=(b"large",), claims=("key",), row=session_row(tenant),
    )  # fmt: skip


# --- the change counter ---


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
        an_unknown_stream_is_empty,
        events_come_back_as_they_went_in,
        the_expected_position_must_hold,
        a_unit_is_stored_whole,
        a_refused_unit_leaves_no_trace,
        a_unit_without_events_moves_nothing,
        bad_units_are_refused_as_wrong_use,
        names_are_kept_apart,
        a_refused_unit_does_not_ring,
        rings_at_once_are_all_counted,
        a_side_stream_takes_every_writer,
    ),
    every_append_sees_the_rings_before_it,
)
DURABLE_CASES = (rings_of_another_journal_are_heard, rings_of_several_journals_are_all_counted)
