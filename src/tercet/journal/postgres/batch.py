"""One batch on PostgreSQL: computed ahead, stored by one statement, and looked at again where that fails.

Theory of operation. The writer remembers the state of the streams it wrote to. From it the pure rules compute what a
batch of units stores, and one statement stores it for every stream that still is as remembered (position, chain and
lease epoch). In the normal case, in which a stream has one writer, that is one round trip and one commit for all.

The first lease on a stream, with which every run begins, needs no look at what is there: one statement makes the rows
of all new streams of a batch, and leaves alone those that somebody has made already.

Everything else takes the careful way, one act at a time in a transaction of its own: lock the stream's row, read what
is there, ask the rules, store or refuse. Other acts on leases go there, and so does a unit for a stream that is not
as remembered, a unit that the remembered state would refuse, a checkpoint before the old end, and every unit of a
batch whose statement met somebody else's claim. So a refusal always rests on what the server holds.

When the connection is lost under way nobody knows what was stored. After reconnecting, acts take the careful way with
the position they were to reach: if the stream holds exactly that link there, the unit was stored.

Every batch holds its tenants' locks before it looks at a stream: shared, or alone where it rings or forgets. So the bell
that it reads cannot change until it has committed, and no blob that it finds there can be removed meanwhile.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TypeAlias

import msgspec

from tercet.journal import stream as rules
from tercet.journal.chain import START
from tercet.journal.errors import CheckpointExists, ClaimHeld, JournalError
from tercet.journal.postgres.connection import QUERIES
from tercet.journal.postgres.driver import Connection
from tercet.journal.postgres.faults import CONTENTION
from tercet.journal.postgres.rows import Known, Rows
from tercet.journal.protocol import Append, Lease, NewCheckpoint, Position
from tercet.journal.stream import NEW, Acquire, Act, Forget, LeaseAct, StreamState

Outcome: TypeAlias = Position | Lease | JournalError

_CACHE_LIMIT = 10_000
_TRIES = 5


class Batcher:
    """Runs batches on a connection; survives the connection."""

    def __init__(self) -> None:
        self.planned: dict[int, Position] = {}
        """By the place of a unit in the batch: where its stream would end. Asked for after a lost connection."""
        self.attempted: Position | None = None
        """Where the stream of the latest careful unit would end, once that was computed."""
        self._known: dict[tuple[str, str], Known] = {}

    def forget(self) -> None:
        """Drop what was remembered, since nobody knows any more whether it is so."""
        self._known.clear()

    async def run(self, connection: Connection, acts: Sequence[Act]) -> list[Outcome | None]:
        """Store what can be stored at once. None stands for an act that has to go the careful way."""
        self.planned = {}
        outcomes: list[Outcome | None] = [None] * len(acts)
        for index, lease in (await self._begin_streams(connection, acts)).items():
            outcomes[index] = lease
        await self._learn(connection, acts)
        rows, quick = self._compute(acts, outcomes)
        if not quick:
            return outcomes
        try:
            bells = await _store(connection, rows)
        except CONTENTION:
            self.forget()
            return outcomes
        for index, known in quick.items():
            key = (acts[index].tenant, acts[index].stream)
            if known.id in bells:
                outcomes[index] = Position(known.state.seq, known.state.chain, bells[known.id])
                self._known[key] = known
            else:
                self._known.pop(key, None)
        return outcomes

    async def _begin_streams(self, connection: Connection, acts: Sequence[Act]) -> dict[int, Lease]:
        """Make the streams that are leased for the first time; by their place in the batch, their leases."""
        first: dict[tuple[str, str], tuple[int, Act]] = {}
        for index, act in enumerate(acts):
            first.setdefault((act.tenant, act.stream), (index, act))
        new = {
            key: (index, *rules.lease(NEW, act))
            for key, (index, act) in sorted(first.items())
            if isinstance(act, Acquire) and key not in self._known
        }
        if not new:
            return {}
        rows = [(*key, *msgspec.structs.astuple(state)) for key, (_, state, _) in new.items()]
        made = await connection.fetch(
            QUERIES["begin_streams"], *([*column] for column in zip(*rows, strict=True))
        )
        begun: dict[int, Lease] = {}
        for number, tenant, stream in made:
            index, state, lease = new[tenant, stream]
            self._known[tenant, stream] = Known(number, state)
            begun[index] = lease
        return begun

    async def _learn(self, connection: Connection, acts: Sequence[Act]) -> None:
        """Read the states that are not remembered; they may be out of date when they are used."""
        if len(self._known) > _CACHE_LIMIT:
            self.forget()
        units = [act for act in acts if isinstance(act, Append)]
        missing = list({(unit.tenant, unit.stream) for unit in units} - self._known.keys())
        if missing:
            tenants, streams = (list(names) for names in zip(*missing, strict=True))
            for row in await connection.fetch(QUERIES["find_streams"], tenants, streams):
                tenant, stream, number, *state = row
                self._known[tenant, stream] = Known(number, StreamState(*state))

    def _compute(
        self, acts: Sequence[Act], outcomes: Sequence[Outcome | None]
    ) -> tuple[Rows, dict[int, Known]]:
        """The rows of the units that should succeed, and by their place in the batch what their streams become."""
        rows, quick = Rows(), dict[int, Known]()
        ahead: dict[tuple[str, str], Known] = {}
        careful: set[tuple[str, str]] = set()
        for index, act in enumerate(acts):
            if outcomes[index] is not None:
                continue
            key = (act.tenant, act.stream)
            known = ahead.get(key) or self._known.get(key)
            if (
                known is None
                or key in careful
                or not isinstance(act, Append)
                or not _is_plain(act, rows, known)
            ):
                careful.add(key)
                continue
            try:
                after, links = rules.extend(known.state, act)
            except JournalError:
                careful.add(key)
                continue
            rows.add(act, known=known, after=after, links=links)
            ahead[key] = quick[index] = Known(known.id, after)
            self.planned[index] = after.position()
        return rows, quick

    async def run_carefully(
        self, connection: Connection, act: Act, *, planned: Position | None = None
    ) -> Outcome:
        """Do one act on its own. `planned` is the position it may already have reached over a lost connection."""
        self.attempted = None
        for attempt in range(_TRIES):
            try:
                async with connection.transaction():
                    outcome, known = await self._settle(connection, act, planned)
            except JournalError as error:
                return error
            except CONTENTION:
                # Somebody took a claim between our look and our insert. The next look sees it.
                if attempt == _TRIES - 1:
                    raise
            else:
                self._remember(act, known)
                return outcome
        raise AssertionError("the last try returns or raises")

    def _remember(self, act: Act, known: Known | None) -> None:
        if known is None:
            self._known.pop((act.tenant, act.stream), None)
        else:
            self._known[act.tenant, act.stream] = known

    async def _settle(
        self, connection: Connection, act: Act, planned: Position | None
    ) -> tuple[Outcome, Known | None]:
        if isinstance(act, Forget):
            return await self._forget(connection, act, was_tried=planned is not None), None
        if not isinstance(act, Append):
            return await self._lease(connection, act)
        # Before the stream's row, as in a batch, or two writers could wait for each other.
        bell: int = await connection.fetchval(QUERIES["listen"], act.tenant, act.ring)
        known = await self._lock(connection, act)
        if planned is not None and act.events and await _reached(connection, known, planned):
            return Position(planned.seq, planned.chain, bell), known
        after, links = rules.extend(known.state, act)
        self.attempted = after.position()
        fresh = await _without_stored_parts(connection, act, known)
        rows = Rows()
        rows.add(fresh, known=known, after=after, links=links)
        bells = await _store(connection, rows)
        return Position(after.seq, after.chain, bells[known.id]), Known(known.id, after)

    async def _forget(self, connection: Connection, act: Forget, *, was_tried: bool) -> Lease:
        """Remove a stream; one that is not there any more after a lost connection was removed before it."""
        await connection.fetchval(QUERIES["listen"], act.tenant, True)  # noqa: FBT003 - a parameter of SQL
        found = await _find(connection, act)
        if found is None and was_tried:
            return act.lease
        found = found or Known(0, NEW)
        rules.check_held(found.state, act)
        self.attempted = START
        for name in ("forget_blobs", "forget_session", "forget_rest"):
            await connection.execute(QUERIES[name], found.id)
        return act.lease

    async def _lease(self, connection: Connection, act: LeaseAct) -> tuple[Lease, Known | None]:
        """Acquire, renew or release; only the first makes a stream that is not there."""
        found = (
            await self._lock(connection, act) if isinstance(act, Acquire) else await _find(connection, act)
        )
        after, lease = rules.lease(found.state if found else NEW, act)
        if found is None:
            return lease, None
        await connection.execute(QUERIES["lease_stream"], found.id, after.owner, after.epoch, after.until)
        return lease, Known(found.id, after)

    async def _lock(self, connection: Connection, act: Act) -> Known:
        """The stream's row, made if it is not there, and locked until the transaction ends."""
        found = await _find(connection, act)
        while found is None:  # again if somebody forgets it as soon as it is made
            await connection.execute(
                QUERIES["add_stream"], act.tenant, act.stream, *msgspec.structs.astuple(NEW)
            )
            found = await _find(connection, act)
        return found


async def _find(connection: Connection, act: Act) -> Known | None:
    """The stream's row, locked until the transaction ends."""
    row = await connection.fetchrow(QUERIES["lock_stream"], act.tenant, act.stream)
    if row is None:
        return None
    number, *state = row
    return Known(number, StreamState(*state))


async def _store(connection: Connection, rows: Rows) -> dict[int, int]:
    """Store what can be stored; by the number of each stream that moved, its tenant's bell."""
    statement, arrays = rows.statement()
    return {row[0]: row[1] for row in await connection.fetch(statement, *arrays)}


def _is_plain(unit: Append, rows: Rows, known: Known) -> bool:
    """Whether every part of a unit is new, as far as can be known without asking."""
    for key in unit.claims:
        if rows.claimed_by(unit.tenant, key) not in (None, known.id):
            return False
    places: set[tuple[str, int]] = set()
    for new in unit.checkpoints:
        if new.seq <= unit.expected or (new.kind, new.seq) in places:
            return False
        places.add((new.kind, new.seq))
    return True


def _differs(new: NewCheckpoint, fresh: NewCheckpoint | None, digest: bytes | None) -> bool:
    """Whether other bytes stand at a checkpoint's place, in the unit itself or in the store."""
    if fresh is not None:
        return fresh.data != new.data
    return digest is not None and digest != hashlib.sha256(new.data).digest()


async def _reached(connection: Connection, known: Known, planned: Position) -> bool:
    """Whether the stream holds the link that a unit was to put there."""
    return await connection.fetchval(QUERIES["find_chain"], known.id, planned.seq) == planned.chain


async def _without_stored_parts(connection: Connection, unit: Append, known: Known) -> Append:
    """The unit without the claims and checkpoints that it already has; or `ClaimHeld` or `CheckpointExists`."""
    held = {
        row["key"]: row["stream"]
        for row in await connection.fetch(QUERIES["find_claims"], unit.tenant, list(unit.claims))
    }
    for key in unit.claims:
        if held.get(key, unit.stream) != unit.stream:
            raise ClaimHeld(key=key, holder=held[key])
    fresh: dict[tuple[str, int], NewCheckpoint] = {}
    for new in unit.checkpoints:
        place = (new.kind, new.seq)
        digest = await connection.fetchval(QUERIES["find_checkpoint_hash"], known.id, *place)
        if _differs(new, fresh.get(place), digest):
            raise CheckpointExists(stream=unit.stream, kind=new.kind, seq=new.seq)
        if digest is None:
            fresh[place] = new
    claims = tuple(key for key in unit.claims if key not in held)
    return msgspec.structs.replace(unit, claims=claims, checkpoints=tuple(fresh.values()))
