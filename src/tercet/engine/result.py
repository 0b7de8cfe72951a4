"""How a session stands, as its caller is told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tercet.core.state import OpenGate, State


@dataclass(frozen=True, kw_only=True)
class RunResult:
    """How a session stands: over, waiting for a person, or paused."""

    status: str
    session_id: str
    reason: str
    code: str
    """What a paused session is waiting for, such as `model_unavailable`; empty otherwise."""
    outputs: dict[str, Any]
    report: dict[str, Any]
    verdict: dict[str, Any]
    record: str
    """The digest of the decision record; `Runtime.record` reads it."""
    gate: OpenGate | None
    steps_done: int

    @classmethod
    def of(cls, state: State) -> RunResult:
        """The result that a state comes to."""
        return cls(
            status=state.status,
            session_id=state.start.session,
            reason=state.reason,
            code=state.paused_for,
            outputs=state.outputs,
            report=state.report,
            verdict=state.verdict,
            record=state.record,
            gate=next(iter(state.gates.values()), None),
            steps_done=len(state.done),
        )
