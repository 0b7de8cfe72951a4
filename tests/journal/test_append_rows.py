"""The row of an append: what goes in comes out, and damage of any part of it is found."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from journal.filling import TENANT, at, refusal
from journal.tampering import split_rows
from tercet.contracts.values.canonical import hash_bytes
from tercet.journal.append_rows import LARGEST, SMALLEST, compress, decompress, pack_events, unpack_events
from tercet.journal.chain import ZERO, extend_chain, verify_chain
from tercet.journal.errors import CheckpointExists, JournalCorrupt
from tercet.journal.opening import open_journal
from tercet.journal.protocol import Append, NewCheckpoint, Stored
from tercet.journal.side_stream import read_all

EVENTS = (b"one", b"", b"three")
POINT = NewCheckpoint(kind="point", seq=3, data=b"where it stood")
LARGE = b"the same words again and again, " * 400
UNIT = Append(tenant=TENANT, stream="ses_1", expected=0, events=EVENTS, checkpoints=(POINT,), blobs=(LARGE,))
NEXT = Append(tenant=TENANT, stream="ses_1", expected=3, events=(b"four", LARGE))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A closed journal with two appends of several events."""
    path = tmp_path / "runs.db"

    async def write() -> None:
        async with open_journal(at(path)) as journal:
            await journal.append(UNIT)
            await journal.append(NEXT)

    asyncio.run(write())
    return path


def tamper(path: Path, statement: str) -> None:
    """Change rows with another program."""
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        assert database.execute(statement).rowcount


@given(st.lists(st.binary(max_size=20), min_size=1, max_size=6), st.integers(0, 1_000))
def test_a_row_yields_the_events_that_it_was_made_of(events: list[bytes], before: int) -> None:
    """Each with its position and its link."""
    links = extend_chain(ZERO, events)
    found = unpack_events("ses_1", before + len(events), *pack_events(events, links))
    assert list(found) == [
        Stored(before + place, data, link)
        for place, (data, link) in enumerate(zip(events, links, strict=True), start=1)
    ]


async def test_an_append_is_one_row_with_its_point_inside(path: Path) -> None:
    """A page of events may begin and end in the middle of a row."""
    with closing(sqlite3.connect(path)) as database:
        assert database.execute("SELECT seq FROM events").fetchall() == [(3,), (5,)]
        assert database.execute("SELECT count(*) FROM checkpoints").fetchone() == (0,)

    everything = (*EVENTS, *NEXT.events)
    async with open_journal(at(path)) as journal:
        for after in range(6):
            for limit in range(7):
                found = await journal.read(TENANT, "ses_1", after=after, limit=limit)
                wanted = list(enumerate(everything, start=1))[after : after + limit]
                assert [(each.seq, each.data) for each in found] == wanted
        stored = await journal.newest(TENANT, "ses_1", "point")
        assert stored is not None
        assert (stored.seq, stored.data, stored.hash) == (3, POINT.data, hash_bytes(POINT.data))
        assert await journal.checkpoints(TENANT, "ses_1") == [stored]
        assert await journal.newest(TENANT, "ses_1", "fold") is None
        assert await journal.blob(TENANT, hash_bytes(LARGE)) == LARGE


async def test_another_point_at_the_same_place_is_refused(path: Path) -> None:
    """Whether the first one was written long ago or in the same commit."""
    other = NewCheckpoint(kind="point", seq=3, data=b"elsewhere")

    async with open_journal(at(path)) as journal:
        late = Append(tenant=TENANT, stream="ses_1", expected=5, checkpoints=(other,))
        await refusal(CheckpointExists, journal.append(late))
        units = (
            Append(tenant=TENANT, stream="ses_2", expected=0, events=EVENTS, checkpoints=(POINT,)),
            Append(tenant=TENANT, stream="ses_2", expected=3, checkpoints=(other,)),
        )
        outcomes = await asyncio.gather(*map(journal.append, units), return_exceptions=True)
        assert [type(each).__name__ for each in outcomes] == ["Position", "CheckpointExists"]
        again = Append(tenant=TENANT, stream="ses_2", expected=3, checkpoints=(POINT,))
        assert (await journal.append(again)).seq == 3
        assert len(await journal.checkpoints(TENANT, "ses_2")) == 1


def test_rows_of_an_earlier_version_read_alike_and_go_on(path: Path) -> None:
    """A stream may hold rows of both kinds."""

    async def read() -> tuple[list[Stored], object]:
        async with open_journal(at(path)) as journal:
            return await read_all(journal, TENANT, "ses_1"), await journal.checkpoints(TENANT, "ses_1")

    before = asyncio.run(read())
    split_rows(path)
    with closing(sqlite3.connect(path)) as database:
        assert database.execute("SELECT count(*) FROM events").fetchone() == (5,)
    assert asyncio.run(read()) == before

    async def go_on() -> None:
        async with open_journal(at(path)) as journal:
            await journal.append(Append(tenant=TENANT, stream="ses_1", expected=5, events=EVENTS))
            assert (await verify_chain(journal, TENANT, "ses_1")).seq == 8

    asyncio.run(go_on())


@pytest.mark.parametrize(
    ("statement", "place"),
    [
        ("UPDATE events SET data = CAST(replace(data, 'one', 'two') AS BLOB) WHERE seq = 3", "event 1"),
        ("UPDATE events SET data = CAST(replace(data, 'three', 'thr33') AS BLOB) WHERE seq = 3", "event 3"),
        ("UPDATE events SET data = x'00' WHERE seq = 3", "event 3"),
        (
            "UPDATE events SET chain = CAST(substr(chain, 1, 64) || zeroblob(32) AS BLOB) WHERE seq = 3",
            "event 3",
        ),
        ("UPDATE events SET chain = substr(chain, 1, 64) WHERE seq = 3", "event 3"),
        ("UPDATE events SET sizes = x'0000000200000001' WHERE seq = 3", "event 1"),
        ("UPDATE events SET sizes = x'000000' WHERE seq = 3", "event 3"),
        ("UPDATE events SET sizes = x'' WHERE seq = 3", "event 1"),
        ("UPDATE events SET seq = 4 WHERE seq = 3", "event 1"),
        ("DELETE FROM events WHERE seq = 3", "event 1"),
        ("DELETE FROM events WHERE seq = 5", "event 4"),
        ("UPDATE events SET size = size - 1 WHERE seq = 5", "event 5"),
        ("UPDATE events SET size = -1 WHERE seq = 5", "event 5"),
        ("UPDATE events SET size = 0 WHERE seq = 5", "event 4"),
        ("UPDATE events SET size = 3 WHERE seq = 3", "event 3"),
        ("UPDATE events SET data = substr(data, 1, 20) WHERE seq = 5", "event 5"),
    ],
)
async def test_a_damaged_row_is_found_and_its_place_is_named(path: Path, statement: str, place: str) -> None:
    """The chain names the event; a row whose parts do not fit each other is named by its last event."""
    tamper(path, statement)

    async with open_journal(at(path)) as journal:
        error = await refusal(JournalCorrupt, verify_chain(journal, TENANT, "ses_1"))
        assert error.place == f"{place} of stream ses_1"


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE events SET point = CAST(substr(point, 1, 32) || x'00' AS BLOB) WHERE seq = 3",
        "UPDATE events SET point = substr(point, 2) WHERE seq = 3",
        "UPDATE events SET point = x'00' WHERE seq = 3",
    ],
)
async def test_a_damaged_point_is_not_handed_out(path: Path, statement: str) -> None:
    """Neither its bytes nor its hash can be changed alone."""
    tamper(path, statement)

    async with open_journal(at(path)) as journal:
        error = await refusal(JournalCorrupt, journal.newest(TENANT, "ses_1", "point"))
        assert error.place == "point checkpoint 3 of stream ses_1"
        await refusal(JournalCorrupt, journal.checkpoints(TENANT, "ses_1"))


@pytest.mark.parametrize("statement", ["UPDATE blobs SET size = 0", "UPDATE blobs SET data = x'00'"])
async def test_a_damaged_compressed_blob_is_not_handed_out(path: Path, statement: str) -> None:
    """It is named by its digest."""
    tamper(path, statement)

    async with open_journal(at(path)) as journal:
        error = await refusal(JournalCorrupt, journal.blob(TENANT, hash_bytes(LARGE)))
        assert hash_bytes(LARGE) in error.place


@pytest.mark.parametrize("size", [0, SMALLEST - 1, SMALLEST, LARGEST, LARGEST + 1])
@pytest.mark.parametrize("is_random", [True, False])
def test_a_value_comes_back_as_it_was(size: int, is_random: bool) -> None:
    """Only values of a middling size are compressed, and only where that makes them smaller."""
    data = os.urandom(size) if is_random else bytes(size)
    stored, original = compress(data)
    assert decompress(stored, original, "here") == data
    is_compressed = SMALLEST <= size <= LARGEST and not is_random
    assert (original == size and len(stored) < size) if is_compressed else (stored, original) == (data, 0)


def test_a_value_that_unpacks_to_more_than_it_says_is_refused() -> None:
    """However much it would unpack to."""
    stored, size = compress(bytes(LARGEST))
    with pytest.raises(JournalCorrupt):
        decompress(stored, size - 1, "here")
