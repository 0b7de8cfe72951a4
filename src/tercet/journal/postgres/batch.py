"""One batch on PostgreSQL: computed in advance, stored by one statement, and processed act by act if that fails.

Theory of operation. The writer remembers the state of the streams it wrote to. From it the pure rules compute what a
batch of units stores, and one statement stores it for every stream that still is as remembered (position, chain and
lease epoch). In the normal case, in which a stream has one writer, that is one round trip and one commit for all.

A unit that leases its stream for the first time, with which every run begins, needs no look at what is there: the stream
begins with the batch's statement, unless another writer has begun it already.

Everything else takes the careful way, one act at a time in a transaction of its own: lock the stream's row, read what
is there, ask the rules, store or refuse. Other acts on leases go there, and so does a unit for a stream that is not
as remembered, a unit that the remembered state would refuse, a checkpoint before the old end, and every unit of a
batch whose statement met another writer's claim. So a refusal always rests on what the server holds.

What is known about each act is kept in its own `Delivery`. An act is in doubt from the moment its statement, or on the
careful way its COMMIT, goes out until the server answers. When the connection is lost in between, the act takes the
careful way over a new connection. There, with the stream's row locked, it is looked up before it is repeated:

- A unit with events was stored if the stream holds its link at its position. The link hashes the unit's bytes and all
  before them. It only counts while the lease epoch is still the unit's: a later owner might have written equal bytes,
  so then the outcome stays unknown.
- If the link is not there the unit was not stored, and is stored now or refused. Should the server still carry the
  lost statement out afterwards, that finds another position or epoch, and stores nothing.
- A unit without events leaves no link. Repeating it changes nothing, but if the repetition is refused, it is unknown
  whether the first one was stored.
- A lease act is repeated: its owner gets a lease that is good now, or an error that names the holder.
- A stream was forgotten if no stream with its number is there any more.

Every batch locks its tenants before it reads a stream: shared, or exclusively if it raises a change counter or removes a
stream. So the change counter that it reads cannot change until it has committed, and no blob that it finds can be removed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

import msgspec

from tercet.database.postgres import CONTENTION, FAILURES, Connection, is_lost
from tercet.journal import stream as rules
from tercet.journal.errors import CheckpointExists, ClaimHeld, JournalError
from tercet.journal.postgres.delivery import Delivery, Sent
from tercet.journal.postgres.rows import QUERIES, Known, Rows
from tercet.journal.protocol import Append, Lease, NewCheckpoint, Position
from tercet.journal.stream import NEW, Acquire, Act, Forget, LeaseAct, StreamState

_CACHE_LIMIT = 1_000
"""The size of the cache; a waiting session is dropped from it, and looked up again when it continues."""
_TRIES = 5

T = TypeVar("T")


class _Undecided(Exception):  # noqa: N818 - nothing went wrong: a question has no answer
    """A unit is refused now, and it is unknown whether it was stored before that."""

    def __init__(self, refusal: JournalError) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal


class Batcher:
    """Runs batches on a connection; survives the connection. It keeps nothing about an act beyond the call that runs it."""

    def __init__(self, place: str) -> None:
        self._place = place
        self._known: dict[tuple[str, str], Known] = {}

    def forget(self) -> None:
        """Drop what was remembered about streams, which may no longer be so."""
        self._known.clear()

    async def run(self, connection: Connection, deliveries: Sequence[Delivery]) -> None:
        """Store what can be stored at once. What has no outcome afterwards has to go the careful way."""
        await self._learn(connection, deliveries)
        rows, quick = self._compute(deliveries)
        if not quick:
            return
        for delivery, known in quick:
            link = known.state.position() if _has_events(delivery) else None
            delivery.send(Sent(None if known.is_new else known.id, link))
        moved = await self._await_answer(_store(connection, rows), [delivery for delivery, _ in quick])
        if moved is None:
            return
        for delivery, known in quick:
            key = (delivery.act.tenant, delivery.act.stream)
            if known.id in moved:
                number, change_count = moved[known.id]
                delivery.confirm(Position(known.state.seq, known.state.chain, change_count))
                self._known[key] = Known(number, known.state)
            else:
                delivery.reject()
                self._known.pop(key, None)

    async def _await_answer(self, sending: Coroutine[Any, Any, T], sent: Sequence[Delivery]) -> T | None:
        """Return the server's answer to a statement; None if the server refused it, so that nothing of it was stored.

        Raises if there is no answer: then what was sent stays in doubt.
        """
        try:
            return await sending
        except FAILURES as error:
            if is_lost(error):
                raise
            for delivery in sent:
                delivery.reject()
            self.forget()
            return None

    async def _learn(self, connection: Connection, deliveries: Sequence[Delivery]) -> None:
        """Read the states that are not remembered; they may be out of date when they are used.

        Streams that are leased for the first time are taken for new ones.
        """
        if len(self._known) > _CACHE_LIMIT:
            self.forget()
        units = [each.act for each in deliveries if isinstance(each.act, Append)]
        begun = {(unit.tenant, unit.stream) for unit in units if unit.lease is not None}
        missing = list({(unit.tenant, unit.stream) for unit in units} - self._known.keys() - begun)
        if missing:
            tenants, streams = (list(names) for names in zip(*missing, strict=True))
            for row in await connection.fetch(QUERIES["find_streams"], tenants, streams):
                tenant, stream, number, *state = row
                self._known[tenant, stream] = Known(number, StreamState(*state))

    def _compute(self, deliveries: Sequence[Delivery]) -> tuple[Rows, list[tuple[Delivery, Known]]]:
        """Return the rows of the units that should succeed, and these units with what their streams become."""
        rows, quick = Rows(), list[tuple[Delivery, Known]]()
        ahead: dict[tuple[str, str], Known] = {}
        careful: set[tuple[str, str]] = set()
        for delivery in deliveries:
            if delivery.outcome is not None:
                continue
            act = delivery.act
            key = (act.tenant, act.stream)
            known = ahead.get(key) or self._known.get(key)
            # A stream that is not known begins with a first lease, or not here.
            if not isinstance(act, Append) or key in careful or (known is None) != (act.lease is not None):
                careful.add(key)
                continue
            known = known or Known(-1 - len(quick), NEW)
            try:
                after, links = rules.extend(known.state, act)
            except JournalError:
                careful.add(key)
                continue
            if not _is_plain(act, rows, known):
                careful.add(key)
                continue
            rows.add(act, known=known, after=after, links=links)
            ahead[key] = Known(known.id, after)
            quick.append((delivery, ahead[key]))
        return rows, quick

    async def run_carefully(self, connection: Connection, delivery: Delivery) -> None:
        """Do one act on its own, after looking whether it was done over a connection that was lost."""
        for attempt in range(_TRIES):
            before = len(delivery.unanswered)
            try:
                async with connection.transaction():
                    outcome, known, sent = await self._settle(connection, delivery)
                    delivery.send(sent)  # the COMMIT follows
            except JournalError as error:
                delivery.refuse(error)
                return
            except _Undecided as undecided:
                delivery.give_up(undecided.refusal, self._place)
                return
            except FAILURES as error:
                if is_lost(error):
                    raise
                if len(delivery.unanswered) > before:
                    delivery.reject()
                # With contention, another process took a claim between our look and our insert. The next look sees it.
                if not isinstance(error, CONTENTION) or attempt == _TRIES - 1:
                    raise
            else:
                delivery.confirm(outcome)
                self._remember(delivery.act, known)
                return

    def _remember(self, act: Act, known: Known | None) -> None:
        if known is None:
            self._known.pop((act.tenant, act.stream), None)
        else:
            self._known[act.tenant, act.stream] = known

    async def _settle(
        self, connection: Connection, delivery: Delivery
    ) -> tuple[Position | Lease, Known | None, Sent]:
        """Carry an act out up to its COMMIT: the outcome, the stream as it will be, and how to recognise it later."""
        act = delivery.act
        if isinstance(act, Forget):
            sent = await self._forget(connection, act, delivery.unanswered)
            return act.lease, None, sent
        if not isinstance(act, Append):
            lease, known = await self._lease(connection, act)
            return lease, known, Sent()
        # Before the stream's row, as in a batch, or two writers could wait for each other.
        change_count: int = await connection.fetchval(QUERIES["listen"], act.tenant, act.notify)
        known = await self._lock(connection, act)
        found = await _look_up(connection, known, act, delivery.unanswered)
        if isinstance(found, Position):
            return Position(found.seq, found.chain, change_count), known, Sent(known.id, found)
        return await self._append(connection, act, known, is_ruled_out=found)

    async def _append(
        self, connection: Connection, act: Append, known: Known, *, is_ruled_out: bool
    ) -> tuple[Position, Known, Sent]:
        """Store a unit on a locked stream; a refusal says nothing about a send that cannot be ruled out."""
        try:
            after, links = rules.extend(known.state, act)
            fresh = await _without_stored_parts(connection, act, known)
        except JournalError as error:
            if is_ruled_out:
                raise
            raise _Undecided(error) from error
        rows = Rows()
        rows.add(fresh, known=known, after=after, links=links)
        moved = await _store(connection, rows)
        if act.lease is not None:
            await connection.execute(QUERIES["lease_stream"], known.id, after.owner, after.epoch, after.until)
        position = Position(after.seq, after.chain, moved[known.id][1])
        return position, Known(known.id, after), Sent(known.id, after.position() if act.events else None)

    async def _forget(self, connection: Connection, act: Forget, unanswered: Sequence[Sent]) -> Sent:
        """Remove a stream, unless an earlier send has removed it already."""
        await connection.fetchval(QUERIES["listen"], act.tenant, True)  # noqa: FBT003 - a parameter of SQL
        found = await _find(connection, act)
        number = None if found is None else found.id
        if unanswered and all(sent.stream_id != number for sent in unanswered):
            return unanswered[-1]
        found = found or Known(0, NEW)
        rules.check_held(found.state, act)
        for name in ("forget_blobs", "forget_session", "forget_rest"):
            await connection.execute(QUERIES[name], found.id)
        return Sent(found.id)

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
        while found is None:  # again if it is forgotten as soon as it is made
            await connection.execute(
                QUERIES["add_stream"], act.tenant, act.stream, *msgspec.structs.astuple(NEW)
            )
            found = await _find(connection, act)
        return found


def _has_events(delivery: Delivery) -> bool:
    return isinstance(delivery.act, Append) and bool(delivery.act.events)


async def _find(connection: Connection, act: Act) -> Known | None:
    """The stream's row, locked until the transaction ends."""
    row = await connection.fetchrow(QUERIES["lock_stream"], act.tenant, act.stream)
    if row is None:
        return None
    number, *state = row
    return Known(number, StreamState(*state))


async def _store(connection: Connection, rows: Rows) -> dict[int, tuple[int, int]]:
    """Store what can be stored; return for each stream that moved, by the number in the rows, its own number and the change counter."""
    statement, arrays = rows.statement()
    return {row[0]: (row[1], row[2]) for row in await connection.fetch(statement, *arrays)}


def _is_plain(unit: Append, rows: Rows, known: Known) -> bool:
    """Return whether every part of a unit is new, as far as can be known without asking."""
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
    """Return whether other bytes stand at a checkpoint's place, in the unit itself or in the store."""
    if fresh is not None:
        return fresh.data != new.data
    return digest is not None and digest != hashlib.sha256(new.data).digest()


async def _look_up(
    connection: Connection, known: Known, unit: Append, unanswered: Sequence[Sent]
) -> Position | bool:
    """Return where a unit ends that was stored without an answer; else whether it is certain that it was not stored."""
    is_certain = True
    for sent in unanswered:
        if sent.link is None:
            is_certain = False
        elif sent.stream_id in (None, known.id) and await _holds(connection, known, sent.link):
            if _is_under_lease_of(unit, known.state):
                return sent.link
            is_certain = False
    return is_certain


def _is_under_lease_of(unit: Append, state: StreamState) -> bool:
    """Return whether the lease of a stream is the one that a unit was written under, or has acquired."""
    if unit.lease is not None:
        return (state.epoch, state.owner) == (1, unit.lease.owner)
    return state.epoch == (unit.epoch or 0)


async def _holds(connection: Connection, known: Known, link: Position) -> bool:
    """Return whether the stream holds this link at its position."""
    return await connection.fetchval(QUERIES["find_chain"], known.id, link.seq) == link.chain


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
