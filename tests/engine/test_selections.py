"""Runs whose steps select an item of a list that a tool returned."""

from __future__ import annotations

from typing import Any

import pytest

from tercet.contracts.gate import Gate
from tercet.core import events as e
from tercet.tools import ToolContext

from .workshop import ADA, ASK, BOB, Workshop, events, plan, step

BOSS = Gate(name="BOSS", roles=("boss",))
ROWS = [
    {"id": "t1", "order": "o1", "sum": 5},
    {"id": "t2", "order": "o2", "sum": 90},
    {"id": "t3", "order": "o1", "sum": 7},
]


def listing(workshop: Workshop, rows: list[dict[str, Any]]) -> None:
    """A tool that lists payments, and one that pays."""

    async def list_rows(_: ToolContext, params: dict[str, Any]) -> Any:
        return {"rows": rows}

    workshop.tool("bank.list", list_rows, mode="read_only", trust="trusted")
    workshop.tool(
        "bank.pay", mode="network", authority=("id",), gates=("BOSS",), no_compensation="paid is paid"
    )


def paying(order: str = "largest", **fields: Any) -> Any:
    """A plan that pays the largest row of the requested order."""
    where = {"order": {"$from": "request#/order"}}
    body = {"from": "l#/rows", "where": where, "order": order, "by": "sum", "field": "id"}
    return plan(
        step("l", "bank.list", params={}), step("p", "bank.pay", params={"id": {"$select": body}}, **fields)
    )


async def test_a_gate_shows_the_selected_value_and_where_it_came_from(workshop: Workshop) -> None:
    """The approver sees the resolved call, and the approved call is made."""
    listing(workshop, ROWS)
    pack = workshop.pack(gates=(BOSS,))

    async with workshop.runtime(pack) as runtime:
        waiting = await runtime.run(ASK, plan=paying(), actor=ADA)
        assert waiting.status == "awaiting_gate"
        found = await events(runtime.journal, waiting.session_id)
        [gate] = [each for each in found if isinstance(each, e.GateOpened)]
        assert gate.shown["params"] == {"id": "t3"}
        assert "selected: largest sum of l#/rows where order is request#/order, its id" in str(gate.shown)
        await runtime.approve(gate.gate, actor=BOB)
        done = await runtime.resume(waiting.session_id)
        assert done.status == "completed"
    assert workshop.calls == [("l", 1), ("p", 1)]


@pytest.mark.parametrize(
    ("rows", "code"),
    [
        ([ROWS[1]], "nothing_selected"),
        ([{"id": "t1", "order": "o1"}], "not_comparable"),
        ([*ROWS, {**ROWS[0], "sum": "9"}], "not_comparable"),
    ],
)
async def test_a_selection_that_picks_nothing_fails_its_step(
    workshop: Workshop, rows: Any, code: str
) -> None:
    """The step fails with the code, and nothing is paid."""
    listing(workshop, rows)
    pack = workshop.pack(gates=(BOSS,))

    async with workshop.runtime(pack) as runtime:
        result = await runtime.run(ASK, plan=paying(), actor=ADA)
        assert result.status != "completed"
        found = await events(runtime.journal, result.session_id)
        assert [each.code for each in found if isinstance(each, e.StepRefused)] == [code]
    assert workshop.calls == [("l", 1)]
