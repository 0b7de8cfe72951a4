"""Every planted value is refused, no right letter is, and what earlier rules said can still be derived."""

from __future__ import annotations

from typing import Any

import pytest

from quality.sealed.__main__ import evidence_of
from tercet.contracts.documents import DocumentValue, TokenVerdict
from tercet.locales import read_text
from tercet.quality.repair.losses import Stated, find_loss
from tercet.quality.screen import screen
from tercet.quality.values import known_values
from tercet.quality.verification.places import is_text

from .corpus import read_letters

CASES = {case["id"]: case for case in read_letters()}
LETTERS = {name: case for name, case in CASES.items() if case["built"] == "free"}


def screened(case: dict[str, Any]) -> tuple[TokenVerdict, ...]:
    """Return the verdicts on the text of a letter."""
    rules = [DocumentValue.model_validate(each) for each in case["values"]]
    known = known_values(rules, evidence_of(case), {}, (), case["language"])
    read = read_text("/letter", case["text"], known, case["locale"], case["units"], "agent")
    return screen(read, known)


def refused(case: dict[str, Any]) -> list[str]:
    """Return the tokens of a letter that are refused."""
    found = screened(case)
    return [each.token.text for each in found if each.status in ("elsewhere", "unknown")]


@pytest.mark.parametrize("name", [name for name, case in LETTERS.items() if case["kind"] == "right"])
def test_a_right_letter_is_not_refused(name: str) -> None:
    assert refused(LETTERS[name]) == []


@pytest.mark.parametrize("name", [name for name, case in LETTERS.items() if case["kind"] == "wrong"])
def test_a_planted_value_is_refused(name: str) -> None:
    found = refused(LETTERS[name])
    for planted in LETTERS[name]["wrong"]:
        token = planted["token"]
        assert any(token in each or each in token for each in found)


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        ("ご請求金額は一万三千八百円です", True),
        ("Total: 74.00 EUR", True),
        ("आपका पीएनआर PN-41182 है। कुल किराया ₹3,450 है।", True),
        ("यात्रा की तिथि: 21 अक्टूबर 2026", True),
        ("approved", False),
        ("kg:order:7", False),
    ],
)
def test_a_text_is_told_from_a_single_value(text: str, is_one: bool) -> None:
    assert is_text(text) is is_one


@pytest.mark.parametrize(
    ("before", "after", "is_lost"),
    [
        ("1 box of 10", "a box of 10", True),
        ("74 EUR, again 74 EUR", "74 EUR, again", True),
        ("74 EUR, again 74 EUR", "{{ total }}, again 74 EUR", False),
        ("74 EUR in all", "We sent 74 EUR in all", False),
    ],
)
def test_a_value_is_stated_as_often_as_before(before: str, after: str, is_lost: bool) -> None:
    stated = [Stated("/t", before.partition(" box")[0].partition(",")[0].partition(" in")[0], "total")]
    assert bool(find_loss({"t": before}, {"t": after}, stated=stated)) is is_lost
