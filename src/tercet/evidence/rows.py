"""Facts as the stores hold them, and the rules shared by all stores: names, sizes, and the hash of a snapshot."""

from __future__ import annotations

import hashlib
import math
import re
import tempfile
import threading
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import accumulate, islice
from typing import IO, Any, NamedTuple, TypeAlias

import msgspec
import orjson

from tercet.contracts.errors import UsageError
from tercet.contracts.evidence import Citation, Evidence, EvidenceRef
from tercet.contracts.mode import Trust
from tercet.contracts.shape import as_list, as_object
from tercet.contracts.text.words import LONGEST, MOST_LETTERS, words_of
from tercet.contracts.values.canonical import canonical
from tercet.contracts.values.plain import not_plain
from tercet.contracts.values.references import is_text
from tercet.evidence.errors import BadFact, StoreCorrupt, StoreFull
from tercet.evidence.store import (
    Change,
    Difference,
    Fact,
    NewDocument,
    NewFact,
    Progress,
    Removal,
    SnapshotHead,
)
from tercet.journal.stream import MOST_BYTES

_K1 = 1.2
_B = 0.75
"""The usual values of FTS5, Lucene and the literature."""
PLACES = 6


class Totals(NamedTuple):
    """The number of searched facts, and of their words."""

    facts: int
    words: int


class Match(NamedTuple):
    """A fact that contains a word: its number, the number of occurrences, and its number of words."""

    number: int
    times: int
    length: int


def score(matches: Sequence[Sequence[Match]], totals: Totals) -> dict[int, float]:
    """Return the scores by fact number, given the matches of each word of a query."""
    mean = max(1.0, totals.words / max(1, totals.facts))
    scores: dict[int, float] = {}
    for found in matches:
        worth = math.log(1 + (totals.facts - len(found) + 0.5) / (len(found) + 0.5)) * (_K1 + 1)
        for number, times, length in found:
            weight = times / (times + _K1 * (1 - _B + _B * length / mean))
            scores[number] = scores.get(number, 0.0) + worth * weight
    return {number: round(value, PLACES) for number, value in scores.items()}


def best(scores: Mapping[int, float], limit: int) -> list[int]:
    """Return the numbers that may be among the best: those with the highest scores, including ties with the last."""
    if limit <= 0:
        return []
    ordered = sorted(scores, key=lambda number: -scores[number])
    if len(ordered) <= limit:
        return ordered
    lowest = scores[ordered[limit - 1]]
    end = limit
    while end < len(ordered) and scores[ordered[end]] == lowest:
        end += 1
    return ordered[:end]


MOST_WORDS = 10_000
"""The maximum number of indexed words of a fact."""


def indexed(content: Any) -> list[str]:
    """Return the words of a fact's content: of its texts, numbers and field names."""
    found: list[str] = []
    for text in _texts(content):
        found += words_of(text[:MOST_LETTERS])
        if len(found) > MOST_WORDS:
            break
    return _bounded(found[:MOST_WORDS])


def _bounded(words: list[str]) -> list[str]:
    """Return the first words up to the limit of indexed characters."""
    if len(words) * LONGEST <= MOST_LETTERS:
        return words
    sizes = accumulate(map(len, words))
    return [word for word, size in zip(words, sizes, strict=True) if size <= MOST_LETTERS]


def _texts(content: Any) -> Iterator[str]:
    """Yield texts, field names and numbers, in canonical order."""
    stack: list[Any] = [content]
    while stack:
        item = stack.pop()
        if (members := as_object(item)) is not None:
            for name in sorted(members, reverse=True):
                stack += (members[name], name)
        elif (items := as_list(item)) is not None:
            stack.extend(reversed(items))
        elif isinstance(item, str):
            yield item
        elif item is not None and not isinstance(item, bool):
            yield format(item, "g") if isinstance(item, float) and item.is_integer() else str(item)


# --- rows ---


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


# --- spool ---
# Reading documents takes time, and a store that is locked meanwhile would keep sessions from pinning their
# snapshots. So all changes are checked and buffered first, in memory or, if there are many, in a temporary file;
# then they are written at once.


BATCH = 1_000
_IN_MEMORY = 32_000_000

Prepared: TypeAlias = NewDocument | Row


class Stopped(Exception):  # noqa: N818 - a cancellation, not a failure
    """The caller no longer waits."""


class _Page(msgspec.Struct, array_like=True):
    """Some changes in order; a document comes before its rows."""

    documents: list[tuple[int, NewDocument]]
    rows: list[Row]


class Stop:
    """Tells a thread that its caller no longer waits."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def ask(self) -> None:
        """Ask the thread to stop."""
        self._event.set()

    def check(self) -> None:
        """Raise `Stopped` if the thread was asked to stop."""
        if self._event.is_set():
            raise Stopped


class Spool:
    """Checked changes, in order."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._encoder = msgspec.msgpack.Encoder()
        self._decoder = msgspec.msgpack.Decoder(_Page)

    def fill(self, changes: Iterable[Change], progress: Progress, stop: Stop) -> None:
        """Buffer all changes; exceptions of the iterator pass through."""
        prepared, done = _while_wanted(prepare(changes), stop), 0
        while batch := list(islice(prepared, BATCH)):
            documents = [(at, each) for at, each in enumerate(batch) if isinstance(each, NewDocument)]
            rows = [each for each in batch if isinstance(each, Row)]
            self._write(self._encoder.encode(_Page(documents, rows)))
            done += len(batch)
            progress(done)

    def batches(self) -> Iterator[list[Prepared]]:
        """Yield the changes in batches."""
        self._file.seek(0)
        while size := self._file.read(8):
            page = self._decoder.decode(self._file.read(int.from_bytes(size)))
            batch: list[Prepared] = [*page.rows]
            for at, document in page.documents:
                batch.insert(at, document)
            yield batch

    def _write(self, data: bytes) -> None:
        try:
            self._file.write(len(data).to_bytes(8) + data)
        except OSError as error:
            raise StoreFull(tempfile.gettempdir(), str(error)) from error


def _while_wanted(changes: Iterable[Prepared], stop: Stop) -> Iterator[Prepared]:
    for change in changes:
        stop.check()
        yield change


@contextmanager
def spooled() -> Generator[Spool]:
    """Return a buffer for changes, which is deleted afterwards."""
    with tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY) as file:
        yield Spool(file)
