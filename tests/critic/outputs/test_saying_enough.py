"""What an output must say, and must not leave open: the third edition of the rules, beside the second one."""

from __future__ import annotations

from typing import Any

import pytest

from tercet.contracts.evidence import Evidence
from tercet.contracts.mode import Trust
from tercet.contracts.quality import Defect, DefectSeverity
from tercet.contracts.rubric import CritiqueInput, CritiqueTask
from tercet.critic.outputs.critique import critique
from tercet.critic.outputs.grounding.judges import Judges

BOOKING = Evidence(
    id="kg:booking:bk_7#snapshot_s1",
    trust=Trust.TRUSTED,
    content={
        "booking_id": "bk_7",
        "guest": "Amara Okafor",
        "check_in": "2026-11-01",
        "nights": 3,
        "refundable_cents": 18000,
        "currency": "EUR",
    },
)


def defects(
    letter: str, dimension: str, *, edition: int = 3, fact: Evidence = BOOKING, **task: Any
) -> list[Defect]:
    """What is wrong with a letter about a booking, in one dimension."""
    given = CritiqueInput(
        task=CritiqueTask(**{"required_outputs": ("letter",), **task}),
        output={"letter": letter},
        evidence=(fact,),
    )
    found = critique(given, judges=Judges(edition=edition)).defects
    return [each for each in found if each.dimension == dimension]


@pytest.mark.parametrize("letter", ["", "  \n", "-", "...", "—", "\u200b"])
def test_a_text_that_says_nothing_is_a_grave_defect(letter: str) -> None:
    """White space and marks are no letter."""
    [found] = defects(letter, "completeness")
    assert (found.description, found.severity, found.scope) == (
        "the required output 'letter' is empty",
        DefectSeverity.CRITICAL,
        "GLOBAL",
    )


@pytest.mark.parametrize("letter", ["Yes", "5", "👍", "謝謝"])
def test_a_short_text_is_a_text(letter: str) -> None:
    """A word, a figure or a sign says something."""
    assert defects(letter, "completeness") == []


def test_a_mark_that_the_schema_lists_is_a_choice() -> None:
    """Where `-` is one of the words to choose from, it is an answer."""
    schema = {"type": "object", "properties": {"letter": {"enum": ["+", "-"]}}}
    assert defects("-", "completeness", outputs_schema=schema) == []


@pytest.mark.parametrize("blank", ["[amount]", "[NAME]", "<name>", "{amount}", "[GUEST_NAME]", "[your name]"])
def test_a_placeholder_is_no_claim(blank: str) -> None:
    """It is a grave gap, and its sentence is not one that evidence could have: no rule takes it out."""
    letter = f"Booking bk_7 begins on 2026-11-01. We have noted {blank} for booking bk_7."
    [found] = defects(letter, "completeness")
    assert found.description == f"{blank!r} stands for something that is missing"
    assert found.severity >= DefectSeverity.HIGH
    assert defects(letter, "correctness") == []


def test_before_a_placeholder_was_an_ungrounded_claim() -> None:
    """The second edition took a name for a name."""
    [found] = defects("Booking bk_7 is noted for [NAME].", "correctness", edition=2)
    assert "nowhere in the evidence" in found.description


@pytest.mark.parametrize(
    "text",
    [
        "Read [our terms](https://example.org) and [order] (see below).".replace("[order]", "[sic]"),
        "<name>Amara Okafor</name> has booked bk_7.",
        "def greet(name):\n    return f'Hello {name}'",
        "The list prices[amount] is sorted, and so is ${amount}.",
        "Our agent uses [redacted] for it.",
    ],
)
def test_not_every_bracket_is_a_placeholder(text: str) -> None:
    """Links, tags, code and what was redacted are none."""
    assert defects(text, "completeness") == []
