"""The published shapes of a durable session."""

from __future__ import annotations

from typing import Any, get_args

import orjson
import pytest
from pydantic import BaseModel, ValidationError

from tercet.contracts.runs.session import BackgroundSession, ProgressEnvelope, SessionStatus

SESSION: dict[str, Any] = {
    "session_id": "sess_inv_22",
    "tenant_id": "tenant_acme_prod",
    "pack_pin": "ctxpack.finops@3.1.0",
    "snapshot_pin": "kg_2026_05_03_T0930",
    "intent": "finance.invoice.credit_adjust",
    "started_at": "2026-05-04T10:14:00Z",
    "heartbeat": {"interval_ms": 30000, "ttl_ms": 14400000, "last_seen": "2026-05-04T10:25:00Z"},
    "status": "in_progress",
    "checkpoints": [
        {
            "checkpoint_id": "ck_inv_22_after_s2",
            "after_step": "s2",
            "critic_verdict": "ok",
            "saved_at": "2026-05-04T10:14:42Z",
        },
        {
            "checkpoint_id": "ck_inv_22_after_s3",
            "after_step": "s3",
            "critic_verdict": "accept",
            "saved_at": "2026-05-04T10:25:11Z",
        },
    ],
    "next_step": "s4",
    "owner_actor": "agt_finops",
}
PROGRESS: dict[str, Any] = {
    "session_id": "sess_inv_22",
    "progress_id": "prog_inv_22_0014",
    "emitted_at": "2026-05-04T10:25:11Z",
    "current_step": "s4",
    "completed_step_count": 3,
    "total_step_count": 4,
    "budget_remaining": {"tokens": 7280, "tool_calls": 8, "cost_cents": 24.0, "wall_clock_ms": 12830},
    "awaiting_gate": None,
}


@pytest.mark.req("R22")
@pytest.mark.parametrize(
    ("kind", "document"),
    [(BackgroundSession, SESSION), (ProgressEnvelope, PROGRESS)],
    ids=["session", "progress"],
)
def test_a_published_example_prints_back_to_the_letter(
    kind: type[BaseModel], document: dict[str, Any]
) -> None:
    """The example loads, and what is printed has the same fields in the same order, nulls and times included."""
    loaded = kind.model_validate(document)
    assert orjson.dumps(loaded.model_dump(mode="json")) == orjson.dumps(document)
    assert kind.model_validate_json(loaded.model_dump_json()) == loaded


def test_a_session_is_in_one_of_eight_states() -> None:
    """The published states load, and no other word does."""
    assert get_args(SessionStatus) == (
        "in_progress",
        "awaiting_gate",
        "paused",
        "completed",
        "failed",
        "expired",
        "rejected",
        "cancelled",
    )
    with pytest.raises(ValidationError):
        BackgroundSession.model_validate({**SESSION, "status": "sleeping"})


@pytest.mark.parametrize("moment", ["", "soon", "2026-05-04", "2026-05-04T10:14:00", "2026-02-30T10:14:00Z"])
def test_the_times_of_a_session_are_moments(moment: str) -> None:
    """Every time in a session is ISO 8601 with a zone."""
    with pytest.raises(ValidationError):
        BackgroundSession.model_validate({**SESSION, "started_at": moment})
    with pytest.raises(ValidationError):
        BackgroundSession.model_validate(
            {**SESSION, "heartbeat": {**SESSION["heartbeat"], "last_seen": moment}}
        )
    with pytest.raises(ValidationError):
        ProgressEnvelope.model_validate({**PROGRESS, "emitted_at": moment})
