"""Checkpoints: small points at every verdict, and now and then a whole fold.

A point says where the run stood, and carries a hash over the state's summary: on resume the fold must come to the same
summary at the same position, or what was recorded is not what this code makes of it. A fold is written when the tail
behind the last one has outgrown it, so that the bytes of folds stay within a constant factor of the bytes of events:
with a tail of `TAIL` folds' bytes, one part in `TAIL` of them and one fold. Folds are compressed, since they hold a
few hashes for every step.
"""

from __future__ import annotations

import zlib
from hashlib import sha256

import msgspec

from tercet.contracts.behaviour import Behaviour
from tercet.contracts.errors import ReplayError
from tercet.contracts.loop import Phase
from tercet.contracts.plan import compensated_step
from tercet.core.fold.session import ESCALATED
from tercet.core.state import State, Used
from tercet.journal.protocol import NewCheckpoint, StoredCheckpoint

SMALLEST_FOLD = 32 * 1024
"""A tail of fewer bytes is read faster than a fold is written."""


TAIL = 8
"""How many times a fold's bytes the tail behind it may have before the next fold is written."""
_FAST = 1
"""The quickest level of compression: a fold is mostly repeated words."""


class Point(msgspec.Struct, frozen=True, array_like=True):
    """Where a run stood after a verdict. Hashes are bytes here: there is a point for every step."""

    position: int
    phase: str
    status: str
    verdict: str
    plan: bytes
    next: tuple[str, ...]
    used: Used
    results: bytes
    """The head of the hash-linked list of results."""
    summary: bytes


_encode_json = msgspec.json.Encoder().encode
_encode_point = msgspec.msgpack.Encoder().encode
_fold_decoder = msgspec.msgpack.Decoder(State)
_point_decoder = msgspec.msgpack.Decoder(Point)
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def summary(state: State) -> bytes:
    """The hash over what must come out the same on every fold of the same events."""
    parts = [
        state.position,
        state.phase,
        state.status,
        state.plan_hash,
        state.head,
        state.frontier,
        len(state.done),
        state.used,
        tuple(state.gates),
    ]
    return sha256(_encode_json(parts)).digest()


def point(state: State, verdict: str) -> NewCheckpoint:
    """The point at which a run stands."""
    taken = Point(
        position=state.position,
        phase=state.phase,
        status=state.status,
        verdict=verdict,
        plan=_digest(state.plan_hash),
        next=state.frontier[:8],
        used=state.used,
        results=_digest(state.head),
        summary=summary(state),
    )
    return NewCheckpoint(kind="point", seq=state.position, data=_encode_point(taken))


def _digest(text: str) -> bytes:
    return bytes.fromhex(text.removeprefix("sha256:"))


def fold(state: State) -> NewCheckpoint:
    """The whole state."""
    data = zlib.compress(msgspec.msgpack.encode(state), _FAST)
    return NewCheckpoint(kind="fold", seq=state.position, data=data)


def read_fold(stored: StoredCheckpoint, most: int | None = None) -> State:
    """The state in a fold; one from elsewhere is unpacked to so many bytes at most."""
    try:
        return _upgraded(_fold_decoder.decode(_unpacked(stored.data, most)))
    except (*_UNREADABLE, zlib.error) as error:
        raise _unreadable(stored, "the state of this version", error) from error


def _unreadable(stored: StoredCheckpoint, expected: str, error: Exception) -> ReplayError:
    return ReplayError(
        recorded=f"a {stored.kind} at position {stored.seq}",
        expected=expected,
        check=f"the {stored.kind} was written by another version of Tercet: {error}",
    )


def _upgraded(state: State) -> State:
    """Return a state with the fields that folds of earlier versions did not have, derived from names and reasons."""
    steps = {
        name: msgspec.structs.replace(step, compensates=host)
        for name, step in state.steps.items()
        if not step.compensates and (host := compensated_step(name))
    }
    if steps:
        state = msgspec.structs.replace(state, steps={**state.steps, **steps})
    is_escalated = state.phase is Phase.HALT and state.reason.startswith(ESCALATED) and not state.paused_by
    if is_escalated and state.escalation is None:
        state = msgspec.structs.replace(state, escalation=state.reason.removeprefix(ESCALATED))
    return state


def _unpacked(data: bytes, most: int | None) -> bytes:
    if most is None:
        return zlib.decompress(data)
    unpacking = zlib.decompressobj()
    found = unpacking.decompress(data, most)
    if not unpacking.eof:
        raise zlib.error(f"it ends nowhere within {most:,} bytes")
    return found


def read_point(stored: StoredCheckpoint) -> Point:
    """Where a run stood, as a checkpoint says."""
    try:
        return _point_decoder.decode(stored.data)
    except _UNREADABLE as error:
        raise _unreadable(stored, "a point of this version", error) from error


def compare(state: State, stored: StoredCheckpoint) -> None:
    """Raises `ReplayError` if a state is not the one that a point was taken of."""
    taken = read_point(stored)
    if taken.position == state.position and taken.summary != summary(state):
        raise ReplayError(
            recorded=f"state {taken.summary.hex()[:20]} at position {taken.position}",
            expected=f"state {summary(state).hex()[:20]}",
            check="the journal was changed, or this version folds its events differently",
        )


def is_taken_of(state: State, stored: StoredCheckpoint) -> bool:
    """Return whether a checkpoint was taken of a state. The verdict that a point names is only a label, and not compared."""
    if stored.kind == "point":
        return point(state, read_point(stored).verdict).data == stored.data
    # Values are compared, not bytes: a set has no order, and another zlib may compress differently.
    packed = msgspec.msgpack.encode(as_folded(state))
    return read_fold(stored, 2 * len(packed) + _SPARE) == _fold_decoder.decode(packed)


def as_folded(state: State) -> State:
    """Return a state as its fold stores it: under earlier rules, folds have no call parameters and no earlier calls."""
    if Behaviour.STRICT_CALLS in state.start.behaviour:
        return state
    steps = {name: msgspec.structs.replace(step, params={}) for name, step in state.steps.items()}
    return msgspec.structs.replace(state, steps=steps, earlier=())


_SPARE = 2**16
"""How much larger than twice its state a fold may be: another version may encode it differently."""
