"""From a journal to a bundle.

The bytes depend on the run and on nothing else: not on the store, the machine or the time of day. So exporting a run that
is over gives the same file again. A run that is still going is exported as far as it had come.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from importlib.metadata import version
from pathlib import Path

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
from tercet.journal.chain import START, follow, verify_chain
from tercet.journal.errors import BlobMissing, JournalCorrupt
from tercet.journal.protocol import Journal, Position, Stored
from tercet.packs.declared import write_declarations
from tercet.packs.pack import Pack
from tercet.replay.bundle.layout import Seal
from tercet.replay.bundle.manifest import Manifest, PackEntry, StreamEntry, encode_manifest, facts_of
from tercet.replay.bundle.signing import PrivateKey
from tercet.replay.bundle.writing import BundleWriter, new_file
from tercet.replay.recording import Recording, load

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
    """Put a run into a file.

    Raises `UsageError` for a session that is not there, a pack that the run was not pinned to, and a file that is there
    already; `JournalCorrupt` where the journal does not hold what was written: damage is not handed on.
    """
    manifest, named = await _survey(journal, tenant, session, {content.pack.hash for content in packs})
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


async def _survey(journal: Journal, tenant: str, session: str, given: set[str]) -> tuple[Manifest, set[str]]:
    """Return the manifest of the bundle, and the blobs that events name."""
    state = await load_state(journal, tenant, session)
    pins: dict[str, str] = {}
    named: set[str] = set()
    position, has_lanes = START, False
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
    _demand_pinned(session, pins, given)
    streams = list(await _streams(journal, tenant, session, position))
    if has_lanes:
        recording = await load(journal, tenant, session)
        for lane in _with_inner(recording.lanes):
            end = await verify_chain(journal, tenant, lane.session)
            streams += await _streams(journal, tenant, lane.session, end)
            named |= lane.blobs.keys()
    return _manifest(state, pins, given, tuple(streams)), named


def _with_inner(lanes: Sequence[Recording]) -> Iterator[Recording]:
    """Yield the lanes of a run, and those that they have started."""
    for lane in lanes:
        yield lane
        yield from _with_inner(lane.lanes)


def _demand_pinned(session: str, pins: Mapping[str, str], given: set[str]) -> None:
    if strange := given - pins.keys():
        wanted = ", ".join(f"{ref} with {found[:20]}…" for found, ref in pins.items())
        raise UsageError(
            f"session {session} was not pinned to a pack with hash {min(strange)[:20]}…, but to {wanted}",
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
    state: State, pins: Mapping[str, str], given: set[str], streams: tuple[StreamEntry, ...]
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
    """Return the blobs that the session stored and that its events name: an old journal does not record who stored a blob."""
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
