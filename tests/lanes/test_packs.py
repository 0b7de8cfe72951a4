"""Lanes in pack files: how they are read, what `tercet check` says of them, and what a step then calls."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from engine.workshop import Workshop
from tercet.contracts.mode import ApprovalMode, Trust
from tercet.packs.checking import check, check_folder
from tercet.packs.declared import read_declarations
from tercet.packs.pack import Pack

from .rooms import LOOK_UP, RESEARCH, pack_with_lanes, template

PACK = 'name = "suppliers"\nversion = "1.0.0"\n'
DECISIONS = """
[[decision]]
id = "buy"

[[decision]]
id = "research"
untrusted_inputs = ["note"]
"""
LANES = """
[[lane]]
name = "research"
description = "Look a supplier up."
intent = "research"
tools = ["shop.look_up"]
params = { type = "object", properties = { supplier = { type = "string" }, note = { type = "string" } } }
budget = { tool_calls = 3, tokens = 2000 }
timeout_ms = 5_000
max_fan_out = 2
risk_tiers = ["low"]
"""
TOOLS = '''
from tercet import tool


@tool("shop.look_up", mode="read_only")
def look_up(supplier: str) -> dict:
    """Look a supplier up."""
    return {"supplier": supplier}
'''


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A pack folder with a lane."""
    files = {"pack.toml": PACK, "decisions.toml": DECISIONS, "lanes.toml": LANES, "tools.py": TOOLS}
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def test_lanes_are_read_from_their_file(folder: Path) -> None:
    """A lane of a pack folder is what it would be in Python, and a part of the pack's hash."""
    pack = Pack.load(folder)
    (lane,) = pack.lanes
    assert (lane.name, lane.budget.tool_calls, lane.max_fan_out) == ("research", 3, 2)
    (spec,) = pack.lane_tools
    assert (spec.name, spec.mode, spec.result_trust) == (
        "lane.research",
        ApprovalMode.READ_ONLY,
        Trust.UNTRUSTED,
    )
    assert spec.authority == ("supplier",), "the lane's own decision marks the other as untrusted"
    other = (folder / "lanes.toml").read_text(encoding="utf-8").replace("max_fan_out = 2", "max_fan_out = 3")
    (folder / "lanes.toml").write_text(other, encoding="utf-8")
    assert Pack.load(folder).hash != pack.hash
    assert read_declarations(pack.content).lane_tools == pack.lane_tools


def test_a_pack_without_lanes_has_the_hash_that_it_had(workshop: Workshop) -> None:
    """Nothing is declared that was not before."""
    pack = pack_with_lanes(workshop, lanes=())
    assert "lanes" not in pack.declarations


@pytest.mark.parametrize(
    ("old", "new", "code", "said"),
    [
        ('intent = "research"', 'intent = "reserch"', "lane_intent_unknown", "did you mean 'research'"),
        ("shop.look_up", "shop.lookup", "unknown_tool", "did you mean shop.look_up?"),
        ("tokens = 2000", "tokens = 0", "lane_tokens", "reserve some"),
        ('risk_tiers = ["low"]', 'trust = "trusted"', "lane_trust", "leave trust out"),
        ("max_fan_out = 2", "max_fanout = 2", "unknown_key", "did you mean 'max_fan_out'?"),
        ("max_fan_out = 2", "max_fan_out = 0", "wrong_value", ""),
        ('type = "object", ', "", "lane_params", "properties"),
    ],
)
def test_check_finds_what_is_wrong_with_a_lane(
    folder: Path, old: str, new: str, code: str, said: str
) -> None:
    """Each mistake has its place in the file, and a remedy."""
    text = (folder / "lanes.toml").read_text(encoding="utf-8")
    assert old in text
    assert not [each for each in check_folder(folder) if each.severity == "error"]
    (folder / "lanes.toml").write_text(text.replace(old, new, 1), encoding="utf-8")
    (found,) = [each for each in check_folder(folder) if each.code == code]
    assert (found.file, bool(found.row)) == ("lanes.toml", True)
    assert said.replace("'", "") in (found.remedy or "").replace("'", "")


def codes(pack: Pack) -> list[str]:
    return [each.code for each in check(pack) if each.place.startswith("lane ")]


def test_check_accepts_a_read_behind_a_gate(workshop: Workshop) -> None:
    """It is answered at the run that starts the lane."""
    workshop.tool("look.up", mode="read_only", gates=("BOSS",))
    assert codes(pack_with_lanes(workshop, gates=({"name": "BOSS", "roles": ("boss",)},))) == []


def test_check_refuses_a_lane_that_no_run_can_pay_for(workshop: Workshop) -> None:
    """What it reserves is more than a run has."""
    workshop.tool("look.up", mode="read_only")
    assert codes(pack_with_lanes(workshop, budget={"tool_calls": 1})) == ["lane_unaffordable"]
    assert codes(pack_with_lanes(workshop, budget={"tool_calls": 2})) == []


def test_check_refuses_a_tool_with_the_name_of_a_lane(workshop: Workshop) -> None:
    """A step could not say which of them it means."""
    workshop.tool("look.up", mode="read_only")
    workshop.tool("lane.research", mode="read_only")
    assert "duplicate_name" in codes(pack_with_lanes(workshop))


def test_a_trusted_lane_has_trusted_tools_and_a_plan_of_the_pack(workshop: Workshop) -> None:
    """Otherwise its outputs are not trusted, whatever it declares and whether or not anybody checks the pack."""
    workshop.tool("look.up", mode="read_only")
    workshop.tool("mail.read", mode="read_only", trust="untrusted")
    trusted = {**RESEARCH, "trust": "trusted"}

    def worth(lane: dict[str, Any], **more: Any) -> Trust:
        (spec,) = pack_with_lanes(workshop, lanes=(lane,), **more).lane_tools
        return spec.result_trust

    assert worth(RESEARCH) is Trust.UNTRUSTED
    assert worth(trusted) is Trust.TRUSTED
    assert worth(trusted, templates=()) is Trust.UNTRUSTED
    assert worth({**trusted, "tools": ("look.up", "mail.read")}) is Trust.UNTRUSTED


def test_templates_may_use_lanes(workshop: Workshop) -> None:
    """What a template gives a lane, and what it reads of its envelope, is checked like any call."""
    workshop.tool("look.up", mode="read_only")
    good = template(
        {"id": "s", "kind": "lane", "tool": "lane.research", "params": {"supplier": "${input.supplier}"}},
        intent="work",
        outputs={"found": {"$from": "s#/outputs"}},
    )
    pack = pack_with_lanes(workshop, templates=(LOOK_UP, good))
    assert not [each for each in check(pack) if each.severity == "error"]
    wrong = template(
        {"id": "s", "kind": "lane", "tool": "lane.research", "params": {"suplier": "x"}}, intent="work"
    )
    found = check(pack_with_lanes(workshop, templates=(LOOK_UP, wrong)))
    assert [each for each in found if each.severity == "error" and "template work" in each.place]
