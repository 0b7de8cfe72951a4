"""One pass over a bundle: every byte is looked at, and the first record that is not what was written is named.

The pass keeps a line and a piece of a payload in memory, whatever the file holds: nothing in a bundle is compressed, and
a size that a header names is believed only as far as there are bytes. A header is checked before its payload is read.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from hashlib import sha256
from typing import Any, BinaryIO, NoReturn

from tercet.contracts.errors import InternalError, UsageError
from tercet.journal.chain import ZERO
from tercet.replay.bundle.layout import (
    FIRST_LINE,
    MAX_BYTES,
    MAX_LINE,
    ORDER,
    START,
    Header,
    Manifest,
    Record,
    Seal,
    decode_header,
    decode_manifest,
    decode_signature,
)
from tercet.replay.bundle.signing import BundleDamaged, Damage

_EVENTS = ORDER.index("event")


class Consistency:
    """Follows the records of a bundle one by one."""

    def __init__(self) -> None:
        self.manifest: Manifest | None = None
        self._kind = -1
        self._place: tuple[Any, ...] = ()
        self._stream = 0
        """The index of the manifest's stream that is being read."""
        self._seq = 0
        self._chain = ZERO
        self._packs = 0
        """How many packs have been read."""
        self._hasher, self._is_hashing = sha256(), False

    def begin(self, header: Header) -> str:
        """Return the defect of a record at its position; empty if there is none. Its payload comes next."""
        rank = ORDER.index(header.kind)
        if (self._kind < 0) != (header.kind == "manifest") or rank < self._kind:
            return f"a record of kind {header.kind} is not allowed here"
        if rank != self._kind:
            self._kind, self._place = rank, ()
        if rank > _EVENTS and (wrong := self._finish_streams()):
            return wrong
        if header.kind == "manifest" and header.size > MAX_BYTES:
            return "the manifest is too long"
        if header.kind == "event":
            return self._begin_event(header)
        place = self._place_of(header)
        if self._place and place <= self._place:
            return "it is out of order"
        self._place = place
        return self._belongs(header)

    def update(self, data: bytes) -> None:
        """A part of the payload."""
        if self._is_hashing:
            self._hasher.update(data)

    def finish(self, header: Header, payload: bytes) -> str:
        """Return the defect of a record given its payload; only that of a manifest is passed."""
        if header.kind == "manifest":
            self.manifest = decode_manifest(payload)
            return _fault(self.manifest)
        if self._is_hashing:
            self._chain, self._is_hashing = self._hasher.digest(), False
        return ""

    def _begin_event(self, header: Header) -> str:
        streams = self.manifest.streams if self.manifest else ()
        while self._stream < len(streams) and self._seq == streams[self._stream].events:
            if wrong := self._next_stream():
                return wrong
        if self._stream == len(streams):
            return "the manifest names no more events"
        wanted = (streams[self._stream].name, self._seq + 1)
        if (header.stream, header.seq) != wanted:
            return f"event {wanted[1]} of {wanted[0]} is missing here"
        self._seq += 1
        self._hasher, self._is_hashing = sha256(self._chain), True
        return ""

    def _next_stream(self) -> str:
        """Close a stream: the chain over its events must be the one that the manifest names."""
        entry = self.manifest.streams[self._stream] if self.manifest else None
        if entry is None or entry.events != self._seq or entry.chain != self._chain.hex():
            name = entry.name if entry else "a stream"
            return f"the events of {name} are not those that the manifest names"
        self._stream, self._seq, self._chain = self._stream + 1, 0, ZERO
        return ""

    def _finish_streams(self) -> str:
        while self.manifest is not None and self._stream < len(self.manifest.streams):
            if wrong := self._next_stream():
                return wrong
        return ""

    def _belongs(self, header: Header) -> str:
        manifest = self.manifest
        if manifest is None:
            return ""
        packs = {entry.hash.removeprefix("sha256:") for entry in manifest.packs if entry.included}
        self._packs += header.kind == "pack"
        if header.kind in ("file", "end") and self._packs < len(packs):
            return "a pack is missing that the manifest names as included"
        if header.kind == "checkpoint" and all(header.stream != entry.name for entry in manifest.streams):
            return f"the bundle is of {manifest.session}"
        if header.kind == "pack" and header.sha256 not in packs:
            return "the run was not pinned to this pack"
        if header.kind == "file" and header.pack not in packs:
            return "it is of a pack that the run was not pinned to"
        return ""

    def _place_of(self, header: Header) -> tuple[Any, ...]:
        """The sort key of the records of a kind."""
        if header.kind != "checkpoint" or self.manifest is None:
            return _place(header)
        names = [entry.name for entry in self.manifest.streams]
        stream = names.index(header.stream) if header.stream in names else len(names)
        return (stream, *_place(header))


def _fault(manifest: Manifest | None) -> str:
    if manifest is None:
        return "it is not a manifest that this version reads"
    names = [entry.name for entry in manifest.streams]
    is_sound = names[:1] == [manifest.session] and len(set(names)) == len(names) and bool(manifest.packs)
    return "" if is_sound else "it names no session, or no pack, or a stream twice"


def _place(header: Header) -> tuple[Any, ...]:
    """The sort key of the records of a kind."""
    match header.kind:
        case "checkpoint":
            return (header.seq, header.checkpoint)
        case "file":
            return (header.pack, header.path)
        case _:
            return (header.sha256,)


# --- scanning ---


PIECE = 64 * 1024


class Scan:
    """A pass over a file that should be a bundle."""

    def __init__(self, file: BinaryIO, name: str) -> None:
        self._file = file
        self._name = name
        self._whole = sha256()
        self._facts = Consistency()
        self._before: Record | None = None
        self._at = 0
        """How many bytes have been checked."""
        self._seal: Seal | None = None

    def result(self) -> tuple[Manifest, Seal]:
        """Return the first and the last record, once all were read."""
        manifest = self._facts.manifest
        if manifest is None or self._seal is None:
            raise InternalError("a bundle was asked about before it was read to its end")
        return manifest, self._seal

    def records(self) -> Iterator[Record]:
        """Yield every record but the end. Raises `BundleDamaged`, or `UsageError` for a file that is not a bundle."""
        self._begin()
        while (record := self._next()).header.kind != "end":
            yield record
        self._finish(record)

    def _begin(self) -> None:
        first = self._file.read(len(FIRST_LINE))
        if first != FIRST_LINE:
            _refuse(self._name, first)
        self._take(first)

    def _take(self, data: bytes) -> None:
        self._whole.update(data)
        self._at += len(data)

    @property
    def _number(self) -> int:
        """The number of the record that comes next."""
        return self._before.header.n + 1 if self._before else 1

    @property
    def _previous(self) -> str:
        return self._before.link if self._before else START

    def _next(self) -> Record:
        start, line = self._at, self._file.readline(MAX_LINE)
        found = decode_header(line)
        if found is None or (found[1].n, found[1].previous) != (self._number, self._previous):
            raise Diagnosis(self._file, start, self._before).damage()
        link, header = found
        if wrong := self._facts.begin(header):
            raise _damaged(header, "inconsistent", wrong)
        record = Record(header, link, start + len(line))
        if header.kind != "end":
            self._take(line)
            self._read_payload(header)
            self._before = record
        return record

    def _read_payload(self, header: Header) -> None:
        found, kept, left = sha256(), b"", header.size
        while left:
            piece = self._file.read(min(left, PIECE))
            if not piece:
                raise _damaged(header, "changed", "the file ends within it")
            left -= len(piece)
            found.update(piece)
            self._take(piece)
            self._facts.update(piece)
            kept += piece if header.kind == "manifest" else b""
        ending = self._file.read(1)
        if found.hexdigest() != header.sha256 or ending != b"\n":
            raise _damaged(header, "changed", "its bytes have another hash than its header names")
        self._take(ending)
        if wrong := self._facts.finish(header, kept):
            raise _damaged(header, "inconsistent", wrong)

    def _finish(self, end: Record) -> None:
        header = end.header
        if (header.size, header.sha256) != (self._at, self._whole.hexdigest()):
            raise _damaged(header, "changed", "it names another hash over all bytes before it")
        proof = self._read_signature(header) if header.signer else b""
        if self._file.read(1):
            raise BundleDamaged(
                record=header.n + (2 if header.signer else 1),
                name="behind the end",
                damage="inserted",
                reason="there are bytes that belong to nothing",
            )
        self._seal = Seal(
            hash=end.link,
            records=header.n,
            size=header.size,
            sha256=header.sha256,
            signer=header.signer or "",
            proof=proof,
        )

    def _read_signature(self, end: Header) -> bytes:
        line = self._file.readline(MAX_LINE)
        found = decode_signature(line)
        if found is None or found[1] != end.signer:
            raise BundleDamaged(
                record=end.n + 1,
                name="the signature",
                damage="changed" if line else "removed",
                reason="its line was changed" if line else "the file ends before it",
            )
        return found[0]


def _damaged(header: Header, damage: Damage, reason: str) -> BundleDamaged:
    return BundleDamaged(record=header.n, name=header.name, damage=damage, reason=reason)


def _refuse(name: str, first: bytes) -> NoReturn:
    number = first[14:].strip()
    if first.startswith(FIRST_LINE[:14]) and number.isdigit() and number != FIRST_LINE[14:].strip():
        raise UsageError(
            f"{name} is a bundle of another format than this Tercet reads",
            code="newer_bundle",
            remedy="upgrade Tercet, or ask for a bundle of format 1",
        )
    raise UsageError(
        f"{name} is not a bundle: its first line is not {FIRST_LINE.decode().strip()!r}",
        code="not_a_bundle",
        remedy="name a file that tercet export has made",
    )


class Diagnosis:
    """Finds out what happened where another record was expected: looks ahead once, and trusts nothing.

    The record that should come names the last good one as the one before it. If that one comes later, what stands here
    was inserted, or moved to the front; if it does not come, it was removed, or changed.
    """

    def __init__(self, file: BinaryIO, start: int, before: Record | None) -> None:
        self._file = file
        self._start = start
        self._before = before
        self._number = before.header.n + 1 if before else 1
        self._previous = before.link if before else START

    def damage(self) -> BundleDamaged:
        """Return the damage, as far as it can be found out."""
        self._file.seek(self._start)
        line = self._file.readline(MAX_LINE)
        found = decode_header(line)
        if not line:
            return self._say("removed", "the file ends before it")
        if found is None and decode_signature(line) is not None:
            return self._say("removed", "the signature is in its place")
        if found is None:
            whole = line.endswith(b"\n") or len(line) == MAX_LINE
            return self._say(
                "changed",
                "its line was changed" if whole else "the file ends within its line",
            )
        return self._misplaced(found[1])

    def _misplaced(self, stranger: Header) -> BundleDamaged:
        has_successor, is_there_again = self._look_ahead(stranger)
        if has_successor and (is_there_again or stranger.n <= self._number):
            return self._say("inserted", "it does not follow the record before it", stranger.name)
        if has_successor:
            return self._say("reordered", f"it is record {stranger.n}, and comes too early", stranger.name)
        if stranger.n > self._number:
            return self._say("removed", f"record {stranger.n} ({stranger.name}) is in its place")
        if self._before is not None and stranger.previous == self._before.header.previous:
            return self._say_before("inserted", "the record after it has the same place")
        if self._before is not None and stranger.n == self._number:
            return self._say_before("changed", "the record after it follows another one")
        return self._say("changed", f"record {stranger.n} ({stranger.name}) is in its place")

    def _look_ahead(self, stranger: Header) -> tuple[bool, bool]:
        """Return whether the expected record comes later, and whether the number of the unexpected one does."""
        has_successor = is_there_again = False
        self._file.seek(stranger.size + 1 if stranger.kind != "end" else 0, os.SEEK_CUR)
        while (found := decode_header(self._file.readline(MAX_LINE))) is not None:
            header = found[1]
            has_successor |= header.previous == self._previous
            is_there_again |= header.n == stranger.n
            if header.kind == "end":
                break
            self._file.seek(header.size + 1, os.SEEK_CUR)
        return has_successor, is_there_again

    def _say(self, damage: Damage, reason: str, name: str = "") -> BundleDamaged:
        shown = name or (f"the one behind {self._before.header.name}" if self._before else "the first")
        return BundleDamaged(record=self._number, name=shown, damage=damage, reason=reason)

    def _say_before(self, damage: Damage, reason: str) -> BundleDamaged:
        name = self._before.header.name if self._before else ""
        return BundleDamaged(record=self._number - 1, name=name, damage=damage, reason=reason)
