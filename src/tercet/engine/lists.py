"""Lists of the sessions in a journal and of the gates that wait for an answer."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from tercet.contracts.errors import UsageError
from tercet.core.events.gate import GateKind
from tercet.core.fold.base import ANSWERS
from tercet.core.messages import session_of
from tercet.core.same_calls import RecentCall
from tercet.core.state import OpenGate, State
from tercet.core.transcript import moment
from tercet.engine.checks.journal import DamagedSession, describe_damage
from tercet.engine.rows import details_of, is_escalated
from tercet.engine.session_reader import load_state
from tercet.journal.protocol import Journal, SessionRow
from tercet.view.questions import Consequence, consequences
from tercet.view.vocabulary import QUESTIONS

_PAGE = 200


@dataclass(frozen=True, kw_only=True)
class ListedSession:
    """A session as a list shows it."""

    session_id: str
    status: str
    reason: str
    """Why it waits, stopped or ended, shortened for lists."""
    gates: tuple[str, ...]
    """The gates that wait for an answer."""
    ending: str
    """The status it will end with, if that is decided but not carried out yet."""
    intent: str
    owner: str
    pack: str
    pack_hash: str
    snapshot: str
    next_step: str | None
    started_at: datetime
    updated_at: datetime
    is_escalated: bool = False
    """Whether it is paused since it was escalated."""

    @classmethod
    def of(cls, row: SessionRow) -> ListedSession:
        """Return the listed session for a row of the journal."""
        details = details_of(row)
        names = ("session_id", "status", "intent", "owner", "pack", "pack_hash", "snapshot", "next_step")
        return cls(
            **{name: getattr(row, name) for name in names},
            reason=details.reason,
            gates=details.gates,
            ending=details.ending,
            started_at=moment(row.started_at),
            updated_at=moment(row.updated_at),
            is_escalated=is_escalated(row),
        )


@dataclass(frozen=True, kw_only=True)
class PendingGate:
    """A gate that waits for an answer: the question, the call or outputs it is about, and who may answer."""

    id: str
    session_id: str
    kind: GateKind
    asks: str
    answers: tuple[str, ...]
    """The possible answers."""
    names: tuple[str, ...]
    """The gates of the pack that it represents."""
    roles: tuple[str, ...]
    """An approver must hold one of these roles; empty if anyone may approve."""
    quorum: int
    """How many different people must approve: the largest quorum among its names."""
    approved_by: tuple[str, ...]
    owner: str
    """The person who started the run, and cannot approve it."""
    step: str
    tool: str | None
    params: dict[str, Any]
    digest: str
    """The hash that an approval is bound to."""
    calls: dict[str, str]
    """The digests of every call that an approval covers, by step."""
    shown: dict[str, Any]
    """Everything that the approver sees, such as parameters, their sources and the verdict."""
    opened_at: datetime
    expires_at: datetime | None
    recent: tuple[RecentCall, ...] = ()
    """Recent similar calls of the tenant, identical ones first. The digest does not cover them."""
    leads_to: tuple[Consequence, ...] = ()
    """What each answer that is possible now leads to."""

    @classmethod
    def of(cls, state: State, gate: OpenGate, recent: tuple[RecentCall, ...] = ()) -> PendingGate:
        """Return the pending gate for an open gate of a session."""
        return cls(
            id=gate.id,
            session_id=state.start.session,
            kind=gate.kind,
            asks=QUESTIONS[gate.kind],
            answers=tuple(gate.shown.get("options", ANSWERS[gate.kind])),
            names=gate.names,
            roles=tuple(sorted({role for need in gate.needs.values() for role in need.roles})),
            quorum=max((need.quorum for need in gate.needs.values()), default=1),
            approved_by=tuple(approval.actor for approval in gate.approvals),
            owner=str(state.start.actor["id"]),
            step=gate.step,
            tool=gate.shown.get("tool"),
            params=gate.shown.get("params", {}),
            digest=gate.digest,
            calls=gate.calls,
            shown=gate.shown,
            opened_at=moment(gate.at),
            expires_at=moment(gate.expires) if gate.expires else None,
            recent=recent,
            leads_to=consequences(gate, state),
        )


class GateCursor(NamedTuple):
    """A place in the list of gates: the last gate before it, and since when its session waited."""

    since: int
    gate: str

    @classmethod
    def parse(cls, text: str) -> GateCursor:
        """Return a written position; raises `UsageError` if it is not one."""
        since, _, gate = text.partition(":")
        if not (since.isdecimal() and since.isascii() and len(since) < 19):
            raise UsageError(f"{text!r} is not a position in the list of gates", code="unknown_gate")
        session_of(gate)
        return cls(int(since), gate)

    def __str__(self) -> str:
        return f"{self.since}:{self.gate}"


async def each_gate(
    journal: Journal,
    tenant: str,
    after: GateCursor | None = None,
    *,
    unreadable: list[DamagedSession] | None = None,
) -> AsyncIterator[tuple[GateCursor, State, OpenGate]]:
    """Yield the gates that wait for an answer, each with its place in the list and the state of its session.

    The sessions that have waited longest come first, each with all its gates. One that cannot be read goes into
    `unreadable`; without that list, its error is raised.
    """
    begun = None if after is None else session_of(after.gate)
    first = None if begun is None else await journal.session(tenant, begun)
    if after is not None and first is not None and first.waits_since == after.since:
        for state, gate in await gates_of(journal, tenant, first, unreadable=unreadable):
            if _number(gate.id) > _number(after.gate):
                yield GateCursor(after.since, gate.id), state, gate
    async for row in waiting_rows(journal, tenant, None if after is None else (after.since, begun or "")):
        for state, gate in await gates_of(journal, tenant, row, unreadable=unreadable):
            yield GateCursor(row.waits_since or 0, gate.id), state, gate


async def waiting_rows(
    journal: Journal, tenant: str, after: tuple[int, str] | None = None
) -> AsyncIterator[SessionRow]:
    """Yield the rows of sessions that wait for an answer, longest first, behind a time and a session."""
    while page := await journal.waiting(tenant, after=after, limit=_PAGE):
        for row in page:
            yield row
        if len(page) < _PAGE:
            return
        after = (page[-1].waits_since or 0, page[-1].session_id)


async def gates_of(
    journal: Journal,
    tenant: str,
    row: SessionRow,
    *,
    unreadable: list[DamagedSession] | None = None,
    load: Callable[[Journal, str, str], Awaitable[State]] = load_state,
) -> list[tuple[State, OpenGate]]:
    """Return the gates that a session waits at; see `each_gate`."""
    try:
        # Only a session whose row names a gate is loaded.
        has_gates = bool(details_of(row).gates)
        state = await load(journal, tenant, row.session_id) if has_gates else State()
    except Exception as error:
        if unreadable is None:
            raise
        unreadable.append(describe_damage(row.session_id, error))
        return []
    # The gates of a lane are answered at the run that started it.
    return [] if state.start.lane else [(state, gate) for gate in state.gates.values()]


def _number(gate: str) -> int:
    """Return the number of a gate in its session."""
    return int(gate.rpartition(".g")[2])


async def open_gates(
    journal: Journal, tenant: str, most: int, *, unreadable: list[DamagedSession] | None = None
) -> list[tuple[State, OpenGate]]:
    """Return at most `most` gates that wait for an answer, each with the state of its session; see `each_gate`."""
    found: list[tuple[State, OpenGate]] = []
    async for _, state, gate in each_gate(journal, tenant, unreadable=unreadable):
        found.append((state, gate))
        if len(found) >= most:
            break
    return found
