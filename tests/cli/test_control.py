"""`tercet control`: what is expected of a pack's controllers, on the screen and as JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tercet.contracts.control import ControlSpec
from tercet.quality.control import predict

from .harness import REFUNDS, Answer, Tercet

PACK = """\
name = "letters"
version = "1.0.0"

[control.letter]
setpoint = { correct = 0.95, safe = 1.0 }
epsilon = 0.08
gain = 0.5
kp = 1.4
sigma = 0.04
k_max = 8

[control.dear]
gain = 0.5
c_max = 1.8
on_over_cost = "relax_epsilon"
epsilon_max = 0.4
"""


@pytest.fixture
def letters(tmp_path: Path) -> Path:
    """A pack that is nothing but its controllers."""
    folder = tmp_path / "letters"
    folder.mkdir()
    (folder / "pack.toml").write_text(PACK)
    return folder


def rows(count: int = 10, *, task_class: str = "letter", rise: float = 0.2) -> str:
    """Recorded repairs: outputs with two each."""
    lines: list[str] = []
    for number in range(count):
        for iteration in (0, 1):
            before = round(0.4 + rise * iteration, 6)
            row = {
                "task_class": task_class,
                "run": f"ses_{number:02}",
                "iteration": iteration,
                "intensity": 0.5,
            }
            lines.append(json.dumps(row | {"before": before, "after": round(before + rise, 6)}))
    return "\n".join(reversed(lines)) + "\n\n"


def of_class(answer: Answer, name: str) -> dict[str, Any]:
    assert answer.code == 0
    (found,) = [each for each in answer.json["classes"] if each["task_class"] == name]
    return found


def error(answer: Answer) -> dict[str, Any]:
    assert answer.code == 2
    assert answer.json["error"]["remedy"]
    return answer.json["error"]


@pytest.mark.req("R309", "R310", "R312")
def test_what_is_expected_is_told(tercet: Tercet, letters: Path) -> None:
    """The bound, the repairs, the cost and the noise floor of each class, with the quality after each repair."""
    answer = tercet("control", letters, "--start", "0.4")
    assert answer.code == 0
    for told in (
        "letters@1.0.0",
        "correct 0.95, safe 1; accepted from 0.92",
        "kp 1.4; stable below 4, monotone",
        "✓ from 0.4: 2 repairs for 3.092, then good enough, k* 2",
        "quality 0.4, 0.82, 0.946",
        "✓ keeps quality at about 0.958",
        "kp 1.4, damped by 0.3",
        "✗ from 0.4: 0 repairs for 0, then too expensive",
        "recorded nothing",
        "Nothing was run.",
    ):
        assert told in answer.text


def test_json_holds_the_prediction(tercet: Tercet, letters: Path) -> None:
    """It is what `predict` gives, to the last digit."""
    told = of_class(tercet("control", letters, "--start", "0.4", "--json"), "letter")
    spec = ControlSpec.model_validate(told["spec"])
    expected = predict(spec, {"correct": 0.35, "safe": 0.4}).model_dump(mode="json")
    assert told["prediction"] == expected
    assert (told["estimate"], told["fitted"], told["recorded"]["repairs"]) == (None, None, 0)


@pytest.mark.req("R307")
def test_recorded_repairs_are_told_beside_it(tercet: Tercet, letters: Path, tmp_path: Path) -> None:
    """The gain and the noise that they show, what is expected with those, and their mean."""
    file = tmp_path / "repairs.jsonl"
    file.write_text(rows())
    told = of_class(tercet("control", letters, "--trajectories", file, "--json"), "letter")
    assert (told["start"], told["estimate"]["gain"], told["estimate"]["sample"]) == (0.4, 0.4, 20)
    assert told["recorded"]["mean"] == [0.4, 0.6, 0.8]
    assert told["recorded"]["courses"]["ses_03"] == [0.4, 0.6, 0.8]
    assert told["fitted"]["iterations"] == 3
    answer = tercet("control", letters, "--trajectories", file, "--task-class", "letter")
    assert "20 repairs of 10 outputs: a gain of 0.4 (0.4 to 0.4), noise 0" in answer.text
    assert "fitted ✓ from 0.4: 3 repairs" in answer.text
    assert "on average quality 0.4, 0.6, 0.8" in answer.text
    assert "dear" not in answer.out


def test_repairs_may_come_on_stdin_and_be_too_few(tercet: Tercet, letters: Path) -> None:
    """Then no gain is estimated."""
    answer = tercet("control", letters, "--trajectories", "-", stdin=rows(2))
    assert "4 repairs of 2 outputs; 8 repairs are needed to estimate a gain" in answer.text


def test_the_default_controller_has_all_other_classes(tercet: Tercet, letters: Path, tmp_path: Path) -> None:
    """Also when one of them is asked for by its name."""
    path = letters / "pack.toml"
    path.write_text(path.read_text() + "\n[control.default]\nkp = 0.5\n")
    file = tmp_path / "repairs.jsonl"
    file.write_text(rows(task_class="poem") + rows())
    answer = tercet("control", letters, "--trajectories", file, "--json")
    assert of_class(answer, "default")["recorded"]["repairs"] == 20
    named = tercet("control", letters, "--trajectories", file, "--task-class", "poem", "--json")
    assert of_class(named, "poem")["spec"]["kp"] == 0.5


@pytest.mark.req("R311")
def test_what_is_done_about_cost_is_told(tercet: Tercet, letters: Path) -> None:
    """The tolerance that the pack lets itself be talked into; and failure, where that does not help."""
    answer = tercet("control", letters, "--task-class", "dear", "--start", "0.5")
    assert "✗ from 0.5: 1 repair for 1.7, then too expensive" in answer.text
    assert "so it is done with epsilon 0.15: 1 repair for 1.7" in answer.text
    assert "it would need" in tercet("control", letters, "--task-class", "dear", "--start", "0.1").text


@pytest.mark.req("R309")
def test_an_unstable_gain_is_refused_with_its_bound(tercet: Tercet, letters: Path) -> None:
    """The pack does not load."""
    path = letters / "pack.toml"
    path.write_text(path.read_text().replace("kp = 1.4", "kp = 4.2"))
    answer = tercet("control", letters, "--json")
    (problem,) = answer.json["error"]["problems"]
    assert answer.code == 2
    assert problem["code"] == "control_unstable"
    assert "it must be below 4 (2/gain)" in problem["message"]


@pytest.mark.parametrize(
    ("words", "stdin", "code"),
    [
        (("--task-class", "poem"), "", "unknown_task_class"),
        (("--start", "1.5"), "", "usage"),
        (("--trajectories", "nowhere.jsonl"), "", "trajectories_unreadable"),
        (("--trajectories", "-"), "{", "trajectories_invalid"),
        (("--trajectories", "-"), '{"task_class": "letter"}', "trajectories_invalid"),
        (("--trajectories", "-"), rows(1).replace("0.5", "1e999"), "trajectories_invalid"),
        (("--trajectories", "-"), b"\xff\xfe", "trajectories_invalid"),
    ],
)
def test_a_mistake_is_answered(
    tercet: Tercet, letters: Path, words: tuple[str, ...], stdin: str | bytes, code: str
) -> None:
    """Each with what to do about it."""
    assert error(tercet("control", letters, *words, "--json", stdin=stdin))["code"] == code


def test_a_pack_without_controllers_says_so(tercet: Tercet) -> None:
    """And how to declare one."""
    found = error(tercet("control", REFUNDS, "--json"))
    assert found["code"] == "no_control"
    assert "[control.default]" in found["remedy"]
