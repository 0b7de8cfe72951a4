"""The errors of an evidence store.

UsageError
├── SnapshotUnknown    the tenant has no snapshot of this name
├── SnapshotExists     the name is taken
├── SnapshotFrozen     a frozen snapshot never changes
├── SnapshotOpen       a draft cannot be read before it is frozen
├── SnapshotPinned     a session still needs it
├── FactUnknown        the snapshot has no such fact
├── BadFact            a fact or document that cannot be kept
└── NewerStore         written by a newer version of Tercet
StoreError             the store failed; nothing was written
├── StoreBusy          locked by another process for too long
├── StoreFull          no room to write
├── StoreCorrupt       what is stored is not what was written
├── StoreUnavailable   cannot be opened, read or written
└── StoreClosed        used after close
"""

# ruff: noqa: N818 - an error is named after the state: the snapshot is frozen, the fact is unknown

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from tercet.contracts.errors import TercetError, UsageError
from tercet.contracts.problem import Problem
from tercet.database.schema import StoreFault, StoreKind


class NamedRefusal(UsageError):
    """An error about a name; each kind has its message and its remedy."""

    sentence: ClassVar[str]
    usual_remedy: ClassVar[str]

    def __init__(self, name: str) -> None:
        super().__init__(self.sentence.format(name=name[:300]), remedy=self.usual_remedy)


class SnapshotUnknown(NamedRefusal):
    """The tenant has no snapshot of this name."""

    default_code = "snapshot_unknown"
    sentence = "unknown snapshot {name!r}"
    usual_remedy = "list the snapshots with: tercet evidence list"


class SnapshotExists(NamedRefusal):
    """The name of a snapshot is taken."""

    default_code = "snapshot_exists"
    sentence = "the snapshot {name!r} already exists"
    usual_remedy = "choose another name"


class SnapshotFrozen(NamedRefusal):
    """A frozen snapshot never changes."""

    default_code = "snapshot_frozen"
    sentence = "snapshot {name!r} is frozen; nothing was changed"
    usual_remedy = "add to a draft, and freeze that as a snapshot of its own"


class SnapshotOpen(NamedRefusal):
    """A draft cannot be read, searched or pinned."""

    default_code = "snapshot_open"
    sentence = "{name!r} is a draft, which cannot be read before it is frozen"
    usual_remedy = "freeze it first: tercet evidence snapshot"


class FactUnknown(NamedRefusal):
    """The snapshot has no fact of this class and id."""

    default_code = "fact_unknown"
    sentence = "unknown fact {name!r}"
    usual_remedy = "list the facts with: tercet evidence show SNAPSHOT"


class SnapshotPinned(UsageError):
    """A session still needs a snapshot."""

    default_code = "snapshot_pinned"

    def __init__(self, name: str, holders: tuple[str, ...]) -> None:
        super().__init__(
            f"snapshot {name!r} is needed by {', '.join(holders[:3])}{' and others' if len(holders) > 3 else ''}",
            remedy="let its sessions end first; the newest snapshot can never be removed",
        )
        self.holders = holders


class BadFact(UsageError):
    """A fact or a document that cannot be kept."""

    default_code = "bad_fact"


class BadFiles(UsageError):
    """Files that cannot be read as they are; `problems` lists each with its file and line."""

    default_code = "files_invalid"

    def __init__(self, problems: Sequence[Problem]) -> None:
        first = problems[0].line()
        count = len(problems)
        super().__init__(
            f"nothing was imported, since the files have {count} problem{'s' * (count != 1)}: {first}",
            remedy="correct them, or skip them with --skip-bad",
        )
        self.problems = tuple(problems)


class NewerStore(UsageError):
    """The store was written by a newer version of Tercet."""

    default_code = "evidence_newer"

    def __init__(self, place: str, *, version: int, known: int) -> None:
        super().__init__(
            f"the evidence in {place} has version {version}, and this Tercet knows versions up to {known}",
            remedy="upgrade Tercet, or open another store; nothing was changed",
        )


class StoreError(TercetError):
    """The store failed."""

    default_code = "evidence_store"


class StoreBusy(StoreFault, StoreError):
    """Another process held the lock for longer than we wait."""

    default_code = "evidence_busy"
    sentence = "the evidence in {place} is locked by another process: {reason}; nothing was written"
    usual_remedy = "wait until the other import is done, then try again"


class StoreFull(StoreFault, StoreError):
    """There is no room left to write."""

    default_code = "evidence_full"
    sentence = "the evidence in {place} cannot grow: {reason}; nothing was written"
    usual_remedy = "free some space, then try again"


class StoreCorrupt(StoreFault, StoreError):
    """The stored data is damaged."""

    default_code = "evidence_corrupt"
    sentence = "the evidence is damaged at {place}: {reason}"
    usual_remedy = "keep the file as it is, and restore a copy from before the damage"


class StoreUnavailable(StoreFault, StoreError):
    """The store cannot be opened, read or written."""

    default_code = "evidence_unavailable"
    sentence = "the evidence in {place} cannot be used: {reason}"
    usual_remedy = "check that it can be reached"


class StoreClosed(StoreError):
    """The store was used after it was closed."""

    default_code = "evidence_closed"

    def __init__(self) -> None:
        super().__init__("the evidence store is closed", remedy="open it again with open_evidence")


EVIDENCE = StoreKind(
    name="evidence",
    noun="evidence",
    example="sqlite:///evidence.db",
    unknown="unknown_store",
    foreign="not_evidence",
    migration_lock=0x7E7C_E702,
    busy=StoreBusy,
    full=StoreFull,
    corrupt=StoreCorrupt,
    unavailable=StoreUnavailable,
    newer=NewerStore,
    closed=StoreClosed,
)
