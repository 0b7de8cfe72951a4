"""One commit: the acts of many callers, each accepted or refused on its own, in a single transaction.

Theory of operation. The writer holds SQLite's write lock from BEGIN IMMEDIATE to COMMIT, so what it reads in between
cannot change. For every act it knows the state of the stream (from a cache, or from one query for the whole batch),
asks the pure rules, and keeps the rows of accepted acts. Refused acts leave no rows. At the end each kind of row goes
out with one `executemany`. An act sees what the acts before it in the same batch did, through the cache. Forgetting a
stream is the exception: what was kept so far is written first, since it may be that stream's.

Claims are not looked up at first, since nearly every key is new: where one is taken the insert fails, and the batch is run
once more with a look. A session's row is written whole when it is new, and otherwise without the columns that are as
they were, since naming an indexed column in an UPDATE moves its entry even if nothing changed.

The cache of streams, rows and change counters is valid while no other process writes to the file, as `PRAGMA data_version` shows.
It is dropped when one did, when a transaction failed, and when it grows too large.

Every commit that changes something raises the journal's commit number and is recorded beside the file before it is
acknowledged (`heads.py`).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from hashlib import sha256
from typing import TypeAlias

import msgspec

from tercet.contracts.errors import TercetError
from tercet.database.schema import read_schema
from tercet.journal import stream as rules
from tercet.journal.append_rows import compress, is_inside, pack_events
from tercet.journal.errors import JOURNAL, CheckpointExists, ClaimHeld, JournalError, claim_without_stream
from tercet.journal.protocol import Append, Lease, NewCheckpoint, Position, SessionRow
from tercet.journal.sqlite.heads import Heads, signed
from tercet.journal.stream import NEW, Act, Forget, LeaseAct, StreamState

Outcome: TypeAlias = Position | Lease | TercetError

SCHEMA = read_schema("tercet.journal.sqlite", JOURNAL)
QUERIES = SCHEMA.queries
_FIND_STREAMS = QUERIES["find_streams"]
_FIND_CLAIMS = QUERIES["find_claims"]
_FIND_CHECKPOINT = QUERIES["find_checkpoint_hash"]
_LAST_STREAM = QUERIES["last_stream"]
_ADD_STREAM = QUERIES["add_stream"]
_MOVE_STREAM = QUERIES["move_stream"]
_INSERTS = {
    name: QUERIES[name] for name in ("add_event", "add_checkpoint", "add_blob", "add_blob_use", "add_claim")
}
_PUT_SESSION = QUERIES["put_session"]
_TOUCH_SESSION = QUERIES["touch_session"]
_READ_BELL = QUERIES["read_bell"]
_PUT_BELL = QUERIES["put_bell"]
_PUT_REMINDER = QUERIES["put_reminder"]
_DROP_REMINDER = QUERIES["drop_reminder"]
_FORGET = [query for name, query in QUERIES.items() if name.startswith("forget_")]
"""In the order of the file."""
_CACHE_LIMIT = 1_000
"""The size of the cache; a waiting session is dropped from it, and looked up again when it continues."""


class _Known:
    """A stream's state, the number of its row, which is 0 before its first change, and its session if it was seen."""

    __slots__ = ("id", "session", "state")

    def __init__(self, row_id: int, state: StreamState) -> None:
        self.id = row_id
        self.state = state
        self.session: SessionRow | None = None


class _ClaimsMatter(Exception):  # noqa: N818 - nothing went wrong: claims have to be looked up
    """A unit is refused for its checkpoints, and it was not looked up whether its claims refuse it first."""


class Batcher:
    """Runs batches on the writing connection."""

    def __init__(self, connection: sqlite3.Connection, heads: Heads) -> None:
        self._connection = connection
        self._heads = heads
        self._number = 0
        self._moved: dict[tuple[str, str], int] = {}
        """Where each stream ends that the batch changes."""
        self._streams: dict[tuple[str, str], _Known] = {}
        self._data_version = -1
        self._claims: dict[tuple[str, str], str] = {}
        self._rows: dict[str, list[tuple[object, ...]]] = {}
        self._last_id = 0
        self._added: dict[int, tuple[str, str, _Known]] = {}
        self._changed: dict[int, _Known] = {}
        self._sessions: dict[int, tuple[_Known, SessionRow]] = {}
        self._change_counts: dict[str, int] = {}
        self._notified: set[str] = set()
        self._reminders: dict[tuple[str, str], int | None] = {}
        self._looks_at_claims = False

    def run(self, acts: Sequence[Act]) -> list[Outcome]:
        """Commit the acts that the rules accept. An error of SQLite's means that none of them was written."""
        try:
            return self._commit(acts, looks_at_claims=False)
        except (sqlite3.IntegrityError, _ClaimsMatter):
            return self._commit(acts, looks_at_claims=True)

    def _commit(self, acts: Sequence[Act], *, looks_at_claims: bool) -> list[Outcome]:
        self._looks_at_claims = looks_at_claims
        self._heads.demand_written()
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            self._prepare(acts)
            self._claims = self._find_claims(acts) if looks_at_claims else {}
            outcomes = [self._attempt(act) for act in acts]
            self._write()
            if self._moved:
                self._number += 1
                self._connection.execute(f"PRAGMA user_version = {signed(self._number % 2**32)}")
            self._connection.execute("COMMIT")
        except BaseException:
            self._streams.clear()
            self._change_counts.clear()
            self._data_version = -1
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise
        if self._moved:
            self._heads.write(self._number, self._moved)
        return self._with_change_counts(acts, outcomes) if self._notified else outcomes

    def _with_change_counts(self, acts: Sequence[Act], outcomes: list[Outcome]) -> list[Outcome]:
        """Return the outcomes, each position with the change counter after the whole commit."""
        return [
            Position(outcome.seq, outcome.chain, self._change_counts[act.tenant])
            if isinstance(outcome, Position)
            else outcome
            for act, outcome in zip(acts, outcomes, strict=True)
        ]

    def _prepare(self, acts: Sequence[Act]) -> None:
        """Load every stream and change counter that these acts use."""
        (version,) = self._connection.execute("PRAGMA data_version").fetchone()
        if version != self._data_version or len(self._streams) > _CACHE_LIMIT:
            self._streams.clear()
            self._change_counts.clear()
            self._data_version = version
            (self._number,) = self._connection.execute("PRAGMA user_version").fetchone()
            (self._last_id,) = self._connection.execute(_LAST_STREAM).fetchone()
        self._rows = {name: [] for name in _INSERTS}
        self._added = {}
        self._changed = {}
        self._sessions = {}
        self._notified = set()
        self._reminders = {}
        self._moved = {}
        for tenant in {act.tenant for act in acts} - self._change_counts.keys():
            row = self._connection.execute(_READ_BELL, (tenant,)).fetchone()
            self._change_counts[tenant] = row[0] if row else 0
        missing = {(act.tenant, act.stream) for act in acts} - self._streams.keys()
        if missing:
            wanted = msgspec.json.encode(list(missing)).decode()
            for tenant, stream, row_id, *state in self._connection.execute(_FIND_STREAMS, (wanted,)):
                self._streams[tenant, stream] = _Known(row_id, StreamState(*state))
            for key in missing - self._streams.keys():
                self._streams[key] = _Known(0, NEW)

    def _find_claims(self, acts: Sequence[Act]) -> dict[tuple[str, str], str]:
        """Return who holds the keys that these acts claim."""
        keys = [(act.tenant, key) for act in acts if isinstance(act, Append) for key in act.claims]
        wanted = msgspec.json.encode(keys).decode()
        found: dict[tuple[str, str], str] = {}
        for tenant, key, stream in self._connection.execute(_FIND_CLAIMS, (wanted,)):
            if stream is None:
                raise claim_without_stream(key)
            found[tenant, key] = stream
        return found

    def _attempt(self, act: Act) -> Outcome:
        try:
            if isinstance(act, Append):
                return self._append(act)
            return self._forget(act) if isinstance(act, Forget) else self._lease(act)
        except JournalError as error:
            if isinstance(error, CheckpointExists) and not self._looks_at_claims:
                raise _ClaimsMatter from error
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
        self._streams[key] = _Known(0, NEW)
        self._moved[key] = 0
        self._claims = {claim: holder for claim, holder in self._claims.items() if (claim[0], holder) != key}
        return act.lease

    def _append(self, unit: Append) -> Position:
        known = self._streams[unit.tenant, unit.stream]
        after, links = rules.extend(known.state, unit)
        if unit.claims:
            self._check_claims(unit)
        checkpoints = self._added_checkpoints(known, unit) if unit.checkpoints else ()
        # From here on the unit is accepted.
        row_id = self._change(unit, known, after)
        rows = self._rows
        point = b""
        for checkpoint, digest in checkpoints:
            if is_inside(checkpoint, after.seq, unit.events):
                point = digest + checkpoint.data
            else:
                place = (row_id, checkpoint.kind, checkpoint.seq)
                rows["add_checkpoint"].append((*place, digest, checkpoint.data))
        if links:
            data, chain, sizes = pack_events(unit.events, links)
            data, size = compress(data)
            rows["add_event"].append((row_id, after.seq, data, chain, sizes, point, size))
        for data in unit.blobs:
            digest = sha256(data).digest()
            rows["add_blob"].append((unit.tenant, digest, *compress(data)))
            rows["add_blob_use"].append((unit.tenant, digest, row_id))
        for key in unit.claims:
            if (unit.tenant, key) not in self._claims:
                self._claims[unit.tenant, key] = unit.stream
                rows["add_claim"].append((unit.tenant, key, row_id, after.seq))
        if unit.row is not None:
            self._sessions[row_id] = (known, unit.row)
        for name, due_at in unit.reminders:
            self._reminders[unit.tenant, name] = due_at
        if unit.notify:
            self._change_counts[unit.tenant] += 1
            self._notified.add(unit.tenant)
        return Position(after.seq, after.chain, self._change_counts[unit.tenant])

    def _check_claims(self, unit: Append) -> None:
        for key in unit.claims:
            holder = self._claims.get((unit.tenant, key))
            if holder is not None and holder != unit.stream:
                raise ClaimHeld(key=key, holder=holder)

    def _added_checkpoints(self, known: _Known, unit: Append) -> list[tuple[NewCheckpoint, bytes]]:
        """Return the checkpoints to insert, each with its digest. Only one at or before the old end can stand already."""
        added: dict[tuple[str, int], tuple[NewCheckpoint, bytes]] = {}
        for new in unit.checkpoints:
            place = (new.kind, new.seq)
            digest = sha256(new.data).digest()
            present = added[place][1] if place in added else self._stored_checkpoint(known, unit, *place)
            if present is None:
                added[place] = (new, digest)
            elif present != digest:
                raise CheckpointExists(stream=unit.stream, kind=new.kind, seq=new.seq)
        return list(added.values())

    def _stored_checkpoint(self, known: _Known, unit: Append, kind: str, seq: int) -> bytes | None:
        if seq > unit.expected or not known.id:
            return None
        self._write()  # an earlier unit of this batch may have added it
        row = self._connection.execute(_FIND_CHECKPOINT, (known.id, kind, seq)).fetchone()
        return None if row is None else row[0]

    def _change(self, act: Act, known: _Known, state: StreamState) -> int:
        """Take over a stream's new state, to be written at the end, and return the number of its row."""
        if not known.id:
            self._last_id = known.id = self._last_id + 1
            self._added[known.id] = (act.tenant, act.stream, known)
        elif known.id not in self._added:
            self._changed[known.id] = known
        known.state = state
        self._moved[act.tenant, act.stream] = state.seq
        return known.id

    def _write(self) -> None:
        """Send the rows of this batch out, one statement a table."""
        if self._added:
            added = [
                (row_id, tenant, stream, *msgspec.structs.astuple(known.state))
                for row_id, (tenant, stream, known) in self._added.items()
            ]
            self._connection.executemany(_ADD_STREAM, added)
        if self._changed:
            moved = [
                (state.seq, state.chain, state.owner, state.epoch, state.until, row_id)
                for row_id, state in ((row_id, known.state) for row_id, known in self._changed.items())
            ]
            self._connection.executemany(_MOVE_STREAM, moved)
        for name, rows in self._rows.items():
            if rows:
                self._connection.executemany(_INSERTS[name], rows)
                rows.clear()
        if self._sessions:
            self._write_sessions()
        for tenant in self._notified:
            self._connection.execute(_PUT_BELL, (tenant, self._change_counts[tenant]))
        for key, due_at in self._reminders.items():
            if due_at is None:
                self._connection.execute(_DROP_REMINDER, key)
            else:
                self._connection.execute(_PUT_REMINDER, (*key, due_at))
        self._reminders.clear()
        self._added.clear()
        self._changed.clear()

    def _write_sessions(self) -> None:
        """Write the last row of every session that has one in this batch."""
        put: list[tuple[object, ...]] = []
        touched: list[tuple[object, ...]] = []
        for known, row in self._sessions.values():
            if known.session is not None and _differs_in_progress_only(known.session, row):
                touched.append(
                    (row.status, row.updated_at, row.next_step, row.details, row.tenant, row.session_id)
                )
            else:
                put.append(_session_values(row))
            known.session = row
        for query, rows in ((_PUT_SESSION, put), (_TOUCH_SESSION, touched)):
            if rows:
                self._connection.executemany(query, rows)
        self._sessions.clear()


def _differs_in_progress_only(old: SessionRow, new: SessionRow) -> bool:
    """Return whether two rows of a session differ in nothing but status, last change, next step and details."""
    return (
        old.due_at == new.due_at
        and old.waits_since == new.waits_since
        and old.started_at == new.started_at
        and old.pack_hash == new.pack_hash
        and old.pack == new.pack
        and old.snapshot == new.snapshot
        and old.intent == new.intent
        and old.owner == new.owner
    )


def _session_values(row: SessionRow) -> tuple[object, ...]:
    session_id, tenant, *rest = msgspec.structs.astuple(row)
    return (tenant, session_id, *rest)
