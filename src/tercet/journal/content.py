"""Content-addressed bytes as the stores hold them: a digest is 32 bytes there, and `sha256:…` everywhere else."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

from tercet.journal.errors import BlobMissing, JournalCorrupt
from tercet.journal.protocol import StoredCheckpoint

_PREFIX = "sha256:"


def digest_bytes(digest: str) -> bytes:
    """The 32 bytes of a digest; what is not a digest becomes no bytes, under which nothing is stored."""
    try:
        return bytes.fromhex(digest.removeprefix(_PREFIX)) if digest.startswith(_PREFIX) else b""
    except ValueError:
        return b""


def digest_text(digest: bytes) -> str:
    """A digest as it is written everywhere but in a store."""
    return _PREFIX + digest.hex()


def check_blob(tenant: str, digest: str, rows: Sequence[Sequence[Any]]) -> bytes:
    """The bytes that a look-up found, if they are those that the digest names."""
    if not rows:
        raise BlobMissing(tenant=tenant, digest=digest)
    data: bytes = rows[0][0]
    if hashlib.sha256(data).digest() != digest_bytes(digest):
        raise JournalCorrupt(f"blob {digest} of tenant {tenant}", "its bytes have another digest")
    return data


def checkpoint_from(stream: str, row: Sequence[Any]) -> StoredCheckpoint:
    """A checkpoint from its row (seq, kind, hash, data), if its bytes are those that its hash names."""
    seq, kind, stored, data = row
    if hashlib.sha256(data).digest() != stored:
        raise JournalCorrupt(f"{kind} checkpoint {seq} of stream {stream}", "its bytes have another hash")
    return StoredCheckpoint(seq, kind, _PREFIX + stored.hex(), data)
