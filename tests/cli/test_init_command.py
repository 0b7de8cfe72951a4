"""`tercet init`: a first pack that works at once."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from itertools import combinations
from pathlib import Path

import pytest

from tercet.packs import scaffold
from tercet.packs.scaffold import EXAMPLE_INPUT, FLAVOURS
from tercet.testing.models import ScriptedModel

from .harness import Tercet

COMBINATIONS = [chosen for size in range(len(FLAVOURS) + 1) for chosen in combinations(FLAVOURS, size)]


def test_a_new_pack_passes_check_and_its_plan_verify(tercet: Tercet, tmp_path: Path) -> None:
    """What init makes has no problems, not even a warning, and its sample plan may run."""
    folder = tmp_path / "my_pack"
    made = tercet("init", folder, "--json").json
    assert made["pack"] == "my_pack@0.1.0"
    assert tercet("check", folder, "--json").json["problems"] == []
    assert tercet("verify", folder, folder / made["plan"]).code == 0
    assert all((folder / name).is_file() for name in made["files"])


def test_the_screen_says_what_to_type_next(
    tercet: Tercet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After init the next commands are printed, and they work."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TERCET_JOURNAL", raising=False)
    folder = tmp_path / "desk"
    answer = tercet("init", folder, "--name", "help-desk")
    assert answer.code == 0
    assert "help-desk@0.1.0" in answer.out
    commands = [
        shlex.split(line)[1:] for line in answer.out.splitlines() if line.strip().startswith("tercet ")
    ]
    assert commands.pop() == ["console", str(folder), "--dev"]  # it would stay
    answers = {words[0]: tercet(*words) for words in commands}
    codes = {name: each.code for name, each in answers.items()}
    assert codes == {"check": 0, "test": 0, "verify": 0, "run": 4}  # the template's last step waits at a gate
    printed = [shlex.split(line)[1:] for line in answers["run"].out.splitlines() if "tercet " in line]
    approve, resume = (next(words for words in printed if name in words) for name in ("approve", "resume"))
    assert (tercet(*approve).code, tercet(*resume).code) == (0, 0)  # one person alone gets to the end


def test_a_new_pack_runs_from_its_template(
    tercet: Tercet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request is enough to get a plan that may run, and one without an input says what is missing."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TERCET_JOURNAL", raising=False)
    tercet("init", "desk")
    planned = tercet("plan", "desk", "--input", EXAMPLE_INPUT, "--json").json
    assert [step["id"] for step in planned["plan"]["steps"]] == ["measure", "water"]
    bare = tercet("plan", "desk", "--json")
    assert (bare.code, bare.json["error"]["code"]) == (2, "planning_failure")
    assert '--input \'{"plant": ' in bare.json["error"]["remedy"]


@pytest.mark.slow
@pytest.mark.parametrize("flavours", COMBINATIONS, ids="+".join)
def test_what_the_readme_of_a_new_pack_shows_can_be_typed(
    flavours: tuple[str, ...], tercet: Tercet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each command works where the README is, for every flavour and combination; `run` waits at the gates of the pack."""
    scaffold(tmp_path / "pack", flavours=flavours)
    monkeypatch.chdir(tmp_path / "pack")
    monkeypatch.delenv("TERCET_JOURNAL", raising=False)
    plan = json.loads(Path("plans/sample.json").read_text(encoding="utf-8"))
    monkeypatch.setattr("tercet.models.local.LocalModel", lambda: ScriptedModel("local", answers=[plan]))
    text = Path("README.md").read_text(encoding="utf-8")
    shown = [shlex.split(line) for line in re.findall(r"^ {4}(\S.*)$", text, re.MULTILINE)]
    codes = {"run": 4}
    for program, *words in shown:
        if program == "python":
            subprocess.run([sys.executable, *words], check=True, capture_output=True)
        elif words[0] == "console":
            assert tercet("console", *words[1:], "--help").code == 0  # it would stay
        else:
            answer = tercet(*words)
            assert answer.code == codes.get(words[0], 0), f"{shlex.join(words)}\n{answer.text}"
    commands = {words[0] for _, *words in shown}
    assert {"check", "test", "verify", "plan", "run", "console"} <= commands
    assert any("local" in words for words in shown) == ("agent" in flavours)
    assert any("garden.forecast" in words for words in shown) == ("http" in flavours)


@pytest.mark.parametrize("flavours", [(), ("gate",)], ids="+".join)
def test_those_whom_the_readme_names_can_approve(
    flavours: tuple[str, ...], tercet: Tercet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Basil alone, and with a second gate Basil and Clary, get the watering of the README to its end."""
    scaffold(tmp_path / "pack", flavours=flavours)
    monkeypatch.chdir(tmp_path / "pack")
    monkeypatch.delenv("TERCET_JOURNAL", raising=False)
    text = Path("README.md").read_text(encoding="utf-8")
    run = next(line for line in text.splitlines() if line.startswith("    tercet run "))
    started = tercet(*shlex.split(run)[1:], "--json").json
    people = [name for name in ("basil", "clary") if name in text.lower()]
    for name in people:
        approved = tercet("gates", "approve", started["gates"][0]["id"], "--dev", "--as", f"{name}.example")
        assert approved.code == 0, approved.text
    assert tercet("sessions", "resume", started["session_id"], "--pack", ".").code == 0
    assert len(people) == 1 + len(flavours)


def test_a_folder_with_something_in_it_is_left_alone(tercet: Tercet, tmp_path: Path) -> None:
    """Init never writes into a folder that is in use."""
    (tmp_path / "notes.txt").write_text("mine")
    answer = tercet("init", tmp_path, "--json")
    assert answer.code == 2
    assert answer.json["error"]["remedy"]
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_a_bad_name_is_wrong_use(tercet: Tercet, tmp_path: Path) -> None:
    """A name that no pack can have is refused before anything is written."""
    answer = tercet("init", tmp_path / "x", "--name", "No Such Name", "--json")
    assert answer.code == 2
    assert json.dumps(answer.json)
    assert not (tmp_path / "x").exists()
