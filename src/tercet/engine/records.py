"""Decision records: kept without their transcript, which the events of the session hold already.

A record's hash is over all of it. What is stored is the rest; whoever reads a record gets it whole, put together from
the two and checked against the hash. So the results of a long run are not stored twice.
"""

from __future__ import annotations

from typing import Any

import msgspec

from tercet.contracts.canonical import canonical, hash_bytes
from tercet.contracts.errors import ReplayError
from tercet.core import codec
from tercet.core.state import State
from tercet.core.transcript import TRANSCRIPT, transcript
from tercet.journal.protocol import Journal
from tercet.journal.side_stream import read_all


async def read_record(journal: Journal, tenant: str, state: State) -> dict[str, Any]:
    """The record of a session that is over; raises `ReplayError` if it does not come to its hash."""
    kept: dict[str, Any] = msgspec.json.decode(await journal.blob(tenant, state.kept))
    events = [codec.decode(stored.data) for stored in await read_all(journal, tenant, state.start.session)]
    entries = [entry.model_dump(mode="json", exclude_none=True) for entry in transcript(events, {})]
    data = canonical({**kept, TRANSCRIPT: entries})
    if hash_bytes(data) != state.record:
        raise ReplayError(
            recorded=f"a record with hash {state.record[:20]}…",
            expected=f"one with hash {hash_bytes(data)[:20]}…",
            check="the journal was changed, or this version reads its events differently",
        )
    return msgspec.json.decode(data)
