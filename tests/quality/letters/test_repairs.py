"""No repair by rule loses a right value, an item, a row, a heading or a sentence, and none touches a right letter."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quality.sealed.__main__ import Outcome, run_letter
from tercet.contracts.question import Question
from tercet.contracts.shape import JsonObject
from tercet.quality.repair.losses import find_loss
from tercet.quality.rubric.safety import find_dangers
from tercet.testing.models import ScriptedModel

from .corpus import Record, read_letters

RECORD = {
    "order": ("identifier", "", "GX-4410", "order number", "GX-4410", "GX-4401"),
    "total": ("money", "EUR", 1234.5, "total", "€1,234.50", "€1,243.50"),
    "fee": ("money", "EUR", 12.5, "delivery fee", "€12.50", "€21.50"),
    "vat": ("percent", "", 19, "VAT rate", "19%", "17%"),
    "term": ("count", "day", 14, "return period", "14 days", "41 days"),
    "due": ("date", "", "2026-05-18", "due date", "18 May 2026", "19 May 2026"),
    "boxes": ("count", "", 3, "boxes", "3", "8"),
}
LAYOUTS = {
    "sentence": "We can tell you that the {label} of this is {shown}.",
    "question": "Did you know that the {label} is {shown}?",
    "item": "- {label}: {shown}",
    "row": "| {label} | {shown} |",
    "heading": "## The {label}: {shown}",
    "field": "{label}: {shown}",
}
COUNTED = [re.compile(each, re.MULTILINE) for each in (r"^- ", r"^\|", r"^#", r"[.!?](?=\s|$)")]


@st.composite
def letters(draw: st.DrawFn) -> tuple[dict[str, Any], set[str]]:
    """A letter that states some values of a record, each rightly, wrongly or by its slot, in any layout."""
    blocks: list[str] = []
    ways: set[str] = set()
    for name in draw(st.lists(st.sampled_from(sorted(RECORD)), min_size=1, unique=True)):
        *_, label, right, wrong = RECORD[name]
        way = draw(st.sampled_from(("right", "wrong", "slot")))
        shown = {"right": right, "wrong": wrong, "slot": f"{{{{ {name} }}}}"}[way]
        layout = draw(st.sampled_from(sorted(LAYOUTS)))
        blocks.append(LAYOUTS[layout].format(label=label, shown=shown))
        ways.add(way)
    joint = draw(st.sampled_from(("\n\n", "\n", " ")))
    blocks = [f"{each}\n" if each[0] in "-|#" else f"{each}{joint}" for each in blocks]
    values = [
        {"name": name, "from": f"record#/{name}", "type": kind, "labels": {"en": [label]}}
        | ({"currency": role} if kind == "money" else {"unit": role} if role else {})
        for name, (kind, role, _, label, _, _) in RECORD.items()
    ]
    content = {name: value for name, (_, _, value, *_) in RECORD.items()}
    evidence = [{"class": "record", "id": "r1", "trust": "trusted", "content": content}]
    text = "Thank you for your order, which is on its way to you.\n\n" + "".join(blocks)
    return {"locale": "en_IE", "evidence": evidence, "values": values, "text": text, "wrong": []}, ways


def demand_no_loss(outcome: Outcome) -> None:
    """Assert that what a person is handed states what was right in the draft, in as many items, rows and sentences."""
    assert outcome.is_lossless
    for pattern in COUNTED:
        assert len(pattern.findall(outcome.final)) >= len(pattern.findall(outcome.draft))


@settings(max_examples=40)
@given(letters())
def test_a_repair_loses_nothing_and_leaves_right_letters_alone(
    given: tuple[dict[str, Any], set[str]],
) -> None:
    case, ways = given
    outcome = asyncio.run(run_letter(case))
    demand_no_loss(outcome)
    if "wrong" not in ways and not outcome.flagged:
        assert (outcome.status, outcome.final) == ("awaiting_gate", outcome.draft)
    replaced = set(re.findall(r"\S+", outcome.draft)) - set(re.findall(r"\S+", outcome.final))
    right = {word for *_, shown, _ in RECORD.values() for word in shown.split()} - {"days", "May", "2026"}
    assert not replaced & right


def mixed_up(text: str, shift: int) -> str:
    """A letter with every value and sentence as it was, and with the labels of other values."""
    labels = [label for *_, label, _, _ in RECORD.values()]
    others = dict(zip(labels, labels[shift:] + labels[:shift], strict=True))
    return re.sub("|".join(labels), lambda match: others[match[0]], text)


def writer(text: str) -> ScriptedModel:
    """A model that answers whatever is asked with this text."""

    def answer(question: Question) -> JsonObject:
        is_whole = (question.answer_schema or {})["properties"]["replacement"].get("type") == "object"
        return {"replacement": {"letter": text} if is_whole else text}

    return ScriptedModel(answers=[answer] * 40)


@settings(max_examples=25)
@given(letters(), st.integers(1, len(RECORD) - 1))
def test_no_model_takes_a_right_value_out_of_its_role(
    given: tuple[dict[str, Any], set[str]], shift: int
) -> None:
    case, _ = given
    wanting = {**case, "required_sections": ["Returns"]}  # which only a model can write
    written = f"{mixed_up(case['text'], shift)}\n\n## Returns\n\nSend it back to us."
    outcome = asyncio.run(run_letter(wanting, [writer(written)]))
    assert outcome.is_lossless


def test_a_repair_that_lost_a_right_value_is_undone_and_said_to_be() -> None:
    text = "The total is €1,243.50, and the delivery fee is €12.50."
    given = Record("en_IE", "order", content={"total": 1234.5, "fee": 12.5})
    values = [
        {
            "name": name,
            "from": f"record#/{name}",
            "type": "money",
            "currency": "EUR",
            "labels": {"en": [label]},
        }
        for name, label in (("total", "total"), ("fee", "delivery fee"))
    ]
    case = {"locale": "en_IE", "evidence": given.evidence, "values": values, "text": text, "wrong": []}
    outcome = asyncio.run(
        run_letter(case, [writer("The delivery fee is not known, and the total is €12.50.")])
    )
    assert (outcome.final, set(outcome.undone)) == (text, {"€12.50"})


@pytest.mark.parametrize(("field", "is_redacted"), [("depot_ref", False), ("card", True)])
def test_a_reference_with_the_check_digit_of_a_card_is_not_redacted(field: str, is_redacted: bool) -> None:
    """It is in trusted evidence under its name, and a person decides; the number of a card is taken out."""
    text = f"The {field.replace('_', ' ')} is 5105105105105100, and the locker is 7302."
    given = Record("en_GB", "parcel", content={field: "5105105105105100", "locker": "7302"})
    case = {"locale": "en_GB", "evidence": given.evidence, "values": [], "text": text, "wrong": []}
    outcome = asyncio.run(run_letter(case))
    assert outcome.final == (text.replace("5105105105105100", "[redacted]") if is_redacted else text)
    assert outcome.status == ("awaiting_gate" if is_redacted else "paused")


def test_a_repair_leaves_no_dashes_that_stood_in_the_place_of_decimals() -> None:
    outcome = asyncio.run(
        run_letter(next(case for case in read_letters() if case["id"] == "de_CH-restated-2"))
    )
    assert outcome.final.replace("\xa0", " ") == "Die Kurskosten betragen CHF 1’250.00."


NAMES = [case["id"] for case in read_letters() if case["wrong"] and "{{" in str(case["text"])]


@pytest.mark.parametrize("name", NAMES)
def test_values_that_were_bound_stay_bound_where_nothing_could_be_repaired(name: str) -> None:
    """Once read as `{{ balance }}`, a value is not free text after a REPAIR phase that found nothing to change."""
    outcome = asyncio.run(run_letter(next(case for case in read_letters() if case["id"] == name)))
    assert outcome.status == "paused"
    demand_no_loss(outcome)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("# Costs\n\nThe fee is 12.50.", "Costs\n\nThe fee is 12.50."),
        ("It is sent. You pay 9 EUR.", "It is sent, you pay 9 EUR."),
        ("お支払いは九円です。ありがとう。", "お支払いは九円です、ありがとう。"),
    ],
)
def test_a_rule_takes_out_no_heading_and_no_sentence_and_a_model_may(before: str, after: str) -> None:
    assert find_loss({"t": before}, {"t": after}, by_rule=True).endswith("of /t")
    assert not find_loss({"t": before}, {"t": after})


@pytest.mark.parametrize("name", ["de_DE-werkstatt-2", "en_IE-disguises-2", "es_ES-prestamo-22"])
def test_a_right_letter_with_an_account_or_a_minus_or_words_for_decimals_is_left_alone(name: str) -> None:
    """One account in ten has the check digit of a card in it, and half a number is not to be replaced."""
    outcome = asyncio.run(run_letter(next(case for case in read_letters() if case["id"] == name)))
    assert not outcome.case["wrong"]
    assert (outcome.status, outcome.final) == ("awaiting_gate", outcome.draft)


@pytest.mark.parametrize(
    ("text", "is_hidden"), [("क्\u200dष", False), ("👨\u200d👩\u200d👧", False), ("To\u200dtal", True)]
)
def test_joiners_are_hidden_characters_where_nothing_is_joined(text: str, is_hidden: bool) -> None:
    assert bool(find_dangers(text)) is is_hidden
