"""A run as it was recorded: everything that replay may know, loaded before anything is judged."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from tercet.core import events as e
from tercet.core.messages import inbox_of
from tercet.core.table import blobs_of
from tercet.engine.session_reader import History, load_history
from tercet.journal.errors import BlobMissing
from tercet.journal.protocol import Journal, StoredCheckpoint
from tercet.journal.side_stream import read_all
from tercet.replay.bundle.manifest import Manifest


class Recording(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The stored bytes of one run. It can be handed to another process."""

    tenant: str
    session: str
    events: tuple[bytes, ...]
    checkpoints: tuple[StoredCheckpoint, ...] = ()
    blobs: dict[str, bytes] = {}
    """What the events name by its digest and replay reads: the pack, the evidence, large results."""
    manifest: Manifest | None = None
    """What the bundle says about the run, where it comes from one: replay compares it with the events."""
    inbox: dict[int, bytes] = {}
    """What people said to the session, by its position in the inbox, as far as it is kept."""
    lanes: tuple[Recording, ...] = ()
    """The lanes that it started, as far as they are kept."""


async def load(journal: Journal, tenant: str, session: str) -> Recording:
    """A run out of a journal, its chain checked; raises `UsageError` if there is no such session."""
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
    """Yield the digests that events name, and whether replay is impossible without them: an installed pack may take the
    place of the one that a session has kept, a question may be taken as recorded, and a record is made again."""
    for event in events:
        if isinstance(event, e.SessionStarted | e.SessionMigrated):
            yield event.pack_hash, False
        for digest in blobs_of(event) if not isinstance(event, e.SessionEnded) else ():
            yield digest, not isinstance(event, e.ModelAsked)
