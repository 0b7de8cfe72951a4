"""The rows that a batch stores, gathered by table and turned into the arrays of one statement."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import msgspec

from tercet.journal.postgres.statement import compose
from tercet.journal.protocol import Append
from tercet.journal.stream import StreamState


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
        self._tenants: dict[str, bool] = {}
        self._rings: list[tuple[int, str]] = []

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
        self._tenants[unit.tenant] = unit.ring or self._tenants.get(unit.tenant, False)
        if unit.ring:
            self._rings.append((stream_id, unit.tenant))
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
            self._claims.setdefault((unit.tenant, key), (stream_id, unit.tenant, key, after.seq))
        if unit.row is not None:
            self._sessions[stream_id] = (stream_id, *msgspec.structs.astuple(unit.row))

    def statement(self) -> tuple[str, list[list[Any]]]:
        """The statement and its arrays, in an order of rows that keeps two writers from waiting for each other."""
        tables: dict[str, Sequence[tuple[Any, ...]]] = {
            "store_events": self._events,
            "store_checkpoints": self._checkpoints,
            "store_blobs": [(*key, self._blobs[key]) for key in sorted(self._blobs, key=lambda key: key[1:])],
            "store_claims": [self._claims[key] for key in sorted(self._claims)],
            "store_sessions": [self._sessions[number] for number in sorted(self._sessions)],
            "store_rings": self._rings,
        }
        parts = tuple(name for name, rows in tables.items() if rows)
        moved = [_moved(self.moves[number]) for number in sorted(self.moves)]
        arrays = _columns(sorted(self._tenants.items())) + _columns(moved)
        for name in parts:
            arrays += _columns(tables[name])
        return compose(parts), arrays


def _columns(rows: Sequence[tuple[Any, ...]]) -> list[list[Any]]:
    return [list(column) for column in zip(*rows, strict=True)]


def _moved(move: Move) -> tuple[Any, ...]:
    before, after = move.before, move.after
    return (move.stream_id, before.seq, before.chain, before.epoch, after.seq, after.chain)
