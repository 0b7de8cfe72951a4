"""The interface of an evidence store: its inputs, results and promises.

A *draft* is a list of changes that is not visible yet. Freezing it makes a *snapshot*: the newest snapshot with these
changes, under the next number. The snapshots of a tenant form one line, and none of them ever changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Literal, NamedTuple, Protocol, TypeAlias, runtime_checkable

import msgspec

from tercet.contracts.evidence import Citation, Evidence
from tercet.contracts.mode import Trust
from tercet.contracts.shape import Json


class NewDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A document; the facts after it in the same list may be its chunks. Its earlier facts are removed."""

    name: str
    hash: str
    """`sha256:` and the digest of its bytes."""
    media_type: str = "text/plain"
    size: int = 0


class NewFact(msgspec.Struct, frozen=True, kw_only=True):
    """A fact to add, replacing the one with the same class and key."""

    classification: str
    key: str
    content: Json
    trust: Trust = Trust.UNTRUSTED
    source: str = ""
    expires_at: datetime | None = None
    document: str = ""
    """The name of a document earlier in the same list."""
    chunk: int | None = None
    start: int | None = None
    end: int | None = None


class Removal(msgspec.Struct, frozen=True, kw_only=True):
    """A fact to remove."""

    classification: str
    key: str


Change: TypeAlias = NewDocument | NewFact | Removal
Progress: TypeAlias = Callable[[int], None]
"""Receives the number of changes done so far; it may be called in another thread."""


def silent(done: int) -> None:
    """Ignore progress."""
    del done


class Added(NamedTuple):
    """The changes that a call added to a draft."""

    facts: int
    documents: int
    removals: int


class SnapshotHead(msgspec.Struct, frozen=True, kw_only=True):
    """A list entry of a snapshot."""

    name: str
    number: int | None
    """Its number in the line; None for a draft."""
    created_at: int
    frozen_at: int | None = None
    hash: str = ""
    """`sha256:` and the digest of the previous hash and the changes; empty for a draft."""
    facts: int = 0
    """How many facts it holds; for a draft, how many changes."""
    pins: int = 0

    @property
    def is_frozen(self) -> bool:
        """Whether it can be read and is immutable."""
        return self.number is not None


class Fact(NamedTuple):
    """A fact of a snapshot, and where it was found."""

    evidence: Evidence
    citation: Citation


class Hit(NamedTuple):
    """A fact that a search found; a higher score is better."""

    fact: Fact
    score: float


class Difference(NamedTuple):
    """A fact in which two snapshots differ, with its hash in each; None if it is absent."""

    classification: str
    key: str
    kind: Literal["added", "changed", "removed"]
    before: str | None
    after: str | None


@runtime_checkable
class EvidenceStore(Protocol):
    """Facts and documents by tenant, in drafts and frozen snapshots.

    Promised: `put` and `freeze` do all or nothing, and their effect is durable when they return; a frozen snapshot
    returns the same facts, bytes, order and scores forever, whatever is added later; tenants see nothing of each other
    and share no bytes; two stores with the same changes have snapshots with the same hashes, and find the same.

    Not promised: that a cancelled `put` has no effect (it is stored completely or not at all); that stale facts are
    skipped (the user of a fact checks its expiry, since the store has no clock). A store belongs to the event loop that
    opened it.

    Invalid names raise `UsageError`; every method may raise a kind of `StoreError`.
    """

    async def create(self, tenant: str, draft: str, *, now_ms: int) -> SnapshotHead:
        """Begin a draft. Raises `SnapshotExists`."""
        ...

    async def put(
        self, tenant: str, draft: str, changes: Iterable[Change], *, progress: Progress = silent
    ) -> Added:
        """Add changes to a draft, all or none; a later change of the same fact replaces an earlier one.

        `changes` is read incrementally, perhaps in another thread; its exceptions pass through, and nothing is written.
        Raises `SnapshotUnknown`, `SnapshotFrozen`, `BadFact`.
        """
        ...

    async def freeze(
        self, tenant: str, draft: str, *, now_ms: int, name: str | None = None, progress: Progress = silent
    ) -> SnapshotHead:
        """Make a snapshot of a draft, under another name if one is given. Changes without effect are dropped.

        Raises `SnapshotUnknown`, `SnapshotFrozen`, `SnapshotExists`.
        """
        ...

    async def discard(self, tenant: str, draft: str) -> None:
        """Drop a draft. Raises `SnapshotUnknown`, `SnapshotFrozen`."""
        ...

    async def head(self, tenant: str, name: str) -> SnapshotHead:
        """Return one snapshot or draft. Raises `SnapshotUnknown`."""
        ...

    async def newest(self, tenant: str) -> SnapshotHead | None:
        """Return the frozen snapshot with the highest number."""
        ...

    async def heads(self, tenant: str, *, limit: int = 100) -> list[SnapshotHead]:
        """Return drafts by name, then snapshots, newest first."""
        ...

    async def diff(self, tenant: str, before: str, after: str) -> list[Difference]:
        """Return the facts in which two snapshots differ, by class and key. Raises `SnapshotUnknown`, `SnapshotOpen`."""
        ...

    async def fact(self, tenant: str, ref: str) -> Fact:
        """Return a fact by its id `kg:<class>:<key>#snapshot_<name>`, its bytes checked against its hash.

        Raises `FactUnknown`, `SnapshotUnknown`, `SnapshotOpen`.
        """
        ...

    async def facts(
        self,
        tenant: str,
        snapshot: str,
        *,
        classes: Sequence[str] | None = None,
        after: tuple[str, str] = ("", ""),
        limit: int = 1000,
    ) -> list[Fact]:
        """Return facts after a class and key, ordered by class and key. Raises `SnapshotUnknown`, `SnapshotOpen`."""
        ...

    async def search(
        self, tenant: str, snapshot: str, query: str, *, classes: Sequence[str] | None = None, limit: int = 10
    ) -> list[Hit]:
        """Return the facts that share words with a query, best first, equal scores ordered by id.

        Any text is a query: it has no syntax. Raises `SnapshotUnknown`, `SnapshotOpen`.
        """
        ...

    async def pin(self, tenant: str, snapshot: str, session: str) -> None:
        """Keep a snapshot as long as a session needs it; idempotent. Raises `SnapshotUnknown`, `SnapshotOpen`."""
        ...

    async def unpin(self, tenant: str, snapshot: str, session: str) -> None:
        """Release a pin; a missing one is ignored."""
        ...

    async def pins(self, tenant: str, snapshot: str) -> tuple[str, ...]:
        """Return the sessions that pin a snapshot, in order."""
        ...

    async def forget(self, tenant: str, snapshot: str) -> None:
        """Remove a frozen snapshot, and the facts that are in no other.

        Raises `SnapshotUnknown`, `SnapshotOpen`, and `SnapshotPinned` for one that is pinned or the newest.
        """
        ...

    async def close(self) -> None:
        """Finish pending work and close the store."""
        ...
