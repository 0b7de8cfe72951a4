"""Large values of a SQLite file are stored compressed, with the size that they have: plans, reviews and records of many
steps repeat themselves."""

from __future__ import annotations

import zlib

from tercet.journal.errors import JournalCorrupt

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
