"""One commit: the acts of many callers, each accepted or refused on its own, in a single transaction.

Theory of operation. The writer holds SQLite's write lock from BEGIN IMMEDIATE to COMMIT, so what it reads in between
cannot change. For every act it knows the state of the stream (from a cache, or from one query for the whole batch),
asks the pure rules, and keeps the rows of accepted acts. Refused acts leave no rows. At the end each kind of row goes
out with one `executemany`. An act sees what the acts before it in the same batch did, through the cache. Forgetting a
stream is the exception: what was kept so far is written first, since it may be that stream's.

The cache, of streams and of bells, is true as long as nobody else wrote to the file, which `PRAGMA data_version` tells.
It is dropped when somebody did, when a transaction failed, and when it grows too large.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Sequence
from typing import TypeAlias

import msgspec

from tercet.journal import stream as rules
from tercet.journal.errors import CheckpointExists, ClaimHeld, JournalError
from tercet.journal.protocol import Append, Lease, Position, SessionRow
from tercet.journal.sqlite.connection import QUERIES
from tercet.journal.stream import NEW, Act, Forget, LeaseAct, StreamState

Outcome: TypeAlias = Position | Lease | JournalError

_FIND_STREAMS = QUERIES["find_streams"]
_FIND_CLAIMS = QUERIES["find_claims"]
_FIND_CHECKPOINT = QUERIES["find_checkpoint_hash"]
_ADD_STREAM = QUERIES["add_stream"]
_MOVE_STREAM = QUERIES["move_stream"]
_INSERTS = {
    name: QUERIES[name]
    for name in ("add_event", "add_checkpoint", "add_blob", "add_blob_use", "add_claim", "put_session")
}
_READ_BELL = QUERIES["read_bell"]
_PUT_BELL = QUERIES["put_bell"]
_FORGET = [query for name, query in QUERIES.items() if name.startswith("forget_")]
"""In the order of the file."""
_CACHE_LIMIT = 10_000


class _Known:
    """A stream's state and the number of its row, which a new stream does not have yet."""

    __slots__ = ("id", "state")

    def __init__(self, row_id: int | None, state: StreamState) -> None:
        self.id = row_id
        self.state = state


class Batcher:
    """Runs batches on the writing connection."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._streams: dict[tuple[str, str], _Known] = {}
        self._data_version = -1
        self._claims: dict[tuple[str, str], str] = {}
        self._rows: dict[str, list[tuple[object, ...]]] = {}
        self._changed: dict[int, _Known] = {}
        self._bells: dict[str, int] = {}
        self._rung: set[str] = set()

    def run(self, acts: Sequence[Act]) -> list[Outcome]:
        """Commit the acts that the rules accept. An error of SQLite's means that none of them was written."""
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            self._prepare(acts)
            outcomes = [self._attempt(act) for act in acts]
            self._write()
            self._connection.execute("COMMIT")
        except BaseException:
            self._streams.clear()
            self._bells.clear()
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise
        return self._told(acts, outcomes) if self._rung else outcomes

    def _told(self, acts: Sequence[Act], outcomes: list[Outcome]) -> list[Outcome]:
        """The outcomes, each position with the bell after the whole commit."""
        return [
            Position(outcome.seq, outcome.chain, self._bells[act.tenant])
            if isinstance(outcome, Position)
            else outcome
            for act, outcome in zip(acts, outcomes, strict=True)
        ]

    def _prepare(self, acts: Sequence[Act]) -> None:
        """Know every stream and every claim that these acts touch."""
        (version,) = self._connection.execute("PRAGMA data_version").fetchone()
        if version != self._data_version or len(self._streams) > _CACHE_LIMIT:
            self._streams.clear()
            self._bells.clear()
            self._data_version = version
        self._rows = {name: [] for name in _INSERTS}
        self._changed = {}
        self._rung = set()
        for tenant in {act.tenant for act in acts} - self._bells.keys():
            row = self._connection.execute(_READ_BELL, (tenant,)).fetchone()
            self._bells[tenant] = row[0] if row else 0
        missing = {(act.tenant, act.stream) for act in acts} - self._streams.keys()
        if missing:
            wanted = msgspec.json.encode(list(missing)).decode()
            for tenant, stream, row_id, *state in self._connection.execute(_FIND_STREAMS, (wanted,)):
                self._streams[tenant, stream] = _Known(row_id, StreamState(*state))
            for key in missing - self._streams.keys():
                self._streams[key] = _Known(None, NEW)
        keys = [(act.tenant, key) for act in acts if isinstance(act, Append) for key in act.claims]
        self._claims = {}
        if keys:
            wanted = msgspec.json.encode(keys).decode()
            for tenant, key, stream in self._connection.execute(_FIND_CLAIMS, (wanted,)):
                self._claims[tenant, key] = stream

    def _attempt(self, act: Act) -> Outcome:
        try:
            if isinstance(act, Append):
                return self._append(act)
            return self._forget(act) if isinstance(act, Forget) else self._lease(act)
        except JournalError as error:
            return error

    def _lease(self, act: LeaseAct) -> Lease:
        known = self._streams[act.tenant, act.stream]
        after, lease = rules.lease(known.state, act)
        if after is not known.state:
            self._change(act, known, after)
        return lease

    def _forget(self, act: Forget) -> Lease:
        key = (act.tenant, act.stream)
        known = self._streams[key]
        rules.check_held(known.state, act)
        self._write()
        for query in _FORGET:
            self._connection.execute(query, {"id": known.id, "tenant": act.tenant, "stream": act.stream})
        self._streams[key] = _Known(None, NEW)
        self._claims = {claim: holder for claim, holder in self._claims.items() if (claim[0], holder) != key}
        return act.lease

    def _append(self, unit: Append) -> Position:
        known = self._streams[unit.tenant, unit.stream]
        seq = known.state.seq
        after, links = rules.extend(known.state, unit)
        if unit.claims:
            self._check_claims(unit)
        checkpoints = self._added_checkpoints(known, unit) if unit.checkpoints else ()
        # From here on the unit is accepted.
        row_id = self._change(unit, known, after)
        rows = self._rows
        for data, chain in zip(unit.events, links, strict=True):
            seq += 1
            rows["add_event"].append((row_id, seq, data, chain))
        for checkpoint in checkpoints:
            rows["add_checkpoint"].append((row_id, *checkpoint))
        for data in unit.blobs:
            digest = hashlib.sha256(data).digest()
            rows["add_blob"].append((unit.tenant, digest, data))
            rows["add_blob_use"].append((unit.tenant, digest, row_id))
        for key in unit.claims:
            if (unit.tenant, key) not in self._claims:
                self._claims[unit.tenant, key] = unit.stream
                rows["add_claim"].append((unit.tenant, key, row_id, after.seq))
        if unit.row is not None:
            rows["put_session"].append(_session_values(unit.row))
        if unit.ring:
            self._bells[unit.tenant] += 1
            self._rung.add(unit.tenant)
        return Position(after.seq, after.chain, self._bells[unit.tenant])

    def _check_claims(self, unit: Append) -> None:
        for key in unit.claims:
            holder = self._claims.get((unit.tenant, key))
            if holder is not None and holder != unit.stream:
                raise ClaimHeld(key=key, holder=holder)

    def _added_checkpoints(self, known: _Known, unit: Append) -> list[tuple[str, int, bytes, bytes]]:
        """The checkpoints to insert. Only one at or before the old end can stand already."""
        added: dict[tuple[str, int], tuple[str, int, bytes, bytes]] = {}
        for new in unit.checkpoints:
            place = (new.kind, new.seq)
            digest = hashlib.sha256(new.data).digest()
            present = added[place][2] if place in added else self._stored_checkpoint(known, unit, *place)
            if present is None:
                added[place] = (new.kind, new.seq, digest, new.data)
            elif present != digest:
                raise CheckpointExists(stream=unit.stream, kind=new.kind, seq=new.seq)
        return list(added.values())

    def _stored_checkpoint(self, known: _Known, unit: Append, kind: str, seq: int) -> bytes | None:
        # One that an earlier unit of this batch adds is not seen here. The insert then fails, and so the writer
        # runs the units one by one.
        if seq > unit.expected or known.id is None:
            return None
        row = self._connection.execute(_FIND_CHECKPOINT, (known.id, kind, seq)).fetchone()
        return None if row is None else row[0]

    def _change(self, act: Act, known: _Known, state: StreamState) -> int:
        """Take over a stream's new state, to be written at the end; a stream's first change makes its row."""
        if known.id is None:
            row = (act.tenant, act.stream, *msgspec.structs.astuple(NEW))
            known.id = self._connection.execute(_ADD_STREAM, row).lastrowid
            assert known.id is not None  # noqa: S101 - for the type checker: an insert into a rowid table has one
        known.state = state
        self._changed[known.id] = known
        return known.id

    def _write(self) -> None:
        """Send the rows of this batch out, one statement a table."""
        moved = [(*msgspec.structs.astuple(known.state), row_id) for row_id, known in self._changed.items()]
        self._connection.executemany(_MOVE_STREAM, moved)
        for name, rows in self._rows.items():
            if rows:
                self._connection.executemany(_INSERTS[name], rows)
                rows.clear()
        for tenant in self._rung:
            self._connection.execute(_PUT_BELL, (tenant, self._bells[tenant]))
        self._changed.clear()


def _session_values(row: SessionRow) -> tuple[object, ...]:
    session_id, tenant, *rest = msgspec.structs.astuple(row)
    return (tenant, session_id, *rest)
