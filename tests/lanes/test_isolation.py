"""Whatever happens inside of a lane, the effects of its parent change only by a review and the gates of the parent."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from engine.workshop import ADA, BOB, Workshop, events, with_options
from tercet.contracts.plan import Plan
from tercet.core import events as e
from tercet.core.config import RunConfig
from tercet.engine.models.planners import PlannerName
from tercet.engine.planning import AnyPlanner
from tercet.runtime import Runtime
from tercet.tools import ToolContext

from .rooms import ASK, RESEARCH, children, lane_step, pack_with_lanes, plan

KNOWN = {ASK.input["supplier"], *ASK.input["suppliers"]}
"""The suppliers that the person who asks has named."""
TOOLS = ("look.up", "write.it", "pay.it", "pure.it", "lane.research", "no.tool")
SUPPLIERS = (
    {"$from": "request#/supplier"},
    "birch",
    "mallory",
    {"$from": "x0#/partner"},
    {"$from": "x1#/partner"},
    {"$cel": "x0.partner + '!'"},
    {"$literal": {"$from": "request#/supplier"}},
)


@st.composite
def lane_plans(draw: st.DrawFn) -> dict[str, Any]:
    """A plan that a hostile planner of a lane may come up with."""
    steps: list[dict[str, Any]] = []
    for number in range(draw(st.integers(1, 4))):
        chosen = draw(st.sampled_from(TOOLS))
        made: dict[str, Any] = {"id": f"x{number}", "tool": chosen}
        made["params"] = {"supplier": draw(st.sampled_from(SUPPLIERS))}
        if draw(st.booleans()):
            made["approval_mode"] = draw(st.sampled_from(("read_only", "destructive")))
        if draw(st.booleans()):
            made["gates"] = draw(st.sampled_from(((), ("BOSS",), ("OTHER",))))
        if draw(st.booleans()):
            made["reversibility"] = "pure"
        if number and draw(st.booleans()):
            made["depends_on"] = (f"x{number - 1}",)
        if draw(st.integers(0, 3)) == 0:
            made["when"] = draw(st.sampled_from(("true", "false", "x0.partner == 'mallory'")))
        if draw(st.booleans()):
            made["optional"] = True
        if chosen == "pay.it" and draw(st.booleans()):
            made["compensate"] = {"tool": "write.it", "params": {"supplier": "mallory"}}
        steps.append(made)
    return {"intent": "research", "steps": steps}


class Hostile:
    """A planner that proposes what a test says."""

    name = "hostile"

    def __init__(self, proposed: dict[str, Any]) -> None:
        self._proposed = proposed

    async def propose(self, config: RunConfig, feedback: tuple[str, ...]) -> Plan:
        """The plan."""
        del config, feedback
        return Plan.model_validate(self._proposed)


class Infiltrated(Runtime):
    """A runtime whose lanes are planned by a hostile planner."""

    lane_plan: dict[str, Any]

    def _planner(self, given: AnyPlanner | PlannerName | None, intent: str, models: Any) -> AnyPlanner:
        return Hostile(self.lane_plan) if intent == "research" else super()._planner(given, intent, models)


READ_BEHIND_A_GATE = {
    "intent": "research",
    "steps": [
        {
            "id": "x0",
            "tool": "look.up",
            "params": {"supplier": {"$from": "request#/supplier"}},
            "gates": ["BOSS"],
        }
    ],
}


@pytest.mark.req("R267", "R284", "R325")
@given(lane_plan=lane_plans(), approves=st.booleans())
@example(lane_plan=READ_BEHIND_A_GATE, approves=False)
@example(lane_plan=READ_BEHIND_A_GATE, approves=True)
def test_no_lane_changes_the_effects_of_its_parent(lane_plan: dict[str, Any], approves: bool) -> None:
    """A call that leaves something behind is made by the parent alone, for a step that its critic accepted, and behind the
    gate where there is one. The steps that the parent had before stay as they were."""
    workshop, made = Workshop(), list[tuple[str, str, str, Any]]()
    workshop.is_forged = True

    def watched(name: str, mode: str, **declared: Any) -> None:
        async def call(context: ToolContext, params: dict[str, Any]) -> Any:
            made.append((context.session_id, name, context.step_id, params.get("supplier")))
            return {"partner": "mallory", **params}

        schema: dict[str, Any] = {"type": "object", "properties": {"supplier": {}}}
        workshop.tool(name, call, mode=mode, parameters=schema, no_compensation="none", **declared)

    watched("look.up", "read_only")
    watched("pure.it", "local_write", reversibility="pure")
    watched("write.it", "local_write")
    watched("pay.it", "network", gates=("BOSS",))
    lane = {**RESEARCH, "tools": TOOLS, "budget": {"tool_calls": 6}}
    pack = pack_with_lanes(
        workshop,
        lanes=(lane,),
        templates=(),
        gates=({"name": "BOSS", "roles": ("boss",)}, {"name": "OTHER", "roles": ("boss",)}),
    )

    async def main() -> None:
        options = with_options({"clock": workshop.clock, "ids": lambda: f"{workshop.numbers():04}"})
        async with Infiltrated(pack, "memory:", watchdog_ms=None, **options) as runtime:
            runtime.lane_plan = lane_plan
            result = await runtime.run(ASK, plan=plan(lane_step("s")), actor=ADA)
            asked = set[str]()
            for _ in range(8):
                if not (approves and result.gate is not None and result.gate.kind == "approval"):
                    break
                asked.add(result.gate.step)
                await runtime.approve(result.gate.id, actor=BOB)
                result = await runtime.resume(result.session_id)
            parent = result.session_id
            found = await events(runtime.journal, parent)
            accepted = {
                step["id"]
                for each in found
                if isinstance(each, e.ProposalsReviewed) and each.verdict["outcome"] == "ok"
                for step in each.plan["steps"]
            }
            for session, tool, step, supplier in made:
                if tool in ("look.up", "pure.it"):
                    continue
                assert session == parent, (tool, step)
                assert step in accepted, (tool, step)
                assert tool != "pay.it" or (step in asked and supplier in KNOWN), (tool, step, supplier)
            for child in await children(runtime):
                own = await events(runtime.journal, child.start.session)
                called = {each.tool for each in own if isinstance(each, e.Intent)}
                assert called <= {"look.up", "pure.it", "lane.research", ""}
                waits = {each.digest for each in own if isinstance(each, e.GateOpened)}
                assert waits <= {
                    each.digest for each in found if isinstance(each, e.GateOpened) and each.lane
                }
                assert child.is_over or result.status == "awaiting_gate"
            state = await runtime.state(parent)
            assert (
                state.plan["steps"][0]
                == plan(lane_step("s")).model_dump(mode="json", exclude_defaults=True)["steps"][0]
            )

    workshop.run(main())
