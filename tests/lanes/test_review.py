"""Which lanes a plan may start: by risk tier, how many, how deep, and for what budget."""

from __future__ import annotations

from typing import Any

import pytest

from engine.workshop import ADA, Workshop, events
from tercet.contracts.verdict import KIND_OF, Code, RefusalKind
from tercet.core import events as e
from tercet.core.state import State
from tercet.tools import ToolContext

from .rooms import ASK, LOOK_UP, RESEARCH, children, lane_step, pack_with_lanes, plan, step, template


async def look_up(_: ToolContext, params: dict[str, Any]) -> Any:
    """A price."""
    return {"price": len(params["supplier"])}


def review(workshop: Workshop, *steps: Any, **pack: Any) -> dict[str, Any]:
    """The verdict on a plan of these steps."""
    workshop.tool("look.up", look_up, mode="read_only", trust="trusted")

    async def main() -> dict[str, Any]:
        async with workshop.runtime(pack_with_lanes(workshop, **pack)) as runtime:
            result = await runtime.run(ASK, plan=plan(*steps), actor=ADA)
            return (await runtime.state(result.session_id)).verdict

    return workshop.run(main())


@pytest.mark.req("R269")
def test_a_run_starts_no_more_of_a_lane_than_it_may(workshop: Workshop) -> None:
    """The fifth of a lane that may be started four times is refused where it stands; four pass."""
    verdict = review(workshop, *(lane_step(f"s{n}", n) for n in range(5)))
    assert (verdict["code"], verdict["step_id"]) == ("fan_out_exceeded", "s4")
    assert verdict["reasons"] == ["plan starts lane research 5 times; a run may start 4"]
    assert KIND_OF[Code.FAN_OUT_EXCEEDED] is RefusalKind.BUDGET_EXCEEDED
    assert review(Workshop(), *(lane_step(f"s{n}", n) for n in range(4)))["outcome"] == "ok"


@pytest.mark.req("R270")
@pytest.mark.parametrize(
    ("tier", "outcome"), [("low", "ok"), ("medium", "ok"), ("high", "reject"), ("critical", "reject")]
)
def test_a_lane_is_for_the_risk_tiers_that_it_names(workshop: Workshop, tier: str, outcome: str) -> None:
    """A decision of a tier that a lane does not name cannot use it; by default these are the two upper ones."""
    verdict = review(workshop, lane_step("s"), decision={"risk_tier": tier})
    assert verdict["outcome"] == outcome
    if outcome == "reject":
        assert verdict["code"] == "lane_not_eligible"
    named = {**RESEARCH, "risk_tiers": ("high", "critical")}
    other = review(Workshop(), lane_step("s"), decision={"risk_tier": tier}, lanes=(named,))
    assert other["outcome"] != outcome


def test_a_lane_that_the_pack_does_not_have_is_refused(workshop: Workshop) -> None:
    """It is a tool that is not there, and the remedy names one that is."""
    verdict = review(workshop, lane_step("s", lane="reserch"))
    assert verdict["code"] == "tool_not_surfaced"
    assert "lane.research" in verdict["remedy"]


def test_a_lane_that_no_budget_pays_for_is_refused(workshop: Workshop) -> None:
    """What it reserves must be left when the plan is reviewed."""
    verdict = review(workshop, lane_step("s"), budget={"tool_calls": 1})
    assert verdict["code"] == "tool_calls_exceeded"
    assert verdict["reasons"] == ["lane research reserves 2 tool calls, 1 are left"]


def test_a_lane_is_given_what_its_schema_says(workshop: Workshop) -> None:
    """Its parameters are checked like those of any call, and nothing else is passed on."""
    verdict = review(workshop, lane_step("s", params={"supplier": 7}))
    assert verdict["code"] == "argument_invalid"
    more = {"supplier": {"$from": "request#/supplier"}, "other": 1}
    assert review(Workshop(), lane_step("s", params=more))["code"] == "argument_invalid"


def test_a_value_that_the_lane_would_trust_comes_from_a_trusted_source(workshop: Workshop) -> None:
    """A literal of the planner's is none; a lane whose decision marks the input as untrusted may be given it."""
    verdict = review(workshop, lane_step("s", "some other company"))
    assert verdict["code"] == "unbound_argument"


NESTED = {
    **RESEARCH,
    "name": "dig",
    "intent": "dig",
    "tools": ("look.up", "lane.dig"),
    "budget": {"tool_calls": 9},
}


@pytest.mark.req("R332", "R231")
def test_lanes_inside_of_lanes_come_to_an_end(workshop: Workshop) -> None:
    """A lane that starts itself is refused by its own critic where it would be too deep; each reserves from the one above
    it."""
    workshop.tool("look.up", look_up, mode="read_only", trust="trusted")
    again = template(
        {
            "id": "a",
            "kind": "lane",
            "tool": "lane.dig",
            "params": {"supplier": {"$from": "request#/supplier"}},
        },
        intent="dig",
    )
    pack = pack_with_lanes(
        workshop,
        lanes=(NESTED,),
        templates=(again,),
        more=({"id": "dig", "risk_tier": "low"},),
        budget={"max_depth": 2, "max_iterations": 20, "tool_calls": 9},
    )

    async def main() -> list[State]:
        async with workshop.runtime(pack) as runtime:
            result = await runtime.run(ASK, plan=plan(lane_step("s", lane="dig")), actor=ADA)
            assert result.status == "completed"
            return await children(runtime)

    found = workshop.run(main())
    assert [each.start.depth for each in found] == [1, 2]
    assert (found[1].status, found[1].verdict["code"]) == ("failed", "depth_exceeded")
    assert workshop.calls == []


@pytest.mark.req("R231")
def test_the_loop_guard_of_a_lane_trips_by_itself(workshop: Workshop) -> None:
    """A lane that makes the same call again and again is stopped; its parent's guard has counted nothing, and goes on."""
    workshop.tool("look.up", look_up, mode="read_only", trust="trusted")
    look = {"tool": "look.up", "params": {"supplier": {"$from": "request#/supplier"}}}
    steps = [{"id": f"a{n}", **look, "depends_on": [f"a{n - 1}"] if n else []} for n in range(5)]
    lane = {**RESEARCH, "budget": {"tool_calls": 9}}
    pack = pack_with_lanes(workshop, lanes=(lane,), templates=(template(*steps),))

    async def main() -> None:
        async with workshop.runtime(pack) as runtime:
            result = await runtime.run(ASK, plan=plan(lane_step("s"), step("t", None)), actor=ADA)
            assert result.status == "completed"
            parent, (child,) = await runtime.state(result.session_id), await children(runtime)
            assert (child.trips, parent.trips) == (1, 0)
            assert child.status == "failed"
            found = await events(runtime.journal, child.start.session)
            assert any(isinstance(each, e.LoopGuardTripped) for each in found)

    workshop.run(main())
    assert len(workshop.calls) == 3


@pytest.mark.req("R231")
def test_the_loop_guard_of_a_parent_counts_lanes_that_bring_the_same(workshop: Workshop) -> None:
    """Three lanes with the same input and the same outputs are no progress, although each is a session of its own."""
    workshop.tool("look.up", look_up, mode="read_only", trust="trusted")

    async def main() -> None:
        async with workshop.runtime(pack_with_lanes(workshop)) as runtime:
            steps = [lane_step(f"s{n}", depends_on=(f"s{n - 1}",) if n else ()) for n in range(4)]
            result = await runtime.run(ASK, plan=plan(*steps), actor=ADA)
            parent = await runtime.state(result.session_id)
            assert parent.trips == 1
            assert all(child.trips == 0 for child in await children(runtime))

    workshop.run(main())


@pytest.mark.req("R265")
def test_a_lane_has_its_own_context_budget_and_tools(workshop: Workshop) -> None:
    """Its run, its trace, its limits and its surface are its own; what it does not declare, it does not have."""
    workshop.tool("look.up", look_up, mode="read_only", trust="trusted")
    workshop.tool("ask.all", look_up, mode="read_only")
    other = template({"id": "a", "tool": "ask.all", "params": {"supplier": {"$from": "request#/supplier"}}})
    pack = pack_with_lanes(workshop, templates=(other,), budget={"tool_calls": 30})

    async def main() -> None:
        async with workshop.runtime(pack) as runtime:
            result = await runtime.run(ASK, plan=plan(lane_step("s")), actor=ADA)
            parent, (child,) = await runtime.state(result.session_id), await children(runtime)
            assert child.verdict["code"] == "tool_not_surfaced"
            assert "lane research does not have it" in child.verdict["remedy"]
            assert child.start.budget["tool_calls"] == 2
            assert child.start.run != parent.start.run
            assert child.start.lane["tools"] == ["look.up"]

    workshop.run(main())
    assert workshop.calls == []


@pytest.mark.req("R265")
def test_a_lane_never_has_a_tool_that_its_parent_lacks(workshop: Workshop) -> None:
    """The decision of the parent does not list the tool, so neither it nor its lane can use it."""
    workshop.tool("look.up", look_up, mode="read_only", trust="trusted")
    pack = pack_with_lanes(workshop, templates=(LOOK_UP,), decision={"tools": ("lane.research",)})

    async def main() -> None:
        async with workshop.runtime(pack) as runtime:
            result = await runtime.run(ASK, plan=plan(lane_step("s")), actor=ADA)
            assert result.status == "completed"
            (child,) = await children(runtime)
            assert (child.status, child.verdict["code"]) == ("failed", "tool_not_surfaced")

    workshop.run(main())
    assert workshop.calls == []


@pytest.mark.req("R270")
def test_a_lane_that_takes_too_long_is_ended(workshop: Workshop) -> None:
    """Its parent sees that it ran out of time, and what it used up; the run goes on."""

    async def hang(_: ToolContext, __: dict[str, Any]) -> Any:
        await workshop.clock.sleep(10**9)

    workshop.tool("look.up", hang, mode="read_only", timeout_ms=10**8)
    pack = pack_with_lanes(workshop, lanes=({**RESEARCH, "timeout_ms": 2_000},))

    async def main() -> None:
        async with workshop.runtime(pack) as runtime:
            before = workshop.clock.now()
            result = await runtime.run(ASK, plan=plan(lane_step("s")), actor=ADA)
            assert result.status == "completed"
            assert workshop.clock.now() - before < 10_000
            parent, (child,) = await runtime.state(result.session_id), await children(runtime)
            assert child.is_over
            found = [
                each
                for each in await events(runtime.journal, result.session_id)
                if isinstance(each, e.Complete)
            ]
            assert (found[0].value["status"], found[0].value["code"]) == (child.status, "lane_timeout")
            assert parent.used.tool_calls == child.used.tool_calls > 0

    workshop.run(main())


CALLS_RELATED = {"tool": "look.up", "param": "supplier", "equals": "request.supplier"}
LANE_RELATED = {"tool": "lane.research", "param": "supplier", "equals": "request.supplier"}


@pytest.mark.parametrize(
    ("bind", "supplier", "code"),
    [
        ([], "request#/suppliers/0", None),
        ([CALLS_RELATED], "request#/supplier", "unbound_argument"),
        ([CALLS_RELATED], "request#/suppliers/0", "unbound_argument"),
        ([CALLS_RELATED, LANE_RELATED], "request#/supplier", None),
        ([CALLS_RELATED, LANE_RELATED], "request#/suppliers/0", "unbound_argument"),
    ],
)
def test_a_lane_does_not_lead_around_a_relation_of_its_tools(
    workshop: Workshop, bind: list[dict[str, str]], supplier: str, code: str | None
) -> None:
    """Where calls of a tool relate to the request, results of a lane that calls it decide nothing, unless it relates too."""

    async def pay(_: ToolContext, params: dict[str, Any]) -> Any:
        return params

    workshop.tool("pay.it", pay, authority=("cents",))
    verdict = review(
        workshop,
        lane_step("a", params={"supplier": {"$from": supplier}}),
        step("b", "pay.it", params={"cents": {"$from": "a#/outputs/price"}}),
        lanes=({**RESEARCH, "trust": "trusted"},),
        decision={"bind": bind},
    )
    assert verdict.get("code") == code
