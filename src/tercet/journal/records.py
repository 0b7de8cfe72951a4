"""The records of the write-ahead log: frozen, tagged, and tolerant of fields that a newer version adds."""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec


class Intent(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="INTENT"):
    """An action is about to happen."""

    action_id: str
    tool: str
    input: dict[str, Any]
    ts: str


class Complete(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="COMPLETE"):
    """An action happened, with this result."""

    action_id: str
    result: Any
    ts: str


class Abort(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="ABORT"):
    """An action did not happen, or failed."""

    action_id: str
    error: str
    ts: str


WalRecord: TypeAlias = Intent | Complete | Abort


def encode(record: WalRecord) -> bytes:
    """A record as JSON."""
    return msgspec.json.encode(record)


def decode(data: bytes) -> WalRecord:
    """The record that JSON bytes hold."""
    return msgspec.json.decode(data, type=WalRecord)
