"""A tool is its declaration and its code, and only the declaration is judged and hashed."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import ValidationError

from tercet.contracts.mode import ApprovalMode
from tercet.contracts.tool import ToolSpec
from tercet.tools import Tool, ToolContext

PARAMETERS: dict[str, Any] = {"type": "object", "properties": {"order_id": {"type": "string"}}}


def look_up(order_id: str) -> str:
    return order_id


def found(key: str) -> bool:
    return bool(key)


def make(**changes: Any) -> Tool:
    fields: dict[str, Any] = {
        "name": "orders.lookup",
        "call": look_up,
        "parameters": PARAMETERS,
        "mode": "read_only",
    }
    return Tool(**fields | changes)


def test_a_tool_is_declared_in_one_flat_call() -> None:
    """Name, code, schema and mode stand side by side, and words become what they mean."""
    tool = make(gates=["GATE_A"])
    assert (tool.adapter_id, tool.capability_id, tool.mode) == ("orders", "lookup", ApprovalMode.READ_ONLY)
    assert tool.gates == ("GATE_A",)
    assert tool.call("ord_881") == "ord_881"


def test_the_spec_is_the_tool_without_its_code() -> None:
    """What is handed on has the type, the fields and the hash of a plain declaration."""
    tool = make(reconcile=found)
    assert type(tool.spec) is ToolSpec
    assert tool.spec == ToolSpec(
        name="orders.lookup", parameters=PARAMETERS, mode=ApprovalMode.READ_ONLY, reconciles=True
    )
    assert tool.hash == tool.spec.hash


def test_code_is_in_no_dump_and_no_hash() -> None:
    """Two tools that differ only in their function declare the same."""
    other = make(call=found)
    assert "call" not in make().model_dump()
    assert "reconcile" not in make(reconcile=found).model_dump()
    assert make().hash == other.hash


def test_a_function_to_look_a_key_up_says_that_it_can() -> None:
    """`reconcile` implies `reconciles`, which without it would be an empty promise."""
    assert make(reconcile=found).reconciles
    assert not make().reconciles
    with pytest.raises(ValidationError, match="give the function as reconcile="):
        make(reconciles=True)


def test_a_changed_copy_keeps_the_code_and_is_checked() -> None:
    """A copy with another mode is still callable, and a wrong mode is refused."""
    assert make().model_copy(update={"mode": "network"}).call is look_up
    with pytest.raises(ValidationError):
        make().model_copy(update={"mode": "dangerous"})


def test_a_tool_needs_something_to_call() -> None:
    """A name in the place of the function is refused."""
    with pytest.raises(ValidationError, match="callable"):
        make(call="look_up")


def context(**changes: Any) -> ToolContext:
    fields: dict[str, Any] = {
        "tenant": "t1",
        "run_id": "run_1",
        "step_id": "s1",
        "actor": "ada",
        "idempotency_key": "key_1",
    }
    return ToolContext(**fields | changes)


def test_the_context_of_a_call_is_frozen() -> None:
    """A tool can read for whom and in which attempt it is called, and change nothing of it."""
    ctx = context(attempt=2)
    assert (ctx.attempt, ctx.fencing_token, ctx.deadline) == (2, 0, None)
    with pytest.raises(FrozenInstanceError):
        ctx.attempt = 3  # type: ignore[misc]


def test_a_deadline_has_a_time_zone() -> None:
    """A deadline that means another moment on another machine is refused."""
    moment = datetime(2026, 5, 9, 9, 30, tzinfo=UTC)
    assert context(deadline=moment).deadline == moment
    with pytest.raises(ValueError, match="time zone"):
        context(deadline=moment.replace(tzinfo=None))
