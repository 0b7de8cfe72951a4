"""One lane: it runs in a session of its own, and its parent sees an envelope."""

from __future__ import annotations

import json
from typing import Any

from engine.workshop import ADA, Workshop, events, names
from tercet.context import compile as compile_context
from tercet.contracts.lane import LaneEnvelope
from tercet.engine.models.planner import ModelPlanner
from tercet.packs.checking import check
from tercet.testing.models import ScriptedModel
from tercet.tools import ToolContext

from .rooms import ASK, children, lane_step, pack_with_lanes, plan, step


async def look_up(_: ToolContext, params: dict[str, Any]) -> Any:
    """A price."""
    return {"price": len(params["supplier"])}


def test_a_lane_runs_in_a_session_of_its_own(workshop: Workshop, url: str) -> None:
    """Its parent sees its outputs, what it used up, and its session."""
    workshop.tool("look.up", look_up, mode="read_only")

    async def main() -> None:
        pack = pack_with_lanes(workshop, budget={"tool_calls": 9})
        async with workshop.journal(url) as journal, workshop.runtime(pack, journal) as runtime:
            result = await runtime.run(
                ASK, plan=plan(lane_step("s"), outputs={"price": {"$from": "s#/outputs/price"}})
            )
            assert result.status == "completed", result
            assert result.outputs == {"price": 9}
            (child,) = await children(runtime)
            parent = await runtime.state(result.session_id)
            envelope = LaneEnvelope.model_validate(parent.steps["s"].value)
            assert envelope.session_id == child.start.session
            assert (envelope.status, envelope.outputs) == ("completed", {"price": 9})
            assert envelope.used.tool_calls == 1
            assert parent.used.tool_calls == 1
            assert parent.used.reserved_calls == 0
            assert child.start.root == result.session_id
            assert names(await events(runtime.journal, child.start.session))[-1] == "session_ended"

    workshop.run(main())
    assert len(workshop.calls) == 1


def test_every_planner_may_use_lanes(workshop: Workshop) -> None:
    """A lane is offered like a tool: a step of kind tool may call it, a method may, and a model is shown it."""
    workshop.tool("look.up", look_up, mode="read_only")
    lane = {"tool": "lane.research", "params": {"supplier": {"$from": "request#/supplier"}}}
    library = {
        "tasks": [{"name": "find"}, {"name": "ask", **lane}],
        "methods": [{"name": "by_lane", "task": "find", "subtasks": [{"task": "ask"}]}],
        "goals": [{"intent": "work", "task": "find"}],
    }
    pack = pack_with_lanes(workshop, library=library)
    assert not [each for each in check(pack) if each.severity == "error"]

    async def main() -> None:
        async with workshop.runtime(pack) as runtime:
            for given in (plan(step("s", **lane)), None):
                result = await runtime.run(ASK, plan=given, actor=ADA)
                assert result.status == "completed", result
        assert len(workshop.calls) == 2
        compiled = compile_context(pack, ASK, pack.run_context())
        assert "lane.research" in compiled.offered

    workshop.run(main())


def test_a_model_may_propose_a_lane(workshop: Workshop) -> None:
    """The schema of its answer has the lane with its parameters, and the lane that it proposes runs."""
    text = {"type": "object", "properties": {"supplier": {"type": "string"}}, "required": ["supplier"]}
    workshop.tool("look.up", look_up, mode="read_only", parameters=text)
    pack = pack_with_lanes(workshop)
    steps = [{"tool": "lane.research", "params": {"supplier": {"$from": "request#/supplier"}}}]
    model = ScriptedModel(answers=[{"steps": steps}])

    async def main() -> None:
        async with workshop.runtime(pack) as runtime:
            result = await runtime.run(ASK, planner=ModelPlanner([model]), actor=ADA)
            assert result.status == "completed", result.reason
            (lane,) = await children(runtime)
            assert (lane.start.lane["parent"], lane.status) == (result.session_id, "completed")

    workshop.run(main())
    (question,) = model.questions
    assert '"lane.research"' in json.dumps(question.answer_schema)
