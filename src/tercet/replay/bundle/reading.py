"""Opening a bundle: checked from the first byte to the last, and then read as a journal is.

Only the places of records are kept in memory; payloads are read on demand and checked again, since the file may have
changed meanwhile. Nothing is unpacked or written, and no code is loaded from it.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import BinaryIO, Literal, Self

from tercet.contracts.errors import LimitError, UsageError
from tercet.contracts.values.canonical import hash_bytes
from tercet.core import codec
from tercet.core.fold.apply import fold_all
from tercet.engine.rows import row_of
from tercet.journal.chain import START, ZERO, link
from tercet.journal.errors import BlobMissing, JournalClosed
from tercet.journal.protocol import (
    CheckpointKind,
    Position,
    SessionFilter,
    SessionRow,
    Stored,
    StoredCheckpoint,
)
from tercet.journal.read_only import ReadOnlyJournal
from tercet.packs.declared import read_declarations
from tercet.packs.pack import Pack
from tercet.replay.bundle.layout import Manifest, Record, Seal, decode_signature
from tercet.replay.bundle.scanning import Scan
from tercet.replay.bundle.signing import BundleDamaged, BundleForged, check_signature, demand_cryptography


class BundleJournal(ReadOnlyJournal):
    """The journal of the one run that a bundle holds, with what `Journal` promises of reading. It has no claims, and no
    keys of personal values."""

    read_only = "a bundle can only be read"
    read_only_remedy = "go on with the session in the journal that it was exported from"

    def __init__(self, bundle: Bundle) -> None:
        self._bundle = bundle
        self._read: dict[str, list[Stored]] = {}
        self._points: dict[str, list[StoredCheckpoint]] = {}
        self._closed = False

    @cached_property
    def _row(self) -> SessionRow:
        return row_of(fold_all(codec.decode(stored.data) for stored in self._bundle.events()))

    def _events(self, tenant: str, stream: str) -> list[Stored]:
        self._demand_open()
        if tenant != self._bundle.manifest.tenant:
            return []
        if stream not in self._read:
            self._read[stream] = list(self._bundle.events(stream))
        return self._read[stream]

    def _rows(self, tenant: str) -> list[SessionRow]:
        self._demand_open()
        return [self._row] if tenant == self._bundle.manifest.tenant else []

    def _demand_open(self) -> None:
        if self._closed:
            raise JournalClosed

    async def read(self, tenant: str, stream: str, *, after: int = 0, limit: int = 1000) -> list[Stored]:
        start = max(after, 0)
        return self._events(tenant, stream)[start : start + max(limit, 0)]

    async def head(self, tenant: str, stream: str) -> Position:
        events = self._events(tenant, stream)
        return Position(events[-1].seq, events[-1].chain) if events else START

    async def newest(self, tenant: str, stream: str, kind: CheckpointKind) -> StoredCheckpoint | None:
        """Return the checkpoint of kind `point` with the highest position; None for any other kind."""
        points = [each for each in self._of(tenant, stream) if each.kind == kind == "point"]
        return points[-1] if points else None

    async def checkpoints(
        self, tenant: str, stream: str, *, after: int = 0, limit: int = 100
    ) -> list[StoredCheckpoint]:
        found = self._of(tenant, stream)  # in order, so a page is not looked for in all of them
        first = bisect_right(found, after, key=_position)
        if limit <= 0 or first == len(found):
            return []
        last = found[min(first + limit, len(found)) - 1].seq
        return found[first : bisect_right(found, last, key=_position)]

    def _of(self, tenant: str, stream: str) -> list[StoredCheckpoint]:
        self._demand_open()
        if tenant != self._bundle.manifest.tenant:
            return []
        if stream not in self._points:
            self._points[stream] = list(self._bundle.checkpoints(stream))
        return self._points[stream]

    async def blob(self, tenant: str, digest: str) -> bytes:
        self._demand_open()
        if tenant != self._bundle.manifest.tenant:
            raise BlobMissing(tenant=tenant, digest=digest)
        return self._bundle.blob(digest)

    async def blob_digests(
        self, tenant: str, stream: str, *, after: str = "", limit: int = 1000
    ) -> list[str]:
        """Return the digests of the blobs that the session brought, in order."""
        self._demand_open()
        is_ours = (tenant, stream) == (self._bundle.manifest.tenant, self._bundle.manifest.session)
        found = (digest for digest in self._bundle.blobs if digest > after) if is_ours else ()
        return list(islice(found, max(limit, 0)))

    async def session(self, tenant: str, session_id: str) -> SessionRow | None:
        """Return the row of the session, derived from its events."""
        return next((row for row in self._rows(tenant) if row.session_id == session_id), None)

    async def sessions(
        self,
        tenant: str,
        *,
        status: str | None = None,
        limit: int = 50,
        before: str | None = None,
        skip: int = 0,
        where: SessionFilter | None = None,
    ) -> list[SessionRow]:
        rows = [] if before is not None else self._rows(tenant)
        wanted = where or SessionFilter(status=status)
        return [row for row in rows if wanted.admits(row)][skip : skip + max(limit, 0)]

    async def waiting(
        self, tenant: str, *, after: tuple[int, str] | None = None, limit: int = 100
    ) -> list[SessionRow]:
        return [
            row
            for row in self._rows(tenant)
            if row.waits_since is not None and (after is None or (row.waits_since, row.session_id) > after)
        ][: max(limit, 0)]

    async def session_ids(self, tenant: str, prefix: str, *, limit: int = 100) -> list[str]:
        found = (row.session_id for row in self._rows(tenant))
        return [name for name in found if name.startswith(prefix)][: max(limit, 0)]

    async def close(self) -> None:
        """Refuse everything from now on, and close the bundle."""
        self._closed = True
        self._bundle.close()


def _position(stored: StoredCheckpoint) -> int:
    return stored.seq


# --- reading ---


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
        """Yield the stored events of a stream; by default those of the session."""
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
        """Return the run as a read-only journal."""
        return BundleJournal(self)

    def pack(self, pack_hash: str | None = None) -> Pack | None:
        """Return a pack that the run was pinned to, by default the last, made of its declarations: its tools cannot be
        called. None if the bundle does not hold it."""
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


# --- verifying ---


Answer = Literal["intact", "damaged", "forged", "unsigned", "wrong_signer"]
"""`unsigned` and `wrong_signer` are reported if a certain key was required."""
_SIGNATURE_BYTES = 512
"""The last line of a signed bundle is shorter."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """The result of verifying a bundle."""

    answer: Answer
    manifest: Manifest | None = None
    seal: Seal | None = None
    damage: BundleDamaged | None = None


def verify_bundle(path: Path, key: str | None = None) -> Finding:
    """Look at every byte of a bundle; `key` is the public key that it should be signed with.

    Raises `UsageError` for a file that is not a bundle, and for a signed one where no signature can be checked.
    """
    with open_file(path) as file, refuse_unreadable(path):
        return verify_stream(file, str(path), key)


def verify_stream(file: BinaryIO, name: str, key: str | None = None) -> Finding:
    """Verify the bundle in an open file; `name` is its name in messages."""
    if _is_signed(file):
        demand_cryptography()
    scan = Scan(file, name)
    try:
        for _ in scan.records():
            pass
        manifest, seal = scan.result()
        check_signature(seal)
    except BundleForged as error:
        return Finding(answer="forged", damage=error)
    except BundleDamaged as error:
        return Finding(answer="damaged", damage=error)
    return Finding(answer=_answer(seal, key), manifest=manifest, seal=seal)


def _answer(seal: Seal, key: str | None) -> Answer:
    if key is None or seal.signer == key:
        return "intact"
    return "wrong_signer" if seal.signer else "unsigned"


def _is_signed(file: BinaryIO) -> bool:
    """Return whether the last line looks like a signature, asked before the long look."""
    end = file.seek(0, os.SEEK_END)
    file.seek(max(0, end - _SIGNATURE_BYTES))
    last = file.read(_SIGNATURE_BYTES).splitlines(keepends=True)[-1:]
    file.seek(0)
    return bool(last) and decode_signature(last[0]) is not None
