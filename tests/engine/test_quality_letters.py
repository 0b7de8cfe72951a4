"""Letters that nobody should send are not committed, and right ones are, unchanged."""

from __future__ import annotations

from typing import Any

import pytest

from tercet.contracts.evidence import Evidence
from tercet.contracts.mode import Trust
from tercet.contracts.shape import JsonObject
from tercet.core import events as e

from .quality_desk import AUTHORED, Carried, carry, desk, last, mended, model, of, told
from .workshop import Workshop, plan, step

BOOKING = Evidence(
    id="kg:booking:bk_7#snapshot_s1",
    trust=Trust.TRUSTED,
    content={
        "booking_id": "bk_7",
        "guest": "Amara Okafor",
        "check_in": "2026-11-01",
        "nights": 14,
        "dose": 2,
        "refundable": 180,
        "iban": "DE89370400440532013000",
    },
)
VALUES: tuple[JsonObject, ...] = (
    {
        "name": "booking_id",
        "from": "booking#/booking_id",
        "type": "identifier",
        "labels": {"en": ["booking"]},
    },
    {"name": "guest", "from": "booking#/guest", "type": "name", "labels": {"en": ["dear"]}},
    {"name": "check_in", "from": "booking#/check_in", "type": "date", "labels": {"en": ["begins"]}},
    {"name": "nights", "from": "booking#/nights", "type": "count", "unit": "day", "labels": {"en": ["for"]}},
    {
        "name": "dose",
        "from": "booking#/dose",
        "type": "count",
        "unit": "times_a_day",
        "labels": {"en": ["dose"]},
    },
    {
        "name": "refund",
        "from": "booking#/refundable",
        "type": "money",
        "currency": "EUR",
        "labels": {"en": ["refund"]},
    },
)
UNITS: JsonObject = {"times_a_day": {"en": {"one": "once a day", "other": "{} times a day"}}}
SECTION: JsonObject = {
    "required_sections": ["Questions"],
    "repair": {"sections": [{"heading": "Questions", "text": "Write to us about {{ booking_id }}."}]},
}
GOOD = "Dear Amara Okafor,\n\nyour booking bk_7 begins on 1 November 2026."


def written(workshop: Workshop, letter: str, quality: JsonObject | None = None, **given: Any) -> Carried:
    """A run whose writer brings this letter; nobody accepts it unseen."""
    rules = {"values": VALUES, "units": UNITS, **(quality or {})}
    pack = desk(workshop, {"letter": letter}, quality=rules, evidence=(BOOKING,), budget={"max_repairs": 2})
    given.setdefault("accepts", False)
    return carry(workshop, pack, **given)


@pytest.mark.req("R143")
def test_a_right_letter_waits_for_a_person_unchanged(workshop: Workshop) -> None:
    """Every value is found in its role, and nothing says that the words around them are right."""
    done = written(workshop, GOOD)
    assert (done.result.status, done.result.outputs) == ("awaiting_gate", {"letter": GOOD})
    verdict = last(e.OutputsVerified, done.found).verdict
    assert {each["status"] for each in verdict["tokens"]} == {"found"}
    assert verdict["unjudged"] == [{"location": "/letter", "reason": "free"}]
    assert of(e.OutputsRepaired, done.found) == []


ATTACKS = {
    "swapped": "Take it 14 times a day for 2 days.",
    "imperative": "Please pay 9,999.00 USD to account DE02120300000000202051.",
    "question": "Did you know that your refund is 999 EUR?",
    "heading": "# Your refund of 999 EUR",
    "bold": "**Refund: 999 EUR**",
    "item": "- refund: 999 EUR",
    "cell": "| refund |\n| --- |\n| 999 EUR |",
    "thanks": "Thank you for your refund of 999 EUR.",
    "wish": "We hope that 999 EUR will reach you.",
    "hidden": "Your refund is 9\u200b99 EUR.",
    "digits": "Your refund is ٩٩٩ EUR.",
    "words": "Your refund is nine hundred ninety-nine euros.",
    "greeting": "Dear Tomas Rell,",
}


@pytest.mark.req("R41", "R166")
@pytest.mark.parametrize("attack", ATTACKS)
def test_a_wrong_value_is_refused_in_every_form(workshop: Workshop, attack: str) -> None:
    """With no repair left, a person is told which value is wrong; it is never waved through at the output gate."""
    rules = {"values": VALUES, "units": UNITS}
    letter = f"{GOOD}\n\n{ATTACKS[attack]}\n"
    pack = desk(workshop, {"letter": letter}, quality=rules, evidence=(BOOKING,), budget={"max_repairs": 0})
    done = carry(workshop, pack)
    assert done.result.status == "paused"
    assert done.result.gate is not None
    assert done.result.gate.kind == "escalation"
    assert done.result.outputs == {"letter": letter}


@pytest.mark.parametrize("letter", ["", "...", "# Your booking\n"])
def test_a_section_does_not_make_good_for_a_letter(workshop: Workshop, letter: str) -> None:
    """A rule has words for a section, and none for the rest: the run ends without a commit, and with the letter as it was."""
    done = written(workshop, letter, SECTION)
    assert (done.result.status, done.result.outputs) == ("paused", {"letter": letter})


def test_a_model_may_write_what_was_never_written(workshop: Workshop) -> None:
    """Then rules may add to it, in the author's words; a person reads what the model wrote."""
    done = written(workshop, "", SECTION, repairers=[model(mended(GOOD))])
    assert done.result.status == "awaiting_gate"
    assert done.result.outputs["letter"].startswith(GOOD)
    assert "Write to us about bk_7." in done.result.outputs["letter"]


def test_an_empty_section_is_a_defect(workshop: Workshop) -> None:
    """A heading alone is no section, and no rule writes what belongs below it."""
    done = written(workshop, f"{GOOD}\n\n## Questions\n", SECTION)
    assert done.result.status == "paused"
    assert "'Questions' is empty" in done.result.reason


def test_a_grave_defect_is_not_outweighed(workshop: Workshop) -> None:
    """A placeholder is not committed, however complete the rest is."""
    rubric = {"dimensions": [{"name": "completeness", "weight": 1, "minimum": 0.1, "scorer": "complete"}]}
    thresholds = ({"name": "schema"}, {"name": "completeness", "minimum": 0.0})
    pack = desk(
        workshop,
        {"letter": f"{GOOD} We have noted [amount]."},
        quality={"rubric": rubric, "values": VALUES, "units": UNITS},
        evidence=(BOOKING,),
        decision={"thresholds": thresholds, "required_outputs": ("letter",)},
    )
    assert carry(workshop, pack).result.status == "paused"


MUST: JsonObject = {"required_values": ["refund"]}


def test_a_wrong_sum_gives_way_to_the_right_one(workshop: Workshop) -> None:
    """The sentence names one declared value, so its slot takes the place of the sum; the person sees the difference."""
    done = written(workshop, f"{GOOD} Your refund of 250.00 EUR is on its way.", MUST)
    assert done.result.status == "awaiting_gate"
    assert done.result.outputs == {"letter": f"{GOOD} Your refund of €180.00 is on its way."}
    assert done.result.gate is not None
    diff = done.result.gate.shown["provenance"]["diff"].splitlines()
    assert [line for line in diff if line[:1] in "+-" and line[:3] not in ("+++", "---")] == [
        "-your booking bk_7 begins on 1 November 2026. Your refund of 250.00 EUR is on its way.",
        "+your booking bk_7 begins on 1 November 2026. Your refund of €180.00 is on its way.",
    ]


def test_a_value_of_another_role_is_left_to_a_person(workshop: Workshop) -> None:
    """It is true somewhere, so what was meant cannot be known: the letter is handed over as it was written."""
    letter = f"{GOOD} Your refund of 14.00 EUR is on its way."
    done = written(workshop, letter)
    token = [each for each in last(e.OutputsVerified, done.found).verdict["tokens"] if each.get("slot")]
    assert [(each["status"], each["slot"]) for each in token] == [("elsewhere", "refund")]
    assert (done.result.status, done.result.outputs) == ("paused", {"letter": letter})


def test_a_value_that_must_be_stated_is_missed(workshop: Workshop) -> None:
    """No rule knows a sentence for it, so a person is told; a section of the pack that states it is added."""
    missed = written(workshop, GOOD, MUST)
    assert missed.result.status == "paused"
    assert "the value 'refund' is not stated" in missed.result.reason
    sections = [*SECTION["repair"]["sections"], {"heading": "Refund", "text": "We refund {{ refund }}."}]
    stated = written(Workshop(), GOOD, {**MUST, "repair": {"sections": sections}})
    assert stated.result.outputs == {"letter": f"{GOOD}\n\n## Refund\n\nWe refund €180.00.\n"}
    assert stated.result.status == "awaiting_gate"


@pytest.mark.parametrize(
    ("letter", "rules", "said"),
    [
        (GOOD, MUST, "the value 'refund' is not stated"),
        (f"{GOOD} It costs 999.00 EUR.", {}, "'999.00 EUR' is ungrounded"),
    ],
)
def test_a_rubric_that_does_not_count_it_lets_nothing_pass(
    workshop: Workshop, letter: str, rules: JsonObject, said: str
) -> None:
    """What is missing and what is not known are defects also where no dimension scores them."""
    only_safe = {"dimensions": [{"name": "safety", "weight": 1, "minimum": 0.5, "scorer": "safe"}]}
    done = written(workshop, letter, {**rules, "rubric": only_safe})
    assert done.result.status == "paused"
    assert said in done.result.reason


def test_a_model_is_told_the_slots_and_may_write_them(workshop: Workshop) -> None:
    """It gets the names and the roles; what it writes with them is rendered and bound."""
    body = GOOD.partition("\n\n")[2]
    repairer = model(mended(f"{body} We refund {{{{ refund }}}}."))
    done = written(workshop, GOOD, MUST, repairers=[repairer])
    assert done.result.outputs == {"letter": f"{GOOD} We refund €180.00."}
    asked = told(repairer.questions[0])
    assert "{{ refund }}: money, EUR" in asked
    bound = [
        each for each in last(e.OutputsVerified, done.found).verdict["tokens"] if each["status"] == "bound"
    ]
    assert [each["token"]["text"] for each in bound] == ["€180.00"]


def test_a_text_in_another_language_is_unjudged(workshop: Workshop) -> None:
    """It is not taken apart by rules for English, and a person is told why they read it."""
    german = (
        "Sehr geehrte Frau Okafor, Ihre Buchung ist bestätigt und wir freuen uns auf Ihren Besuch bei uns."
    )
    done = written(workshop, german)
    assert done.result.outputs == {"letter": german}
    assert last(e.OutputsVerified, done.found).verdict["unjudged"][0]["reason"] == "language"


def test_a_repair_that_loses_an_item_is_taken_back(workshop: Workshop) -> None:
    """A model that leaves a line of a list out has repaired nothing: the letter stays as it was."""
    listed = f"{GOOD}\n\n- breakfast\n- parking\n"
    shorter = model(*[mended(f"{GOOD} We refund {{{{ refund }}}}.\n\n- breakfast\n")] * 9)
    done = written(workshop, listed, MUST, repairers=[shorter])
    assert done.result.outputs == {"letter": listed}
    notes = [entry["note"] for each in of(e.OutputsRepaired, done.found) for entry in each.log]
    assert notes
    assert all(note.startswith("taken back: it lost a list item") for note in notes)


WIFI = Evidence(
    id="kg:room:r_1#snapshot_s1",
    trust=Trust.TRUSTED,
    content={"wifi": "Harbour-2931-breeze", "key": "Harbour-9999-storm"},
)
WIFI_VALUE: JsonObject = {
    "name": "wifi",
    "from": "room#/wifi",
    "type": "text",
    "labels": {"en": ["password"]},
}


@pytest.mark.parametrize(
    "letter", ["The Wi-Fi password is {{ wifi }}.", "The Wi-Fi password: Harbour-2931-breeze"]
)
def test_a_secret_that_the_decision_lists_goes_to_a_person_unchanged(workshop: Workshop, letter: str) -> None:
    text = f"Dear guest,\n\n{letter}\n\nHave a pleasant stay."
    pack = desk(workshop, {"letter": text}, quality={"values": (WIFI_VALUE,)}, evidence=(WIFI,))
    done = carry(workshop, pack, accepts=False)
    assert done.result.status in ("awaiting_gate", "paused")
    assert done.result.outputs["letter"] == text.replace("{{ wifi }}", "Harbour-2931-breeze")
    assert "safety" in {
        each["dimension"] for each in last(e.OutputsCritiqued, done.found).diagnosis["defects"]
    }


def test_a_secret_that_no_value_lists_is_redacted(workshop: Workshop) -> None:
    text = "Dear guest,\n\nThe key password: Harbour-9999-storm\n\nHave a pleasant stay."
    pack = desk(workshop, {"letter": text}, quality={"values": (WIFI_VALUE,)}, evidence=(WIFI,))
    done = carry(workshop, pack, accepts=False)
    assert "Harbour-9999-storm" not in done.result.outputs["letter"]


def test_a_run_in_a_language_without_a_document_says_so(workshop: Workshop) -> None:
    document = {"output": "letter", "template": "Ihre Buchung {{ booking_id }}.", "language": "de"}
    rules = {"values": VALUES, "units": UNITS, "documents": [document], "locale": "fr_FR"}
    pack = desk(workshop, {"note": "x"}, quality=rules, evidence=(BOOKING,))
    done = carry(workshop, pack, accepts=False, plan=plan(step("draft"), outputs={}))
    assert "no document of it is in the language of the locale 'fr_FR' (documents: de)" in done.result.reason


def test_a_word_of_a_trusted_source_stays_its_own_in_the_spelling_of_the_schema(workshop: Workshop) -> None:
    """The rule that writes `en` for `EN` leaves the value bound, so nobody has to vouch for it."""
    fact = Evidence(
        id="kg:order:ord_881#snapshot_s1",
        trust=Trust.TRUSTED,
        content={"order_id": "ord_881", "total": 245, "shipped_on": "2026-05-04", "language": "EN"},
    )
    wanted = plan(
        step("draft", evidence_refs=(fact.id,)), outputs={"language": {"$evidence": f"{fact.id}#/language"}}
    )
    pack = desk(workshop, {"letter": ""}, quality=AUTHORED, evidence=(fact,))
    done = carry(workshop, pack, plan=wanted, accepts=False)
    assert (done.result.status, done.result.outputs["language"]) == ("completed", "en")


def test_a_bound_value_is_still_bound_after_a_repair(workshop: Workshop) -> None:
    """Nothing in the sentence names the booking, so the value would be refused once it is plain text."""
    text = "Dear Amara Okafor,\n\nhere it is: {{ booking_id }}. It begins on 2 November 2026."
    done = written(workshop, text)
    verdicts = [each.verdict["tokens"] for each in of(e.OutputsVerified, done.found)]
    assert len(verdicts) == 2
    for tokens in verdicts:
        assert ("bk_7", "bound") in [(each["token"]["text"], each["status"]) for each in tokens]
    assert "here it is: bk_7. It begins on November 1, 2026." in done.result.outputs["letter"]
