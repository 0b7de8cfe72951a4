"""The hash chain over stored bytes: `chain_n = SHA-256(chain_(n-1) || data_n)`, beginning with 32 zero bytes.

Only stored bytes are hashed, so a chain can be checked without knowing what an event means.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256

from tercet.journal.errors import JournalCorrupt
from tercet.journal.protocol import Journal, Position, Stored

ZERO = bytes(32)
"""The chain of a stream that holds nothing."""

START = Position(0, ZERO)

_PAGE = 1000


def link(chain: bytes, data: bytes) -> bytes:
    """Return the chain after one more event."""
    return sha256(chain + data).digest()


def extend_chain(chain: bytes, events: Iterable[bytes]) -> list[bytes]:
    """Return the chain after each of these events."""
    return [chain := sha256(chain + data).digest() for data in events]


def follow(position: Position, events: Iterable[Stored], *, stream: str) -> Position:
    """The position behind these events, or `JournalCorrupt` naming the first that does not continue the chain."""
    seq, chain = position.seq, position.chain
    for event in events:
        seq += 1
        place = f"event {seq} of stream {stream}"
        if event.seq != seq:
            raise JournalCorrupt(place, f"it is missing; the next event stored is {event.seq}")
        chain = link(chain, event.data)
        if event.chain != chain:
            raise JournalCorrupt(place, "its bytes, or those before it, are not those that were chained")
    return Position(seq, chain)


async def verify_chain(journal: Journal, tenant: str, stream: str) -> Position:
    """Read a stream from its beginning to its recorded end and check every link.

    Raises `JournalCorrupt` that names the first event which was changed, removed, reordered or inserted. Events that
    are appended meanwhile are not looked at. A forger who rewrites every later link and the stream's recorded end is
    not found out: the chain shows accidents and careless edits, a signature over the last link shows the rest.
    """
    end = await journal.head(tenant, stream)
    position = START
    while position.seq < end.seq:
        page = await journal.read(
            tenant, stream, after=position.seq, limit=min(_PAGE, end.seq - position.seq)
        )
        if not page:
            raise JournalCorrupt(
                f"event {position.seq + 1} of stream {stream}", f"it is missing; the stream ends at {end.seq}"
            )
        position = follow(position, page, stream=stream)
    if position != end:
        raise JournalCorrupt(
            f"the end of stream {stream}", f"event {position.seq} does not carry the recorded last link"
        )
    await _refuse_more(journal, tenant, stream, end)
    return end


async def _refuse_more(journal: Journal, tenant: str, stream: str, end: Position) -> None:
    """An event behind the recorded end was put there by another writer, unless the stream has grown since."""
    behind = await journal.read(tenant, stream, after=end.seq, limit=1)
    if behind and (await journal.head(tenant, stream)).seq < behind[0].seq:
        raise JournalCorrupt(
            f"event {behind[0].seq} of stream {stream}", f"it was inserted; the stream ends at {end.seq}"
        )
