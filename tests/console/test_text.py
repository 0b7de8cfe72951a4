"""How the console writes values."""

from __future__ import annotations

import json

import pytest

from tercet.console.text import unquoted
from tercet.view.html.safe_text import Shown


@pytest.mark.parametrize(
    "text", ["pay_8861", "2026-05-02", "ravi.menon@example.com", "Calder Works", "Ärger", "/a"]
)
def test_a_text_that_can_be_nothing_else_has_no_quotes(text: str) -> None:
    assert unquoted(Shown(json.dumps(text, ensure_ascii=False))) == text


@pytest.mark.parametrize(
    "value",
    [
        "",
        " ",
        "24500",
        "64,000",
        "1e5",
        "0x1F",
        "-1",
        "true",
        "None",
        "NaN",
        "a ",
        " a",
        'a "b"',
        "a\nb",
        "[x]",
        "{}",
    ],
)
def test_a_text_that_could_be_another_value_keeps_its_quotes(value: str) -> None:
    assert unquoted(Shown(json.dumps(value))) == json.dumps(value)


@pytest.mark.parametrize("value", [24500, 1.5, True, None, ["a"], {"a": "b"}])
def test_other_values_stay_as_they_are(value: object) -> None:
    assert unquoted(Shown(json.dumps(value))) == json.dumps(value)
