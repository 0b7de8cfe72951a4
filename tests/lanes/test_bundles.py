"""Bundles of runs with lanes: the lanes are in them, and replay judges them as well."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from engine.workshop import ADA, Workshop
from tercet.core import codec
from tercet.core import events as e
from tercet.journal.memory import MemoryJournal
from tercet.replay.bundle.exporting import export_run
from tercet.replay.bundle.reading import open_bundle
from tercet.replay.recording import Recording, load_bundle
from tercet.replay.replay import replay_recording
from tercet.tools import ToolContext

from .rooms import ASK, LOOK_UP, RESEARCH, children, lane_step, pack_with_lanes, plan, template


async def look_up(_: ToolContext, params: dict[str, Any]) -> Any:
    """A price, with much to say about it."""
    return {"price": len(params["supplier"]), "pad": "x" * 200_000}


DEEP = {**RESEARCH, "name": "deep", "intent": "deep", "tools": ("look.up", "lane.research")}
NESTED = template(
    {
        "id": "n",
        "kind": "lane",
        "tool": "lane.research",
        "params": {"supplier": {"$from": "request#/supplier"}},
    },
    intent="deep",
    outputs={"price": {"$from": "n#/outputs/price"}},
)
LARGE = LOOK_UP.model_copy(update={"outputs": {"price": {"$from": "a#/price"}, "pad": {"$from": "a#/pad"}}})


def record(workshop: Workshop, folder: Path) -> tuple[Recording, list[str]]:
    """A run with a lane inside of a lane and a large result, out of its bundle, and the sessions of the lanes."""
    workshop.tool("look.up", look_up, mode="read_only")
    pack = pack_with_lanes(
        workshop,
        lanes=({**RESEARCH, "risk_tiers": ("low",)}, DEEP),
        templates=(LARGE, NESTED),
        more=({"id": "deep", "risk_tier": "low"},),
    )
    file, journal = folder / "run.tercet", MemoryJournal()

    async def main() -> list[str]:
        async with workshop.runtime(pack, journal) as runtime:
            steps = (lane_step("s"), lane_step("d", 1, lane="deep"))
            result = await runtime.run(ASK, plan=plan(*steps), actor=ADA)
            assert result.status == "completed", result
            await export_run(journal, "default", result.session_id, file)
            return [child.start.session for child in await children(runtime)]

    lanes = workshop.run(main())
    return asyncio.run(load_bundle(file)), lanes


@pytest.mark.req("R266")
def test_a_bundle_holds_the_lanes_of_its_run(workshop: Workshop, tmp_path: Path) -> None:
    """Also those inside of others; each is judged again with its parent, offline."""
    recording, lanes = record(workshop, tmp_path)
    with open_bundle(tmp_path / "run.tercet") as bundle:
        assert set(lanes) <= set(bundle.streams)
    assert len(recording.lanes) == 2
    assert sorted(len(each.lanes) for each in recording.lanes) == [0, 1]
    assert replay_recording(recording).outcome == "replay_equal"


@pytest.mark.req("R266")
def test_a_lane_that_was_changed_is_found_by_the_replay_of_its_parent(
    workshop: Workshop, tmp_path: Path
) -> None:
    """A verdict in the lane that does not follow, or an envelope that says something else than the lane's events."""
    recording, _ = record(workshop, tmp_path)
    first = recording.lanes[0]
    cut = msgspec.structs.replace(first, events=first.events[:-3], checkpoints=())
    broken = msgspec.structs.replace(recording, lanes=(cut, *recording.lanes[1:]))
    report = replay_recording(broken)
    assert report.difference is not None
    assert f"in lane {first.session}" in report.difference.check
    events = [codec.decode(data) for data in recording.events]
    at = next(n for n, each in enumerate(events) if isinstance(each, e.Complete) and not each.blob)
    complete = events[at]
    assert isinstance(complete, e.Complete)
    forged = msgspec.structs.replace(complete, value={**complete.value, "outputs": {"price": 0}})
    changed = list(recording.events)
    changed[at] = codec.encode(forged)
    points = tuple(each for each in recording.checkpoints if each.seq <= at)
    report = replay_recording(
        msgspec.structs.replace(recording, events=tuple(changed[: at + 1]), checkpoints=points, manifest=None)
    )
    assert report.difference is not None
    assert (report.difference.field, report.difference.recorded) == ("outputs", {"price": 0})
