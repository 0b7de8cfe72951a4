"""Lists of the sessions in a journal and of the gates that wait for an answer."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from tercet.core.events.gate import GateKind
from tercet.core.fold.base import ANSWERS
from tercet.core.messages import session_of
from tercet.core.state import OpenGate, State
from tercet.core.transcript import moment
from tercet.engine.checks.journal import DamagedSession, describe_damage
from tercet.engine.rows import details_of
from tercet.engine.session_reader import list_rows, load_state
from tercet.engine.streams.recent_calls import RecentCall
from tercet.journal.protocol import Journal, SessionRow
from tercet.view.vocabulary import QUESTIONS

_UNFINISHED = ("awaiting_gate", "paused", "in_progress")


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

    @classmethod
    def of(cls, state: State, gate: OpenGate, recent: tuple[RecentCall, ...] = ()) -> PendingGate:
        """Return the pending gate for an open gate of a session."""
        return cls(
            id=gate.id,
            session_id=str(state.start.session),
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
        )


class GateCursor(NamedTuple):
    """A place in the list of gates: the last gate before it, and the status of the sessions that were being listed."""

    status: str
    gate: str

    @classmethod
    def parse(cls, text: str) -> GateCursor:
        """Return a written position; raises `UsageError` if it is not one."""
        status, _, gate = text.partition(":")
        session_of(gate)
        return cls(status if status in _UNFINISHED else _UNFINISHED[0], gate)

    def __str__(self) -> str:
        return f"{self.status}:{self.gate}"


async def each_gate(
    journal: Journal,
    tenant: str,
    after: GateCursor | None = None,
    *,
    unreadable: list[DamagedSession] | None = None,
) -> AsyncIterator[tuple[GateCursor, State, OpenGate]]:
    """Yield the gates that wait for an answer, each with its place in the list and the state of its session.

    A session that cannot be read goes into `unreadable`; without that list, its error is raised.
    """
    last = None if after is None else session_of(after.gate)
    for status in _UNFINISHED if after is None else _UNFINISHED[_UNFINISHED.index(after.status) :]:
        first = None if last is None else await journal.session(tenant, last)
        rows = [first] if first is not None and first.status == status else []
        async for row in chain_rows(rows, list_rows(journal, tenant, status=status, before=last)):
            try:
                # Only sessions whose row names a gate are loaded.
                has_gates = bool(details_of(row).gates)
                state = await load_state(journal, tenant, row.session_id) if has_gates else State()
            except Exception as error:
                if unreadable is None:
                    raise
                unreadable.append(describe_damage(row.session_id, error))
                continue
            if state.start.lane:  # the gates of a lane are answered at the run that started it
                continue
            for gate in state.gates.values():
                if after is None or row is not first or _number(gate.id) > _number(after.gate):
                    yield GateCursor(status, gate.id), state, gate
        last = None


async def chain_rows(first: list[SessionRow], rest: AsyncIterator[SessionRow]) -> AsyncIterator[SessionRow]:
    """Yield rows, then others."""
    for row in first:
        yield row
    async for row in rest:
        yield row


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
