"""Decision records are stored without their transcript, which the events of the session hold already.

A record's hash is over all of it.
"""

from __future__ import annotations

from tercet.contracts.canonical import canonical_dump, hash_bytes
from tercet.contracts.record import DecisionRecord

TRANSCRIPT = "transcript"


def split_record(record: DecisionRecord) -> tuple[str, bytes]:
    """Return the hash of a record, and the bytes that are stored: all of it but the transcript."""
    fields = record.model_dump(mode="json", exclude_none=True)
    entries = canonical_dump(fields.pop(TRANSCRIPT))
    # Canonical JSON has its members in the order of their names, so the whole is made of the parts.
    before = canonical_dump({name: value for name, value in fields.items() if name < TRANSCRIPT})[:-1]
    after = canonical_dump({name: value for name, value in fields.items() if name > TRANSCRIPT})[1:]
    return hash_bytes(before + f',"{TRANSCRIPT}":'.encode() + entries + b"," + after), before + b"," + after
