"""Feedback: what people say about runs that are over, each attached to the record that it is about.

Corrections stand in a stream of their own beside the session, which needs no lease. The record itself never changes.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec

from tercet.contracts.errors import UsageError
from tercet.contracts.plain import storable
from tercet.contracts.record import FeedbackEntry
from tercet.contracts.shape import JsonObject, Published
from tercet.engine.session_reader import load_state, read_record
from tercet.journal.protocol import Journal
from tercet.journal.side_stream import append_next, name_owner, read_all

LONGEST = 4_000
"""How many letters a correction may have."""


class Feedback(Published):
    """A correction, and where it stands."""

    id: str
    """The session, and the how-manieth correction of it: `ses_….f1`."""
    session_id: str
    entry: FeedbackEntry


def feedback_of(session: str) -> str:
    """The stream that holds what people said about a session."""
    return f"feedback:{session}"


async def add_feedback(
    journal: Journal,
    tenant: str,
    session: str,
    *,
    author: str,
    correction: str,
    expected: JsonObject | None = None,
    now: int,
) -> Feedback:
    """Attach a correction to the record of a run; raises `UsageError` if the run is not over, or nothing is said."""
    if not correction.strip() or len(correction) > LONGEST:
        raise UsageError(
            f"a correction has between 1 and {LONGEST:,} letters",
            code="no_correction",
            remedy="say what is wrong with the result, and what would have been right",
        )
    state = await load_state(journal, tenant, session)
    if not state.is_over or not state.record:
        raise UsageError(
            f"session {session} is not over: it is {state.status}",
            code="session_not_over",
            remedy=f"tercet sessions resume {session} brings it to its end",
        )
    record = await read_record(journal, tenant, state)
    entry = FeedbackEntry(
        record_hash=state.record,
        report=record["report"],
        author=author,
        correction=storable(correction.strip()),
        expected=expected or {},
        given_at=datetime.fromtimestamp(now / 1000, UTC),
    )
    data = name_owner(entry.model_dump_json(exclude_none=True).encode(), tenant, feedback_of(session))
    position = await append_next(journal, tenant, feedback_of(session), lambda _: (data,))
    return Feedback(id=f"{session}.f{position.seq}", session_id=session, entry=entry)


async def read_feedback(journal: Journal, tenant: str, session: str) -> list[Feedback]:
    """What people said about a run, oldest first."""
    stored = await read_all(journal, tenant, feedback_of(session))
    return [
        Feedback(
            id=f"{session}.f{number}",
            session_id=session,
            entry=read_entry(each.data),
        )
        for number, each in enumerate(stored, 1)
    ]


def read_entry(data: bytes) -> FeedbackEntry:
    """Return a correction as it was stored."""
    fields = msgspec.json.decode(data, type=dict[str, Any])
    fields.pop("of", None)  # the stream that it was written to
    return FeedbackEntry.model_validate(fields)


async def find_feedback(journal: Journal, tenant: str, feedback_id: str) -> Feedback:
    """The correction with an id; raises `UsageError` if there is none."""
    session = feedback_id.rpartition(".")[0]
    for each in await read_feedback(journal, tenant, session) if session else ():
        if each.id == feedback_id:
            return each
    raise UsageError(
        f"there is no feedback {feedback_id}",
        code="unknown_feedback",
        remedy="tercet feedback list shows what there is",
    )
