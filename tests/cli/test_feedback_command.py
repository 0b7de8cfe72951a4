"""`tercet feedback`: corrections that are kept, and made golden cases."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from .harness import Tercet
from .runs import BAKERY, LOOK, Kitchen


def _run(tercet: Tercet, kitchen: Kitchen) -> str:
    """A run of the bakery, whose tools talk; its session."""
    return json.loads(tercet("run", BAKERY, "--plan", kitchen.plan(LOOK), "--json").out)["session_id"]


def test_what_is_said_is_kept_and_listed(tercet: Tercet, kitchen: Kitchen) -> None:
    """A correction has the name of whoever sits here, and is shown with the run and by itself."""
    session = _run(tercet, kitchen)
    made = tercet(
        "feedback", "add", session, "--note", "too \x1b[31mdark", "--expected", '{"bread": "pale"}', "--json"
    ).json
    assert made["id"] == f"{session}.f1"
    assert made["entry"]["author"] == "agt_support"
    assert made["entry"]["expected"] == {"bread": "pale"}
    assert tercet("feedback", "list", "--json").json == {"feedback": [made]}
    assert tercet("feedback", "list", session, "--json").json == {"feedback": [made]}
    shown = tercet("feedback", "list")
    assert "\x1b" not in shown.out
    assert '{"bread": "pale"}' in shown.out
    said = tercet("feedback", "add", session, "--note", "far too dark")
    assert f"tercet feedback golden {session}.f2 --to golden" in said.out


def test_a_correction_becomes_a_golden_case(tercet: Tercet, kitchen: Kitchen, tmp_path: Path) -> None:
    """The run is wrong as long as a pack accepts it, and right once one does not; damage is told."""
    session = _run(tercet, kitchen)
    tercet("feedback", "add", session, "--note", "nobody asked for rye", "--expected", '{"bread": "spelt"}')
    made = tercet("feedback", "golden", f"{session}.f1", "--to", "golden", "--json").json
    assert made["expected"]["is_accepted"] is False
    assert sorted(path.name for path in Path("golden").iterdir()) == [
        f"{session}.expected.json",
        f"{session}.tercet",
    ]
    assert tercet("golden", "check", "golden", "--json").code == 0
    wrong = tercet("golden", "check", "golden", "--pack", BAKERY)
    assert wrong.code == 3
    assert f"{session}.tercet still wrong · it would still be completed; agt_support says" in wrong.text
    assert "that it should not have been accepted: nobody asked for rye" in wrong.text
    assert "1 golden run under bakery@1.0.0: 0 the same, 0 changed, 1 still wrong" in wrong.text
    better = shutil.copytree(BAKERY, tmp_path / "bakery", ignore=shutil.ignore_patterns("__pycache__"))
    (better / "policies.toml").write_text(
        "[[policy]]\nname = 'no_rye'\nscope = 'step'\nexpression = 'step.params.bread != \"rye\"'\n"
    )
    right = tercet("golden", "check", "golden", "--pack", better)
    assert right.code == 0
    assert "0 the same, 0 changed, 1 as corrected" in right.text
    again = tercet("feedback", "golden", f"{session}.f1", "--to", "golden", "--json")
    assert (again.code, again.json["error"]["code"]) == (2, "file_exists")
    assert again.json["error"]["remedy"] == "name another folder with --to, or overwrite it with --force"
    assert tercet("feedback", "golden", f"{session}.f1", "--to", "golden", "--force").code == 0
    Path("golden", f"{session}.expected.json").write_text("{}")
    broken = tercet("golden", "check", "golden", "--pack", BAKERY, "--json")
    assert (broken.code, broken.json["error"]["code"]) == (2, "expected_unreadable")


def test_mistakes_are_answered(tercet: Tercet, kitchen: Kitchen) -> None:
    """A run or a correction that is not there, no words, and no JSON each get a code and a remedy."""
    session = _run(tercet, kitchen)
    for code, words in {
        "unknown_session": ("add", "ses_none", "--note", "x"),
        "no_correction": ("add", session, "--note", " "),
        "input_invalid": ("add", session, "--note", "x", "--expected", "[1]"),
        "unknown_feedback": ("golden", f"{session}.f9", "--to", "golden"),
    }.items():
        answer = tercet("feedback", *words, "--json")
        assert (answer.code, answer.json["error"]["code"]) == (2, code)
        assert answer.json["error"]["remedy"]
    assert tercet("feedback", "list", "ses_none", "--json").code == 2
    assert "There are no corrections yet" in tercet("feedback", "list").out
    assert not Path("golden").exists()
