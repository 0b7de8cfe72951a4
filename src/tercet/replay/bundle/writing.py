"""Writing a bundle: record after record, each chained to the one before, and the end."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any, BinaryIO
from uuid import uuid4

from tercet.contracts.errors import UsageError
from tercet.replay.bundle.layout import (
    FIRST_LINE,
    MAX_LINE,
    START,
    Header,
    Kind,
    Seal,
    encode_header,
    encode_signature,
    signed_bytes,
)
from tercet.replay.bundle.signing import PrivateKey


class BundleWriter:
    """Puts records into a file."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._whole = sha256()
        self._size = 0
        self._count = 0
        self._previous = START
        self._put(FIRST_LINE)

    def add(self, kind: Kind, payload: bytes, **members: Any) -> None:
        """One more record; `members` are those that the header of its kind has beside the usual ones."""
        header = self._header(kind, sha256(payload).hexdigest(), len(payload), members)
        self._previous, line = encode_header(header)
        if len(line) > MAX_LINE:
            raise UsageError(
                f"{header.name} has too long a name for a bundle",
                code="name_too_long",
                remedy="shorten the names of the pack's files",
            )
        self._put(line)
        self._put(payload)
        self._put(b"\n")

    def finish(self, signer: PrivateKey | None = None) -> Seal:
        """Write the end, and the signature if there is a key."""
        key = signer.key if signer else ""
        size, whole = self._size, self._whole.hexdigest()
        header = self._header("end", whole, size, {"signer": key})
        link, line = encode_header(header)
        self._file.write(line)
        proof = b""
        if signer is not None:
            proof = signer.sign(signed_bytes(link, key))
            self._file.write(b"%b %b\n" % (proof.hex().encode(), encode_signature(key)))
        return Seal(hash=link, records=header.n, size=size, sha256=whole, signer=key, proof=proof)

    def _header(self, kind: Kind, digest: str, size: int, members: dict[str, Any]) -> Header:
        self._count += 1
        return Header(kind=kind, n=self._count, previous=self._previous, sha256=digest, size=size, **members)

    def _put(self, data: bytes) -> None:
        self._file.write(data)
        self._whole.update(data)
        self._size += len(data)


@contextmanager
def new_file(path: Path, *, is_forced: bool) -> Generator[BinaryIO]:
    """A file that appears under its name only once it is whole and on the disk; on an error nothing is left.

    Raises `UsageError` if something has that name already, unless `is_forced`, and where it cannot be written.
    """
    demand_free(path, is_forced=is_forced)
    try:
        with _replacing(path, is_forced=is_forced) as file:
            yield file
    except ConnectionError:  # of a journal on a server, and of no file
        raise
    except OSError as error:
        raise UsageError(
            f"cannot write {path}: {error.strerror or error}",
            code="unwritable",
            remedy="make room, or name a file in a folder that you may write to",
        ) from error


@contextmanager
def _replacing(path: Path, *, is_forced: bool) -> Generator[BinaryIO]:
    beside = path.with_name(f".{path.name}.{uuid4().hex[:8]}.part")
    try:
        with beside.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if is_forced:
            beside.replace(path)
        else:
            _publish(beside, path)
    finally:
        beside.unlink(missing_ok=True)


def demand_free(path: Path, *, is_forced: bool) -> None:
    """Raise `UsageError` if a file may not be made under this name."""
    if path.is_dir():
        raise UsageError(f"{path} is a folder", code="not_a_file", remedy="name the file that is to be made")
    if path.exists() and not path.is_file():
        # With enough rights this would replace a device that others need.
        raise UsageError(
            f"{path} is a device or a pipe, not a file",
            code="not_a_file",
            remedy="name the file that is to be made",
        )
    if not path.parent.is_dir():
        raise UsageError(
            f"there is no folder {path.parent}", code="missing_folder", remedy="make it, or name another"
        )
    if not is_forced and os.path.lexists(path):
        raise _taken(path)


def _publish(beside: Path, path: Path) -> None:
    """Give a finished file its name, if it is still free: a link fails where something is, a rename would not."""
    try:
        os.link(beside, path)
    except FileExistsError:
        raise _taken(path) from None
    except OSError:  # a file system without links
        beside.replace(path)


def _taken(path: Path) -> UsageError:
    return UsageError(
        f"{path} is there already",
        code="file_exists",
        remedy="name another file, or overwrite it with --force",
    )
