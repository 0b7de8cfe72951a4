"""Runs that start runs: how deep they may go, and what they share."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from tercet.contracts.errors import LimitError, UsageError
from tercet.contracts.gate import Gate
from tercet.contracts.request import Actor, Request
from tercet.contracts.runs.budget import RunBudget
from tercet.engine.streams.nesting import (
    GlobalIterationBudgetExhausted,
    Place,
    RecursionDepthExceeded,
    owners_above,
    reserve,
)
from tercet.journal.memory import MemoryJournal
from tercet.journal.protocol import Journal
from tercet.runtime import Runtime
from tercet.tools import ToolContext

from .faults import Through
from .workshop import ADA, ASK, CLEO, Workshop, plan, step


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


@pytest.mark.req("R55", "R221", "R222", "R332")
async def test_a_run_stands_no_deeper_inside_others_than_it_may(workshop: Workshop) -> None:
    """Each run is one deeper than the one that started it; the first that would be too deep is not started."""
    raised: list[LimitError] = []
    runtimes: list[Runtime] = []
    nested(workshop, runtimes, raised)

    async with workshop.runtime(workshop.pack(budget={"max_depth": 2})) as runtime:
        runtimes.append(runtime)
        assert (await runtime.run(ASK, plan=plan(step("a", "dig.it")))).status == "completed"
        rows = await runtime.sessions()
        states = [await runtime.state(row.session_id) for row in rows]
        assert sorted(state.start.depth for state in states) == [0, 1, 2]
        root = next(s.start.session for s in states if not s.start.depth)
        assert {s.start.root for s in states if s.start.depth} == {root}
    assert [type(error) for error in raised] == [RecursionDepthExceeded]
    assert (raised[0].value, raised[0].limit) == (3, 2)


@pytest.mark.req("R223", "R225")
@pytest.mark.parametrize("width", [1, 3])
async def test_a_family_of_runs_shares_its_iterations(workshop: Workshop, width: int) -> None:
    """However many runs a run leads to, side by side or one inside the other, together they stay within the bound."""
    raised: list[LimitError] = []
    runtimes: list[Runtime] = []
    nested(workshop, runtimes, raised, width)
    limits = {"max_depth": 50, "max_iterations": 8, "max_global_iterations": 60}

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
    assert {type(error) for error in raised} <= {GlobalIterationBudgetExhausted}


async def test_what_a_child_did_not_use_is_given_back(workshop: Workshop) -> None:
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

    async with workshop.runtime(workshop.pack(budget=limits)) as runtime:
        runtimes.append(runtime)
        assert (await runtime.run(ASK, plan=plan(step("a", "dig.it")))).status == "completed"
    assert not raised


class Yielding(Through):
    """A journal that lets others go first for a while, whatever it is asked, and nobody knows for how long."""

    def __init__(self, journal: Journal, seed: int) -> None:
        super().__init__(journal)
        self._draw = random.Random(seed)  # noqa: S311 - a test that can be repeated

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.inner, name)

        async def later(*args: Any, **named: Any) -> Any:
            for _ in range(self._draw.randrange(6)):
                await asyncio.sleep(0)
            return await method(*args, **named)

        return later


@pytest.mark.req("R223")
@pytest.mark.parametrize("seed", range(40))
async def test_children_that_reserve_at_once_never_hold_more_than_there_is(
    workshop: Workshop, seed: int
) -> None:
    """Three look at the same moment at what is left for two: two get their share, and the third is told."""
    root = ToolContext(
        tenant="default", run_id="r", step_id="a", actor="ada", idempotency_key="k", session_id="ses_root"
    )
    budget = RunBudget(max_iterations=20, max_global_iterations=60)

    async def main() -> list[Any]:
        journal = Yielding(MemoryJournal(), seed).itself
        reserving = (reserve(journal, "default", root, f"ses_{n}", budget) for n in range(3))
        return await asyncio.gather(*reserving, return_exceptions=True)

    found = await main()
    assert sum(place.max_iterations or 0 for place in found if isinstance(place, Place)) == 40
    rest = [fault for fault in found if not isinstance(fault, Place)]
    assert all(isinstance(fault, GlobalIterationBudgetExhausted) for fault in rest)


async def test_a_child_that_never_begins_keeps_nothing_of_the_familys_iterations(workshop: Workshop) -> None:
    """Requests that start no session use nothing up, so the one that is right still finds its share."""
    refused: list[str] = []
    runtimes: list[Runtime] = []

    async def many(context: ToolContext, params: dict[str, Any]) -> Any:
        for _ in range(4):
            try:
                await runtimes[0].run(Request(intent="no such"), parent=context)
            except UsageError as error:
                refused.append(error.code)
        return {"child": (await runtimes[0].run(ASK, plan=plan(step("b", "do.it")), parent=context)).status}

    workshop.tool("do.it", idempotent=True)
    workshop.tool("dig.it", many, idempotent=True)
    limits = {"max_iterations": 20, "max_global_iterations": 60}

    async with workshop.runtime(workshop.pack(budget=limits)) as runtime:
        runtimes.append(runtime)
        result = await runtime.run(ASK, plan=plan(step("a", "dig.it")))
        assert (result.status, (await runtime.state(result.session_id)).steps["a"].error) == (
            "completed",
            "",
        )
    assert len(refused) == 4
    assert ("b", 1) in workshop.calls


@pytest.mark.parametrize("actor", [None, Actor(id="robot")], ids=["no actor", "its own actor"])
async def test_the_owner_of_an_outer_run_cannot_approve_a_nested_one(
    workshop: Workshop, actor: Actor | None
) -> None:
    """A nested run belongs to the owner of its parent, and no owner of a run above it approves its gates."""
    runtimes: list[Runtime] = []
    boss = Actor(id="ada", roles=("boss",), os_user="ada_login")

    async def middle(context: ToolContext, params: dict[str, Any]) -> Any:
        inner = plan(step("b", "dig.it"))
        await runtimes[0].run(ASK, plan=inner, parent=context, actor=actor)
        return {}

    async def innermost(context: ToolContext, params: dict[str, Any]) -> Any:
        await runtimes[0].run(ASK, plan=plan(step("c", "pay.it")), parent=context, actor=actor)
        return {}

    workshop.tool("go.it", middle)
    workshop.tool("dig.it", innermost)
    workshop.tool("pay.it", mode="destructive", gates=("BOSS",), authority=(), no_compensation="final")

    gate = Gate(name="BOSS", roles=("boss",))
    async with workshop.runtime(workshop.pack(gates=(gate,))) as runtime:
        runtimes.append(runtime)
        await runtime.run(ASK, plan=plan(step("a", "go.it")), actor=boss)
        [waiting] = await runtime.gates()
        assert waiting.owner == (actor or boss).id
        with pytest.raises(UsageError) as refused:
            await runtime.approve(waiting.id, actor=boss)
        assert refused.value.code == "own_gate"
        other_name = Actor(id="bob", roles=("boss",), os_user="ada_login")
        with pytest.raises(UsageError) as refused:
            await runtime.approve(waiting.id, actor=other_name)
        assert refused.value.code == "own_gate"
        await runtime.approve(waiting.id, actor=CLEO)
        assert (await runtime.resume(waiting.session_id)).status == "completed"


def test_a_nested_run_without_an_actor_belongs_to_the_one_that_the_context_names() -> None:
    """A context that names no owners still names the actor of its run."""
    context = ToolContext(tenant="t", run_id="r", step_id="a", actor=ADA.id, idempotency_key="k")
    assert owners_above(context) == (ADA,)
