"""A database that lacks durable commits is refused, and nothing else is."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import sqlite3
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from acceptance.nursery import Worker
from journal.appending import append_and_reopen, append_until_killed, unit
from journal.filling import TENANT, at, make_journal, refusal
from tercet.journal.chain import verify_chain
from tercet.journal.errors import JournalDamaged, JournalUnavailable
from tercet.journal.opening import open_journal
from tercet.journal.sqlite import heads
from tercet.journal.sqlite.heads import SLOT_BYTES, SLOTS, Heads, find_loss, heads_path, read_records

COMMITS = 40


@pytest.fixture
def killed(tmp_path: Path) -> Path:
    """The files of a journal as a process leaves them that is killed after forty appends."""
    path = tmp_path / "runs.db"

    async def write() -> None:
        async with open_journal(at(tmp_path / "live.db")) as journal:
            for turn in range(COMMITS):
                await journal.append(unit("ses_1", 2 * turn, b"a", b"b"))
            for ending in ("", "-wal", "-heads"):
                shutil.copy(tmp_path / f"live.db{ending}", f"{path}{ending}")

    asyncio.run(write())
    return path


async def end_of(path: Path, stream: str = "ses_1") -> int:
    """Open a journal and return where a stream ends, its chain checked."""
    async with open_journal(at(path)) as journal:
        return (await verify_chain(journal, TENANT, stream)).seq


def flip(log: bytearray) -> None:
    """Damage one bit in the middle."""
    log[len(log) * 6 // 10] ^= 4


def cut(log: bytearray) -> None:
    """Cut the last part off."""
    del log[len(log) * 6 // 10 :]


def empty(log: bytearray) -> None:
    """Cut all of it off."""
    log.clear()


@pytest.mark.parametrize("damage", [flip, cut, empty])
def test_a_damaged_or_cut_log_is_refused_with_what_it_lost(
    killed: Path, damage: Callable[[bytearray], None]
) -> None:
    """SQLite drops every frame behind the damage and says nothing; the journal names the stream and its old end."""
    wal = Path(f"{killed}-wal")
    log = bytearray(wal.read_bytes())
    damage(log)
    wal.write_bytes(log)
    error = asyncio.run(refusal(JournalDamaged, end_of(killed)))
    assert error.code == "journal_damaged"
    assert [(each.stream, each.seq) for each in error.loss.streams] == [("ses_1", 2 * COMMITS)]
    assert 0 < error.loss.commits <= COMMITS
    assert "ses_1 (had 80 events)" in error.message
    assert wal.read_bytes() == bytes(log)  # left as it is for whoever wants to save something


def test_every_damaged_bit_of_a_log_is_harmless_or_refused(killed: Path, tmp_path: Path) -> None:
    """Wherever one bit of the log is damaged, what is opened has every acknowledged event."""
    draw = random.Random(7)  # noqa: S311 - places, not secrets
    log = Path(f"{killed}-wal").read_bytes()
    refused = 0
    for turn in range(20):
        damaged = bytearray(log)
        damaged[draw.randrange(len(log))] ^= 1 << draw.randrange(8)
        path = tmp_path / f"{turn}.db"
        for ending in ("", "-heads"):
            shutil.copy(f"{killed}{ending}", f"{path}{ending}")
        Path(f"{path}-wal").write_bytes(damaged)
        try:
            assert asyncio.run(end_of(path)) == 2 * COMMITS
        except JournalDamaged:
            refused += 1
    assert refused > 10


def test_a_journal_left_by_a_killed_process_opens(killed: Path) -> None:
    """With its log intact, or with a torn frame of a commit that nobody was told of, nothing is missed."""
    wal = Path(f"{killed}-wal")
    wal.write_bytes(wal.read_bytes() + b"\xa5" * 2000)
    assert asyncio.run(end_of(killed)) == 2 * COMMITS


def test_a_commit_that_was_not_recorded_beside_the_file_is_not_reported_as_lost(killed: Path) -> None:
    """A process that dies between its commit and the record leaves a database that is ahead."""
    number = COMMITS % SLOTS
    with heads_path(killed).open("r+b") as file:
        file.seek(number * SLOT_BYTES)
        file.write(bytes(SLOT_BYTES))
    assert asyncio.run(end_of(killed)) == 2 * COMMITS


def test_an_older_database_beside_a_newer_commit_log_is_refused(tmp_path: Path) -> None:
    """A restored backup lacks what was committed after it was made."""
    path = tmp_path / "runs.db"
    asyncio.run(make_journal(path, 10))
    shutil.copy(path, tmp_path / "backup.db")
    asyncio.run(_append_more(path, 10))
    shutil.copy(tmp_path / "backup.db", path)
    error = asyncio.run(refusal(JournalDamaged, end_of(path)))
    assert [(each.stream, each.seq) for each in error.loss.streams] == [("ses_1", 11)]


def test_a_longer_commit_log_of_an_earlier_version_is_read_and_emptied_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Records behind the slots that this version writes count as well, and go when the log is emptied."""
    path = tmp_path / "runs.db"
    asyncio.run(make_journal(path, 10))
    shutil.copy(path, tmp_path / "backup.db")
    with monkeypatch.context() as earlier:
        earlier.setattr(heads, "SLOTS", 256)
        for number in range(10, 150):
            asyncio.run(_append_more(path, number))
    shutil.copy(tmp_path / "backup.db", path)
    error = asyncio.run(refusal(JournalDamaged, end_of(path)))
    assert [(each.stream, each.seq) for each in error.loss.streams] == [("ses_1", 150)]
    path.unlink()
    asyncio.run(make_journal(path, 3))
    assert asyncio.run(end_of(path)) == 3


async def _append_more(path: Path, expected: int) -> None:
    async with open_journal(at(path)) as journal:
        await journal.append(unit("ses_1", expected, b"more"))


def test_a_backup_without_a_commit_log_opens_and_gets_one(tmp_path: Path) -> None:
    """Journals of older versions, and copies of the file alone, have no commit log."""
    asyncio.run(make_journal(tmp_path / "runs.db", 10))
    copy = tmp_path / "copy.db"
    shutil.copy(tmp_path / "runs.db", copy)
    assert asyncio.run(end_of(copy)) == 10
    asyncio.run(_append_more(copy, 10))
    assert read_records(copy)


def test_a_journal_and_its_commit_log_can_be_moved_and_linked(tmp_path: Path) -> None:
    """The commit log belongs to the file, by whatever name that is opened."""
    path, moved, link = tmp_path / "runs.db", tmp_path / "moved.db", tmp_path / "link.db"
    asyncio.run(make_journal(path, 10))
    path.rename(moved)
    heads_path(path).rename(heads_path(moved))
    link.symlink_to(moved)
    asyncio.run(_append_more(link, 10))
    assert asyncio.run(end_of(moved)) == 11
    assert not Path(f"{link}-heads").exists()


def test_a_new_journal_in_the_place_of_a_removed_one_opens(tmp_path: Path) -> None:
    """Whoever removes the file begins again; the commit log that stayed is of the old one."""
    path = tmp_path / "runs.db"
    asyncio.run(make_journal(path, 10))
    path.unlink()
    asyncio.run(make_journal(path, 3))
    assert asyncio.run(end_of(path)) == 3


def test_a_database_that_was_emptied_is_refused(tmp_path: Path) -> None:
    """A file of no bytes looks to SQLite like a new database."""
    path = tmp_path / "runs.db"
    asyncio.run(make_journal(path, 10))
    path.write_bytes(b"")
    asyncio.run(refusal(JournalDamaged, end_of(path)))


def test_a_damaged_commit_log_is_not_believed(killed: Path) -> None:
    """Bits that are damaged in the commit log itself do not accuse the database."""
    draw = random.Random(3)  # noqa: S311 - places, not secrets
    place = heads_path(killed)
    content = place.read_bytes()
    for _ in range(200):
        damaged = bytearray(content)
        damaged[SLOT_BYTES + draw.randrange(SLOT_BYTES * COMMITS)] ^= 1 << draw.randrange(8)
        place.write_bytes(damaged)
        assert find_loss(read_records(killed), COMMITS) is None
    place.write_bytes(content[:100])
    assert asyncio.run(end_of(killed)) == 2 * COMMITS


def _link(place: Path) -> None:
    victim = place.with_name("victim")
    victim.write_bytes(b"precious " * 1000)
    place.symlink_to(victim)


def _link_to_device(place: Path) -> None:
    place.symlink_to("/dev/zero")


def _make_large(place: Path) -> None:
    place.touch()
    os.truncate(place, 800_000_000)


def _fill_with_text(place: Path) -> None:
    place.write_bytes(b"precious " * 1000)


@pytest.mark.parametrize(
    "make", [_link, _link_to_device, _make_large, _fill_with_text, os.mkfifo, Path.mkdir]
)
def test_only_a_commit_log_is_read_or_written_as_one(killed: Path, make: Callable[[Path], None]) -> None:
    """Links, pipes, folders, devices and other files in its place are refused, and are not changed."""
    place = heads_path(killed)
    place.unlink()
    make(place)
    before = place.read_bytes() if place.stat().st_size == 9000 else b""
    for attempt in (end_of(killed), _append_one(killed)):
        error = asyncio.run(refusal(JournalUnavailable, attempt))
        assert error.code == "journal_unavailable"
        assert "runs.db-heads is not its commit log" in error.message
        assert "runs.db-heads" in str(error.remedy)
    with pytest.raises(JournalUnavailable):  # also where only the writer looks
        Heads(killed).demand_written()
    assert before == (place.read_bytes() if before else b"")


async def _append_one(path: Path) -> None:
    async with open_journal(at(path)) as journal:
        await journal.append(unit("ses_2", 0, b"a"))


def test_commit_numbers_wrap_around(tmp_path: Path) -> None:
    """The number has 32 bits; a busy journal goes on behind the last one, and a loss is still a loss."""
    path = tmp_path / "runs.db"
    asyncio.run(make_journal(path, 1))
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute(f"PRAGMA user_version = {2**31 - 3}")
    heads_path(path).unlink()

    async def write() -> None:
        async with open_journal(at(path)) as journal:
            for turn in range(8):
                await journal.append(unit("ses_1", 1 + turn, b"x"))
                if turn == 5:
                    with closing(sqlite3.connect(path, isolation_level=None)) as database:
                        database.execute("VACUUM INTO ?", (str(tmp_path / "backup.db"),))

    asyncio.run(write())
    assert asyncio.run(end_of(path)) == 9
    shutil.copy(tmp_path / "backup.db", path)
    error = asyncio.run(refusal(JournalDamaged, end_of(path)))
    assert error.loss.commits == 2


def test_processes_that_share_a_journal_record_every_commit(tmp_path: Path) -> None:
    """Two processes append and reopen at the same time; neither is refused, and the last commit is recorded."""
    path = tmp_path / "runs.db"
    asyncio.run(make_journal(path, 1))

    async def share() -> None:
        workers = [Worker((at(path), f"ses_{n}x"), {}, append_and_reopen) for n in range(2)]
        assert [await worker.ended() for worker in workers] == [(0, {}), (0, {})]

    asyncio.run(share())
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        assert database.execute("PRAGMA user_version").fetchone() == (read_records(path)[0].number,)


@contextmanager
def _umask(mask: int) -> Generator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


def test_those_who_may_write_the_database_may_write_its_commit_log(tmp_path: Path) -> None:
    """The commit log has the mode of the file, whatever the mask of the process that makes it."""
    path = tmp_path / "runs.db"
    asyncio.run(make_journal(path, 1))
    heads_path(path).unlink()
    path.chmod(0o664)
    with _umask(0o077):
        asyncio.run(_append_more(path, 1))
    assert heads_path(path).stat().st_mode & 0o777 == 0o664


def test_a_process_killed_at_any_instant_leaves_a_journal_that_opens(tmp_path: Path) -> None:
    """Kills at many instants, in the middle of commits, are never called a loss."""
    path = tmp_path / "runs.db"

    async def kill(turn: int) -> None:
        worker = Worker((at(path), f"ses_{turn}"), {}, append_until_killed)
        told = [await worker.said() for _ in range(3 + turn)]
        worker.kill()
        await worker.ended()
        assert await end_of(path, f"ses_{turn}") >= int(told[-1])

    for turn in range(5):
        asyncio.run(kill(turn))
