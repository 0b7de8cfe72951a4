"""What people and programs see of lanes: spans, figures and events."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from engine.workshop import ADA, Workshop, events
from observe.conftest import receiver
from observe.receiver import Receiver
from tercet.cli.main import app
from tercet.core import events as e
from tercet.observe import Sampling, Telemetry, TelemetrySettings
from tercet.tools import ToolContext
from tercet.view.events import describe

from .rooms import ASK, children, lane_step, pack_with_lanes, plan

__all__ = ["receiver"]

SUPPLIERS = Path(__file__).parents[2] / "examples" / "suppliers"
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
            three = plan(lane_step("s"), lane_step("t", 1), lane_step("u", 2))
            result = await runtime.run(ASK, plan=three, actor=ADA)
            assert result.status == "completed"
        found = telemetry.figures
        assert found.lanes == {"completed": 2, "failed": 1}
        assert found.lane_success_rate == pytest.approx(2 / 3, abs=1e-5)
        assert found.parent_replan_rate == 0.0

    workshop.run(main())
    assert len({span.trace_id for span in receiver.spans}) == 1
    calls = {span.span_id for span in receiver.named("execute_tool lane.research")}
    runs = receiver.named("run research")
    assert len(runs) == 3
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


def test_people_see_which_session_a_lane_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The terminal tells the parent's story alone; `sessions show`, its JSON and the report name the session of each lane
    and what it used, and a lane says who started it."""
    monkeypatch.setenv("TERCET_JOURNAL", f"sqlite:///{tmp_path}/tercet.db")
    monkeypatch.setenv("TERCET_SUPPLIERS_DB", str(tmp_path / "orders.db"))
    asked = {"item": "desk", "suppliers": ["Birch and Sons", "Calder Works", "Pinewood Trading"]}

    def tercet(*words: str) -> str:
        return CliRunner().invoke(app, list(words)).stdout

    told = tercet("run", str(SUPPLIERS), "--intent", "suppliers.buy", "--input", json.dumps(asked))
    assert "catalogue.find_offer" not in told, "lanes tell their own story"
    rows = json.loads(tercet("sessions", "list", "--json"))["sessions"]
    (parent,) = [row["session_id"] for row in rows if row["status"] == "awaiting_gate"]
    lanes = {row["session_id"] for row in rows} - {parent}
    shown = json.loads(tercet("sessions", "show", parent, "--json"))
    steps = {each["id"]: each for each in shown["steps"]}
    assert {steps[name]["lane"]["session_id"] for name in ("first", "second", "third")} == lanes
    assert steps["first"]["lane"]["used"]["tool_calls"] == 2
    assert "lane" not in steps["best"]
    page = tercet("sessions", "show", parent)
    assert all(f"lane {each}, 2 calls" in page for each in lanes)
    inner = tercet("sessions", "show", steps["first"]["lane"]["session_id"])
    assert f"research, started by step first of {parent}" in inner
    file = tmp_path / "report.html"
    tercet("report", parent, "--out", str(file))
    assert all(f"session {each}, 2 calls" in file.read_text(encoding="utf-8") for each in lanes)
    told = json.loads(tercet("stats", "--json"))["figures"]
    assert (told["lanes"], told["lane_success_rate"], told["parent_replan_rate"]) == (
        {"completed": 3},
        1.0,
        0.0,
    )
    assert "lane.research" in tercet("context", str(SUPPLIERS), "--intent", "suppliers.buy")


def test_the_gate_of_a_lane_is_listed_under_its_parent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`gates list` and `gates show` name the parent's gate with the lane and its call, and nothing else waits."""
    monkeypatch.setenv("TERCET_JOURNAL", f"sqlite:///{tmp_path}/tercet.db")
    monkeypatch.setenv("TERCET_SUPPLIERS_DB", str(tmp_path / "orders.db"))
    pack = shutil.copytree(SUPPLIERS, tmp_path / "suppliers")
    pack.joinpath("policies.toml").write_text(
        """[[policy]]
name = "CALDER_IS_ASKED_ABOUT"
scope = "step"
expression = "step.tool != 'catalogue.find_offer' || step.params.supplier != 'Calder Works'"
effect = "gate"
gate = "GATE_BUYER"
"""
    )
    asked = {"item": "desk", "suppliers": ["Birch and Sons", "Calder Works", "Pinewood Trading"]}

    def tercet(*words: str) -> str:
        return CliRunner().invoke(app, list(words)).stdout

    assert "no problems" in tercet("check", str(pack))
    told = tercet("run", str(pack), "--intent", "suppliers.buy", "--input", json.dumps(asked), "--json")
    parent = json.loads(told)["session_id"]
    (gate,) = json.loads(tercet("gates", "list", "--json"))["gates"]
    lane = gate["shown"]["lane"]["session"]
    assert (gate["id"], gate["step"]) == (f"{parent}.g1", "second")
    assert parent != lane
    listed = " ".join(tercet("gates", "list").split())
    assert f"{parent}.g1 may offer of lane {lane} be called? (GATE_BUYER)" in listed
    page = tercet("gates", "show", gate["id"])
    assert f"may offer of lane {lane} be called?" in page
    assert 'supplier = "Calder Works"' in page
    assert "gates modify" not in page
