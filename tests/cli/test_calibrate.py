"""`tercet calibrate`: weights out of outcomes, on the screen and as JSON."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from tercet.contracts.outputs.exit import Weights
from tercet.quality.exit import estimate

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
    """What was learned beside what was before, a line for each bin, and whether it is any better."""
    answer = tercet("calibrate", "--outcomes", write(tmp_path, 600))
    assert answer.code == 0
    for told in (
        "outcomes 600 outputs",
        "weight fitted before",
        "verify",
        "confidence outputs said right",
        "calibration error",
        "the fitted weights do better on outcomes that they have not seen",
        "Nothing was run, and no pack was changed.",
    ):
        assert told in answer.text


@pytest.mark.req("R242")
def test_confidence_goes_by_the_fitted_weights(tercet: Tercet, tmp_path: Path) -> None:
    """The weights can be read again, and confidence is estimated with them."""
    answer = tercet("calibrate", "--outcomes", write(tmp_path, 400), "--json")
    assert answer.code == 0
    weights = Weights.model_validate(answer.json["weights"])
    assert weights.sample == 400
    assert estimate({"verify": 1.0}, weights).value > estimate({"verify": 0.0}, weights).value + 0.5
    assert sum(each["count"] for each in answer.json["after"]["bins"]) == 400
    assert answer.json["after"]["brier"] < answer.json["before"]["brier"]


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
        ("nonsense\n", "outcomes_invalid", "line 1 is not a valid outcome"),
        (
            '\n{"features": {"luck": 1}, "is_correct": true}\n',
            "outcomes_invalid",
            "line 2 is not a valid outcome",
        ),
        (
            '{"features": {"verify": NaN}, "is_correct": true}\n',
            "outcomes_invalid",
            "line 1 is not a valid outcome",
        ),
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


def test_a_file_that_cannot_be_read_is_wrong_use(tercet: Tercet, tmp_path: Path) -> None:
    """Exit 2, with the file and what to do."""
    missing = tercet("calibrate", "--outcomes", tmp_path / "none.jsonl", "--json")
    assert (missing.code, missing.json["error"]["code"]) == (2, "outcomes_unreadable")
