"""Lanes as a surface that may be tuned: fan-out, timeout and eligibility, within what the pack allows."""

from __future__ import annotations

from typing import Any, get_args

import msgspec
import pytest

from engine.workshop import ADA, Workshop
from tercet.contracts.lane import Lane
from tercet.contracts.packs.tuning import LaneSurface, ScoreWeights
from tercet.packs.checking import check
from tercet.packs.surfaces import read_value, write_value
from tercet.replay.recording import load
from tercet.replay.rules import RuleSource
from tercet.replay.tuning.frozen import Evidence, hold, tunable
from tercet.replay.tuning.measuring import Outcome, measure, measure_recorded
from tercet.replay.tuning.scoring import Comparison, Wish
from tercet.tools import ToolContext

from .rooms import ASK, RESEARCH, lane_step, pack_with_lanes, plan

TUNING: list[dict[str, Any]] = [
    {"lane": "research", "value": "timeout_ms", "choices": [1_000, 60_000]},
    {"lane": "research", "value": "max_fan_out", "choices": [1, 4]},
    {"lane": "research", "value": "risk_tier", "choices": ["low", "medium"]},
]
WRITTEN = {**RESEARCH, "timeout_ms": 60_000, "risk_tiers": ("low", "medium")}


async def look_up(_: ToolContext, params: dict[str, Any]) -> Any:
    """A price."""
    return {"price": len(params["supplier"])}


def tuned(workshop: Workshop, tuning: list[dict[str, Any]] = TUNING, **lane: Any) -> Any:
    workshop.tool("look.up", look_up, mode="read_only")
    return pack_with_lanes(workshop, lanes=({**WRITTEN, **lane},), tuning={"lane": tuning})


@pytest.mark.req("R270", "R277")
def test_fan_out_timeout_and_risk_tier_of_a_lane_can_be_set() -> None:
    """What is set is read back, and the pack is another one."""
    pack = tuned(Workshop())
    surfaces = tunable(pack)
    assert {each.id for each in surfaces} == {
        "lane research timeout_ms",
        "lane research max_fan_out",
        "lane research risk_tier",
    }
    values = get_args(LaneSurface.model_fields["value"].annotation)
    assert {each.value for each in surfaces if isinstance(each, LaneSurface)} == set(values)
    for surface in surfaces:
        for value in surface.choices if isinstance(surface, LaneSurface) else ():
            changed = write_value(pack, surface, value)
            assert read_value(changed, surface) == value
            assert (changed.hash == pack.hash) == (value == read_value(pack, surface))
    assert write_value(pack, surfaces[2], "low").lanes[0].risk_tiers == ("low",)


@pytest.mark.req("R270")
def test_no_search_opens_a_lane_to_more_risk() -> None:
    """A tier above those that the lane is for is refused; a surface of a lane that is not there as well."""

    def codes(tuning: list[dict[str, Any]], **lane: Any) -> list[str]:
        found = check(tuned(Workshop(), tuning, **lane))
        return [each.code for each in found if each.place == "tuning" and each.severity == "error"]

    assert codes(TUNING) == []
    assert codes([{"value": "risk_tier", "choices": ["low", "high"]}]) == ["surface_unsafe"]
    assert codes([{"lane": "other", "value": "timeout_ms", "choices": [5]}]) == ["surface_missing"]
    assert codes([{"value": "risk_tier", "choices": ["low"]}], risk_tiers=("low", "high")) == [
        "surface_missing"
    ]


@pytest.mark.req("R284")
def test_a_candidate_of_a_lane_needs_runs_that_show_the_guardrail(workshop: Workshop) -> None:
    """A recorded run with lanes shows that the parent's effects waited for its critic; one that does not is no proof, and
    a step that no accepted plan has breaks it."""
    pack = tuned(workshop)

    async def main() -> tuple[Outcome, Outcome, Outcome]:
        async with workshop.runtime(pack) as runtime:
            result = await runtime.run(ASK, plan=plan(lane_step("s"), lane_step("t", 1)), actor=ADA)
            recording = await load(runtime.journal, runtime.tenant, result.session_id)
            narrow = write_value(pack, tunable(pack)[1], 1)
            return (
                measure_recorded(recording, RuleSource(instead=pack)),
                measure(recording, RuleSource(instead=pack)),
                measure(recording, RuleSource(instead=narrow)),
            )

    recorded, same, narrowed = workshop.run(main())
    assert (recorded.lanes, recorded.unaccepted, same.is_accepted) == (2, (), True)
    assert not narrowed.is_accepted

    def broken(old: Outcome, new: Outcome) -> list[str]:
        compared = Comparison([old], [new], {old.session: Wish(accepted=True)}, ScoreWeights())
        evidence = Evidence(compared=compared, recorded=[old])
        return [each.name for each in hold(evidence, ["subagent_lanes"]) if not each.passed]

    assert broken(recorded, same) == []
    assert broken(msgspec.structs.replace(recorded, lanes=0), msgspec.structs.replace(same, lanes=0)) == [
        "parent_effects_immutable"
    ]
    assert broken(recorded, msgspec.structs.replace(same, unaccepted=("s.p1",))) == [
        "parent_effects_immutable"
    ]


def test_a_lane_declares_what_it_needs() -> None:
    """Without saying otherwise it is for the two lower tiers, and trusted by nobody."""
    lane = Lane(name="a", intent="b", tools=("c.d",))
    assert (lane.risk_tiers, str(lane.trust), lane.budget.tokens) == (("low", "medium"), "untrusted", 0)
