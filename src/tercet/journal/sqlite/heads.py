"""The commit log beside a journal's file: it shows when durable commits are missing from the database.

SQLite drops every frame of a write-ahead log behind the first one that is damaged or cut off, and says nothing. So
every commit raises a number inside the database (`PRAGMA user_version`, part of the same transaction), and after the
commit, before it is acknowledged, the number and the streams that moved are written to a file `-heads`. A database
whose number is lower than the highest one in that file has lost acknowledged commits.

The order is what keeps this free of false alarms: a process that dies between the commit and the record leaves a
database that is ahead of the file, which is allowed. Records are written without waiting for the disk: they survive
the death of a process, and a power cut can only lose them, which leaves the database ahead again.

The file is a ring of `SLOTS` records of `SLOT_BYTES` each. A commit writes the slot `number % SLOTS` with one `pwrite`,
so processes that share a journal need no lock. A record that is damaged itself does not count.

Only a regular file of at most 256 slots is read or written, never one behind a symbolic link, and only if it is empty or
holds at least one empty or readable slot: anything else under this name was not written by a journal.
"""

from __future__ import annotations

import errno
import os
import stat
import struct
from collections.abc import Iterable, Mapping
from contextlib import closing, suppress
from hashlib import sha256
from pathlib import Path

import msgspec

from tercet.database.sqlite import connect_reader, reading_address
from tercet.journal.errors import JournalDamaged, JournalUnavailable, Loss, LostStream

SLOTS = 128
"""About as many commits as one run has in the write-ahead log before that is written back."""
SLOT_BYTES = 1024
_MOST_BYTES = 256 * SLOT_BYTES
"""Earlier versions had 256 slots. Their files are read and written like the others."""
_HEADER = struct.Struct(">8sIH")
"""Checksum over the rest, commit number, number of bytes that follow."""
_CHECKSUM = 8
_ENVELOPE = 20
"""The most bytes that a record, or one stream in it, takes besides its names."""
_MODULUS = 2**32
_CAREFULLY = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
"""Never open what a symbolic link leads to, and never wait for the other end of a pipe."""


class Record(msgspec.Struct, frozen=True, kw_only=True, array_like=True, gc=False):
    """One commit: its number and the streams that it moved, each with its new end."""

    number: int
    streams: tuple[LostStream, ...]
    is_complete: bool
    """Whether all streams of the commit fitted into the slot."""


def heads_path(path: Path) -> Path:
    """Return where the commit log of a database lies: beside the real file, as SQLite's own log does."""
    return Path(f"{os.path.realpath(path)}-heads")


def is_ahead(number: int, other: int) -> bool:
    """Return whether a commit number is later than another one; numbers have 32 bits and wrap around."""
    return 0 < (number - other) % _MODULUS < _MODULUS // 2


def signed(number: int) -> int:
    """Return a commit number as `PRAGMA user_version` takes it."""
    return number - _MODULUS if number >= _MODULUS // 2 else number


def read_records(path: Path) -> list[Record]:
    """Return the readable records in the commit log of a database, the latest first; none if there is no log."""
    try:
        file = os.open(heads_path(path), os.O_RDONLY | _CAREFULLY)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise _unavailable(path, error) from error
    try:
        slots = _read_slots(path, file)
    except OSError as error:
        raise _unavailable(path, error) from error
    finally:
        os.close(file)
    found = [record for slot in slots if (record := _decode(slot)) is not None]
    if not found:
        return []
    latest = found[0].number
    for record in found:
        latest = record.number if is_ahead(record.number, latest) else latest
    return sorted(found, key=lambda record: (latest - record.number) % _MODULUS)


def find_loss(records: Iterable[Record], number: int) -> Loss | None:
    """Return what a database with this commit number lacks of these records; None if it lacks nothing.

    The records must be read before the number: what is committed between the two reads is not lost.
    """
    lost = [record for record in records if is_ahead(record.number, number % _MODULUS)]
    if not lost:
        return None
    commits = (lost[0].number - number) % _MODULUS
    streams: dict[tuple[str, str], LostStream] = {}
    for record in lost:  # the latest first
        for stream in record.streams:
            streams.setdefault((stream.tenant, stream.stream), stream)
    is_complete = len(lost) == commits and all(record.is_complete for record in lost)
    return Loss(commits=commits, streams=tuple(streams.values()), is_complete=is_complete)


def read_loss(path: Path, *, patience_s: float, address: str = "") -> Loss | None:
    """Return the durable commits that a database lacks; None if it has all that its commit log names.

    The database is opened for reading only: closing a writing connection would write back and remove the damaged log.
    """
    records = read_records(path)
    if not records or not path.exists():
        return None
    with closing(connect_reader(address or reading_address(path), patience_s=patience_s)) as connection:
        (number,) = connection.execute("PRAGMA user_version").fetchone()
    return find_loss(records, number)


def demand_whole(path: Path, *, patience_s: float, address: str = "") -> None:
    """Raise `JournalDamaged` for a database that lacks durable commits."""
    loss = read_loss(path, patience_s=patience_s, address=address)
    if loss is not None:
        raise JournalDamaged(str(path), loss)


class Heads:
    """The commit log of a journal that is written to. The file is opened, or made, before the first commit."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: int | None = None
        self._unwritten: tuple[int, bytes] | None = None

    def demand_written(self) -> None:
        """Raise `JournalUnavailable` while commits cannot be recorded, the last one among them."""
        try:
            self._write()
        except OSError as error:
            raise _unavailable(self._path, error) from error

    def write(self, number: int, moved: Mapping[tuple[str, str], int]) -> None:
        """Record a commit. One that cannot be written is kept, and `demand_written` refuses the next commit."""
        self._unwritten = (number % SLOTS * SLOT_BYTES, _encode(number % _MODULUS, moved))
        with suppress(OSError):
            self._write()

    def clear(self) -> None:
        """Forget every record: the database is accepted as it is now."""
        self._unwritten = (0, bytes(_MOST_BYTES))
        self.demand_written()

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            os.close(self._file)

    def _write(self) -> None:
        if self._file is None:
            self._file = _open(self._path)
        if self._unwritten is not None:
            offset, slot = self._unwritten
            os.pwrite(self._file, slot, offset)
            self._unwritten = None


def _open(path: Path) -> int:
    """Open the file. A new one gets its room at once, so that a full disk cannot stop a later record, and the mode
    and the owner of the database."""
    place = heads_path(path)
    file = os.open(place, os.O_RDWR | os.O_CREAT | _CAREFULLY, 0o600)
    try:
        _read_slots(path, file)
        if os.fstat(file).st_size < SLOTS * SLOT_BYTES:
            owner = path.stat()
            with suppress(PermissionError):  # only root may give a file away
                os.fchmod(file, owner.st_mode & 0o777)
                os.fchown(file, owner.st_uid, owner.st_gid)
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file, 0, SLOTS * SLOT_BYTES)
            else:  # macOS
                os.ftruncate(file, SLOTS * SLOT_BYTES)
    except BaseException:
        os.close(file)
        raise
    return file


def _read_slots(path: Path, file: int) -> list[bytes]:
    """Return the slots of an open file. Raises `JournalUnavailable` for one that is not a commit log."""
    status = os.fstat(file)
    if not stat.S_ISREG(status.st_mode):
        raise _not_a_log(path, "it is not a regular file")
    if status.st_size > _MOST_BYTES:
        raise _not_a_log(path, f"it is larger than {_MOST_BYTES:,} bytes")
    content = os.pread(file, _MOST_BYTES, 0)
    slots = [content[start : start + SLOT_BYTES] for start in range(0, len(content), SLOT_BYTES)]
    if slots and not any(_decode(slot) or not slot.strip(b"\0") for slot in slots):
        raise _not_a_log(path, "it holds something else")
    return slots


def _encode(number: int, moved: Mapping[tuple[str, str], int]) -> bytes:
    """Return a record as the bytes of its slot, with as many streams as fit."""
    streams: list[LostStream] = []
    room = SLOT_BYTES - _HEADER.size - _ENVELOPE
    for (tenant, stream), seq in moved.items():
        room -= len(tenant.encode()) + len(stream.encode()) + _ENVELOPE
        if room < 0:
            break
        streams.append(LostStream(tenant=tenant, stream=stream, seq=seq))
    record = Record(number=number, streams=tuple(streams), is_complete=len(streams) == len(moved))
    data = msgspec.msgpack.encode(record)
    rest = _HEADER.pack(b"", number, len(data))[_CHECKSUM:] + data
    return (sha256(rest).digest()[:_CHECKSUM] + rest).ljust(SLOT_BYTES, b"\0")


def _decode(slot: bytes) -> Record | None:
    """Return the record in a slot; None for an empty or damaged one."""
    if len(slot) < _HEADER.size:
        return None
    checksum, _, size = _HEADER.unpack_from(slot)
    used = slot[: _HEADER.size + size]
    if sha256(used[_CHECKSUM:]).digest()[:_CHECKSUM] != checksum:
        return None
    try:
        return msgspec.msgpack.decode(used[_HEADER.size :], type=Record)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def _unavailable(path: Path, error: OSError) -> JournalUnavailable:
    if error.errno == errno.ELOOP:
        return _not_a_log(path, "it is a symbolic link")
    if error.errno in (errno.EISDIR, errno.ENXIO):
        return _not_a_log(path, "it is not a regular file")
    return JournalUnavailable(
        str(path),
        f"its commit log {heads_path(path).name} cannot be used: {error.strerror or error}",
        remedy="give the user of this process the right to write it and its folder, and make room on the disk",
    )


def _not_a_log(path: Path, reason: str) -> JournalUnavailable:
    name = heads_path(path).name
    return JournalUnavailable(
        str(path),
        f"{name} is not its commit log: {reason}; it was not changed",
        remedy=f"put the real {name} back, from where it was moved or from a copy; without it a new one is made, "
        "and commits lost before that cannot be noticed",
    )
