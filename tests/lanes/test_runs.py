"""One lane: it runs in a session of its own, and its parent sees an envelope."""

from __future__ import annotations

from typing import Any

from engine.workshop import Workshop, events, names
from tercet.contracts.lane import LaneEnvelope
from tercet.tools import ToolContext

from .rooms import ASK, children, lane_step, pack_with_lanes, plan


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
