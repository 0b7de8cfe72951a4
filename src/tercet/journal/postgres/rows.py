"""The rows that a batch stores, gathered by table and turned into the arrays of one statement."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import msgspec

from tercet.journal.protocol import Append
from tercet.journal.stream import StreamState

_WIDTHS = {"streams": 6, "events": 4, "checkpoints": 5, "blobs": 4, "claims": 5, "sessions": 13}
"""The tables in the order of the statement's parameters, and how many columns each one takes."""


class Move(msgspec.Struct):
    """How far a batch takes one stream: from a state that the server must still have, to a new one."""

    stream_id: int
    before: StreamState
    after: StreamState


class Rows:
    """What several units add. Each row names its stream, so that a stream that does not move adds nothing."""

    def __init__(self) -> None:
        self.moves: dict[int, Move] = {}
        self._events: list[tuple[Any, ...]] = []
        self._checkpoints: list[tuple[Any, ...]] = []
        self._blobs: dict[tuple[int, str, bytes], bytes] = {}
        self._claims: dict[tuple[str, str], tuple[Any, ...]] = {}
        self._sessions: dict[int, tuple[Any, ...]] = {}

    def claimed_by(self, tenant: str, key: str) -> int | None:
        """The number of the stream that claims a key in this batch."""
        row = self._claims.get((tenant, key))
        return None if row is None else row[0]

    def add(
        self,
        unit: Append,
        *,
        stream_id: int,
        before: StreamState,
        after: StreamState,
        links: Sequence[bytes],
    ) -> None:
        """Add a unit whose parts are all new; a unit behind another of the same stream continues its move."""
        move = self.moves.setdefault(stream_id, Move(stream_id, before, after))
        move.after = after
        for offset, (data, chain) in enumerate(zip(unit.events, links, strict=True), start=1):
            self._events.append((stream_id, before.seq + offset, data, chain))
        for new in dict.fromkeys(unit.checkpoints):
            digest = hashlib.sha256(new.data).digest()
            self._checkpoints.append((stream_id, new.kind, new.seq, digest, new.data))
        for data in unit.blobs:
            self._blobs[stream_id, unit.tenant, hashlib.sha256(data).digest()] = data
        for key in unit.claims:
            self._claims.setdefault((unit.tenant, key), (stream_id, unit.tenant, key, unit.stream, after.seq))
        if unit.row is not None:
            self._sessions[stream_id] = (stream_id, *msgspec.structs.astuple(unit.row))

    def parameters(self) -> list[list[Any]]:
        """The arrays of the statement, in an order of rows that keeps two writers from waiting for each other."""
        tables: dict[str, list[tuple[Any, ...]]] = {
            "streams": [_moved(self.moves[number]) for number in sorted(self.moves)],
            "events": self._events,
            "checkpoints": self._checkpoints,
            "blobs": [(*key, self._blobs[key]) for key in sorted(self._blobs, key=lambda key: key[1:])],
            "claims": [self._claims[key] for key in sorted(self._claims)],
            "sessions": [self._sessions[number] for number in sorted(self._sessions)],
        }
        arrays: list[list[Any]] = []
        for name, width in _WIDTHS.items():
            rows = tables[name]
            arrays += (
                [list(column) for column in zip(*rows, strict=True)] if rows else [[] for _ in range(width)]
            )
        return arrays


def _moved(move: Move) -> tuple[Any, ...]:
    before, after = move.before, move.after
    return (move.stream_id, before.seq, before.chain, before.epoch, after.seq, after.chain)
