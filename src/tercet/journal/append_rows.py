"""The row of an append in a database: its events behind each other, their links, and the point that it ends in.

| column  | holds                                                                                   |
|---------|-----------------------------------------------------------------------------------------|
| `seq`   | the position of its last event                                                          |
| `data`  | the bytes of its events, one behind the other                                           |
| `chain` | their links, 32 bytes each                                                              |
| `sizes` | how long each event but the last is, four bytes each; empty for a single event          |
| `point` | the SHA-256 of the point at its last event, and the point itself; empty if there is none |

A row that an earlier version wrote has one event, and reads the same. Its points are in the table of checkpoints, as are
folds and points at other places.

Large values of a SQLite file are compressed, and stored with the size that they have: plans, reviews and records of many
steps repeat themselves.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Sequence

from tercet.journal.errors import JournalCorrupt
from tercet.journal.protocol import NewCheckpoint, Stored

LINK_BYTES = 32
_SIZE_BYTES = 4


def pack_events(events: Sequence[bytes], links: Sequence[bytes]) -> tuple[bytes, bytes, bytes]:
    """Return `data`, `chain` and `sizes` of the row that holds these events."""
    if len(events) == 1:
        return events[0], links[0], b""
    sizes = struct.pack(f">{len(events) - 1}I", *map(len, events[:-1]))
    return b"".join(events), b"".join(links), sizes


def is_inside(checkpoint: NewCheckpoint, end: int, events: Sequence[bytes]) -> bool:
    """Return whether a checkpoint goes into the row of its append, which ends at this position."""
    return checkpoint.kind == "point" and checkpoint.seq == end and bool(events)


def unpack_events(stream: str, seq: int, data: bytes, chain: bytes, sizes: bytes) -> Iterator[Stored]:
    """Yield the events of a row. Raises `JournalCorrupt` if its columns do not fit each other."""
    if not sizes:
        yield Stored(seq, data, chain)
        return
    count = len(sizes) // _SIZE_BYTES + 1
    lengths = struct.unpack(f">{count - 1}I", sizes) if len(sizes) % _SIZE_BYTES == 0 else ()
    if len(lengths) != count - 1 or len(chain) != count * LINK_BYTES or sum(lengths) > len(data):
        raise JournalCorrupt(
            f"event {seq} of stream {stream}", "the row of its append does not hold what it says it holds"
        )
    start = 0
    for place, length in enumerate((*lengths, len(data) - sum(lengths))):
        link = chain[place * LINK_BYTES : (place + 1) * LINK_BYTES]
        yield Stored(seq - count + 1 + place, data[start : start + length], link)
        start += length


# --- compression ---


SMALLEST = 8 * 1024
"""Smaller values are not worth the time."""
LARGEST = 4 * 1024 * 1024
"""Larger ones would keep other appends waiting."""
_FAST = 1


def compress(data: bytes) -> tuple[bytes, int]:
    """Return what is stored for a value, and its size; 0 for a value that is stored as it is."""
    if not SMALLEST <= len(data) <= LARGEST:
        return data, 0
    packed = zlib.compress(data, _FAST)
    return (packed, len(data)) if len(packed) < len(data) else (data, 0)


def decompress(data: bytes, size: int, place: str) -> bytes:
    """Return a value as it was. Raises `JournalCorrupt` that names the place if it does not have its size."""
    if not size:
        return data
    unpacking = zlib.decompressobj()
    try:
        found = unpacking.decompress(data, LARGEST)
    except zlib.error as error:
        raise JournalCorrupt(place, f"its bytes cannot be decompressed: {error}") from error
    if len(found) != size or not unpacking.eof:
        raise JournalCorrupt(place, "its bytes do not have their size")
    return found
