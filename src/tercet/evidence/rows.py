"""Facts as the stores hold them, and the rules shared by all stores: names, sizes, and the hash of a snapshot."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec
import orjson

from tercet.contracts.errors import UsageError
from tercet.contracts.evidence import Citation, Evidence, EvidenceRef
from tercet.contracts.mode import Trust
from tercet.contracts.values.canonical import canonical
from tercet.contracts.values.plain import not_plain
from tercet.contracts.values.references import is_text
from tercet.evidence.errors import BadFact, StoreCorrupt
from tercet.evidence.ranking import Totals
from tercet.evidence.store import Change, Difference, Fact, NewDocument, NewFact, Removal, SnapshotHead
from tercet.journal.stream import MOST_BYTES

MAX_FACT_BYTES = 1_000_000
"""The maximum size of a fact's canonical form; larger content should be a document, which is split into chunks."""
MAX_SOURCE = 2_000
START = bytes(32)
"""The initial value of the hash chain."""
OPEN = 2**62
"""The end of a version that is still current."""

_CLASS = re.compile(r"[^:#\s]+")
_KEY = re.compile(r"[^#\s]+")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


class Row(NamedTuple):
    """A fact, or its removal if there is no content."""

    classification: str
    key: str
    content: bytes | None
    hash: bytes = b""
    trust: str = ""
    source: str = ""
    expires_at: int | None = None
    document: str = ""
    document_hash: str = ""
    chunk: int | None = None
    start: int | None = None
    end: int | None = None


def prepare(changes: Iterable[Change]) -> Iterator[Row | NewDocument]:
    """Yield the changes one by one, checked; raise `BadFact` or `UsageError` for invalid ones."""
    documents: dict[str, str] = {}
    for change in changes:
        match change:
            case NewDocument():
                _check_document(change)
                documents[change.name] = change.hash
                yield change
            case NewFact():
                yield _row(change, documents)
            case Removal():
                _check_ref(change.classification, change.key)
                yield Row(change.classification, change.key, None)


def check_names(*names: str) -> None:
    """Raise for a name that some store could not keep."""
    for name in names:
        if not name or "\0" in name or not is_text(name) or len(name.encode()) > MOST_BYTES:
            raise UsageError(
                f"invalid name {name[:40]!r} for an evidence store",
                code="bad_name",
                remedy=f"use 1 to {MOST_BYTES} bytes of UTF-8, without NUL",
            )


def check_name(name: str) -> None:
    """Raise for an invalid name of a snapshot."""
    check_names(name)
    if not _KEY.fullmatch(name):
        raise BadFact(
            f"{name[:80]!r} cannot name a snapshot",
            code="bad_name",
            remedy="use letters, digits, '-', '_' and '.', without '#' and space",
        )


def check_snapshots(tenant: str, *names: str) -> None:
    """Raise for an invalid name of a tenant or its snapshots."""
    check_names(tenant)
    for name in names:
        check_name(name)


def _check_ref(classification: str, key: str) -> None:
    check_names(classification, key)
    if not _CLASS.fullmatch(classification):
        raise BadFact(
            f"{classification[:80]!r} cannot name a class",
            remedy="use letters, digits and '_', without ':', '#' and space",
        )
    if not _KEY.fullmatch(key):
        raise BadFact(f"{key[:80]!r} cannot name a fact", remedy="use a name without '#' and space")


def _check_document(document: NewDocument) -> None:
    check_names(document.name, document.media_type)
    if not _DIGEST.fullmatch(document.hash):
        raise BadFact(
            f"document {document.name[:80]!r} has no hash", remedy="give the sha256: digest of its bytes"
        )


def _row(fact: NewFact, documents: Mapping[str, str]) -> Row:
    _check_ref(fact.classification, fact.key)
    name = f"{fact.classification}:{fact.key}"
    if (fault := not_plain(fact.content)) is not None:
        raise BadFact(f"fact {name[:200]!r} is not JSON: {fault}", remedy="write plain JSON values")
    content = canonical(fact.content)
    if len(content) > MAX_FACT_BYTES:
        raise BadFact(
            f"fact {name[:200]!r} has {len(content):,} bytes (at most {MAX_FACT_BYTES:,})",
            code="fact_too_large",
            remedy="import it as a document, which is split into chunks",
        )
    if len(fact.source) > MAX_SOURCE or "\0" in fact.source or not is_text(fact.source):
        raise BadFact(
            f"the source of fact {name[:200]!r} cannot be kept",
            remedy=f"use up to {MAX_SOURCE:,} characters, without NUL",
        )
    if fact.document and fact.document not in documents:
        raise BadFact(
            f"fact {name[:200]!r} is of document {fact.document[:80]!r}, which was not given before it",
            remedy="put the document in front of its facts",
        )
    return Row(
        fact.classification,
        fact.key,
        content,
        hashlib.sha256(content).digest(),
        str(fact.trust),
        fact.source,
        None if fact.expires_at is None else _milliseconds(fact.expires_at, name),
        fact.document,
        documents.get(fact.document, ""),
        fact.chunk,
        fact.start,
        fact.end,
    )


def _milliseconds(moment: datetime, name: str) -> int:
    if moment.tzinfo is None:
        raise BadFact(
            f"the expiry of fact {name[:200]!r} has no zone", remedy="write it as 2027-01-31T00:00:00Z"
        )
    try:
        found = round(moment.timestamp() * 1000)
        _moment(found)
    except (ValueError, OverflowError, OSError):
        raise BadFact(
            f"the expiry of fact {name[:200]!r} is beyond the years 1 to 9999",
            remedy="write an earlier or later time",
        ) from None
    return found


def _moment(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC)


class Chain:
    """The hash of a snapshot: over the previous hash and every change, ordered by class and key."""

    def __init__(self, before: bytes) -> None:
        self._hash = hashlib.sha256(before)

    def add(self, row: Row) -> None:
        """Add a change."""
        kept = None if row.content is None else row.hash.hex()
        self._hash.update(orjson.dumps([row.classification, row.key, kept, *row[4:]]) + b"\n")

    def digest(self) -> bytes:
        """Return the hash so far."""
        return self._hash.digest()


def named(digest: bytes) -> str:
    """Return a digest with its `sha256:` prefix."""
    return f"sha256:{digest.hex()}"


def fact_of(row: Row, snapshot: str, snapshot_hash: bytes, query: str | None = None) -> Fact:
    """Return a stored fact; raise `StoreCorrupt` if its bytes do not match its hash."""
    ref = str(EvidenceRef(row.classification, row.key, snapshot))
    content = row.content or b""
    if hashlib.sha256(content).digest() != row.hash:
        raise StoreCorrupt(f"fact {ref}", "its bytes have another hash")
    evidence = Evidence(
        id=ref,
        classification=row.classification,
        content=orjson.loads(content),
        trust=Trust(row.trust),
        source=row.source,
        expires_at=None if row.expires_at is None else _moment(row.expires_at),
    )
    citation = Citation(
        evidence=ref,
        content_hash=named(row.hash),
        snapshot_hash=named(snapshot_hash),
        document=row.document,
        document_hash=row.document_hash,
        chunk=row.chunk,
        start=row.start,
        end=row.end,
        query=query,
    )
    return Fact(evidence, citation)


class Census:
    """The number of facts and words of each class, updated with the changes."""

    def __init__(self, totals: bytes) -> None:
        self._totals: dict[str, tuple[int, int]] = msgspec.json.decode(totals) if totals else {}

    def add(self, classification: str, facts: int, words: int) -> None:
        """Count facts in, or out if the numbers are negative."""
        before = self._totals.get(classification, (0, 0))
        self._totals[classification] = (before[0] + facts, before[1] + words)

    def encode(self) -> bytes:
        """Return the counts as they are stored."""
        counted = {name: each for name, each in sorted(self._totals.items()) if each[0]}
        return msgspec.json.encode(counted)

    def of(self, classes: Iterable[str] | None) -> Totals:
        """Return the counts of some classes, or of all."""
        wanted = self._totals if classes is None else dict.fromkeys(classes)
        chosen = [self._totals[name] for name in wanted if name in self._totals]
        return Totals(sum(each[0] for each in chosen), sum(each[1] for each in chosen))


class SnapshotRow(NamedTuple):
    """A row of the table of snapshots."""

    id: int
    tenant_id: int
    name: str
    number: int | None
    created_at: int
    frozen_at: int | None
    hash: bytes | None
    totals: bytes | None


def count_change(change: Sequence[Any], chain: Chain, census: Census) -> None:
    """Add a row of `changes` to the hash and the counts."""
    classification, key, is_removal, *fields, length, old_length = change
    content = None if is_removal else b"kept"  # only its presence matters here
    chain.add(Row(classification, key, content, *fields))
    if old_length is not None:
        census.add(classification, -1, -old_length)
    if not is_removal:
        census.add(classification, 1, length)


def head_of(row: SnapshotRow, facts: int, pins: int) -> SnapshotHead:
    """Return the list entry of a row."""
    return SnapshotHead(
        name=row.name,
        number=row.number,
        created_at=row.created_at,
        frozen_at=row.frozen_at,
        hash="" if row.hash is None else named(row.hash),
        facts=facts,
        pins=pins,
    )


def differences(rows: Iterable[Sequence[Any]], *, is_backwards: bool) -> list[Difference]:
    """Yield the differences from rows (class, key, whether it is the earlier one, hash), with the two rows of a fact
    adjacent.
    """
    found: dict[tuple[str, str], list[str | None]] = {}
    for classification, key, is_old, digest in rows:
        pair = found.setdefault((classification, key), [None, None])
        pair[0 if bool(is_old) is not is_backwards else 1] = named(digest)
    return [
        Difference(*name, "added" if old is None else "removed" if new is None else "changed", old, new)
        for name, (old, new) in found.items()
    ]
