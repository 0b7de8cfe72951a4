"""The manifest of a bundle: its first record."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from tercet.contracts.errors import UsageError
from tercet.contracts.values.canonical import canonical
from tercet.core.state import State

MAX_BYTES = 2**20
"""A larger manifest is refused."""


class StreamEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A stream of the journal: how many events the bundle has of it, and its chain at the last of them."""

    name: str
    events: int
    chain: str


class PackEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A pack that the run was pinned to, and whether the bundle holds it."""

    ref: str
    hash: str
    included: bool


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """Which run it is, how far it was, and what the bundle holds of it."""

    format: Literal[1] = 1
    tenant: str
    session: str
    run: str
    status: str
    is_over: bool
    """Whether nothing more could happen when it was exported."""
    intent: str
    decision: str
    started_at: int
    updated_at: int
    """Milliseconds since 1970: of the first and the last event."""
    snapshot: str = ""
    library: str = ""
    planner: str = ""
    models: tuple[str, ...] = ()
    plan_hash: str = ""
    record: str = ""
    """The hash of the decision record, where there is one."""
    packs: tuple[PackEntry, ...] = ()
    streams: tuple[StreamEntry, ...] = ()
    versions: dict[str, str] = {}
    """Of Tercet, of the events, of the public types."""


def facts_of(state: State) -> dict[str, Any]:
    """Return the fields of a manifest that follow from the events of a run."""
    start = state.start
    return {
        "tenant": start.tenant,
        "session": start.session,
        "run": start.run,
        "status": state.status,
        "is_over": state.is_over,
        "intent": start.request["intent"],
        "decision": start.decision,
        "started_at": start.at,
        "updated_at": state.at,
        "snapshot": start.snapshot,
        "library": start.library,
        "planner": start.planner,
        "models": tuple(start.models),
        "plan_hash": state.plan_hash,
        "record": state.record,
    }


_decoder = msgspec.json.Decoder(Manifest)


def encode_manifest(manifest: Manifest) -> bytes:
    """Return a manifest as it is written in a bundle."""
    return canonical(msgspec.to_builtins(manifest))


def decode_manifest(data: bytes) -> Manifest | None:
    """Return the manifest that bytes hold; None if they hold none, or are not in the one way to write it."""
    try:
        manifest = _decoder.decode(data)
        is_written_so = canonical(msgspec.json.decode(data)) == data
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, UsageError):
        return None
    return manifest if is_written_so else None
