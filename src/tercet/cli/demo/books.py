"""Reading back: whatever the demo claims comes from here, out of the journal and the payment database."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import closing
from typing import Any, TypeVar
from urllib.parse import quote

from tercet.cli.demo.folder import Folder
from tercet.cli.demo.scenes import (
    Answered,
    Crashed,
    Ended,
    OwnAttempt,
    Pinned,
    Recorded,
    Recovered,
    Refund,
    Refused,
    Value,
    Waiting,
)
from tercet.cli.journals import TENANT, Story, read_story, use_journal
from tercet.contracts.errors import UsageError
from tercet.core import events as e
from tercet.core.state import OpenGate
from tercet.engine.session_reader import read_record
from tercet.journal.protocol import Journal

T = TypeVar("T")

_REFUNDS = "SELECT refund_id, idempotency_key, payment_id, amount_inr, status FROM refunds ORDER BY rowid"


class Books:
    """The journal and the payment database of one demo."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder

    def _read(self, act: Callable[[Journal], Awaitable[T]]) -> T:
        return use_journal(self._folder.journal_url, act)

    def newest(self) -> str:
        """The session that was started last."""
        return self._read(lambda journal: journal.sessions(TENANT, limit=1))[0].session_id

    def story(self, session: str) -> Story:
        """A session with all its events."""
        return self._read(lambda journal: read_story(journal, session))

    def record(self, session: str) -> dict[str, Any]:
        """The decision record of a session; raises `ReplayError` if it does not come to its hash."""
        state = self.story(session).state
        return self._read(lambda journal: read_record(journal, TENANT, state))

    def refunds(self) -> tuple[Refund, ...]:
        """Every refund of the shop; none while no tool has made its database."""
        import sqlite3  # noqa: PLC0415 - a Python without it gets an answer before it comes here

        if not self._folder.payments.exists():
            return ()
        address = f"file:{quote(str(self._folder.payments))}?mode=ro"
        with closing(sqlite3.connect(address, uri=True)) as db:
            db.row_factory = sqlite3.Row
            return tuple(Refund(**row) for row in db.execute(_REFUNDS))

    # --- scenes ---

    def refused(self, session: str) -> Refused:
        """What the critic said of a plan, and that nothing was called."""
        story = self.story(session)
        verdict = story.state.verdict
        return Refused(
            session_id=session,
            status=story.state.status,
            kind=verdict.get("kind", ""),
            code=verdict.get("code", ""),
            reason=story.state.reason,
            remedy=verdict.get("remedy", ""),
            calls=sum(isinstance(event, e.Intent) for event in story.events),
            has_payment_database=self._folder.payments.exists(),
        )

    def waiting(self, session: str, worker: int) -> Waiting:
        """The gate that a session waits at, as its approver sees it."""
        state = self.story(session).state
        gate = next(iter(state.gates.values()), None)
        if gate is None:
            raise UsageError(f"session {session} waits at no gate", code="no_gate", remedy=state.reason)
        shown, need = gate.shown, gate.needs[gate.names[0]]
        return Waiting(
            session_id=session,
            status=state.status,
            worker=worker,
            verdict=", ".join(state.verdict.get("reasons", ())),
            gate=gate.id,
            gate_name=gate.names[0],
            tool=shown["tool"],
            mode=shown["mode"],
            reversibility=shown["reversibility"],
            values=_values(gate),
            evidence=tuple(
                Pinned(id=each["id"], hash=each["hash"], source=each["source"]) for each in shown["evidence"]
            ),
            undo=shown["compensation"]["tool"] if shown["compensation"] else "",
            roles=need.roles,
            quorum=need.quorum,
            owner=state.start.actor["id"],
            digest=gate.digest,
            refunds=self.refunds(),
        )

    def own_attempt(self, gate: Waiting, refusal: UsageError) -> OwnAttempt:
        """That the gate is as open as before."""
        stands = self.story(gate.session_id).state.gates[gate.gate]
        return OwnAttempt(
            actor=gate.owner,
            code=refusal.code,
            reason=refusal.message,
            remedy=refusal.remedy or "",
            approvals=len(stands.approvals),
        )

    def answered(self, session: str) -> Answered:
        """The answer that the journal has."""
        answer = self.story(session).state.answers[-1]
        return Answered(actor=answer.actor, roles=answer.roles, answer=answer.answer, digest=answer.digest)

    def crashed(self, gate: Waiting, worker: int, number: int) -> Crashed:
        """What a dead worker left: in the payment database, and in the journal."""
        intents, completes = self._attempts(gate)
        return Crashed(
            worker=worker,
            signal=number,
            refunds=self.refunds(),
            intents=len(intents),
            completes=completes,
        )

    def recovered(self, gate: Waiting, worker: int) -> Recovered:
        """What the next worker made of it."""
        intents, completes = self._attempts(gate)
        return Recovered(
            worker=worker,
            status=self.story(gate.session_id).state.status,
            keys=tuple(intent.key for intent in intents),
            completes=completes,
            refunds=self.refunds(),
        )

    def lease_until(self, session: str) -> int:
        """When the lease that a dead worker left on a session runs out; 0 if there is none."""
        lease = self._read(lambda journal: journal.lease(TENANT, session))
        return lease.until if lease is not None else 0

    def recorded(self, session: str) -> Recorded:
        """The record, with whose approval it holds."""
        record, state = self.record(session), self.story(session).state
        approval = record["approvals"][-1]
        return Recorded(
            hash=state.record,
            outputs=record["outputs"],
            approver=approval["approver"],
            approver_roles=tuple(approval["roles"]),
            digest=approval["digest"],
            evidence=tuple(record["evidence_refs"]),
        )

    def ended(self, gate: Waiting) -> Ended:
        """How a session stands in which nothing was paid."""
        state = self.story(gate.session_id).state
        return Ended(
            status=state.status,
            reason=state.reason,
            calls_of_payment=len(self._attempts(gate)[0]),
            refunds=self.refunds(),
        )

    def _attempts(self, gate: Waiting) -> tuple[list[e.Intent], int]:
        """The INTENTs of the call behind a gate, and how many COMPLETEs it has."""
        events = self.story(gate.session_id).events
        intents = [event for event in events if isinstance(event, e.Intent) and event.tool == gate.tool]
        steps = {intent.step for intent in intents}
        return intents, sum(isinstance(event, e.Complete) and event.step in steps for event in events)


def _values(gate: OpenGate) -> tuple[Value, ...]:
    shown = gate.shown
    return tuple(
        Value(
            name=name,
            value=value,
            carries_authority=name in shown["authority"],
            source=shown["sources"][name],
            same_in=_same_in(shown["evidence"], value),
        )
        for name, value in shown["params"].items()
    )


def _same_in(evidence: list[dict[str, Any]], value: Any) -> str:
    """The field of the evidence that equals a value."""
    return next(
        (
            field
            for each in evidence
            for field, held in each["content"].items()
            if type(held) is type(value) and held == value
        ),
        "",
    )
