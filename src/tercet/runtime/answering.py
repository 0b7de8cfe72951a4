"""People's answers to gates, and the lease that whoever writes to a session must hold.

Only the journal is needed here, not the pack: answering loads no code. Whoever has the session goes on with it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from tercet.contracts.canonical import canonical
from tercet.contracts.errors import UsageError
from tercet.contracts.plain import not_plain, storable
from tercet.contracts.request import Actor
from tercet.executor.clock import Clock
from tercet.journal import codec
from tercet.journal import events as e
from tercet.journal.errors import LeaseHeld, LeaseLost
from tercet.journal.protocol import Append, Journal, Lease
from tercet.policy import schemas
from tercet.runtime import opening
from tercet.runtime.changes import ANSWERS
from tercet.runtime.machine import evolve
from tercet.runtime.rows import row_of
from tercet.runtime.state import OpenGate, State

POLL_MS = 100

Answered: TypeAlias = Literal["approve", "deny", "happened", "did_not_happen"]
Held: TypeAlias = Callable[[LeaseHeld], None]
"""Told each time a lease turns out to be held by somebody else; may raise, to wait no longer."""


@dataclass(frozen=True, kw_only=True)
class Reply:
    """What a person says to a gate."""

    gate: str
    answer: Answered
    actor: Actor
    note: str = ""
    value: Any = None

    @property
    def session(self) -> str:
        """The session whose gate it is."""
        session = self.gate.rpartition(".")[0]
        if not session:
            raise UsageError(
                f"{self.gate!r} is no gate id",
                code="unknown_gate",
                remedy="tercet gates list names the gates that wait",
            )
        return session

    def event(self, state: State, now: int, *, outside: bool = False) -> e.GateAnswered:
        """The event of this reply; raises `UsageError` if the gate does not ask for it."""
        gate = state.gates.get(self.gate)
        if gate is None:
            raise UsageError(
                f"gate {self.gate} is not open",
                code="gate_not_open",
                remedy="it was answered before, or its session is over",
            )
        allowed = ANSWERS[gate.kind]
        if self.answer not in allowed:
            raise UsageError(
                f"gate {self.gate} asks for {' or '.join(allowed)}, not {self.answer}",
                code="wrong_answer",
                remedy="use tercet gates approve or deny"
                if gate.kind == "approval"
                else "use tercet gates settle with --happened or --did-not-happen",
            )
        if self.answer == "approve" and self.actor.id == state.start["actor"]["id"]:
            # The critic counts no approval by the owner of a run: told before the call is made, and not after.
            raise UsageError(
                f"{self.actor.id} started this run, and cannot approve its gate",
                code="own_gate",
                remedy="let somebody else approve it, or deny it",
            )
        if (fault := not_plain(self.value)) is not None:
            raise UsageError(
                f"this value is no JSON: {fault}",
                code="not_json",
                remedy="give what the call brought as JSON",
            )
        if self.answer == "happened":
            _demand_result(gate, self.value)
        return e.GateAnswered(
            at=max(now, state.at),
            gate=self.gate,
            digest=gate.digest,
            answer=self.answer,
            actor=storable(self.actor.id),
            auth=storable(self.actor.auth),
            value=self.value,
            note=storable(self.note),
            outside=outside,
        )


def _demand_result(gate: OpenGate, value: Any) -> None:
    """What a call is said to have brought must be something that it could have brought."""
    schema = gate.shown.get("result_schema")
    faults = schemas.faults(canonical(schema).decode(), value) if schema is not None else []
    if faults:
        raise UsageError(
            f"{gate.shown.get('tool', 'the call')} cannot have brought this: {faults[0].message}",
            code="wrong_value",
            remedy="give what the call brought as its value",
        )


async def take(
    journal: Journal, tenant: str, session: str, *, owner: str, clock: Clock, lease_ms: int, held: Held
) -> Lease:
    """The lease on a session, as soon as its owner has let go of it or it has run out."""
    while True:
        now = clock.now()
        try:
            return await journal.acquire(tenant, session, owner=owner, now_ms=now, ttl_ms=lease_ms)
        except LeaseHeld as found:
            held(found)
            # Its owner may let go of it earlier.
            await clock.sleep(min(POLL_MS, max(1, found.until - now + 1)))


async def append_reply(
    journal: Journal, tenant: str, reply: Reply, *, owner: str, clock: Clock, lease_ms: int, held: Held
) -> State:
    """Append a reply to a session that this process does not carry; the state after it."""
    session = reply.session
    before = (await opening.restore(journal, tenant, session)).state
    reply.event(before, clock.now())  # what is wrong already is told without waiting for anybody
    lease = await take(journal, tenant, session, owner=owner, clock=clock, lease_ms=lease_ms, held=held)
    try:
        state = (await opening.restore(journal, tenant, session)).state
        event = reply.event(state, clock.now(), outside=True)
        moved = evolve(state, event)
        await journal.append(
            Append(
                tenant=tenant,
                stream=session,
                expected=state.position,
                epoch=lease.epoch,
                events=(codec.encode(event),),
                row=row_of(moved),
            )
        )
        return moved
    finally:
        with suppress(LeaseLost):
            await journal.release(lease)
