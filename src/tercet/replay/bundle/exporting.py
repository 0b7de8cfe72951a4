"""From a journal to a bundle.

The bytes depend on the run and on nothing else: not on the store, the machine or the time of day. So exporting a run that
is over gives the same file again. A run that is still going is exported as far as it had come.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Collection, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any, BinaryIO
from uuid import uuid4

import msgspec

from tercet.contracts.errors import UsageError
from tercet.contracts.shape import TYPE_VERSION
from tercet.core import codec
from tercet.core import events as e
from tercet.core.messages import inbox_of
from tercet.core.state import State
from tercet.core.table import blobs_of
from tercet.engine.session_reader import load_state
from tercet.engine.streams.artifacts import rollback_of
from tercet.journal.chain import START as CHAIN_START
from tercet.journal.chain import follow, verify_chain
from tercet.journal.errors import BlobMissing, JournalCorrupt
from tercet.journal.protocol import Journal, Position, Stored
from tercet.packs.declared import write_declarations
from tercet.packs.pack import Pack
from tercet.replay.bundle.layout import (
    FIRST_LINE,
    MAX_LINE,
    START,
    Header,
    Kind,
    Manifest,
    PackEntry,
    Seal,
    StreamEntry,
    encode_header,
    encode_manifest,
    encode_signature,
    facts_of,
    signed_bytes,
)
from tercet.replay.bundle.signing import PrivateKey
from tercet.replay.recording import Recording, load


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
        """Add one record; `members` are the additional header fields of its kind."""
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


def demand_free(path: Path, *, is_forced: bool, other: str = "file") -> None:
    """Raise `UsageError` if a file may not be made under this name; `other` is what the caller can name instead."""
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
        raise _taken(path, other)


def _publish(beside: Path, path: Path) -> None:
    """Give a finished file its name, if it is still free: a link fails where something is, a rename would not."""
    try:
        os.link(beside, path)
    except FileExistsError:
        raise _taken(path) from None
    except OSError:  # a file system without links
        beside.replace(path)


def _taken(path: Path, other: str = "file") -> UsageError:
    return UsageError(
        f"{path} already exists",
        code="file_exists",
        remedy=f"name another {other}, or overwrite it with --force",
    )


# --- exporting ---


_PAGE = 100
"""How many events are in memory at a time."""


class PackContent(msgspec.Struct, frozen=True, kw_only=True):
    """A pack, and the files that it was loaded from."""

    pack: Pack
    files: Mapping[str, bytes] = msgspec.field(default_factory=dict[str, bytes])


class Exported(msgspec.Struct, frozen=True, kw_only=True):
    """A bundle that was made."""

    manifest: Manifest
    seal: Seal


async def export_run(
    journal: Journal,
    tenant: str,
    session: str,
    path: Path,
    *,
    packs: Sequence[PackContent] = (),
    signer: PrivateKey | None = None,
    is_forced: bool = False,
) -> Exported:
    """Export a run into a file.

    Raises `UsageError` for a session that is not there, a pack that the run was not pinned to, and a file that is there
    already; `JournalCorrupt` where the journal does not hold what was written: damage is not handed on.
    """
    given = {content.pack.hash: content.pack.ref for content in packs}
    manifest, named = await _survey(journal, tenant, session, given)
    with new_file(path, is_forced=is_forced) as file:
        writer = BundleWriter(file)
        writer.add("manifest", encode_manifest(manifest))
        await _add_streams(writer, journal, manifest)
        await _add_checkpoints(writer, journal, manifest)
        await _add_blobs(writer, journal, manifest, named)
        _add_packs(writer, packs)
        seal = writer.finish(signer)
    return Exported(manifest=manifest, seal=seal)


# --- what there is ---


async def _survey(
    journal: Journal, tenant: str, session: str, packs: Mapping[str, str]
) -> tuple[Manifest, set[str]]:
    """Return the manifest of the bundle, and the blobs that events name; `packs` are the given ones by hash."""
    state = await load_state(journal, tenant, session)
    pins: dict[str, str] = {}
    named: set[str] = set()
    position, has_lanes = CHAIN_START, False
    async for page in _pages(journal, tenant, session, state.position):
        position = follow(position, page, stream=session)
        for stored in page:
            event = codec.decode(stored.data)
            named.update(blobs_of(event))
            has_lanes |= isinstance(event, e.Intent) and event.lane_calls > 0
            if isinstance(event, e.SessionStarted | e.SessionMigrated):
                pins.pop(event.pack_hash, None)  # the last one is the one that it is pinned to now
                pins[event.pack_hash] = event.pack
    if position.seq < state.position:
        raise JournalCorrupt(f"event {position.seq + 1} of stream {session}", "it is missing")
    _demand_pinned(session, pins, packs)
    streams = list(await _streams(journal, tenant, session, position))
    if has_lanes:
        recording = await load(journal, tenant, session)
        for lane in _with_inner(recording.lanes):
            end = await verify_chain(journal, tenant, lane.session)
            streams += await _streams(journal, tenant, lane.session, end)
            named |= lane.blobs.keys()
    return _manifest(state, pins, packs.keys(), tuple(streams)), named


def _with_inner(lanes: Sequence[Recording]) -> Iterator[Recording]:
    """Yield the lanes of a run, and those that they have started."""
    for lane in lanes:
        yield lane
        yield from _with_inner(lane.lanes)


def _demand_pinned(session: str, pins: Mapping[str, str], packs: Mapping[str, str]) -> None:
    """Raise `UsageError` for a pack that a session was never pinned to; both map hashes to names with versions."""
    if strange := packs.keys() - pins.keys():
        wanted = ", ".join(f"{ref} with hash {found[:20]}…" for found, ref in pins.items())
        given = min(strange)
        raise UsageError(
            f"session {session} was pinned to {wanted}, and the folder given has {packs[given]} with hash {given[:20]}…",
            code="pack_version_mismatch",
            remedy="name the folder of the pack as it was when the run was started, or export it without its pack",
        )


async def _streams(
    journal: Journal, tenant: str, session: str, position: Position
) -> tuple[StreamEntry, ...]:
    """Return the stream of the session, and those with messages and actions of people about it."""
    found = [StreamEntry(name=session, events=position.seq, chain=position.chain.hex())]
    for name in (inbox_of(session), rollback_of(session)):
        end = await verify_chain(journal, tenant, name)
        if end.seq:
            found.append(StreamEntry(name=name, events=end.seq, chain=end.chain.hex()))
    return tuple(found)


def _manifest(
    state: State, pins: Mapping[str, str], given: Collection[str], streams: tuple[StreamEntry, ...]
) -> Manifest:
    return Manifest(
        **facts_of(state),
        packs=tuple(PackEntry(ref=ref, hash=found, included=found in given) for found, ref in pins.items()),
        streams=streams,
        versions={
            "tercet": version("tercet"),
            "events": codec.VERSION.decode(),
            "types": str(TYPE_VERSION),
        },
    )


# --- and its bytes ---


async def _pages(journal: Journal, tenant: str, stream: str, end: int) -> AsyncIterator[list[Stored]]:
    seq = 0
    while seq < end and (page := await journal.read(tenant, stream, after=seq, limit=min(_PAGE, end - seq))):
        yield page
        seq = page[-1].seq


async def _add_streams(writer: BundleWriter, journal: Journal, manifest: Manifest) -> None:
    for entry in manifest.streams:
        async for page in _pages(journal, manifest.tenant, entry.name, entry.events):
            for stored in page:
                writer.add("event", stored.data, stream=entry.name, seq=stored.seq)


async def _add_checkpoints(writer: BundleWriter, journal: Journal, manifest: Manifest) -> None:
    for entry in manifest.streams:
        seq = 0
        while page := await journal.checkpoints(manifest.tenant, entry.name, after=seq, limit=_PAGE):
            for stored in page:
                if stored.seq <= entry.events:
                    writer.add(
                        "checkpoint", stored.data, stream=entry.name, seq=stored.seq, checkpoint=stored.kind
                    )
            seq = page[-1].seq


async def _add_blobs(writer: BundleWriter, journal: Journal, manifest: Manifest, named: set[str]) -> None:
    """Add the blobs that the session stored and that its events name: an old journal does not record who stored a blob."""
    found, last = named - {""}, ""
    while page := await journal.blob_digests(manifest.tenant, manifest.session, after=last):
        found.update(page)
        last = page[-1]
    # The declarations of a pack lie under its hash, unless the session is older than that.
    kept = {entry.hash for entry in manifest.packs} - found
    for digest in sorted(found | kept):
        with suppress(BlobMissing) if digest in kept else nullcontext():
            writer.add("blob", await journal.blob(manifest.tenant, digest))


def _add_packs(writer: BundleWriter, packs: Sequence[PackContent]) -> None:
    by_hash = {content.pack.hash: content for content in packs}
    for _, content in sorted(by_hash.items()):
        writer.add("pack", write_declarations(content.pack))
    for found, content in sorted(by_hash.items()):
        for path, data in sorted(content.files.items()):
            writer.add("file", data, pack=found.removeprefix("sha256:"), path=path)
