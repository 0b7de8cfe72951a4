"""A recorded run: everything that a replay reads, loaded before anything is judged."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from tercet.contracts.errors import UsageError
from tercet.core import codec
from tercet.core import events as e
from tercet.core.codec import CodecError
from tercet.core.messages import inbox_of
from tercet.core.table import blobs_of
from tercet.engine.personal.sealing import list_erased
from tercet.engine.session_reader import History, list_rows, load_history
from tercet.journal.errors import BlobMissing, JournalCorrupt
from tercet.journal.protocol import Journal, StoredCheckpoint
from tercet.journal.side_stream import read_all
from tercet.packs.declared import write_declarations
from tercet.replay.bundle.layout import Manifest
from tercet.replay.bundle.reading import open_bundle
from tercet.replay.bundle.signing import BundleDamaged


class Recording(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The stored bytes of one run. It can be sent to another process."""

    tenant: str
    session: str
    events: tuple[bytes, ...]
    checkpoints: tuple[StoredCheckpoint, ...] = ()
    blobs: dict[str, bytes] = {}
    """The blobs that events name and replay reads: the pack, the evidence, large results."""
    manifest: Manifest | None = None
    """The manifest of the bundle that it comes from, if any: replay compares it with the events."""
    inbox: dict[int, bytes] = {}
    """The messages to the session by their position in the inbox, as far as they are stored."""
    lanes: tuple[Recording, ...] = ()
    """The lanes that it started, as far as they are stored."""
    erased: tuple[str, ...] = ()
    """The personal values that were erased, by event and field."""


async def load(journal: Journal, tenant: str, session: str) -> Recording:
    """Return a run from a journal, its chain verified; raises `UsageError` if there is no such session."""
    history = await load_history(journal, tenant, session, has_checkpoints=True)
    recording = await _load_own(journal, tenant, session, history)
    found = [name for name in lanes_of(history.events) if name != session]
    if not found:
        return recording
    kept = [name for name in found if (await journal.head(tenant, name)).seq]
    lanes = [await load(journal, tenant, name) for name in kept]
    return msgspec.structs.replace(recording, lanes=tuple(lanes))


def lanes_of(events: Iterable[e.Event]) -> list[str]:
    """Return the sessions of the lanes that a run has started, each once."""
    return list(dict.fromkeys(each.lane for each in events if isinstance(each, e.Complete) and each.lane))


async def _load_own(journal: Journal, tenant: str, session: str, history: History) -> Recording:
    return Recording(
        tenant=tenant,
        session=session,
        events=tuple(each.data for each in history.stored),
        checkpoints=history.checkpoints,
        blobs=await _blobs(journal, tenant, history.events),
        inbox={each.seq: each.data for each in await read_all(journal, tenant, inbox_of(session))},
        erased=await list_erased(journal, tenant, [each.data for each in history.stored]),
    )


async def _blobs(journal: Journal, tenant: str, events: Iterable[e.Event]) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for digest, is_demanded in _named(events):
        if not digest or digest in found:
            continue
        try:
            found[digest] = await journal.blob(tenant, digest)
        except BlobMissing:
            if is_demanded:
                raise
    return found


def _named(events: Iterable[e.Event]) -> Iterator[tuple[str, bool]]:
    """Yield the digests that events name, and whether replay needs their content: an installed pack may replace the
    stored one, a question may be taken from its event, and a record is made again."""
    for event in events:
        if isinstance(event, e.SessionStarted | e.SessionMigrated):
            yield event.pack_hash, False
        for digest in blobs_of(event) if not isinstance(event, e.SessionEnded) else ():
            yield digest, not isinstance(event, e.ModelAsked)


# --- bundles and ids ---


_RUN = "run_"
"""The prefix of a run's id."""


async def load_bundle(path: Path) -> Recording:
    """Return the run in a bundle after verifying every byte. Its pack is data, and no code comes from it."""
    with open_bundle(path) as bundle:
        manifest = bundle.manifest
        try:
            recording = await load(bundle.journal(), manifest.tenant, manifest.session)
        except BundleDamaged:
            raise
        except (JournalCorrupt, CodecError, BlobMissing) as error:
            raise BundleDamaged(
                record=0, name="the events", damage="inconsistent", reason=error.message
            ) from error
        packs = {entry.hash: bundle.pack(entry.hash) for entry in manifest.packs if entry.included}
        kept = {found: write_declarations(pack) for found, pack in packs.items() if pack is not None}
        return msgspec.structs.replace(recording, blobs={**kept, **recording.blobs}, manifest=manifest)


async def load_run(journal: Journal, tenant: str, name: str) -> Recording:
    """Return a run by the id of its session, or by its own id, which may read every session."""
    if not name.startswith(_RUN):
        return await load(journal, tenant, name)
    async for row in list_rows(journal, tenant):
        first = await journal.read(tenant, row.session_id, limit=1)
        event = codec.decode(first[0].data) if first else None
        if isinstance(event, e.SessionStarted) and event.run == name:
            return await load(journal, tenant, row.session_id)
    raise UsageError(
        f"there is no run {name}",
        code="unknown_session",
        remedy="tercet sessions list shows the sessions that are there",
    )
