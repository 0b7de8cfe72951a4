"""The states of a circuit breaker, and how compensations end, as types."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from tercet.contracts.plan import Compensation
from tercet.contracts.runs.invocation import CircuitState
from tercet.contracts.runs.saga import RollbackEntry, RollbackResult, RollbackStatus


@pytest.mark.req("R37")
def test_a_breaker_has_three_states() -> None:
    """Closed, open and half open."""
    assert [state.value for state in CircuitState] == ["CLOSED", "OPEN", "HALF_OPEN"]


@pytest.mark.req("R50")
def test_how_taking_back_ends() -> None:
    """Each action is compensated, failed to be, or cannot be; the saga says whether a person is needed."""
    assert [status.value for status in RollbackStatus] == [
        "COMPENSATED",
        "COMPENSATION_FAILED",
        "CANNOT_ROLLBACK",
    ]
    result = RollbackResult(
        success=False,
        log=(
            RollbackEntry(
                step_id="b", status=RollbackStatus.COMPENSATED, compensating=Compensation(tool="x.undo")
            ),
            RollbackEntry(step_id="a", status=RollbackStatus.CANNOT_ROLLBACK, note="a mail was sent"),
        ),
        requires_manual_intervention=True,
    )
    assert set(RollbackResult.model_fields) == {"success", "log", "requires_manual_intervention"}
    assert RollbackResult.model_validate_json(result.model_dump_json()) == result
    with pytest.raises(ValidationError):
        RollbackEntry.model_validate({"step_id": "a", "status": "UNDONE"})
