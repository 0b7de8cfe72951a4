"""Lanes reserve their budget from their parent, return what they do not use, and are refused when nothing is left."""

from __future__ import annotations

from typing import Any

import pytest

from engine.workshop import ADA, Death, Workshop, events
from tercet.contracts.errors import UsageError
from tercet.core import events as e
from tercet.core.state import State
from tercet.packs.pack import Pack
from tercet.runtime import Runtime
from tercet.tools import ToolContext

from .rooms import ASK, RESEARCH, children, lane_step, pack_with_lanes, plan, template


async def look_up(_: ToolContext, params: dict[str, Any]) -> Any:
    """A price."""
    return {"price": len(params["supplier"])}


def crowd(workshop: Workshop, *, lanes: int, budget: int, reserves: int = 1) -> Pack:
    """A pack whose runs may start so many lanes, and pay for fewer."""
    workshop.tool("look.up", look_up, mode="read_only")
    many = {**RESEARCH, "budget": {"tool_calls": reserves}, "max_fan_out": lanes}
    limits = {"tool_calls": budget, "max_steps": lanes, "max_global_iterations": 20 * lanes + 100}
    return pack_with_lanes(workshop, lanes=(many,), budget=limits)


async def demand_books(runtime: Runtime, session: str, *, spent: int) -> State:
    """What the parent spent is what its lanes used up, and nothing stays reserved."""
    parent = await runtime.state(session)
    lanes = await children(runtime)
    assert parent.used.tool_calls == sum(each.used.tool_calls for each in lanes) == spent
    assert parent.used.reserved_calls == 0
    return parent


@pytest.mark.req("R268")
def test_a_hundred_lanes_spend_the_sixty_calls_that_there_are(workshop: Workshop, journal_url: str) -> None:
    """The sixty that are paid for run; each of the others is refused for want of budget, and the run goes on."""
    pack = crowd(workshop, lanes=100, budget=60)
    steps = [lane_step(f"s{n:03}", n, optional=True) for n in range(100)]

    async def main() -> None:
        async with workshop.journal(journal_url) as journal, workshop.runtime(pack, journal) as runtime:
            result = await runtime.run(ASK, plan=plan(*steps), actor=ADA)
            assert result.status == "completed", result
            parent = await demand_books(runtime, result.session_id, spent=60)
            assert sum(step.status == "done" for step in parent.steps.values()) == 60
            found = await events(journal, result.session_id)
            refused = [each for each in found if isinstance(each, e.StepRefused)]
            assert {each.code for each in refused} == {"budget_exceeded"}
            assert len(refused) == 40

    workshop.run(main())
    assert len(workshop.calls) == 60


@pytest.mark.req("R268")
def test_what_a_lane_does_not_use_is_returned(workshop: Workshop, url: str) -> None:
    """Three lanes reserve four calls each of six: one waits for what the others give back, and all of them run."""
    pack = crowd(workshop, lanes=3, budget=6, reserves=4)

    async def main() -> None:
        async with workshop.journal(url) as journal, workshop.runtime(pack, journal) as runtime:
            result = await runtime.run(ASK, plan=plan(*(lane_step(f"s{n}", n) for n in range(3))), actor=ADA)
            assert result.status == "completed", result
            await demand_books(runtime, result.session_id, spent=3)
            reserved = [
                each.lane_calls
                for each in await events(journal, result.session_id)
                if isinstance(each, e.Intent)
            ]
            assert reserved == [4, 4, 4]

    workshop.run(main())


def test_a_lane_cannot_use_more_than_it_reserved(workshop: Workshop, url: str) -> None:
    """Its own budget is the reservation: the second call of a lane that reserved one is not made."""
    workshop.tool("look.up", look_up, mode="read_only")
    look = {"tool": "look.up", "params": {"supplier": {"$from": "request#/supplier"}}}
    twice = template({"id": "a", **look}, {"id": "b", **look, "depends_on": ["a"]})
    lane = {**RESEARCH, "budget": {"tool_calls": 1}}
    pack = pack_with_lanes(workshop, lanes=(lane,), templates=(twice,), budget={"tool_calls": 9})

    async def main() -> None:
        async with workshop.journal(url) as journal, workshop.runtime(pack, journal) as runtime:
            result = await runtime.run(ASK, plan=plan(lane_step("s")), actor=ADA)
            assert result.status == "completed"
            parent = await runtime.state(result.session_id)
            (child,) = await children(runtime)
            assert child.status == "failed"
            assert child.used.tool_calls <= 1
            assert parent.used.tool_calls == child.used.tool_calls

    workshop.run(main())
    assert len(workshop.calls) <= 1


POINTS = ("after_append", "before_call", "after_answer", "before_append")


@pytest.mark.req("R268")
@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("nth", [2, 7, 13])
def test_a_parent_that_dies_and_goes_on_meets_the_same_lanes(
    workshop: Workshop, file: str, point: str, nth: int
) -> None:
    """Whatever was under way, each lane is one session, and what they used is booked once."""
    pack = crowd(workshop, lanes=5, budget=8, reserves=2)
    steps = [lane_step(f"s{n}", n) for n in range(5)]

    async def main() -> None:
        death = Death(point, nth)
        async with workshop.journal(file) as journal, workshop.runtime(pack, journal, crash=death) as runtime:
            await death.of(runtime.run(ASK, plan=plan(*steps), actor=ADA))
        async with workshop.journal(file) as journal, workshop.runtime(pack, journal) as runtime:
            rows = await runtime.sessions(limit=50)
            (parent,) = [
                row.session_id for row in rows if not (await runtime.state(row.session_id)).start.root
            ]
            result = await runtime.resume(parent)
            assert result.status == "completed", result
            lanes = await children(runtime)
            assert len(lanes) == 5
            used = sum(each.used.tool_calls for each in lanes)
            await demand_books(runtime, parent, spent=used)
            assert used <= 8

    workshop.run(main())


@pytest.mark.req("R268")
def test_nobody_gives_a_lane_more_than_was_reserved(workshop: Workshop) -> None:
    """An operator extends the run that started it; otherwise the lane would spend what its parent does not have."""
    refused: list[str] = []

    async def ask_for_more(context: ToolContext, params: dict[str, Any]) -> Any:
        try:
            await runtimes[0].extend(context.session_id, {"tool_calls": 5}, actor=ADA)
        except UsageError as error:
            refused.append(error.code)
        return {"price": len(params["supplier"])}

    runtimes: list[Runtime] = []
    workshop.tool("look.up", ask_for_more, mode="read_only")

    async def main() -> None:
        async with workshop.runtime(pack_with_lanes(workshop)) as runtime:
            runtimes.append(runtime)
            assert (await runtime.run(ASK, plan=plan(lane_step("s")), actor=ADA)).status == "completed"

    workshop.run(main())
    assert refused == ["lane_budget"]
