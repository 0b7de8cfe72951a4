"""Damage to a journal's file is found where it is read, and its place is named."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from journal.filling import TENANT, at, event, make_journal, refusal
from tercet.contracts.values.canonical import hash_bytes
from tercet.journal.chain import verify_chain
from tercet.journal.errors import JournalCorrupt
from tercet.journal.opening import open_journal
from tercet.journal.protocol import Append, NewCheckpoint


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A place for a journal."""
    return tmp_path / "runs.db"


async def _verify(path: Path) -> None:
    async with open_journal(at(path)) as journal:
        await verify_chain(journal, TENANT, "ses_1")


def test_a_damaged_page_is_found_when_it_is_read(path: Path) -> None:
    """Garbage over a page of the file makes reading fail as corrupt, and names the file."""
    asyncio.run(make_journal(path, 200))
    content = bytearray(path.read_bytes())
    place = content.index(event(150))
    page = place - place % 4096
    content[page : page + 64] = b"\xa5" * 64
    path.write_bytes(content)

    async def run() -> None:
        async with open_journal(at(path)) as journal:
            error = await refusal(JournalCorrupt, verify_chain(journal, TENANT, "ses_1"))
            assert error.place == str(path)

    asyncio.run(run())


@pytest.mark.req("R148")
def test_flipped_bytes_are_found_and_their_place_is_named(path: Path) -> None:
    """One byte changed in the file, inside an event, is found by the chain, which names that event."""
    asyncio.run(make_journal(path, 50))
    content = bytearray(path.read_bytes())
    content[content.index(event(33)) + 40] ^= 1
    path.write_bytes(content)
    error = asyncio.run(refusal(JournalCorrupt, _verify(path)))
    assert error.place == "event 33 of stream ses_1"


@pytest.mark.parametrize(
    ("tamper", "place"),
    [
        ("UPDATE events SET data = x'00' WHERE seq = 4", "event 4 of stream ses_1"),
        ("UPDATE events SET chain = zeroblob(32) WHERE seq = 4", "event 4 of stream ses_1"),
        ("DELETE FROM events WHERE seq = 4", "event 4 of stream ses_1"),
        ("DELETE FROM events WHERE seq = 1", "event 1 of stream ses_1"),
        ("DELETE FROM events WHERE seq >= 9", "event 9 of stream ses_1"),
        ("DELETE FROM events", "event 1 of stream ses_1"),
        (
            "UPDATE events SET seq = seq - 7 WHERE seq IN (3, 4); UPDATE events SET seq = -seq WHERE seq < 0",
            "event 3 of stream ses_1",
        ),
        (
            "INSERT INTO events (stream_id, seq, data, chain) SELECT stream_id, 11, x'00', zeroblob(32) FROM events LIMIT 1",
            "event 11 of stream ses_1",
        ),
        (
            "DELETE FROM events WHERE seq = 4; UPDATE events SET seq = seq - 1 WHERE seq > 4;",
            "event 4 of stream ses_1",
        ),
        ("UPDATE streams SET chain = zeroblob(32)", "the end of stream ses_1"),
        ("UPDATE streams SET seq = 8", "the end of stream ses_1"),
    ],
    ids=[
        "changed", "link changed", "removed", "first removed", "tail removed", "all removed", "reordered",
        "inserted", "removed and renumbered", "end changed", "end moved back",
    ],
)  # fmt: skip
def test_tampering_is_found_and_its_place_is_named(path: Path, tamper: str, place: str) -> None:
    """Rows changed, removed, reordered or inserted by another program are found at the first that is wrong."""
    asyncio.run(make_journal(path))
    other = sqlite3.connect(path)
    other.executescript(tamper)
    other.close()
    error = asyncio.run(refusal(JournalCorrupt, _verify(path)))
    assert error.place == place


def test_damaged_blobs_and_checkpoints_are_not_handed_out(path: Path) -> None:
    """Bytes that no longer have their digest are refused, with what they were called."""
    checkpoint = NewCheckpoint(kind="fold", seq=1, data=b"the state")

    async def run() -> None:
        async with open_journal(at(path)) as journal:
            await journal.append(
                Append(
                    tenant=TENANT,
                    stream="ses_1",
                    expected=0,
                    events=(b"1",),
                    blobs=(b"text",),
                    checkpoints=(checkpoint,),
                )
            )
            other = sqlite3.connect(path)
            other.executescript("UPDATE blobs SET data = x'00'; UPDATE checkpoints SET data = x'00'")
            other.close()
            blob = await refusal(JournalCorrupt, journal.blob(TENANT, hash_bytes(b"text")))
            assert hash_bytes(b"text") in blob.place
            fold = await refusal(JournalCorrupt, journal.newest(TENANT, "ses_1", "fold"))
            assert fold.place == "fold checkpoint 1 of stream ses_1"

    asyncio.run(run())


def _cut(wal: bytearray) -> None:
    del wal[len(wal) * 6 // 10 :]


def _scribble(wal: bytearray) -> None:
    middle = len(wal) * 6 // 10
    wal[middle : middle + 100] = b"\xa5" * 100


@pytest.mark.parametrize("damage", [_cut, _scribble])
def test_a_torn_log_leaves_a_whole_prefix(tmp_path: Path, damage: Callable[[bytearray], None]) -> None:
    """A write-ahead log that ends early, as after a power cut, yields whole units and a chain that holds."""
    torn = tmp_path / "torn.db"

    async def write() -> None:
        async with open_journal(at(tmp_path / "runs.db")) as journal:
            for turn in range(40):
                await journal.append(
                    Append(
                        tenant=TENANT,
                        stream="ses_1",
                        expected=2 * turn,
                        events=(b"a", b"b"),
                        claims=(f"{turn}",),
                    )
                )
            shutil.copy(tmp_path / "runs.db", torn)
            log = bytearray((tmp_path / "runs.db-wal").read_bytes())
        damage(log)
        (tmp_path / "torn.db-wal").write_bytes(log)

    async def read() -> None:
        async with open_journal(at(torn)) as journal:
            end = await verify_chain(journal, TENANT, "ses_1")
            assert 0 < end.seq < 80
            assert end.seq % 2 == 0
            claims = [await journal.claim(TENANT, f"{turn}") for turn in range(40)]
            assert sum(claim is not None for claim in claims) == end.seq // 2
            await journal.append(Append(tenant=TENANT, stream="ses_1", expected=end.seq, events=(b"more",)))

    asyncio.run(write())
    asyncio.run(read())
