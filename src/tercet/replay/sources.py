"""Where recorded runs come from: the sessions of a journal, and bundles."""

from __future__ import annotations

from pathlib import Path

import msgspec

from tercet.contracts.errors import UsageError
from tercet.core import codec
from tercet.core import events as e
from tercet.core.codec import CodecError
from tercet.engine.session_reader import list_rows
from tercet.journal.errors import BlobMissing, JournalCorrupt
from tercet.journal.protocol import Journal
from tercet.packs.declared import write_declarations
from tercet.replay.bundle.errors import BundleDamaged
from tercet.replay.bundle.reading import open_bundle
from tercet.replay.recording import Recording, load

_RUN = "run_"
"""What the id of a run begins with."""


async def load_bundle(path: Path) -> Recording:
    """The run in a bundle, every byte of which was checked. Its pack is taken as data, and no code comes from it."""
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
    """A run by the id of its session, or by its own, for which every session may have to be looked at."""
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
