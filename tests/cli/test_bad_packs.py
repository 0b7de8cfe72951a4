"""Packs that do not load, or should not be used: a list of problems with their places, never a traceback."""

from __future__ import annotations

from pathlib import Path

import pytest

from .harness import PLANS, REFUNDS, Tercet

PLAN_B = PLANS / "plan_b.json"

BOMB = "[1,2,3].all(a, [1,2,3].all(b, [1,2,3].all(c, [1,2,3].all(d, true))))"
POLICY = f'[[policy]]\nname = "bomb"\nexpression = "{BOMB}"\n'
TWICE = """
from tercet.tools import tool

@tool("adp_orders.lookup", mode="read_only")
def one(order_id: str) -> str:
    return order_id

@tool("adp_orders.lookup", mode="read_only")
def other(order_id: str) -> str:
    return order_id
"""

BROKEN = {
    "a syntax error": ("tools.py", "def lookup(:\n"),
    "tools that fail": ("tools.py", "raise RuntimeError('no database')\n"),
    "tools that leave": ("tools.py", "raise SystemExit(0)\n"),
    "two tools of one name": ("tools.py", TWICE),
    "a CEL bomb": ("policies.toml", POLICY),
    "TOML that is none": ("gates.toml", "[[gate]\n"),
    "an unknown key": ("gates.toml", '[[gate]]\nname = "G"\nroles = ["r"]\nqorum = 1\n'),
    "evidence that is no JSON": ("evidence/kg_2026_05_09_T0930.json", "{"),
    "binary": ("decisions.toml", "\0\1\2"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_pack_is_wrong_use(tercet: Tercet, pack: Path, case: str) -> None:
    """`check` and `verify` both name the file, and `check` lists each problem with its remedy."""
    file, text = BROKEN[case]
    (pack / file).write_text(text)
    checked = tercet("check", pack, "--json")
    assert checked.code == 2
    assert checked.json["ok"] is False
    assert file in {problem["file"] for problem in checked.json["problems"]}
    assert all(problem["remedy"] for problem in checked.json["problems"])
    verified = tercet("verify", pack, PLAN_B, "--json")
    assert verified.code == 2
    assert verified.json["error"]["code"] == "pack_invalid"
    assert file in tercet("check", pack).text


@pytest.mark.req("R230")
def test_a_pack_with_errors_is_not_run(tercet: Tercet, pack: Path) -> None:
    """`run` refuses a pack that loads but that `check` calls wrong, with the same problems, and starts no session."""
    file = pack / "pack.toml"
    file.write_text(file.read_text().replace("[budget]\n", "[budget]\nmax_replans = 9\n"))
    (found,) = [
        each for each in tercet("check", pack, "--json").json["problems"] if each["severity"] == "error"
    ]
    assert found["code"] == "replans_unexplained"
    journal = f"sqlite:///{pack}/runs.db"
    refused = tercet("run", pack, "--plan", PLAN_B, "--journal", journal, "--json")
    assert (refused.code, refused.json["error"]["code"]) == (2, "pack_invalid")
    assert refused.json["error"]["problems"] == [found]
    assert not (pack / "runs.db").exists()


def test_a_pack_with_an_unusable_gate_is_not_run(tercet: Tercet, pack: Path) -> None:
    """What only `check` finds keeps a pack from being run too."""
    (pack / "actors.toml").write_text("")
    errors = [
        each for each in tercet("check", pack, "--json").json["problems"] if each["severity"] == "error"
    ]
    assert errors
    refused = tercet("run", pack, "--plan", PLAN_B, "--shadow", "--json")
    assert (refused.code, refused.json["error"]["problems"]) == (2, errors)
    assert errors[0]["remedy"] in " ".join(tercet("run", pack, "--plan", PLAN_B, "--shadow").text.split())


@pytest.mark.parametrize("words", [("check",), ("verify",)], ids=["check", "verify"])
@pytest.mark.parametrize("place", ["nowhere", "empty", "plan.json"])
def test_what_is_no_pack_is_wrong_use(
    tercet: Tercet, tmp_path: Path, words: tuple[str, ...], place: str
) -> None:
    """A folder that is not there, one without pack.toml, and a file are all answered with a sentence."""
    (tmp_path / "empty").mkdir()
    (tmp_path / "plan.json").write_bytes(PLAN_B.read_bytes())
    rest = (PLAN_B,) if words == ("verify",) else ()
    answer = tercet(*words, tmp_path / place, *rest)
    assert answer.code == 2
    assert "✗" in answer.text


def test_the_example_has_no_problems(tercet: Tercet) -> None:
    """The pack that people look at first passes its own check."""
    answer = tercet("check", REFUNDS, "--json")
    assert (answer.code, answer.json["ok"], answer.json["problems"]) == (0, True, [])
    assert tercet("check", REFUNDS).out == f"✓ {REFUNDS}: no problems\n"


def test_an_unsafe_pack_is_reported_whole(tercet: Tercet, pack: Path) -> None:
    """A gate nobody can approve and a gate that is missing are both found in one go."""
    (pack / "actors.toml").write_text('[[actor]]\nid = "agt_support"\nroles = ["support_agent"]\n')
    text = (pack / "tools.py").read_text().replace('gates=["GATE_SUPPORT_APPROVAL"]', "gates=[]")
    (pack / "tools.py").write_text(text)
    answer = tercet("check", pack)
    assert answer.code == 2
    assert "GATE_FINANCE_APPROVAL" in answer.text
    assert "adp_messages.notify_customer" in answer.text
