"""`tercet calibrate`: weights out of outcomes, on the screen, as JSON, as a picture and as a file."""

from __future__ import annotations

import json
import random
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from tercet.contracts.outputs.exit import Weights
from tercet.quality.exit.confidence import estimate

from .harness import Tercet


def write(folder: Path, number: int, *, seed: int = 3) -> Path:
    """Outcomes that depend on verification far more than the default weights think."""
    draw = random.Random(seed)  # noqa: S311 - a fixed sample, not a secret
    lines: list[str] = []
    for _ in range(number):
        verify, critic = draw.random(), draw.random()
        lines.append(
            json.dumps(
                {"features": {"verify": verify, "critic": critic}, "is_correct": draw.random() < verify**2}
            )
        )
    path = folder / "outcomes.jsonl"
    path.write_text("\n".join(lines) + "\n\n")
    return path


def test_the_screen_shows_weights_and_reliability(tercet: Tercet, tmp_path: Path) -> None:
    """What was learned beside what was before, a bar for each bin, and whether it is any better."""
    answer = tercet("calibrate", "--outcomes", write(tmp_path, 600))
    assert answer.code == 0
    for told in (
        "outcomes 600 outputs",
        "weight fitted before",
        "verify",
        "confidence outputs said right ■ right │ said",
        "calibration error",
        "the fitted weights do better on outcomes that they have not seen",
        "Nothing was run, and no pack was changed.",
    ):
        assert told in answer.text
    assert answer.out.count("│") >= 5


@pytest.mark.req("R242")
def test_json_and_file_hold_the_same_weights(tercet: Tercet, tmp_path: Path) -> None:
    """The weights that are saved can be read again, and confidence is estimated with them."""
    saved = tmp_path / "weights.json"
    answer = tercet("calibrate", "--outcomes", write(tmp_path, 400), "--save", saved, "--json")
    assert answer.code == 0
    weights = Weights.model_validate_json(saved.read_bytes())
    assert weights.model_dump(mode="json") == answer.json["weights"]
    assert weights.sample == 400
    assert estimate({"verify": 1.0}, weights).value > estimate({"verify": 0.0}, weights).value + 0.5
    assert sum(each["count"] for each in answer.json["after"]["bins"]) == 400
    assert answer.json["after"]["brier"] < answer.json["before"]["brier"]


def test_the_picture_is_an_svg(tercet: Tercet, tmp_path: Path) -> None:
    """It parses, and has a dot for each bin of both curves."""
    picture = tmp_path / "reliability.svg"
    told = tercet("calibrate", "--outcomes", write(tmp_path, 300), "--svg", picture, "--json").json
    root = ElementTree.fromstring(picture.read_text())  # noqa: S314 - our own picture
    dots = root.findall(".//{http://www.w3.org/2000/svg}circle")
    assert len(dots) == 2 + len(told["before"]["bins"]) + len(told["after"]["bins"])


def test_outcomes_come_from_stdin_too(tercet: Tercet, tmp_path: Path) -> None:
    """A dash reads them from there, and the same outcomes give the same answer."""
    path = write(tmp_path, 50)
    piped = tercet("calibrate", "--outcomes", "-", "--json", stdin=path.read_bytes())
    assert piped.json == tercet("calibrate", "--outcomes", path, "--json").json


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        ("", "too_few_outcomes", "0 outcomes are too few"),
        (
            '{"features": {"verify": 1}, "is_correct": true}\n' * 5,
            "too_few_outcomes",
            "5 outcomes are too few",
        ),
        ("nonsense\n", "outcomes_invalid", "line 1 is no outcome"),
        ('\n{"features": {"luck": 1}, "is_correct": true}\n', "outcomes_invalid", "line 2 is no outcome"),
        ('{"features": {"verify": NaN}, "is_correct": true}\n', "outcomes_invalid", "line 1 is no outcome"),
    ],
)
def test_bad_outcomes_are_wrong_use(
    tercet: Tercet, tmp_path: Path, text: str, code: str, message: str
) -> None:
    """Exit 2, with the line and what one looks like."""
    path = tmp_path / "bad.jsonl"
    path.write_text(text)
    answer = tercet("calibrate", "--outcomes", path, "--json")
    assert answer.code == 2
    error = answer.json["error"]
    assert error["code"] == code
    assert message in error["message"]
    assert error["remedy"]


def test_files_that_cannot_be_read_or_written_are_wrong_use(tercet: Tercet, tmp_path: Path) -> None:
    """Exit 2, with the file and what to do."""
    missing = tercet("calibrate", "--outcomes", tmp_path / "none.jsonl", "--json")
    assert (missing.code, missing.json["error"]["code"]) == (2, "outcomes_unreadable")
    nowhere = tmp_path / "nowhere" / "x.svg"
    unwritable = tercet("calibrate", "--outcomes", write(tmp_path, 30), "--svg", nowhere, "--json")
    assert (unwritable.code, unwritable.json["error"]["code"]) == (2, "missing_folder")
