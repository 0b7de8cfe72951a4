"""What happens to the disk, the file or the process is answered with a typed error, and nothing is half written."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from journal.filling import TENANT, at, event, fill, make_journal, refusal
from tercet.contracts.errors import UsageError
from tercet.contracts.values.canonical import hash_bytes
from tercet.database.schema import Schema
from tercet.database.sqlite import connect_writer
from tercet.journal.chain import verify_chain
from tercet.journal.errors import (
    BlobMissing,
    JournalBusy,
    JournalCorrupt,
    JournalFull,
    JournalUnavailable,
)
from tercet.journal.opening import open_journal
from tercet.journal.protocol import Append, NewCheckpoint
from tercet.journal.sqlite import writer
from tercet.journal.sqlite.batch import SCHEMA
from tercet.journal.sqlite.heads import heads_path

LARGE = os.urandom(2_000_000)
"""Bytes that do not get smaller when they are compressed."""

HOLD_THE_LOCK = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
print("locked", flush=True)
sys.stdin.readline()
"""

APPEND_FOR_EVER = """
import asyncio, sys
from tercet.journal.opening import open_journal
from tercet.journal.protocol import Append
from tercet.journal.sqlite.heads import heads_path

async def grow(journal, stream):
    seq = 0
    while True:
        unit = Append(tenant="acme", stream=stream, expected=seq, events=(b"a", b"b"), claims=(f"{stream} {seq}",))
        seq = (await journal.append(unit)).seq
        print(stream, seq, flush=True)

async def main():
    async with open_journal(sys.argv[1]) as journal:
        await asyncio.gather(*(grow(journal, f"ses_{number}") for number in range(5)))

asyncio.run(main())
"""


OPEN_WHERE_NO_FILE_GROWS = """
import asyncio, resource, sys
from tercet.contracts.errors import TercetError
from tercet.journal.opening import open_journal

async def main():
    try:
        async with open_journal(sys.argv[1]) as journal:
            await journal.sessions("acme")
    except TercetError as error:
        print(error.code, error)

resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, resource.RLIM_INFINITY))
asyncio.run(main())
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A place for a journal."""
    return tmp_path / "runs.db"


@pytest.fixture
def small_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite finds the disk full beyond 256 pages."""

    def connect(path: Path, schema: Schema, *, patience_s: float) -> sqlite3.Connection:
        connection = connect_writer(path, schema, patience_s=patience_s)
        connection.execute("PRAGMA max_page_count = 256")
        return connection

    monkeypatch.setattr(writer, "connect_writer", connect)


@pytest.mark.usefixtures("small_disk")
def test_a_full_disk_refuses_the_unit_whole(path: Path) -> None:
    """A unit that does not fit leaves no event, claim, blob or checkpoint, and smaller ones still go in."""

    async def run() -> None:
        async with open_journal(at(path)) as journal:
            await fill(journal, 3)
            checkpoint = NewCheckpoint(kind="fold", seq=4, data=LARGE)
            unit = Append(
                tenant=TENANT, stream="ses_1", expected=3, events=(event(4),), claims=("k",), blobs=(b"b",),
                checkpoints=(checkpoint,),
            )  # fmt: skip
            error = await refusal(JournalFull, journal.append(unit))
            assert "full" in str(error)
            assert (await verify_chain(journal, TENANT, "ses_1")).seq == 3
            assert await journal.claim(TENANT, "k") is None
            assert await journal.newest(TENANT, "ses_1", "fold") is None
            await refusal(BlobMissing, journal.blob(TENANT, hash_bytes(b"b")))
            await fill(journal, 1)
            assert (await verify_chain(journal, TENANT, "ses_1")).seq == 4

    asyncio.run(run())


@pytest.mark.slow
def test_a_journal_on_a_full_disk_says_when_it_is_opened_that_there_is_no_room(path: Path) -> None:
    """SQLite reports an error of the disk there, since the index of its log does not fit; the remedy is room, not rights."""
    asyncio.run(make_journal(path))
    done = subprocess.run(
        [sys.executable, "-c", OPEN_WHERE_NO_FILE_GROWS, at(path)], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("journal_full "), done.stdout
    assert "make room" in done.stdout


@pytest.mark.usefixtures("small_disk")
def test_one_callers_large_unit_does_not_fail_the_others(path: Path) -> None:
    """Units that share a commit with one that does not fit are stored."""

    async def run() -> None:
        async with open_journal(at(path)) as journal:
            units = [
                Append(tenant=TENANT, stream=f"ses_{number}", expected=0, events=(b"1",), blobs=blobs)
                for number, blobs in enumerate([(), (), (LARGE,), (), ()])
            ]
            results = await asyncio.gather(*map(journal.append, units), return_exceptions=True)
            assert [type(result).__name__ for result in results] == [
                "Position", "Position", "JournalFull", "Position", "Position",
            ]  # fmt: skip
            heads = [(await journal.head(TENANT, unit.stream)).seq for unit in units]
            assert heads == [1, 1, 0, 1, 1]

    asyncio.run(run())


@contextmanager
def locked_elsewhere(path: Path) -> Generator[None]:
    """Another process holds the write lock."""
    command = [sys.executable, "-c", HOLD_THE_LOCK, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout
        assert other.stdin
        other.stdout.readline()
        yield
        other.stdin.close()


@pytest.mark.slow
def test_a_lock_beyond_patience_is_named_and_then_forgotten(path: Path) -> None:
    """While another process holds the lock appends fail as busy, reads work, and afterwards all is well."""

    async def run() -> None:
        async with open_journal(at(path), patience_s=0.05) as journal:
            await fill(journal, 1)
            with locked_elsewhere(path):
                error = await refusal(JournalBusy, fill(journal, 1))
                assert str(path) in str(error)
                assert len(await journal.read(TENANT, "ses_1")) == 1
            await fill(journal, 1)
            assert (await verify_chain(journal, TENANT, "ses_1")).seq == 2

    asyncio.run(run())


@contextmanager
def without_privileges() -> Generator[None]:
    """Act as nobody, since root may write everywhere."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture
def public_folder() -> Generator[Path]:
    """A folder that everybody can enter, which pytest's are not."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o777)
    yield folder
    folder.chmod(0o700)
    shutil.rmtree(folder)


def test_a_file_that_may_not_be_written_can_be_read(public_folder: Path) -> None:
    """A read-only file is read as ever, and an append says that it may not be written."""
    path = public_folder / "runs.db"
    asyncio.run(make_journal(path, 3))
    for file in public_folder.iterdir():
        file.chmod(0o444)

    async def run() -> None:
        async with open_journal(at(path)) as journal:
            assert (await verify_chain(journal, TENANT, "ses_1")).seq == 3
            error = await refusal(JournalUnavailable, fill(journal, 1))
            assert "right to write" in str(error)

    with without_privileges():
        asyncio.run(run())


def test_a_folder_that_may_not_be_written_is_refused(public_folder: Path) -> None:
    """SQLite needs files beside the journal, so a read-only folder cannot hold one."""
    path = public_folder / "runs.db"
    asyncio.run(make_journal(path))
    path.chmod(0o666)
    public_folder.chmod(0o555)
    with without_privileges():
        asyncio.run(refusal(JournalUnavailable, _open(path)))


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    """No folder is made on the way: a mistyped path is the caller's to mend."""
    error = asyncio.run(refusal(JournalUnavailable, _open(tmp_path / "no" / "runs.db")))
    assert error.remedy == f"create {tmp_path / 'no'}"
    assert not (tmp_path / "no").exists()


def test_a_folder_is_not_a_journal(tmp_path: Path) -> None:
    """A path that is a folder cannot be opened."""
    asyncio.run(refusal(JournalUnavailable, _open(tmp_path)))


def test_a_file_that_is_no_database_is_named(path: Path) -> None:
    """A text file is refused and left as it is."""
    path.write_text("these are my notes\n" * 100, encoding="utf-8")
    error = asyncio.run(refusal(JournalCorrupt, _open(path)))
    assert str(path) in str(error)
    assert path.read_text(encoding="utf-8").startswith("these are my notes")


def test_another_programs_database_is_left_alone(path: Path) -> None:
    """A SQLite database that is not a journal gets no tables from us."""
    other = sqlite3.connect(path)
    other.execute("CREATE TABLE recipes (name TEXT)")
    other.commit()
    error = asyncio.run(refusal(UsageError, _open(path)))
    assert error.code == "not_a_journal"
    assert other.execute("SELECT name FROM sqlite_master").fetchall() == [("recipes",)]
    other.close()


@pytest.mark.slow
def test_what_was_acknowledged_survives_a_kill(path: Path) -> None:
    """A process killed in the middle of its appends loses nothing that it was told is durable."""
    with subprocess.Popen(
        [sys.executable, "-c", APPEND_FOR_EVER, at(path)], stdout=subprocess.PIPE, text=True
    ) as worker:
        assert worker.stdout
        lines = [worker.stdout.readline() for _ in range(200)]
        worker.send_signal(signal.SIGKILL)
        lines += worker.stdout.read().splitlines(keepends=True)
    told: dict[str, int] = {}
    for line in lines:
        if line.endswith("\n"):
            stream, seq = line.split()
            told[stream] = int(seq)

    async def run() -> None:
        async with open_journal(at(path)) as journal:
            for stream, seq in told.items():
                end = await verify_chain(journal, TENANT, stream)
                assert end.seq >= seq
                assert end.seq % 2 == 0
                assert await journal.claim(TENANT, f"{stream} {end.seq - 2}") is not None
                assert await journal.claim(TENANT, f"{stream} {end.seq}") is None

    assert len(told) == 5
    asyncio.run(run())


def test_a_commit_waits_for_the_disk(path: Path) -> None:
    """The writing connection uses the write-ahead log and waits for the disk at every commit."""
    connection = connect_writer(path, SCHEMA, patience_s=1)
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert connection.execute("PRAGMA synchronous").fetchone() == (2,)
    connection.close()


async def _open(path: Path) -> None:
    async with open_journal(at(path), patience_s=0.2):
        pass


def test_a_journal_in_a_folder_that_may_only_be_read_opens_whoever_owns_its_commit_log(
    public_folder: Path,
) -> None:
    """Looking needs neither the right to write nor the right to read the commit log."""
    path = public_folder / "runs.db"
    asyncio.run(make_journal(path, 3))
    for file in public_folder.iterdir():
        file.chmod(0o444)
    heads_path(path).chmod(0o600)
    public_folder.chmod(0o555)

    async def run() -> None:
        async with open_journal(at(path), may_be_read_only=True) as journal:
            assert (await verify_chain(journal, TENANT, "ses_1")).seq == 3

    with without_privileges():
        asyncio.run(run())
