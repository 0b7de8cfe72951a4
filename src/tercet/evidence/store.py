"""The interface of a store of evidence: what is handed over, what comes back, and what is promised.

A *draft* is a list of changes that nobody sees. Freezing it makes a *snapshot*: the newest snapshot with these changes,
under the next number. Snapshots of a tenant so form one line, and none of them ever changes.
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
    """A document; the facts behind it in the same list may be its chunks. What it had before is removed."""

    name: str
    hash: str
    """`sha256:` and the digest of its bytes."""
    media_type: str = "text/plain"
    size: int = 0


class NewFact(msgspec.Struct, frozen=True, kw_only=True):
    """A fact to be added, in place of the one with the same class and key."""

    classification: str
    key: str
    content: Json
    trust: Trust = Trust.UNTRUSTED
    source: str = ""
    expires_at: datetime | None = None
    document: str = ""
    """The name of a document that stands earlier in the same list."""
    chunk: int | None = None
    start: int | None = None
    end: int | None = None


class Removal(msgspec.Struct, frozen=True, kw_only=True):
    """A fact to be left out from now on."""

    classification: str
    key: str


Change: TypeAlias = NewDocument | NewFact | Removal
Progress: TypeAlias = Callable[[int], None]
"""Told how many changes were done so far; it may be called in another thread."""


def silent(done: int) -> None:
    """Progress that nobody follows."""
    del done


class Added(NamedTuple):
    """How much a call put into a draft."""

    facts: int
    documents: int
    removals: int


class SnapshotHead(msgspec.Struct, frozen=True, kw_only=True):
    """What lists of snapshots show."""

    name: str
    number: int | None
    """Where it stands in the line; None for a draft."""
    created_at: int
    frozen_at: int | None = None
    hash: str = ""
    """`sha256:` and the digest over the hash before and the changes; empty for a draft."""
    facts: int = 0
    """How many facts it holds; for a draft, how many changes."""
    pins: int = 0

    @property
    def is_frozen(self) -> bool:
        """Whether it can be read, and never changes."""
        return self.number is not None


class Fact(NamedTuple):
    """A fact of a snapshot, and where it was found."""

    evidence: Evidence
    citation: Citation


class Hit(NamedTuple):
    """A fact that a search found; the higher the score, the better."""

    fact: Fact
    score: float


class Difference(NamedTuple):
    """One fact in which two snapshots differ, with its hash in each; None where it is not there."""

    classification: str
    key: str
    kind: Literal["added", "changed", "removed"]
    before: str | None
    after: str | None


@runtime_checkable
class EvidenceStore(Protocol):
    """Facts and documents by tenant, in drafts and frozen snapshots.

    Promised: `put` and `freeze` do all or nothing, and what they did is durable when they return; a frozen snapshot
    gives the same facts, bytes, order and scores for ever, whatever is added later; tenants see nothing of each other
    and share no bytes; two stores that were told the same hold snapshots with the same hashes, and find the same.

    Not promised: that a cancelled `put` left nothing behind. It is stored whole or not at all. That stale facts are left
    out: expiry is judged by whoever uses a fact, since the store has no clock. A store belongs to the event loop that
    opened it.

    Names that are none raise `UsageError`; every method may raise one of `StoreError`'s kinds.
    """

    async def create(self, tenant: str, draft: str, *, now_ms: int) -> SnapshotHead:
        """Begin a draft. Raises `SnapshotExists`."""
        ...

    async def put(
        self, tenant: str, draft: str, changes: Iterable[Change], *, progress: Progress = silent
    ) -> Added:
        """Add changes to a draft, all or none; a later change of the same fact takes the place of an earlier one.

        `changes` is read bit by bit, perhaps in another thread; whatever it raises comes out, and nothing is written.
        Raises `SnapshotUnknown`, `SnapshotFrozen`, `BadFact`.
        """
        ...

    async def freeze(
        self, tenant: str, draft: str, *, now_ms: int, name: str | None = None, progress: Progress = silent
    ) -> SnapshotHead:
        """Make a snapshot of a draft, under another name if one is given. Changes that change nothing are dropped.

        Raises `SnapshotUnknown`, `SnapshotFrozen`, `SnapshotExists`.
        """
        ...

    async def discard(self, tenant: str, draft: str) -> None:
        """Drop a draft. Raises `SnapshotUnknown`, `SnapshotFrozen`."""
        ...

    async def head(self, tenant: str, name: str) -> SnapshotHead:
        """One snapshot or draft. Raises `SnapshotUnknown`."""
        ...

    async def newest(self, tenant: str) -> SnapshotHead | None:
        """The frozen snapshot with the highest number."""
        ...

    async def heads(self, tenant: str, *, limit: int = 100) -> list[SnapshotHead]:
        """Drafts by name, then snapshots, newest first."""
        ...

    async def diff(self, tenant: str, before: str, after: str) -> list[Difference]:
        """In which facts two snapshots differ, by class and key. Raises `SnapshotUnknown`, `SnapshotOpen`."""
        ...

    async def fact(self, tenant: str, ref: str) -> Fact:
        """A fact by its id `kg:<class>:<key>#snapshot_<name>`, its bytes checked against its hash.

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
        """Facts behind a class and key, in the order of class and key. Raises `SnapshotUnknown`, `SnapshotOpen`."""
        ...

    async def search(
        self, tenant: str, snapshot: str, query: str, *, classes: Sequence[str] | None = None, limit: int = 10
    ) -> list[Hit]:
        """The facts that share words with a query, best first, those of one score by id.

        Any text is a query: nothing in it is syntax. Raises `SnapshotUnknown`, `SnapshotOpen`.
        """
        ...

    async def pin(self, tenant: str, snapshot: str, session: str) -> None:
        """Keep a snapshot as long as a session needs it; twice is once. Raises `SnapshotUnknown`, `SnapshotOpen`."""
        ...

    async def unpin(self, tenant: str, snapshot: str, session: str) -> None:
        """Give a pin up; one that is not there is left alone."""
        ...

    async def pins(self, tenant: str, snapshot: str) -> tuple[str, ...]:
        """Who pins a snapshot, in order."""
        ...

    async def forget(self, tenant: str, snapshot: str) -> None:
        """Remove a frozen snapshot, and the facts that stand in no other.

        Raises `SnapshotUnknown`, `SnapshotOpen`, and `SnapshotPinned` for one that is pinned or the newest.
        """
        ...

    async def close(self) -> None:
        """Finish what is under way and let go of the store."""
        ...
