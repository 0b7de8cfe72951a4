"""What a lane would do, it proposes: the critic of its parent decides, and the parent carries out what it accepts."""

from __future__ import annotations

from typing import Any

import pytest

from engine.workshop import ADA, BOB, Death, Workshop, events
from tercet.core import events as e
from tercet.tools import ToolContext

from .rooms import ASK, RESEARCH, children, lane_step, pack_with_lanes, plan, step, template

LOOK = {"id": "a", "tool": "look.up", "params": {"supplier": {"$from": "request#/supplier"}}}
BUY = {
    "id": "b",
    "tool": "buy.it",
    "params": {"supplier": {"$from": "request#/supplier"}},
    "depends_on": ["a"],
}
NOTIFY = {"id": "c", "tool": "tell.them", "params": {"about": {"$from": "b#/order"}}}
BUYS = {**RESEARCH, "tools": ("look.up", "buy.it", "tell.them")}
GATES = ({"name": "BOSS", "roles": ("boss",)},)


async def look_up(_: ToolContext, params: dict[str, Any]) -> Any:
    """A price."""
    return {"price": len(params["supplier"]), "partner": "mallory"}


async def buy(_: ToolContext, params: dict[str, Any]) -> Any:
    """An order."""
    return {"order": f"order of {params['supplier']}"}


def shop(workshop: Workshop, *steps: dict[str, Any], mode: str = "network", **pack: Any) -> Any:
    """A pack whose lane looks up and would buy."""
    workshop.tool("look.up", look_up, mode="read_only")
    text = {"type": "object", "properties": {"supplier": {"type": "string"}}, "required": ["supplier"]}
    order = {"type": "object", "properties": {"order": {"type": "string"}}}
    workshop.tool(
        "buy.it", buy, mode=mode, gates=("BOSS",), parameters=text, result=order, no_compensation="none"
    )
    workshop.tool("tell.them", mode="local_write", no_compensation="none")
    return pack_with_lanes(workshop, lanes=(BUYS,), templates=(template(*steps),), gates=GATES, **pack)


def called(workshop: Workshop) -> list[str]:
    return [name for name, _ in workshop.calls]


@pytest.mark.req("R267", "R325")
def test_a_purchase_that_a_lane_proposes_waits_at_the_gate_of_its_parent(
    workshop: Workshop, url: str
) -> None:
    """The lane only looks up. The purchase is a step of the parent's next revision, asked about like any other, and runs
    there once; what refers to it runs behind it."""
    pack = shop(workshop, LOOK, BUY, NOTIFY)

    async def main() -> None:
        async with workshop.journal(url) as journal, workshop.runtime(pack, journal) as runtime:
            result = await runtime.run(ASK, plan=plan(lane_step("s")), actor=ADA)
            assert (result.status, result.gate and result.gate.step) == ("awaiting_gate", "s.p1")
            assert called(workshop) == ["a"]
            (child,) = await children(runtime)
            assert [each["id"] for each in child.proposals] == ["b", "c"]
            assert not any(
                isinstance(each, e.Intent) and each.step != "a"
                for each in await events(journal, child.start.session)
            )
            assert result.gate is not None
            await runtime.approve(result.gate.id, actor=BOB)
            result = await runtime.resume(result.session_id)
            assert result.status == "completed", result
            parent = await runtime.state(result.session_id)
            assert parent.plan["revision"] == 2
            assert parent.plan["parent"] == plan(lane_step("s")).hash
            assert parent.steps["s.p1"].is_added
            assert parent.steps["s.p2"].params == {"about": "order of birch 000"}

    workshop.run(main())
    assert called(workshop) == ["a", "s.p1", "s.p2"]


@pytest.mark.req("R267", "R325")
def test_a_proposal_that_the_critic_rejects_does_not_run(workshop: Workshop) -> None:
    """A supplier that only the lane has found, and that its own critic believes, is refused in the parent, with a typed
    reason; the run goes on."""
    hostile = {**BUY, "params": {"supplier": {"$from": "a#/partner"}}}
    pack = shop(workshop, LOOK, hostile)

    async def main() -> None:
        async with workshop.runtime(pack) as runtime:
            result = await runtime.run(ASK, plan=plan(lane_step("s")), actor=ADA)
            assert result.status == "completed", result
            found = await events(runtime.journal, result.session_id)
            (said,) = [each for each in found if isinstance(each, e.ProposalsReviewed)]
            assert said.verdict["code"] == "unbound_argument"
            assert said.plan == {}
            parent = await runtime.state(result.session_id)
            assert list(parent.steps) == ["s"]

    workshop.run(main())
    assert called(workshop) == ["a"]


@pytest.mark.req("R267")
def test_no_policy_grants_what_a_lane_proposes(workshop: Workshop) -> None:
    """A policy that would grant the step of a plan does not grant it where a lane brought it: a person is asked."""
    workshop.tool("look.up", look_up, mode="read_only")
    text = {"type": "object", "properties": {"supplier": {"type": "string"}}, "required": ["supplier"]}
    workshop.tool("buy.it", buy, mode="network", parameters=text, no_compensation="none")
    policies = ({"name": "small", "scope": "step", "effect": "grant", "expression": 'step.tool == "buy.it"'},)
    pack = pack_with_lanes(workshop, lanes=(BUYS,), templates=(template(LOOK, BUY),), policies=policies)

    async def main() -> None:
        async with workshop.runtime(pack) as runtime:
            own = {**BUY, "depends_on": (), "id": "own"}
            granted = await runtime.run(
                ASK, plan=plan(step("own", "buy.it", params=own["params"])), actor=ADA
            )
            assert granted.status == "completed", granted
            result = await runtime.run(ASK, plan=plan(lane_step("s")), actor=ADA)
            assert (result.status, result.gate and result.gate.step) == ("awaiting_gate", "s.p1")

    workshop.run(main())


@pytest.mark.parametrize("point", ["after_append", "before_append", "after_answer", "before_call"])
@pytest.mark.parametrize("nth", [3, 6, 9])
@pytest.mark.req("R267")
def test_a_proposal_runs_once_whenever_its_processes_die(
    workshop: Workshop, file: str, point: str, nth: int
) -> None:
    """Lane, review, gate and purchase go on where they were."""
    pack = shop(workshop, LOOK, BUY)

    async def main() -> None:
        death = Death(point, nth)
        async with workshop.journal(file) as journal, workshop.runtime(pack, journal, crash=death) as runtime:
            await death.of(runtime.run(ASK, plan=plan(lane_step("s")), actor=ADA))
        async with workshop.journal(file) as journal, workshop.runtime(pack, journal) as runtime:
            rows = await runtime.sessions(limit=50)
            (parent,) = [
                row.session_id for row in rows if not (await runtime.state(row.session_id)).start.root
            ]
            result = await runtime.resume(parent)
            assert (result.status, result.gate and result.gate.step) == ("awaiting_gate", "s.p1")
            assert result.gate is not None
            await runtime.approve(result.gate.id, actor=BOB)
            assert (await runtime.resume(parent)).status == "completed"
            assert len(await children(runtime)) == 1

    workshop.run(main())
    assert called(workshop).count("s.p1") == 1


def test_a_step_that_computes_with_a_proposal_ends_the_lane(workshop: Workshop) -> None:
    """It can be neither carried out nor proposed: the lane ends without success, and nothing of it is proposed."""
    computed = {"id": "c", "tool": "tell.them", "params": {"about": {"$cel": "b.order + '!'"}}}
    pack = shop(workshop, LOOK, BUY, computed)

    async def main() -> None:
        async with workshop.runtime(pack) as runtime:
            result = await runtime.run(ASK, plan=plan(lane_step("s")), actor=ADA)
            assert result.status == "completed"
            (child,) = await children(runtime)
            assert child.status == "failed"
            assert "only proposes" in child.reason
            parent = await runtime.state(result.session_id)
            assert list(parent.steps) == ["s"]

    workshop.run(main())
    assert called(workshop) == ["a"]


@pytest.mark.req("R267")
def test_what_a_proposal_did_is_taken_back_like_any_effect(workshop: Workshop) -> None:
    """A run that fails after it bought what its lane proposed compensates the purchase, and not the lane."""
    workshop.tool("look.up", look_up, mode="read_only")
    text = {"type": "object", "properties": {"supplier": {"type": "string"}}, "required": ["supplier"]}
    undo = {"tool": "undo.it", "params": {"order": {"$from": "self#/order"}}}
    workshop.tool("buy.it", buy, mode="local_write", parameters=text, compensate=undo)
    workshop.tool("undo.it", mode="local_write", no_compensation="none")

    async def fail(_: ToolContext, __: dict[str, Any]) -> Any:
        raise ValueError("no")

    workshop.tool("fail.it", fail, mode="read_only")
    lane = {**RESEARCH, "tools": ("look.up", "buy.it")}
    pack = pack_with_lanes(
        workshop,
        lanes=(lane,),
        templates=(template(LOOK, BUY),),
        on_failure="compensate",
        budget={"max_step_retries": 0},
    )

    async def main() -> None:
        async with workshop.runtime(pack) as runtime:
            steps = (lane_step("s"), step("z", "fail.it", depends_on=("s",), priority=-5))
            result = await runtime.run(ASK, plan=plan(*steps), actor=ADA)
            await runtime.cancel(result.session_id, actor=ADA)
            result = await runtime.resume(result.session_id)
            assert result.status == "cancelled", result
            state = await runtime.state(result.session_id)
            assert [(each.step, each.tool) for each in state.undo] == [("s.p1", "undo.it")]

    workshop.run(main())
    assert called(workshop)[-1] == "~s.p1"
