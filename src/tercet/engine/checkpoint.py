"""Checkpoints: small points at every verdict, and now and then a whole fold.

A point records the position of a run and a hash of its state. On resume, folding the events must give the same hash at
that position; otherwise this code does not read the events as they were recorded. A fold stores the whole state, so that
a resume reads only the events after it. One is written when the events since the last fold take `TAIL` times its bytes,
so the bytes of all folds stay below 1/`TAIL` of the bytes of events plus one fold. Folds are compressed, since they hold
a few hashes for every step.
"""

from __future__ import annotations

import zlib
from binascii import unhexlify
from hashlib import sha256

import msgspec

from tercet.contracts.errors import ReplayError
from tercet.contracts.loop import Phase
from tercet.contracts.plan import compensated_step
from tercet.contracts.runs.behaviour import Behaviour
from tercet.core.fold.session import ESCALATED
from tercet.core.state import State, Used
from tercet.journal.protocol import NewCheckpoint, StoredCheckpoint

SMALLEST_FOLD = 32 * 1024
"""Below this many bytes, reading events again is faster than writing a fold."""


TAIL = 8
"""The next fold is written when the events since the last one take this many times its bytes."""
_FAST = 1
"""The quickest level of compression: a fold is mostly repeated words."""


class Point(msgspec.Struct, frozen=True, array_like=True):
    """The position and progress of a run after a verdict. Hashes are stored as bytes, since every step has a point."""

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
    """Return the hash of everything that must be equal whenever the same events are folded."""
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
    """Return a checkpoint of the position and progress of a run."""
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
    return unhexlify(text.removeprefix("sha256:"))


def fold(state: State) -> NewCheckpoint:
    """Return a checkpoint of the whole state."""
    data = zlib.compress(msgspec.msgpack.encode(state), _FAST)
    return NewCheckpoint(kind="fold", seq=state.position, data=data)


def read_fold(stored: StoredCheckpoint, most: int | None = None) -> State:
    """Return the state in a fold; `most` limits the decompressed bytes of a fold from an untrusted source."""
    try:
        return _upgrade(_fold_decoder.decode(_decompress(stored.data, most)))
    except (*_UNREADABLE, zlib.error) as error:
        raise _unreadable(stored, "the state of this version", error) from error


def _unreadable(stored: StoredCheckpoint, expected: str, error: Exception) -> ReplayError:
    return ReplayError(
        recorded=f"a {stored.kind} at position {stored.seq}",
        expected=expected,
        check=f"the {stored.kind} was written by another version of Tercet: {error}",
    )


def _upgrade(state: State) -> State:
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


def _decompress(data: bytes, most: int | None) -> bytes:
    if most is None:
        return zlib.decompress(data)
    unpacking = zlib.decompressobj()
    found = unpacking.decompress(data, most)
    if not unpacking.eof:
        raise zlib.error(f"it is larger than {most:,} bytes when decompressed")
    return found


def read_point(stored: StoredCheckpoint) -> Point:
    """Decode a point."""
    try:
        return _point_decoder.decode(stored.data)
    except _UNREADABLE as error:
        raise _unreadable(stored, "a point of this version", error) from error


def compare(state: State, stored: StoredCheckpoint) -> None:
    """Raise `ReplayError` if a point was not taken of this state."""
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
