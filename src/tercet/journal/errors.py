"""The errors of a journal.

    JournalError
    ├── PositionConflict      the stream does not end where the caller thinks
    ├── LeaseHeld             another owner's lease still runs
    ├── LeaseLost             the caller's lease was taken over or released
    ├── ClaimHeld             another stream holds the idempotency key
    ├── CheckpointExists      a checkpoint is never overwritten
    ├── BlobMissing           no bytes with this digest
    ├── JournalFull           no room to write
    ├── JournalBusy           locked by another process beyond our patience
    ├── JournalUnavailable    cannot be opened, read or written
    │   └── AppendUnknown     the store went away during a write, and it is unknown whether that was stored
    ├── JournalCorrupt        what is stored is not what was written; names the place
    ├── JournalDamaged        durable commits are missing; names the streams that lost events
    ├── NewerJournal          written by a newer version of Tercet
    └── JournalClosed         used after close

The first six are answers about one unit: nothing of it was written, and the journal is as it was.
After the others nothing was written either, except after `AppendUnknown`, where that is unknown.
"""

from __future__ import annotations

import msgspec

from tercet.contracts.errors import TercetError
from tercet.database.schema import StoreFault, StoreKind
from tercet.journal.protocol import Lease


class JournalError(TercetError):
    """The journal did not do what it was asked."""

    default_code = "journal"


class PositionConflict(JournalError):
    """The stream ends at `actual`, not at `expected`: another writer appended, or the caller read too little."""

    default_code = "position_conflict"

    def __init__(self, *, stream: str, expected: int, actual: int) -> None:
        super().__init__(
            f"stream {stream} ends at {actual}, not at {expected}; nothing was written",
            remedy="read the stream from the expected position and decide again",
        )
        self.stream = stream
        self.expected = expected
        self.actual = actual


class LeaseHeld(JournalError):
    """Another owner's lease on the stream still runs."""

    default_code = "lease_held"

    def __init__(self, lease: Lease) -> None:
        super().__init__(
            f"stream {lease.stream} is leased to {lease.owner} until {lease.until} ms",
            remedy="wait until the lease and the grace after it have run out, or let its owner release it",
        )
        self.lease = lease
        self.stream = lease.stream
        self.owner = lease.owner
        self.until = lease.until
        self.wait_ms = 0
        """After how long a process that watches the lease may replace it, if it is not renewed."""


class LeaseLost(JournalError):
    """The lease with this epoch is not the current one: another took over, or it was released."""

    default_code = "lease_lost"

    def __init__(self, *, stream: str, epoch: int | None, current: int) -> None:
        had = "no lease" if epoch is None else f"lease epoch {epoch}"
        super().__init__(
            f"{had} does not allow writing to stream {stream}, whose lease epoch is {current}; nothing was written",
            remedy="stop working on this stream; acquire its lease and read it again before going on",
        )
        self.stream = stream
        self.epoch = epoch
        self.current = current


class ClaimHeld(JournalError):
    """An idempotency key is held by another stream."""

    default_code = "claim_held"

    def __init__(self, *, key: str, holder: str) -> None:
        super().__init__(
            f"idempotency key {key} is held by stream {holder}; nothing was written",
            remedy="look at what the holder did before repeating the action",
        )
        self.key = key
        self.holder = holder


class CheckpointExists(JournalError):
    """Another checkpoint of this kind stands at this position."""

    default_code = "checkpoint_exists"

    def __init__(self, *, stream: str, kind: str, seq: int) -> None:
        super().__init__(
            f"stream {stream} has a different {kind} checkpoint at {seq}; nothing was written",
            remedy="checkpoints are immutable: write the next one at a later position",
        )
        self.stream = stream
        self.kind = kind
        self.seq = seq


class BlobMissing(JournalError):
    """The tenant has no blob with this digest."""

    default_code = "blob_missing"

    def __init__(self, *, tenant: str, digest: str) -> None:
        super().__init__(
            f"tenant {tenant} has no blob {digest}",
            remedy="a blob is stored with the append that refers to it; check the digest and the tenant",
        )
        self.tenant = tenant
        self.digest = digest


class JournalFull(StoreFault, JournalError):
    """There is no room left to write."""

    default_code = "journal_full"
    sentence = "the journal {place} cannot grow: {reason}; nothing was written"
    usual_remedy = "make room on its disk, then resume; what was written before is safe"


class JournalBusy(StoreFault, JournalError):
    """Another process held the journal's lock for longer than the patience."""

    default_code = "journal_busy"
    sentence = "the journal {place} stayed locked by another process: {reason}; nothing was written"
    usual_remedy = "end the process that holds it (a database shell, a backup), then try again"


class JournalUnavailable(StoreFault, JournalError):
    """The journal cannot be opened, read or written."""

    default_code = "journal_unavailable"
    sentence = "the journal {place} is not available: {reason}"
    usual_remedy = "see that it exists and may be written, then try again"


class AppendUnknown(JournalUnavailable):
    """The store went away after a write was sent: it is stored whole or not at all, and it is unknown which."""

    default_code = "append_unknown"

    def __init__(self, place: str, reason: str) -> None:
        super().__init__(
            place,
            f"{reason}; the write under way was either stored whole or not at all",
            remedy="when the journal is back, read the stream again and go on from what it holds",
        )


class JournalCorrupt(StoreFault, JournalError):
    """What is stored is not what was written; `place` says where."""

    default_code = "journal_corrupt"
    sentence = "the journal is damaged at {place}: {reason}"
    usual_remedy = "keep the file as it is, restore a copy from before the damage, and compare the two"


def claim_without_stream(key: str) -> JournalCorrupt:
    """Return the error for a claim that names a stream which is not there: who holds the key is not known."""
    return JournalCorrupt(f"the claim on {key}", "the stream that holds it is not there")


class LostStream(msgspec.Struct, frozen=True, kw_only=True, array_like=True, gc=False):
    """A stream that moved in a lost commit, and where it ended then; position 0 if it was removed."""

    tenant: str
    stream: str
    seq: int


class Loss(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The durable commits that a database lacks."""

    commits: int
    streams: tuple[LostStream, ...]
    """The last recorded end of each stream that is known to have moved in them."""
    is_complete: bool
    """Whether these are all streams that moved."""


class JournalDamaged(JournalError):
    """Commits that were acknowledged are missing from the journal, and calls made after them would be repeated."""

    default_code = "journal_damaged"

    def __init__(self, place: str, loss: Loss) -> None:
        named = [f"{each.stream} (had {each.seq} events)" for each in loss.streams[:_MOST_NAMED]]
        more = len(loss.streams) - len(named)
        others = [f"{more} more"] if more else [] if loss.is_complete else ["others"]
        super().__init__(
            f"the journal {place} has lost its last {loss.commits} durable commits, which moved "
            f"{', '.join((*named, *others))}; nothing was changed",
            remedy="restore the newest copy, or see what is left with tercet journal check and go on with "
            "tercet journal accept, which keeps the sessions that lost events from being resumed",
        )
        self.place = place
        self.loss = loss


_MOST_NAMED = 5


class NewerJournal(JournalError):
    """The journal was written by a newer version of Tercet."""

    default_code = "journal_newer"

    def __init__(self, place: str, *, version: int, known: int) -> None:
        super().__init__(
            f"the journal {place} has version {version}, and this Tercet knows versions up to {known}",
            remedy="upgrade Tercet, or open another journal; nothing was changed",
        )
        self.place = place
        self.version = version
        self.known = known


class JournalClosed(JournalError):
    """The journal was used after it was closed."""

    default_code = "journal_closed"

    def __init__(self) -> None:
        super().__init__("the journal is closed", remedy="open it again with open_journal")


JOURNAL = StoreKind(
    name="journal",
    noun="a journal",
    example="sqlite:///runs.db",
    unknown="unknown_journal",
    foreign="not_a_journal",
    migration_lock=0x7E7C_E701,
    busy=JournalBusy,
    full=JournalFull,
    corrupt=JournalCorrupt,
    unavailable=JournalUnavailable,
    newer=NewerJournal,
    closed=JournalClosed,
)
