"""The sessions of a journal, and the gates that wait for people: lists to look at, made by whoever asks."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tercet.core.events.gate import GateKind
from tercet.core.fold.base import ANSWERS
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
    """Why it waits, stopped or ended, as far as a list shows it."""
    gates: tuple[str, ...]
    """The gates that wait for an answer."""
    ending: str
    """How it will be over, where that is decided and not yet carried out."""
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
        """The same, of a row of the journal."""
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
    """What may be said to it."""
    names: tuple[str, ...]
    """The gates of the pack that it stands for."""
    roles: tuple[str, ...]
    """Those of which somebody must hold one to approve; none where anybody may."""
    quorum: int
    """How many different people must approve, for the name that asks for most."""
    approved_by: tuple[str, ...]
    owner: str
    """Who started the run, and cannot approve it."""
    step: str
    tool: str | None
    params: dict[str, Any]
    digest: str
    """The hash that an approval is bound to."""
    calls: dict[str, str]
    """Every call that an approval lets through: the digests by step."""
    shown: dict[str, Any]
    """All that the approver is shown, such as the parameters, their sources and the verdict."""
    opened_at: datetime
    expires_at: datetime | None
    recent: tuple[RecentCall, ...] = ()
    """Recent calls of the tenant like the one that is asked about, identical ones first. No answer binds to them."""

    @classmethod
    def of(cls, state: State, gate: OpenGate, recent: tuple[RecentCall, ...] = ()) -> PendingGate:
        """The same, of a gate of a session."""
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


async def open_gates(
    journal: Journal, tenant: str, most: int, *, unreadable: list[DamagedSession] | None = None
) -> list[tuple[State, OpenGate]]:
    """Return the gates that wait for an answer, each with its session: at most so many.

    A session that cannot be read goes into `unreadable`; without that list, its error is raised.
    """
    found: list[tuple[State, OpenGate]] = []
    for status in _UNFINISHED:
        async for row in list_rows(journal, tenant, status=status):
            try:
                # Only sessions whose rows name a gate are read whole.
                has_gates = bool(details_of(row).gates)
                state = await load_state(journal, tenant, row.session_id) if has_gates else State()
            except Exception as error:
                if unreadable is None:
                    raise
                unreadable.append(describe_damage(row.session_id, error))
                continue
            found += [(state, gate) for gate in state.gates.values()]
            if len(found) >= most:
                return found[:most]
    return found
