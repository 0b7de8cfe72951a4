"""What people and programs see of lanes: spans, figures and events."""

from __future__ import annotations

from typing import Any

import pytest

from engine.workshop import ADA, Workshop, events
from observe.conftest import receiver
from observe.receiver import Receiver
from tercet.core import events as e
from tercet.observe import Sampling, Telemetry, TelemetrySettings
from tercet.tools import ToolContext
from tercet.view.events import describe

from .rooms import ASK, children, lane_step, pack_with_lanes, plan

__all__ = ["receiver"]

ALL = TelemetrySettings(otlp=True, sampling=Sampling(1.0), flush_ms=20_000)


async def look_up(_: ToolContext, params: dict[str, Any]) -> Any:
    """A price, unless it is about the second supplier."""
    if params["supplier"].endswith("001"):
        raise ValueError("there is no such supplier")
    return {"price": len(params["supplier"])}


@pytest.mark.req("R265", "R266", "R317")
def test_a_lane_is_part_of_the_trace_of_its_parent(workshop: Workshop, receiver: Receiver) -> None:
    """Its run is a span below the call that started it; figures tell how many lanes succeed, and how often their parents
    were planned again."""
    workshop.tool("look.up", look_up, mode="read_only")

    async def main() -> None:
        pack = pack_with_lanes(workshop)
        async with Telemetry(ALL) as telemetry, workshop.runtime(pack, observers=[telemetry]) as runtime:
            result = await runtime.run(ASK, plan=plan(lane_step("s"), lane_step("t", 1)), actor=ADA)
            assert result.status == "completed"
        found = telemetry.figures
        assert found.lanes == {"completed": 1, "failed": 1}
        assert (found.lane_success_rate, found.parent_replan_rate) == (0.5, 0.0)

    workshop.run(main())
    assert len({span.trace_id for span in receiver.spans}) == 1
    calls = {span.span_id for span in receiver.named("execute_tool lane.research")}
    runs = receiver.named("run research")
    assert len(runs) == 2
    assert {span.parent_span_id for span in runs} == calls


def test_events_of_lanes_are_told_in_words(workshop: Workshop) -> None:
    """A lane that ended is told with its session and what it used up."""
    workshop.tool("look.up", look_up, mode="read_only")

    async def main() -> None:
        async with workshop.runtime(pack_with_lanes(workshop)) as runtime:
            result = await runtime.run(ASK, plan=plan(lane_step("s")), actor=ADA)
            (child,) = await children(runtime)
            (done,) = [
                each
                for each in await events(runtime.journal, result.session_id)
                if isinstance(each, e.Complete)
            ]
            told = describe(done)
            assert told is not None
            assert told.text == f"lane {child.start.session} ended after 0 ms: 1 call"

    workshop.run(main())
    proposed = describe(e.StepProposed(at=1, step="b", proposal={"id": "b", "tool": "buy.it"}))
    assert proposed is not None
    assert proposed.text == "proposed to the run that started the lane: buy.it"
