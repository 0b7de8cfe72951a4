"""How a call is made and taken back, as types."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, get_args

import pytest
from pydantic import ValidationError

from tercet.contracts.loop import Phase
from tercet.contracts.plan import Compensation
from tercet.contracts.runs.invocation import (
    ActionStatus,
    Backoff,
    CircuitState,
    InvocationPolicy,
    LoopCheckpoint,
    ToolError,
    ToolErrorCode,
)
from tercet.contracts.runs.record import RollbackEntry, RollbackResult, RollbackStatus


@pytest.mark.req("R36")
def test_the_terms_of_a_call() -> None:
    """Timeout, retries, backoff, the breaker's state and the idempotency key."""
    policy = InvocationPolicy(
        timeout_ms=500,
        max_retries=3,
        backoff=Backoff(base_ms=10, maximum_ms=1_000, jitter_ms=5),
        circuit_state=CircuitState.HALF_OPEN,
        idempotency_key="k1",
    )
    assert InvocationPolicy.model_validate_json(policy.model_dump_json()) == policy
    assert set(InvocationPolicy.model_fields) == {
        "timeout_ms",
        "max_retries",
        "backoff",
        "circuit_state",
        "idempotency_key",
    }
    assert InvocationPolicy(timeout_ms=1).circuit_state is CircuitState.CLOSED
    wrong: list[dict[str, Any]] = [{"timeout_ms": 0}, {"timeout_ms": 1, "max_retries": -1}, {}]
    for fields in wrong:
        with pytest.raises(ValidationError):
            InvocationPolicy.model_validate(fields)


@pytest.mark.req("R37")
def test_a_breaker_has_three_states() -> None:
    """Closed, open and half open."""
    assert [state.value for state in CircuitState] == ["CLOSED", "OPEN", "HALF_OPEN"]


@pytest.mark.req("R38")
def test_why_the_gateway_gave_up() -> None:
    """Three codes, each with the tool and how often it was tried."""
    assert get_args(ToolErrorCode) == ("circuit_open", "non_retriable", "retries_exhausted")
    for code in get_args(ToolErrorCode):
        error = ToolError(code=code, tool="x.y", attempts=2, detail="busy")
        assert ToolError.model_validate_json(error.model_dump_json()) == error
    with pytest.raises(ValidationError):
        ToolError.model_validate({"code": "tired", "tool": "x.y"})


@pytest.mark.req("R39")
def test_a_checkpoint_of_the_loop() -> None:
    """The nine fields of the chapter's tuple, under their names."""
    checkpoint = LoopCheckpoint(
        loop_id="l1",
        k=2,
        phase=Phase.ACT,
        plan_state={"cursor": 1},
        completed_actions=("a",),
        pending_actions=("b",),
        outputs_so_far={"n": [1, None]},
        token_consumption=10,
        timestamp=datetime(2026, 5, 9, tzinfo=UTC),
    )
    assert tuple(LoopCheckpoint.model_fields) == (
        "loop_id",
        "k",
        "phase",
        "plan_state",
        "completed_actions",
        "pending_actions",
        "outputs_so_far",
        "token_consumption",
        "timestamp",
    )
    assert LoopCheckpoint.model_validate_json(checkpoint.model_dump_json()) == checkpoint
    for wrong in ({"k": -1}, {"phase": "SLEEP"}, {"timestamp": "2026-05-09T00:00:00"}):
        with pytest.raises(ValidationError):
            LoopCheckpoint.model_validate({**checkpoint.model_dump(), **wrong})


@pytest.mark.req("R54")
def test_an_action_has_four_states() -> None:
    """Pending, dispatched, completed, and failed."""
    assert [status.value for status in ActionStatus] == ["PENDING", "DISPATCHED", "COMPLETED", "FAILED"]


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
