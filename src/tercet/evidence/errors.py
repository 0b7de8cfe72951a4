"""What a store of evidence may answer instead of doing as it was told.

UsageError
├── SnapshotUnknown    the tenant has no snapshot of this name
├── SnapshotExists     the name is taken
├── SnapshotFrozen     a frozen snapshot never changes
├── SnapshotOpen       a draft cannot be read before it is frozen
├── SnapshotPinned     somebody still stands on it
├── FactUnknown        the snapshot has no such fact
├── BadFact            a fact or document that cannot be kept
└── NewerStore         written by a newer version of Tercet
StoreError             the store could not do its part; nothing was written
├── StoreBusy          locked by somebody else beyond our patience
├── StoreFull          no room to write
├── StoreCorrupt       what is stored is not what was written
├── StoreUnavailable   cannot be opened, read or written
└── StoreClosed        used after close
"""

# ruff: noqa: N818 - a refusal is named by what is so: the snapshot is frozen, the fact is unknown

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from tercet.contracts.errors import TercetError, UsageError
from tercet.contracts.problem import Problem
from tercet.database.schema import StoreFault, StoreKind


class NamedRefusal(UsageError):
    """A refusal that is about a name; each kind has its sentence and its remedy."""

    sentence: ClassVar[str]
    usual_remedy: ClassVar[str]

    def __init__(self, name: str) -> None:
        super().__init__(self.sentence.format(name=name[:300]), remedy=self.usual_remedy)


class SnapshotUnknown(NamedRefusal):
    """The tenant has no snapshot of this name."""

    default_code = "snapshot_unknown"
    sentence = "there is no snapshot {name!r}"
    usual_remedy = "tercet evidence list shows those that are there"


class SnapshotExists(NamedRefusal):
    """The name of a snapshot is taken."""

    default_code = "snapshot_exists"
    sentence = "there is a snapshot {name!r} already"
    usual_remedy = "choose another name"


class SnapshotFrozen(NamedRefusal):
    """A frozen snapshot never changes."""

    default_code = "snapshot_frozen"
    sentence = "snapshot {name!r} is frozen; nothing was changed"
    usual_remedy = "add to a draft, and freeze that as a snapshot of its own"


class SnapshotOpen(NamedRefusal):
    """A draft cannot be read, searched or pinned."""

    default_code = "snapshot_open"
    sentence = "{name!r} is a draft, and nobody sees what is in it before it is frozen"
    usual_remedy = "freeze it first: tercet evidence snapshot"


class FactUnknown(NamedRefusal):
    """The snapshot has no fact of this class and id."""

    default_code = "fact_unknown"
    sentence = "there is no fact {name!r}"
    usual_remedy = "tercet evidence show SNAPSHOT lists the facts of a snapshot"


class SnapshotPinned(UsageError):
    """Somebody still stands on a snapshot."""

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
            remedy="mend them, or leave them out with --skip-bad",
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
    """The store could not do its part."""

    default_code = "evidence_store"


class StoreBusy(StoreFault, StoreError):
    """Somebody else held the lock for longer than we wait."""

    default_code = "evidence_busy"
    sentence = "the evidence in {place} is locked by somebody else: {reason}; nothing was written"
    usual_remedy = "wait until the other import is done, then try again"


class StoreFull(StoreFault, StoreError):
    """There is no room left to write."""

    default_code = "evidence_full"
    sentence = "the evidence in {place} cannot grow: {reason}; nothing was written"
    usual_remedy = "make room, then do it again"


class StoreCorrupt(StoreFault, StoreError):
    """What is stored is not what was written."""

    default_code = "evidence_corrupt"
    sentence = "the evidence is damaged at {place}: {reason}"
    usual_remedy = "keep the file as it is, and restore a copy from before the damage"


class StoreUnavailable(StoreFault, StoreError):
    """The store cannot be opened, read or written."""

    default_code = "evidence_unavailable"
    sentence = "the evidence in {place} cannot be used: {reason}"
    usual_remedy = "see that it can be reached"


class StoreClosed(StoreError):
    """The store was used after it was closed."""

    default_code = "evidence_closed"

    def __init__(self) -> None:
        super().__init__("the store of evidence is closed", remedy="open it again with open_evidence")


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
