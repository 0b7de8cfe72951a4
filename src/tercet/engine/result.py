"""The result of a run: what `Runtime.run` and every command to a session return."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Self

import msgspec

from tercet.contracts.gate import HandOff
from tercet.contracts.runs.record import DecisionRecord
from tercet.contracts.runs.session import SessionStatus
from tercet.contracts.shape import JsonObject
from tercet.contracts.verdict import CriticReport, Verdict
from tercet.core.state import State
from tercet.engine.lists import PendingGate
from tercet.engine.session_reader import read_record
from tercet.journal.protocol import Journal


@dataclass(frozen=True, kw_only=True)
class RunResult:
    """The status of a session that has ended, waits for a person or is paused, with its results.

    Verdict, report, record, gate and escalation are decoded when they are first read.
    """

    status: SessionStatus
    session_id: str
    reason: str
    """Why it ended, waits or is paused."""
    code: str
    """The code of the obstacle of a paused session, such as `model_unavailable`; empty if there is none."""
    outputs: dict[str, Any]
    record_digest: str
    """The hash of the decision record; empty until the session has ended."""
    steps_done: int
    _state: State = field(repr=False)
    _record: bytes | JsonObject = field(repr=False, compare=False)
    _packet: bytes = field(repr=False, compare=False)

    @classmethod
    async def load(cls, journal: Journal, tenant: str, state: State, record: bytes = b"") -> Self:
        """Return the result for a state; `record` is the decision record as JSON where this process has made it."""
        recorded = await read_record(journal, tenant, state) if not record and state.record else record
        packet = next((gate.shown["packet"] for gate in state.gates.values() if "packet" in gate.shown), "")
        return cls(
            status=state.status,
            session_id=state.start.session,
            reason=state.reason,
            code=state.paused_for,
            outputs=state.outputs,
            record_digest=state.record,
            steps_done=len(state.done),
            _state=state,
            _record=recorded,
            _packet=await journal.blob(tenant, packet) if packet else b"",
        )

    @cached_property
    def verdict(self) -> Verdict | None:
        """The critic's verdict on the last plan; None if no plan was reviewed."""
        return Verdict.model_validate(self._state.verdict) if self._state.verdict else None

    @cached_property
    def report(self) -> CriticReport | None:
        """The critic's report on the run; None before its results were scored."""
        return CriticReport.model_validate(self._state.report) if self._state.report else None

    @cached_property
    def record(self) -> DecisionRecord | None:
        """The decision record; None until the session has ended."""
        kept = self._record
        if not kept:
            return None
        return DecisionRecord.model_validate(msgspec.json.decode(kept) if isinstance(kept, bytes) else kept)

    @cached_property
    def gate(self) -> PendingGate | None:
        """The first gate that waits for an answer; `Runtime.gates` lists all of them."""
        return next((PendingGate.of(self._state, gate) for gate in self._state.gates.values()), None)

    @cached_property
    def escalation(self) -> HandOff | None:
        """The hand-off for the person who decides how an escalated run continues; None if it is not escalated."""
        return HandOff.model_validate_json(self._packet) if self._packet else None
