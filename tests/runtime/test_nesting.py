"""Runs that start runs: how deep they may go, and what they share."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tercet.contracts.errors import LimitError
from tercet.runtime.nesting import GlobalIterationBudgetExhausted, RecursionDepthExceeded
from tercet.runtime.runtime import Runtime
from tercet.tools import ToolContext

from .workshop import ASK, Workshop, plan, step


def nested(workshop: Workshop, runtime: list[Runtime], raised: list[LimitError], width: int = 1) -> None:
    """A tool that starts runs which call it again, so many at once, and notes what stops them."""

    async def again(context: ToolContext, params: dict[str, Any]) -> Any:
        async def child() -> None:
            try:
                await runtime[0].run(ASK, plan=plan(step("a", "dig.it")), parent=context)
            except LimitError as error:
                raised.append(error)

        await asyncio.gather(*(child() for _ in range(width)))
        return {}

    workshop.tool("dig.it", again, idempotent=True)


@pytest.mark.req("R221", "R222")
def test_a_run_stands_no_deeper_inside_others_than_it_may(workshop: Workshop) -> None:
    """Each run is one deeper than the one that started it; the first that would be too deep is not started."""
    raised: list[LimitError] = []
    runtimes: list[Runtime] = []
    nested(workshop, runtimes, raised)

    async def main() -> None:
        async with workshop.runtime(workshop.pack(budget={"max_depth": 2})) as runtime:
            runtimes.append(runtime)
            assert (await runtime.run(ASK, plan=plan(step("a", "dig.it")))).status == "completed"
            rows = await runtime.sessions()
            states = [await runtime.state(row.session_id) for row in rows]
            assert sorted(state.start.get("depth", 0) for state in states) == [0, 1, 2]
            root = next(s.start["session"] for s in states if not s.start.get("depth"))
            assert {s.start["root"] for s in states if s.start.get("depth")} == {root}

    workshop.run(main())
    assert [type(error) for error in raised] == [RecursionDepthExceeded]
    assert (raised[0].value, raised[0].limit) == (3, 2)


@pytest.mark.req("R223", "R225")
@pytest.mark.parametrize("width", [1, 3])
def test_a_family_of_runs_shares_its_iterations(workshop: Workshop, width: int) -> None:
    """However many runs a run leads to, side by side or one inside the other, together they stay within the bound."""
    raised: list[LimitError] = []
    runtimes: list[Runtime] = []
    nested(workshop, runtimes, raised, width)
    limits = {"max_depth": 50, "max_iterations": 8, "max_global_iterations": 60}

    async def main() -> None:
        async with workshop.runtime(workshop.pack(budget=limits)) as runtime:
            runtimes.append(runtime)
            await runtime.run(ASK, plan=plan(step("a", "dig.it")))
            rows = await runtime.sessions(limit=100)
            states = [await runtime.state(row.session_id) for row in rows]
            assert all(state.is_over for state in states)
            assert 3 <= len(states) <= 10
            assert sum(state.iterations for state in states) <= 60
            # The last share is what was left: too little for a whole run, or none at all.
            assert raised or any("iteration_budget_exceeded" in state.reason for state in states)

    workshop.run(main())
    assert {type(error) for error in raised} <= {GlobalIterationBudgetExhausted}


def test_what_a_child_did_not_use_is_given_back(workshop: Workshop) -> None:
    """One child after the other: each is over before the next begins, so many more fit than could run at once."""
    raised: list[LimitError] = []
    runtimes: list[Runtime] = []

    async def many(context: ToolContext, params: dict[str, Any]) -> Any:
        for n in range(4):
            child = await runtimes[0].run(ASK, plan=plan(step("b", "do.it", params={"n": n})), parent=context)
            assert child.status == "completed"
        return {}

    workshop.tool("do.it", idempotent=True)
    workshop.tool("dig.it", many, idempotent=True)
    limits = {"max_iterations": 20, "max_global_iterations": 60}

    async def main() -> None:
        async with workshop.runtime(workshop.pack(budget=limits)) as runtime:
            runtimes.append(runtime)
            assert (await runtime.run(ASK, plan=plan(step("a", "dig.it")))).status == "completed"

    workshop.run(main())
    assert not raised
