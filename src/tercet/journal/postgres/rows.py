"""The rows that a batch stores, gathered by table and turned into the arrays of one statement.

The driver looks at every element of every array twice over, so a value that the server can find out is not sent: a row
names its stream by number, and the tenant and the name come from there. Most batches add to few tables: a part of the
statement that is left out is neither sent nor planned nor run.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from hashlib import sha256
from typing import Any

import msgspec

from tercet.database.schema import read_schema
from tercet.journal.append_rows import is_inside, pack_events
from tercet.journal.errors import JOURNAL
from tercet.journal.protocol import Append, SessionRow
from tercet.journal.stream import StreamState

SCHEMA = read_schema("tercet.journal.postgres", JOURNAL)
QUERIES = SCHEMA.queries
_NOTHING_MOVED: list[list[Any]] = [[], [], [], [], [], []]
_PARAMETER = re.compile(r"\$(\d+)")


class Known(msgspec.Struct, frozen=True, gc=False):
    """A stream's number and state, as the server last had it. A stream that begins with a batch has a number below 0."""

    id: int
    state: StreamState

    @property
    def is_new(self) -> bool:
        """Whether the server has not given the stream its number yet."""
        return self.id < 0


class Rows:
    """What several units add. Each row names its stream, so that a stream that does not move adds nothing."""

    def __init__(self) -> None:
        self._moves: dict[int, tuple[StreamState, StreamState]] = {}
        self._begun: dict[int, tuple[str, str]] = {}
        self._events: list[tuple[Any, ...]] = []
        self._checkpoints: list[tuple[Any, ...]] = []
        self._blobs: dict[tuple[str, bytes, int], bytes] = {}
        self._claims: dict[tuple[str, str], tuple[int, str, int]] = {}
        self._sessions: dict[int, SessionRow] = {}
        self._tenants: dict[str, bool] = {}
        self._notified: list[tuple[int, str]] = []
        self._reminders: dict[tuple[str, str], tuple[int, str, int | None]] = {}

    def claimed_by(self, tenant: str, key: str) -> int | None:
        """Return the number of the stream that claims a key in this batch."""
        row = self._claims.get((tenant, key))
        return None if row is None else row[0]

    def add(self, unit: Append, *, known: Known, after: StreamState, links: Sequence[bytes]) -> None:
        """Add a unit whose parts are all new; a unit behind another of the same stream continues its move."""
        number, before, tenant = known.id, known.state, unit.tenant
        if known.is_new:
            self._begun[number] = (tenant, unit.stream)
        self._tenants[tenant] = unit.notify or self._tenants.get(tenant, False)
        if unit.notify:
            self._notified.append((number, tenant))
        begun = self._moves.get(number)
        self._moves[number] = (begun[0] if begun else before, after)
        point = b""
        for new in dict.fromkeys(unit.checkpoints):
            digest = sha256(new.data).digest()
            if is_inside(new, after.seq, unit.events):
                point = digest + new.data
            else:
                self._checkpoints.append((number, new.kind, new.seq, digest, new.data))
        if links:
            self._events.append((number, after.seq, *pack_events(unit.events, links), point))
        for data in unit.blobs:
            self._blobs[tenant, sha256(data).digest(), number] = data
        for key in unit.claims:
            self._claims.setdefault((tenant, key), (number, key, after.seq))
        if unit.row is not None:
            self._sessions[number] = unit.row
        for name, due_at in unit.reminders:
            self._reminders[tenant, name] = (number, name, due_at)

    def statement(self) -> tuple[str, list[list[Any]]]:
        """Return the statement and its arrays, in an order of rows that keeps two writers from waiting for each other."""
        # Streams that begin by name, since that is what two writers can contend for.
        begun = sorted((*names, number) for number, names in self._begun.items())
        tables: dict[str, Sequence[tuple[Any, ...]]] = {
            "store_streams": [
                (number, *names, *msgspec.structs.astuple(self._moves[number][1])) for *names, number in begun
            ],
            "store_events": self._events,
            "store_checkpoints": self._checkpoints,
            "store_blobs": [(key[2], key[1], self._blobs[key]) for key in sorted(self._blobs)],
            "store_claims": [self._claims[key] for key in sorted(self._claims)],
            "store_sessions": [_session(number, self._sessions[number]) for number in sorted(self._sessions)],
            "store_reminders": [self._reminders[key] for key in sorted(self._reminders)],
            "store_rings": self._notified,
        }
        advanced = sorted(self._moves.keys() - self._begun.keys())
        moved = [_move_row(number, *self._moves[number]) for number in advanced]
        parts = tuple(name for name, rows in tables.items() if rows)
        arrays = _columns(sorted(self._tenants.items())) + (_columns(moved) or _NOTHING_MOVED)
        for name in parts:
            arrays += _columns(tables[name])
        return _compose(parts), arrays


@cache
def _compose(parts: tuple[str, ...]) -> str:
    """Return one statement out of `store`, these parts and the answer, its parameters numbered through."""
    text, count = "", 0
    moved = () if "store_streams" in parts else ("moved",)
    for name in ("store", *moved, *parts):
        text += _PARAMETER.sub(lambda match, before=count: f"${before + int(match[1])}", QUERIES[name])
        count += max((int(number) for number in _PARAMETER.findall(QUERIES[name])), default=0)
    return f"{text}\n{QUERIES['answer_ringing' if 'store_rings' in parts else 'answer']}"


def _columns(rows: Sequence[tuple[Any, ...]]) -> list[list[Any]]:
    return [list(column) for column in zip(*rows, strict=True)]


def _move_row(number: int, before: StreamState, after: StreamState) -> tuple[Any, ...]:
    return (number, before.seq, before.chain, before.epoch, after.seq, after.chain)


def _session(number: int, row: SessionRow) -> tuple[Any, ...]:
    return (number, *msgspec.structs.astuple(row)[2:])
