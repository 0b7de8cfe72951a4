"""Reading the sessions of a tenant as they are stored: what `RemoteJournal` asks, and which streams it may read."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal

import msgspec
from pydantic import Field

from tercet.contracts.runs.session import SessionStatus
from tercet.contracts.shape import Authored
from tercet.contracts.values.plain import storable
from tercet.core.state import OpenGate
from tercet.engine.checks.journal import DamagedSession
from tercet.engine.lists import open_gates
from tercet.journal.protocol import CheckpointKind, Journal, SessionFilter, SessionRow
from tercet.service.params import Place, Searched

MOST = 200
"""How many events, checkpoints or rows one call returns."""
SEARCHED_FIRST = 2_000
"""How many sessions the first page of a search looks at, so that it costs the same however many there are."""
SEARCHED_NEXT = 20_000
"""How many a page after it looks at: the caller has decided to go on."""
_ABOUT_A_SESSION = ("inbox", "rollback", "feedback", "lost")
"""The kinds of streams that belong to one session: its messages, and what people recorded about it."""


class GateRow(msgspec.Struct, frozen=True, kw_only=True):
    """An open gate, with its session and the owner of the run."""

    session_id: str
    owner: str
    gate: OpenGate


class OpenGates(msgspec.Struct, frozen=True, kw_only=True):
    """The open gates of a tenant, and the sessions that could not be read for them."""

    gates: tuple[GateRow, ...]
    damaged: tuple[DamagedSession, ...] = ()


class ReadJournal(Authored):
    """What to read, and where."""

    what: Literal[
        "events",
        "end",
        "checkpoints",
        "newest",
        "blobs",
        "lease",
        "blob",
        "row",
        "rows",
        "waiting",
        "ids",
        "similar",
        "gates",
    ]
    name: str = Field(default="", max_length=512)
    """A session, or a stream about one; for `blob` a digest, for `ids` and `similar` a prefix."""
    after: Place = 0
    """The position before the first; for `rows`, how many are left out; for `waiting`, since when the last of the page
    before has waited."""
    behind: Searched = Field(default="", max_length=512)
    """For `blobs` a digest, for `rows` and `waiting` a session: the last of the page before."""
    kind: CheckpointKind = "point"
    status: SessionStatus | None = None
    intents: tuple[Searched, ...] | None = Field(default=None, max_length=200)
    owner: Searched | None = Field(default=None, max_length=512)
    text: Searched | None = Field(default=None, max_length=512)
    oldest: tuple[Place, Searched] | None = None
    limit: int = Field(default=MOST, ge=0, le=MOST)


async def read_journal(journal: Journal, tenant: str, params: ReadJournal) -> Any:
    """Return what was asked for as JSON, bytes in base64; None for a stream that is not of a session of the tenant."""
    name = storable(params.name)
    if params.what in _OF_STREAMS:
        if not await _is_of_session(journal, tenant, name):
            return None
        found = await _OF_STREAMS[params.what](journal, tenant, name, params)
    elif params.what == "similar" and not name.startswith("recent:"):
        return []
    else:
        found = await _OF_TENANTS[params.what](journal, tenant, name, params)
    return msgspec.to_builtins(found)


async def _is_of_session(journal: Journal, tenant: str, stream: str) -> bool:
    """Return whether a stream is a session, or is about one."""
    kind, is_side, subject = stream.partition(":")
    session = subject if is_side and kind in _ABOUT_A_SESSION else stream
    return bool(session) and "\0" not in session and await journal.session(tenant, session) is not None


async def _gates(journal: Journal, tenant: str, _: str, params: ReadJournal) -> OpenGates:
    damaged: list[DamagedSession] = []
    found = await open_gates(journal, tenant, params.limit, unreadable=damaged)
    rows = tuple(
        GateRow(session_id=state.start.session, owner=state.start.actor["id"], gate=gate)
        for state, gate in found
    )
    return OpenGates(gates=rows, damaged=tuple(damaged))


def is_indexed(where: SessionFilter) -> bool:
    """Return whether a journal finds the sessions by an index, however few they are."""
    several = where.intents is not None and len(where.intents) > 1
    filters = (where.status, where.intents, where.owner)
    return where.text is None and not several and sum(each is not None for each in filters) <= 1


async def last_searched(journal: Journal, tenant: str, before: str | None) -> SessionRow | None:
    """Return the last session that a page of a search looks at; None if it comes to the end."""
    most = SEARCHED_FIRST if before is None else SEARCHED_NEXT
    last = await journal.sessions(tenant, before=before, skip=most - 1, limit=2)
    return last[0] if len(last) > 1 else None


_Read = Callable[[Journal, str, str, ReadJournal], Awaitable[Any]]

_OF_STREAMS: Mapping[str, _Read] = {
    "events": lambda j, t, name, p: j.read(t, name, after=p.after, limit=p.limit),
    "end": lambda j, t, name, _: j.head(t, name),
    "checkpoints": lambda j, t, name, p: j.checkpoints(t, name, after=p.after, limit=p.limit),
    "newest": lambda j, t, name, p: j.newest(t, name, p.kind),
    "blobs": lambda j, t, name, p: j.blob_digests(t, name, after=p.behind, limit=p.limit),
    "lease": lambda j, t, name, _: j.lease(t, name),
}
_OF_TENANTS: Mapping[str, _Read] = {
    "blob": lambda j, t, name, _: j.blob(t, name),
    "row": lambda j, t, name, _: j.session(t, name),
    "rows": lambda j, t, _, p: j.sessions(
        t,
        limit=p.limit,
        before=p.behind or None,
        skip=p.after,
        where=SessionFilter(status=p.status, intents=p.intents, owner=p.owner, text=p.text, oldest=p.oldest),
    ),
    "waiting": lambda j, t, _, p: j.waiting(t, after=(p.after, storable(p.behind)), limit=p.limit),
    "ids": lambda j, t, name, p: j.session_ids(t, name, limit=p.limit),
    "similar": lambda j, t, name, p: j.claims(t, name, limit=p.limit),
    "gates": _gates,
}
