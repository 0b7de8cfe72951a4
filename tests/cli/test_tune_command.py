"""`tercet tune`: a proposal from recorded runs, shown to a person, and applied by one."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tercet.cli.replay import tune
from tercet.contracts.errors import UsageError

from .harness import ROOT, Tercet
from .runs import Kitchen

CENTRE = ROOT / "tests" / "replay" / "tuning" / "centre"
BUSY = (0, 1, 2, 9)


@pytest.fixture
def centre(tercet: Tercet, kitchen: Kitchen) -> Path:
    """A call centre whose pack may be changed, with some recorded calls; the last one never got through."""
    folder = shutil.copytree(CENTRE, kitchen.folder / "centre", ignore=shutil.ignore_patterns("__pycache__"))
    pack = folder / "pack.toml"
    pack.write_text(pack.read_text().replace("max_step_retries = 5", "max_step_retries = 3"))
    for number, busy in enumerate(BUSY):
        asked = json.dumps({"busy": busy, "number": number})
        tercet("run", folder, "--intent", "reach", "--planner", "template", "--input", asked)
    return folder


@pytest.mark.req("R279")
def test_a_proposal_is_found_shown_and_accepted(tercet: Tercet, centre: Path) -> None:
    """From the journal to the changed pack; the search itself changes nothing, and the answer says what to type."""
    before = (centre / "pack.toml").read_text()
    found = tercet("tune", centre, "--all", "--trials", "60", "--seed", "2", "--out", "p")
    assert found.code == 0, found.text
    assert "replan max_step_retries: 3 → 2" in found.text
    assert f"tercet tune accept p --pack {centre}" in found.out
    assert (centre / "pack.toml").read_text() == before
    shown = tercet("tune", "show", "p")
    assert "+max_step_retries = 2 # for busy lines" in shown.out
    assert "based on 4 of 4 runs" in shown.text
    proposal = tercet("tune", "show", "p", "--json").json
    assert proposal["changes"] == [
        {"surface": "replan_budgets", "id": "replan max_step_retries", "old": 3, "new": 2}
    ]
    assert proposal["expectations"][0]["plan"]["steps"][0]["tool"] == "phone.ring"
    done = tercet("tune", "accept", "p", "--pack", centre, "--json").json
    assert (done["by"], done["new_version"]) == ("agt_support", "1.2.10")
    assert "max_step_retries = 2 # for busy lines" in (centre / "pack.toml").read_text()
    assert tercet("check", centre).code == 0
    again = tercet("tune", "accept", "p", "--pack", centre, "--json")
    assert (again.code, again.json["error"]["code"]) == (2, "already_accepted")


def test_what_people_have_corrected_counts(tercet: Tercet, centre: Path) -> None:
    """Corrections in the journal are told to the search, and the proposal says how many there are."""
    sessions = tercet("sessions", "list", "--json").json["sessions"]
    assert (
        tercet("feedback", "add", sessions[0]["session_id"], "--note", "they did want to be reached").code
        == 0
    )
    found = tercet("tune", centre, "--all", "--trials", "40", "--json")
    assert found.json["proposal"]["basis"]["corrected"] == 1
    assert Path("centre-proposal", "pack.diff").is_file()


def test_nothing_better_is_exit_3(tercet: Tercet, centre: Path) -> None:
    """A pack that is as good as its records can tell stays as it is, and says how much was tried."""
    (centre / "tuning.toml").write_text('[[session]]\nvalue = "ttl_ms"\nchoices = [60_000, 3_600_000]\n')
    answer = tercet("tune", centre, "--all")
    assert answer.code == 3
    assert "found nothing better" in answer.text
    assert "2 candidates tried of 2" in answer.text
    assert tercet("tune", centre, "--all", "--json").json["proposal"] is None


def test_mistakes_are_answered(tercet: Tercet, centre: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No runs named, no surfaces, bounds below a floor, no proposal, no library: each gets a code and a remedy."""
    for code, words in {
        "which_runs": (centre,),
        "proposal_not_found": ("show", "none"),
        "unknown_session": (centre, "--runs", "ses_none"),
    }.items():
        answer = tercet("tune", *words, "--json")
        assert (answer.code, answer.json["error"]["code"]) == (2, code)
        assert answer.json["error"]["remedy"]
    (centre / "tuning.toml").write_text(
        '[[rubric]]\ndecision = "reach"\nvalue = "threshold"\nname = "safety"\nlow = 0.1\nhigh = 1.0\n'
    )
    checked = tercet("check", centre, "--json")
    assert checked.code == 2
    [problem] = [each for each in checked.json["problems"] if each["severity"] == "error"]
    assert (problem["code"], problem["file"]) == ("surface_below_floor", "tuning.toml")
    assert tercet("tune", centre, "--all", "--json").json["error"]["code"] == "surface_below_floor"
    (centre / "tuning.toml").write_text("")
    assert tercet("tune", centre, "--all", "--json").json["error"]["code"] == "nothing_to_tune"
    (centre / "tuning.toml").write_text("[[tool]]\nname = 'x'\n")
    assert "unknown_key" in [each["code"] for each in tercet("check", centre, "--json").json["problems"]]

    def none() -> None:
        raise UsageError("tuning needs tomlkit", code="extra_missing", remedy="pip install 'tercet[tuning]'")

    monkeypatch.setattr(tune, "demand_libraries", none)
    missing = tercet("tune", centre, "--all", "--json").json["error"]
    assert (missing["code"], missing["remedy"]) == ("extra_missing", "pip install 'tercet[tuning]'")
