"""Opening a bundle: checked from the first byte to the last, and then read as a journal is.

Only the places of records are kept in memory; payloads are read on demand and checked again, since the file may have
changed meanwhile. Nothing is unpacked or written, and no code is loaded from it.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO, Self

from tercet.contracts.errors import LimitError, UsageError
from tercet.contracts.values.canonical import hash_bytes
from tercet.journal.chain import ZERO, link
from tercet.journal.errors import BlobMissing
from tercet.journal.protocol import Stored, StoredCheckpoint
from tercet.packs.declared import read_declarations
from tercet.packs.pack import Pack
from tercet.replay.bundle.errors import BundleDamaged
from tercet.replay.bundle.journal import BundleJournal
from tercet.replay.bundle.layout import Record
from tercet.replay.bundle.scanning import Scan
from tercet.replay.bundle.signing import check_signature

MOST_RECORDS = 2_000_000
"""Of more, the places alone would fill the memory."""
MOST_BYTES = 2**30
"""A larger payload is not taken into memory."""


def open_bundle(path: str | Path) -> Bundle:
    """Open the bundle in a file after checking every byte; close it, or use it in a `with`.

    Raises `UsageError` for a file that is not a bundle, `BundleDamaged` that names the first damaged record, and `BundleForged` for
    a signature that does not hold.
    """
    file = open_file(Path(path))
    try:
        with refuse_unreadable(path):
            return Bundle(file, str(path))
    except BaseException:
        file.close()
        raise


def open_file(path: Path) -> BinaryIO:
    """Return the file, opened; raises `UsageError` if it cannot be."""
    if path.is_dir():
        raise UsageError(
            f"{path} is a folder",
            code="bundle_not_found",
            remedy="name the bundle in it: tercet export makes one of a run",
        )
    if not path.is_file():
        raise UsageError(
            f"there is no file {path}",
            code="bundle_not_found",
            remedy="tercet export makes a bundle of a run",
        )
    with refuse_unreadable(path):
        return path.open("rb")


@contextmanager
def refuse_unreadable(path: str | Path) -> Generator[None]:
    """Raise `UsageError` where a file cannot be opened, or fails while it is read."""
    try:
        yield
    except OSError as error:
        raise UsageError(
            f"cannot read {path}: {error.strerror}", code="unreadable", remedy="check its permissions"
        ) from error


class Bundle:
    """A run in a file: its events, checkpoints, blobs and packs."""

    def __init__(self, file: BinaryIO, name: str) -> None:
        self._file = file
        self._events: dict[str, list[Record]] = {}
        self._checkpoints: list[Record] = []
        self._blobs: dict[str, Record] = {}
        self._packs: dict[str, Record] = {}
        self._files: dict[tuple[str, str], Record] = {}
        scan = Scan(file, name)
        for count, record in enumerate(scan.records(), start=1):
            if count > MOST_RECORDS:
                raise LimitError(
                    "bundle_records", count, MOST_RECORDS, remedy="verify-bundle has no such limit"
                )
            self._note(record)
        self.manifest, self.seal = scan.result()
        check_signature(self.seal)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    @property
    def streams(self) -> tuple[str, ...]:
        """The streams that it holds events of; the session's comes first."""
        return tuple(entry.name for entry in self.manifest.streams)

    def events(self, stream: str | None = None) -> Iterator[Stored]:
        """Yield the events of a stream as they were stored; by default those of the session."""
        chain = ZERO
        for record in self._events.get(stream or self.manifest.session, ()):
            data = self._payload(record)
            chain = link(chain, data)
            yield Stored(record.header.seq or 0, data, chain)

    def checkpoints(self, stream: str | None = None) -> Iterator[StoredCheckpoint]:
        """Yield the checkpoints of a stream, in order; by default those of the session."""
        for record in self._checkpoints:
            header = record.header
            if header.stream != (stream or self.manifest.session):
                continue
            data = self._payload(record)
            yield StoredCheckpoint(header.seq or 0, header.checkpoint or "point", hash_bytes(data), data)

    @property
    def blobs(self) -> tuple[str, ...]:
        """The digests of the blobs that it holds."""
        return tuple(self._blobs)

    def blob(self, digest: str) -> bytes:
        """Return the bytes with a digest; raises `BlobMissing`."""
        record = self._blobs.get(digest)
        if record is None:
            raise BlobMissing(tenant=self.manifest.tenant, digest=digest)
        return self._payload(record)

    def files(self, pack_hash: str) -> dict[str, str]:
        """The files that a pack was loaded from, by name, each with the digest of its bytes."""
        return {
            path: f"sha256:{record.header.sha256}"
            for (found, path), record in self._files.items()
            if f"sha256:{found}" == pack_hash
        }

    def read_file(self, pack_hash: str, path: str) -> bytes:
        """Return the bytes of a file of a pack; raises `UsageError` if the bundle has none of this name."""
        record = self._files.get((pack_hash.removeprefix("sha256:"), path))
        if record is None:
            raise UsageError(
                f"the bundle has no file {path} of this pack", code="unknown_file", remedy="see its files()"
            )
        return self._payload(record)

    def journal(self) -> BundleJournal:
        """The run as a journal that can only be read."""
        return BundleJournal(self)

    def pack(self, pack_hash: str | None = None) -> Pack | None:
        """A pack that the run was pinned to, by default the last, made of its declarations: its tools cannot be called.

        None if the bundle does not hold it.
        """
        packs = self.manifest.packs
        record = self._packs.get(pack_hash or (packs[-1].hash if packs else ""))
        return None if record is None else read_declarations(self._payload(record))

    def _note(self, record: Record) -> None:
        header = record.header
        match header.kind:
            case "event":
                self._events.setdefault(header.stream or "", []).append(record)
            case "checkpoint":
                self._checkpoints.append(record)
            case "blob":
                self._blobs[f"sha256:{header.sha256}"] = record
            case "pack":
                self._packs[f"sha256:{header.sha256}"] = record
            case "file":
                self._files[header.pack or "", header.path or ""] = record
            case "manifest" | "end":
                pass

    def _payload(self, record: Record) -> bytes:
        header = record.header
        if header.size > MOST_BYTES:
            raise LimitError("bundle_payload", header.size, MOST_BYTES)
        self._file.seek(record.offset)
        data = self._file.read(header.size)
        if sha256(data).hexdigest() != header.sha256:
            raise BundleDamaged(
                record=header.n, name=header.name, damage="changed", reason="the file was changed meanwhile"
            )
        return data
