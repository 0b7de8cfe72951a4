"""Checking a whole journal: every stream, checkpoint, session row, claim and blob of every tenant.

One damaged stream does not end the check: its problems are noted, and the next stream is read.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, get_args

import msgspec

from tercet.contracts.errors import TercetError
from tercet.contracts.runs.session import SessionStatus
from tercet.core import codec
from tercet.core import events as e
from tercet.core.state import State
from tercet.engine import checkpoint
from tercet.engine.checks.retention import add_row, expected_claims, find_claim_faults, find_missing_points
from tercet.engine.personal.keys import claim_of, is_subject
from tercet.engine.rows import details_of, row_of, rows_of_earlier_versions
from tercet.engine.session_reader import load_history, read_checkpoints
from tercet.engine.streams.audit import age_claim, is_result
from tercet.engine.streams.kinds import find_foreign
from tercet.journal.chain import verify_chain
from tercet.journal.database import CheckQuery, DatabaseJournal, digest_text
from tercet.journal.errors import (
    BlobMissing,
    JournalBusy,
    JournalClosed,
    JournalCorrupt,
    JournalUnavailable,
    Loss,
)
from tercet.journal.protocol import SessionRow, StoredCheckpoint

_STATUSES = frozenset(get_args(SessionStatus))
_LATEST_MS = 253_402_300_799_999
"""The end of the year 9999."""


class DamagedSession(msgspec.Struct, frozen=True, kw_only=True):
    """A session that a list cannot show, and why."""

    session_id: str
    reason: str


def row_fault(row: SessionRow) -> str:
    """Return the defect of a session's row; empty if a list can show it."""
    texts = (row.session_id, row.status, row.pack, row.pack_hash, row.snapshot, row.intent, row.owner)
    if not all(_is_text(text) for text in (*texts, row.next_step or "")):
        return "its row holds bytes that are not text"
    if row.status not in _STATUSES:
        return f"its row has an unknown status {row.status!r}"
    if not all(type(at) is int and 0 <= at <= _LATEST_MS for at in (row.started_at, row.updated_at)):
        return "its row has times outside of the calendar"
    try:
        details_of(row)
    except JournalCorrupt as error:
        return error.message
    return ""


def describe_damage(session: str, error: Exception) -> DamagedSession:
    """Return the description of a session that could not be read. Re-raises the error if the store itself failed.

    Events that were changed can make folding fail in any way, so every other error counts as damage.
    """
    if isinstance(error, JournalBusy | JournalClosed | JournalUnavailable | OSError):
        raise error
    reason = error.message if isinstance(error, TercetError) else f"{type(error).__name__}: {error}"
    return DamagedSession(session_id=escape_undecodable(session), reason=escape_undecodable(reason))


def escape_undecodable(text: str) -> str:
    """Return a text with bytes that are not UTF-8 written as escapes."""
    return text if _is_text(text) else str(text).encode("utf-8", "backslashreplace").decode()


def _is_text(text: object) -> bool:
    if not isinstance(text, str):
        return False
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


_PAGE = 200
_TRIES = 3
"""The number of times to read a session that changes while it is checked."""
_RESTORE = "restore a copy from before the damage; the rest of the journal can be used"
_RENAME = "give the stream its old name, or restore a copy from before the damage"
_NO_RESUME = "do not resume the session before a copy from before the damage is restored"


class JournalProblem(msgspec.Struct, frozen=True, kw_only=True):
    """A damaged place in a journal."""

    place: str
    what: str
    remedy: str
    tenant: str = ""
    stream: str = ""


@dataclass(kw_only=True)
class JournalReport:
    """The numbers of things a check has read, and the problems it found."""

    streams: int = 0
    events: int = 0
    sessions: int = 0
    claims: int = 0
    blobs: int = 0
    problems: list[JournalProblem] = field(default_factory=list[JournalProblem])

    def add(
        self, place: str, what: str, remedy: str = _RESTORE, *, tenant: str = "", stream: str = ""
    ) -> None:
        """Note a problem."""
        self.problems.append(
            JournalProblem(
                place=escape_undecodable(place),
                what=escape_undecodable(what),
                remedy=remedy,
                tenant=escape_undecodable(tenant),
                stream=escape_undecodable(stream),
            )
        )


async def check_journal(
    journal: DatabaseJournal, loss: Loss | None, *, progress: Callable[[JournalReport], None]
) -> JournalReport:
    """Return a report of every problem in a journal. Nothing is written.

    Raises `JournalBusy` or `JournalUnavailable` where the store cannot be read at all.
    """
    return await _Check(journal, progress).run(loss)


class _Check:
    def __init__(self, journal: DatabaseJournal, progress: Callable[[JournalReport], None]) -> None:
        self._journal = journal
        self._progress = progress
        self._report = JournalReport()

    async def run(self, loss: Loss | None) -> JournalReport:
        if loss is not None:
            self._note_loss(loss)
        for part, look in (
            ("the database file", self._check_store),
            ("the table of streams", self._check_streams),
            ("the tables of events and checkpoints", self._check_foreign_rows),
            ("the table of sessions", self._check_sessions),
            ("the table of claims", self._check_claims),
            ("the table of blobs", self._check_blobs),
        ):
            try:
                await look()
            except JournalCorrupt as error:
                self._report.add(part, f"it cannot be read further: {error.message}")
        return self._report

    def _note_loss(self, loss: Loss) -> None:
        remedy = "restore a newer copy; or go on with what is left: tercet journal accept"
        self._report.add(
            "the end of the journal", f"its last {loss.commits} durable commits are missing", remedy
        )
        for each in loss.streams:
            what = f"it had {each.seq} events" if each.seq else "it had been removed"
            self._report.add("the end of the stream", what, remedy, tenant=each.tenant, stream=each.stream)

    async def _check_store(self) -> None:
        for fault in await self._journal.store_faults():
            self._report.add("the database file", fault)

    async def _each(
        self, query: CheckQuery, look: Callable[..., Awaitable[None]], *, empty: Any = ""
    ) -> None:
        """Check every row of a table, in the order of its first two columns."""
        after: tuple[Any, Any] = ("", empty)
        while page := await self._journal.inspect(query, after, _PAGE):
            for row in page:
                await look(*row)
                self._progress(self._report)
            after = tuple(page[-1][:2])

    # --- streams ---

    async def _check_streams(self) -> None:
        await self._each("check_streams", self._check_stream)

    async def _check_stream(self, tenant: str, stream: str) -> None:
        self._report.streams += 1
        try:
            end = await verify_chain(self._journal, tenant, stream)
        except TercetError as error:
            self._report.add(_place(error), error.message, _NO_RESUME, tenant=tenant, stream=stream)
            return
        self._report.events += end.seq
        first = await self._journal.read(tenant, stream, limit=1)
        if first and _is_start(first[0].data):
            await self._check_history(tenant, stream)
        elif first:
            await self._check_beside(tenant, stream)

    async def _check_beside(self, tenant: str, stream: str) -> None:
        """Check that a stream that is not a session has the content that its name promises, and only the claims of its
        keys."""
        after = 0
        own: set[str] = set()
        while page := await self._journal.read(tenant, stream, after=after, limit=_PAGE):
            if fault := find_foreign(tenant, stream, page):
                self._report.add("its name", fault, _RENAME, tenant=tenant, stream=stream)
                break
            if is_subject(stream):
                own |= {claim_of(each.data) for each in page}
            if is_result(stream):
                own |= {age_claim(stream, each.data) for each in page}
            after = page[-1].seq
        for key in {*await self._journal.claims_of(tenant, stream)} - own:
            what = "no event of this stream made it"
            self._report.add(f"the claim on {key}", what, tenant=tenant, stream=stream)

    async def _check_foreign_rows(self) -> None:
        for kind, number, seq, stream in await self._journal.foreign_rows():
            what = "no stream has this number" if stream is None else "the stream has no such position"
            self._report.add(f"{kind} {seq} of stream number {number}", what, stream=stream or "")

    async def _check_history(self, tenant: str, session: str) -> None:
        """Compare a session's checkpoints and its row with its events."""
        for _ in range(_TRIES):
            before = await self._journal.head(tenant, session)
            found = [
                JournalProblem(place=place, what=what, remedy=remedy, tenant=tenant, stream=session)
                for place, what, remedy in await self._compare(tenant, session)
            ]
            if not found or await self._journal.head(tenant, session) == before:
                break
        else:
            return  # it is being written to; its chain has been checked
        self._report.problems += found

    async def _compare(self, tenant: str, session: str) -> list[tuple[str, str, str]]:
        faults: list[tuple[str, str, str]] = []
        state = State()
        states: dict[int, State] = {}
        rows: deque[SessionRow] = deque()
        turns: list[int] = []
        try:
            stored = await read_checkpoints(self._journal, tenant, session)
        except JournalCorrupt as error:
            stored = []
            faults.append((error.place, error.message, _RESTORE))
        wanted = {each.seq for each in stored}
        try:
            history = await load_history(self._journal, tenant, session)
            for seq, (_, after) in enumerate(history.walk(), 1):
                phase, state = state.phase, after
                if seq in wanted:
                    states[seq] = state
                if state.phase is not phase:
                    turns.append(seq)
                add_row(rows, row_of(state))
            events = history.events
        except TercetError as error:
            return [*faults, (_place(error), error.message, _NO_RESUME)]
        faults += [
            (
                f"{each.kind} checkpoint {each.seq}",
                "it is not the state that the events lead to",
                "a fold is not used unless the events vouch for it; a point makes resuming fail: " + _RESTORE,
            )
            for each in stored
            if not _is_of(each, states.get(each.seq))
        ]
        row = await self._journal.session(tenant, session)
        if row is None:
            faults.append(("its row", "it is missing, so no list shows the session", _RESTORE))
        elif not row_fault(row) and row not in (*rows, *_earlier_rows(rows, state)):
            faults.append(
                ("its row", f"{_differing_fields(row, row_of(state))} differs from the events", _RESTORE)
            )
        points = [each.seq for each in stored if each.kind == "point"]
        faults += [
            (f"the point for event {seq}", "it is missing", _RESTORE)
            for seq in find_missing_points(events, points)
        ]
        held = await self._journal.claims_of(tenant, session)
        faults += [
            (f"the claim on {key}", what, _NO_RESUME)
            for key, what in find_claim_faults(expected_claims(events), held, len(events), points, turns)
        ]
        return faults

    # --- sessions, claims and blobs ---

    async def _check_sessions(self) -> None:
        after = ("", "")
        while page := await self._journal.inspect_sessions(after, _PAGE):
            for row in page:
                await self._check_row(row)
            after = (page[-1].tenant, page[-1].session_id)

    async def _check_row(self, row: SessionRow) -> None:
        self._report.sessions += 1
        fault = row_fault(row)
        if not fault and not (await self._journal.head(row.tenant, row.session_id)).seq:
            fault = "there are no events of this session"
        if fault:
            self._report.add("its row", fault, tenant=row.tenant, stream=row.session_id)

    async def _check_claims(self) -> None:
        async def look(tenant: str, key: str, stream: str | None) -> None:
            self._report.claims += 1
            if stream is None:
                self._report.add(
                    f"the claim on {key}", "the stream that holds it is not there", tenant=tenant
                )

        await self._each("check_claims", look)

    async def _check_blobs(self) -> None:
        async def look(tenant: str, digest: bytes) -> None:
            self._report.blobs += 1
            try:
                await self._journal.blob(tenant, digest_text(digest))
            except (JournalCorrupt, BlobMissing) as error:
                self._report.add(f"blob {digest_text(digest)}", error.message, tenant=tenant)

        async def miss(tenant: str, digest: bytes) -> None:
            self._report.add(f"blob {digest_text(digest)}", "it is missing", tenant=tenant)

        await self._each("check_blobs", look, empty=b"")
        await self._each("check_blob_uses", miss, empty=b"")


def _is_start(data: bytes) -> bool:
    """Return whether bytes are the first event of a session; other streams hold other messages."""
    try:
        return isinstance(codec.decode(data), e.SessionStarted)
    except codec.CodecError:
        return False


def _is_of(stored: StoredCheckpoint, state: State | None) -> bool:
    """Return whether a checkpoint was taken of a state."""
    try:
        return state is not None and checkpoint.is_taken_of(state, stored)
    except TercetError:
        return False


def _earlier_rows(rows: Iterable[SessionRow], state: State) -> Iterator[SessionRow]:
    """Yield the rows that earlier versions wrote: without what is escalated and who may answer, and due after two
    heartbeats, not at once, for sessions whose end was decided."""
    for row in rows:
        yield from rows_of_earlier_versions(row)
        if row.due_at == row.updated_at:
            later = msgspec.structs.replace(row, due_at=row.updated_at + 2 * state.start.heartbeat)
            yield from (later, *rows_of_earlier_versions(later))


def _differing_fields(row: SessionRow, wanted: SessionRow) -> str:
    """Return the fields of a row that contradict the events."""
    names = SessionRow.__struct_fields__
    return ", ".join(name for name in names if getattr(row, name) != getattr(wanted, name))


def _place(error: TercetError) -> str:
    return error.place if isinstance(error, JournalCorrupt) else "its events"
