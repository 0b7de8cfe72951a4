"""The table of budget dimensions: what is reserved is settled, what is short is named, and every row fits its structs."""

from __future__ import annotations

from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tercet.contracts.context import RunContext
from tercet.contracts.runs.behaviour import CURRENT, Behaviour
from tercet.contracts.runs.budget import BudgetRemaining, BudgetUse, RunBudget
from tercet.contracts.runs.session import RoleName
from tercet.core import events as e
from tercet.core.budget import (
    DIMENSIONS,
    EXTENSIBLE,
    Dimension,
    Shortage,
    add,
    budget_use,
    count_call,
    extend,
    find_shortage,
    is_extension,
    limits_of,
    release_holds,
    remaining,
    reserve,
    reserved_for,
    settle,
)
from tercet.core.state import StepState, Used

ROLES: tuple[RoleName, ...] = get_args(RoleName)
AMOUNTS = st.integers(0, 1_000)


def intent(**amounts: Any) -> e.Intent:
    """A call of a tool that reserves these amounts."""
    return e.Intent(at=0, step="a", tool="t", params={}, key="k", attempt=1, **amounts)


def in_flight(event: e.Intent) -> StepState:
    """The step of a call that has begun."""
    return StepState(status="in_flight", attempt=1, calls=1, **reserved_for(StepState(), event))


@pytest.mark.parametrize("row", DIMENSIONS, ids=lambda row: row.name)
def test_a_row_names_fields_that_exist(row: Dimension) -> None:
    """A dimension whose row misspells a field would only fail when a run comes to it."""
    fields = msgspec.structs.asdict(row)
    for name in ("used", "reserved", "held", "less"):
        assert not fields[name] or fields[name] in Used.__struct_fields__
    for name in ("amount", "hold"):
        if fields[name]:
            assert fields[name] in e.Intent.__struct_fields__
            assert fields[name] in StepState.__struct_fields__
    if fields["amount"]:
        assert fields["amount"] in e.Complete.__struct_fields__
    if fields["limit"]:
        assert fields["limit"] in RunBudget.model_fields
        assert fields["name"] in BudgetUse.model_fields


def test_use_is_published_as_it_would_be_validated() -> None:
    """It is made without validation: every field is there, and none besides."""
    published = budget_use(Used(steps=3, tokens=7, wall_clock=11, cost=5, replans=1))
    assert published == BudgetUse(steps=3, tokens=7, wall_clock_ms=11, cost_microcents=5, replans=1)


def test_every_extensible_dimension_is_published() -> None:
    """What is left of it is in progress envelopes; money is published in cents."""
    published = {name.replace("cost_microcents", "cost_cents") for name in EXTENSIBLE}
    assert published == set(BudgetRemaining.model_fields)


@given(tokens=AMOUNTS, cost=AMOUNTS, hold_cost=AMOUNTS, took=AMOUNTS)
def test_what_is_reserved_is_released(tokens: int, cost: int, hold_cost: int, took: int) -> None:
    """After a call that happened only what it took is left, and what is held back for its compensation."""
    event = intent(tokens=tokens, cost=cost, hold_calls=1, hold_cost=hold_cost)
    reserved = reserve(Used(), StepState(), event)
    assert remaining(reserved, {"tokens": tokens, "cost_microcents": cost + hold_cost, "tool_calls": 2}) == {
        "tokens": 0,
        "tool_calls": 0,
        "cost_microcents": 0,
    }
    settled = settle(
        reserved, in_flight(event), e.Complete(at=1, step="a", attempt=1, tokens=took, cost=took)
    )
    assert settled == Used(steps=1, tool_calls=1, tokens=took, cost=took, held_calls=1, held_cost=hold_cost)
    assert release_holds(settled) == Used(steps=1, tool_calls=1, tokens=took, cost=took)


def test_a_call_that_did_not_happen_costs_only_the_call() -> None:
    """Its reservation and what was held back are free again."""
    event = intent(tokens=5, cost=7, hold_calls=1, hold_cost=3)
    assert settle(reserve(Used(), StepState(), event), in_flight(event), None) == Used(tool_calls=1)


def test_an_unknown_outcome_keeps_its_reservation() -> None:
    """It counts as made once; when it turns out to have happened, its amounts are booked and no second call is."""
    event = intent(tokens=5, cost=7)
    counted = count_call(reserve(Used(), StepState(), event), in_flight(event))
    assert counted == Used(tool_calls=1, reserved_tokens=5, reserved_cost=7)
    unknown = msgspec.structs.replace(in_flight(event), status="unknown", outcome="unknown")
    again = reserve(counted, unknown, intent(tokens=5, cost=7))
    assert again == add(counted, reserved_calls=1)
    done = settle(counted, unknown, e.Complete(at=1, step="a", attempt=1, tokens=5, cost=7))
    assert done == Used(steps=1, tool_calls=1, tokens=5, cost=7)


def test_the_first_shortage_in_the_order_of_the_table() -> None:
    """Calls come before tokens, the run's own tokens before a role's, and time comes last."""
    limits = limits_of(RunBudget(tokens=10, tool_calls=1, wall_clock_ms=5), {"executor": 4})
    assert list(limits) == ["tool_calls", "tokens", "executor", "wall_clock_ms"]
    needs = {"wall_clock_ms": 1, "executor": 5, "tokens": 5, "tool_calls": 2}
    assert find_shortage(Used(), limits, needs) == Shortage(dimension="tool_calls", needed=2, left=1)
    assert find_shortage(Used(), limits, needs | {"tool_calls": 1}) == Shortage(
        dimension="executor", needed=5, left=4
    )
    assert find_shortage(Used(), limits, {"wall_clock_ms": 1}, also={"wall_clock_ms": 4}) is None
    assert find_shortage(Used(), limits, {"wall_clock_ms": 1}, also={"wall_clock_ms": 5}) == Shortage(
        dimension="wall_clock_ms", needed=1, left=0
    )


def test_a_shortage_in_words() -> None:
    """Recorded reasons and remedies are made of these words."""
    shortage = Shortage(dimension="cost_microcents", needed=1_200, left=0)
    assert str(shortage) == "1,200 micro-cents are needed, 0 are left"
    assert "5 tokens of the critic are needed" in str(Shortage(dimension="critic", needed=5, left=4))


@pytest.mark.parametrize(
    ("needed", "left", "text"),
    [
        (1, 0, "1 tool call is needed, 0 are left"),
        (2, 1, "2 tool calls are needed, 1 is left"),
    ],
)
def test_amounts_agree_with_their_nouns(needed: int, left: int, text: str) -> None:
    """One call is needed, two are; a run by earlier rules keeps its recorded words."""
    shortage = Shortage(dimension="tool_calls", needed=needed, left=left)
    earlier = tuple(number for number in CURRENT if number != Behaviour.PLAIN_REFUSALS)
    assert shortage.reason(RunContext()) == str(shortage) == text
    recorded = shortage.reason(RunContext(behaviour=earlier))
    assert recorded == f"{needed} tool calls are needed, {left} are left"


def test_a_step_may_use_its_own_reservation() -> None:
    """A call that is made again needs no second reservation."""
    event = intent(tokens=5, hold_calls=1)
    step = in_flight(event)
    used = reserve(Used(), StepState(), event)
    limits = limits_of(RunBudget(tokens=5, tool_calls=3))
    assert find_shortage(used, limits, {"tokens": 5}) == Shortage(dimension="tokens", needed=5, left=0)
    assert find_shortage(used, limits, {"tokens": 5, "tool_calls": 2}, own=step) is None


def test_what_models_took_is_not_the_executors() -> None:
    """Each role is held to its own share of the tokens."""
    used = Used(tokens=30, model_tokens=20, critic_tokens=5, reserved_tokens=2)
    left = {role: limits_of(RunBudget(), {role: 40}) for role in ROLES}
    found = {role: find_shortage(used, limits, {role: 100}) for role, limits in left.items()}
    assert {role: each and each.left for role, each in found.items()} == {
        "executor": 28,
        "planner": 25,
        "critic": 35,
    }


def test_extending_raises_limits_only() -> None:
    """What has no limit gets none by an extension."""
    budget = extend(RunBudget(tokens=10), {"tokens": 5, "tool_calls": 5})
    assert (budget.tokens, budget.tool_calls) == (15, None)
    assert is_extension({"tokens": 5})
    assert not is_extension({})
    assert not is_extension({"tokens": 0})
    assert not is_extension({"tokens": True})
    assert is_extension({"tokens": 2**50})
    assert not is_extension({"tokens": 2**50 + 1})
    assert not is_extension({"steps": 5})


def test_the_published_use_has_every_dimension() -> None:
    """Nothing that is used up is left out of decision records."""
    used = Used(steps=1, tool_calls=2, tokens=3, cost=4, wall_clock=5, replans=6, retries=7, repairs=8)
    assert budget_use(used).model_dump() == {
        "steps": 1,
        "tool_calls": 2,
        "tokens": 3,
        "cost_microcents": 4,
        "wall_clock_ms": 5,
        "replans": 6,
        "retries": 7,
        "repairs": 8,
    }
