"""What an output must say, and must not leave open: the third edition of the rules, beside the second one."""

from __future__ import annotations

from typing import Any

import pytest

from tercet.contracts.evidence import Evidence
from tercet.contracts.mode import Trust
from tercet.contracts.quality import Defect, DefectSeverity, Entailment, RootCauseClass
from tercet.contracts.rubric import CritiqueInput, CritiqueTask
from tercet.quality.grounding.judges import Judges
from tercet.quality.repair.causes import classify
from tercet.quality.rubric.critique import critique

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
        task=CritiqueTask.model_validate({"required_outputs": ("letter",), **task}),
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


@pytest.mark.parametrize(
    "greeting",
    [
        "Dear Tomas Rell,",
        "Hello Tomas,",
        "Hi Mr. Rell!",
        "Dear Tomas Okafor,",
        "Dear Tomas Rell your booking is noted.",
    ],
)
def test_a_stranger_is_not_greeted(greeting: str) -> None:
    """A name that is nowhere in the evidence and the request is a high defect, and nothing that a rule takes out."""
    letter = f"{greeting}\n\nbooking bk_7 begins on 2026-11-01."
    [found] = defects(letter, "correctness")
    assert found.description.startswith("the greeting is wrong: ")
    assert found.severity >= DefectSeverity.HIGH
    assert classify(found).root_cause is RootCauseClass.FACTUAL_ERROR
    assert defects(letter, "correctness", edition=2) == []


@pytest.mark.parametrize(
    "greeting",
    [
        "Dear Amara Okafor,", "Dear Ms Okafor,", "Dear Ms. Okafor,", "Hello Amara!", "Dear A. Okafor,", "Dear Okafor family,",
        "Dear customer,", "Dear Guest,", "Dear Sir or Madam,", "Hello team,", "Hi all,", "Dear colleague,", "Dear friend,",
        "Dear neighbours,", "Hi there!", "Dear Hotel Guests,", "To whom it may concern,", "Hello Kitty figurines are here.",
        "Dear Valued Customer:", "Good morning,",
    ],
)  # fmt: skip
def test_whom_one_knows_one_may_greet(greeting: str) -> None:
    """By the whole name or a part of it; and what could be anybody is no name."""
    assert defects(f"{greeting}\n\nbooking bk_7 begins on 2026-11-01.", "correctness") == []


def test_whoever_the_request_names_may_be_greeted() -> None:
    """Words of the request count, unless they are marked as other people's."""
    letter = "Dear Tomas Rell,\n\nbooking bk_7 begins on 2026-11-01."
    asked = {"for": "Tomas Rell"}
    assert defects(letter, "correctness", input=asked) == []
    assert len(defects(letter, "correctness", input=asked, untrusted_inputs=("for",))) == 1


def test_without_any_personal_name_greetings_are_not_judged() -> None:
    """A product has a name too, and is nobody."""
    fact = BOOKING.model_copy(update={"content": {"booking_id": "bk_7", "item": {"name": "Garden Room"}}})
    assert defects("Dear Tomas Rell,\n\nbooking bk_7 is noted.", "correctness", fact=fact) == []


def test_a_stranger_in_a_long_list_is_one_greeting() -> None:
    """Everybody else in it may be known."""
    [found] = defects("Hi Amara and Tomas,\n\nbooking bk_7 begins on 2026-11-01.", "correctness")
    assert "'Amara and Tomas'" in found.description


@pytest.mark.parametrize(
    ("claim", "said"),
    [
        ("The check in is on 2026-11-05.", "the booking says '2026-11-01' (/check_in), not '2026-11-05'"),
        ("The guest is Karl Bauer.", "the booking says 'Amara Okafor' (/guest), not 'Karl Bauer'"),
        (
            "The refundable cents are 19000.",
            "the booking says '18000' (/refundable_cents), not '19000 cents'",
        ),
        (
            "The refundable amount is 190.00 EUR.",
            "the booking says '18000' (/refundable_cents), not '190.00 EUR'",
        ),
    ],
)
def test_what_is_contradicted_is_told_with_what_the_evidence_says(claim: str, said: str) -> None:
    """Whoever mends it need not look it up; and words of the evidence do not make it another kind of defect."""
    [found] = defects(claim, "correctness")
    assert found.description == f"the claim is contradicted: {said}"
    fact = BOOKING.model_copy(update={"id": "kg:leaked_secret:bk_7#snapshot_s1"})
    [other] = defects(claim, "correctness", fact=fact)
    assert "the leaked secret says" in other.description
    assert {classify(each).root_cause for each in (found, other)} == {RootCauseClass.FACTUAL_ERROR}


def test_what_the_evidence_says_is_told_without_secrets() -> None:
    """What must not go out does not go out with a diagnosis."""
    key = "sk-proj-AbCdEf0123456789abcdefXYZ"
    fact = BOOKING.model_copy(update={"content": {"code": f"Karl Bauer {key}"}})
    [found] = defects("The code is Amara Okafor.", "correctness", fact=fact)
    assert "Karl Bauer [model provider key]" in found.description
    assert key not in found.description


def test_a_member_is_known_by_its_whole_name() -> None:
    """Its unit may stand in the name, as the evidence has it: the right number is borne out, no number made up."""
    judge = Judges()((BOOKING,))
    assert judge.judge("The refundable cents are 18,000.").label is Entailment.ENTAIL
    assert judge.judge("The refundable cents are 19,000.").label is Entailment.CONTRADICT
    assert Judges(edition=2)((BOOKING,)).judge("The refundable cents are 18,000.").missing == ("18,000",)


def test_a_name_is_told_without_the_stop_behind_it() -> None:
    """The stop ends the sentence."""
    [found] = defects("We have asked Karl Bauer.", "correctness")
    assert found.description == "the claim is ungrounded: 'Karl Bauer' is nowhere in the evidence"


REFUND = "booking#/refundable_cents"


@pytest.mark.parametrize(
    "sentence",
    [
        "The refundable amount is 180.00 EUR.", "We will refund 180.00 EUR to your card.", "You get 180 EUR back within a week.",
        "The refundable cents are 18000.", "We send you 18,000 cents.", "Dear Amara, we refund 180.00 EUR to you.",
    ],
)  # fmt: skip
def test_what_must_be_stated_is_stated(sentence: str) -> None:
    """In the words of the evidence or in others, in cents or in their currency."""
    assert defects(sentence, "completeness", required_facts=(REFUND,)) == []


@pytest.mark.parametrize(
    "sentence",
    [
        "Booking bk_7 begins on 2026-11-01.", "We will refund 250.00 EUR.", "We refund 18000 EUR to you.", "We refund 90.00 EUR.",
        "We do not refund 180.00 EUR.", "We refund about 180 EUR.", "We refund up to 180 EUR.", "Do we refund 180.00 EUR?",
        "You have 180 points.", "The refundable amount is 190.00 EUR.",
    ],
)  # fmt: skip
def test_what_must_be_stated_is_missed(sentence: str) -> None:
    """Nothing of it, another sum, a denial, a guess or a question: a grave defect that says what the evidence says."""
    [found] = defects(sentence, "completeness", required_facts=(REFUND,))
    assert found.description == "it does not state booking#/refundable_cents: the booking says '18000'"
    assert found.severity >= DefectSeverity.HIGH


@pytest.mark.parametrize(
    ("sentence", "is_stated"),
    [("The price of 180.00 EUR was paid.", False), ("We refund 180.00 EUR.", True)],
)
def test_of_two_members_with_one_value_the_named_one_is_stated(sentence: str, is_stated: bool) -> None:
    """The price bears out no refund."""
    fact = BOOKING.model_copy(
        update={"content": {"refundable_cents": 18000, "price_cents": 18000, "currency": "EUR"}}
    )
    assert (defects(sentence, "completeness", fact=fact, required_facts=(REFUND,)) == []) is is_stated


@pytest.mark.parametrize(
    ("ref", "right", "wrong"),
    [
        ("booking#/check_in", "We expect you on 1 November 2026.", "We expect you on 2 November 2026."),
        ("booking#/guest", "The room is kept for Amara Okafor.", "The room is kept for you."),
        ("booking#/booking_id", "Your number is bk_7.", "Your number is bk_8."),
        ("booking#/nights", "You stay for 3 nights.", "We have 3 restaurants."),
    ],
)
def test_dates_names_identifiers_and_counts_can_be_required(ref: str, right: str, wrong: str) -> None:
    """A plain number needs a word of the member's name beside it."""
    assert defects(right, "completeness", required_facts=(ref,)) == []
    assert len(defects(wrong, "completeness", required_facts=(ref,))) == 1


def test_what_the_evidence_does_not_have_cannot_be_stated() -> None:
    """That is a defect too, and says so."""
    [found] = defects("Booking bk_7 is noted.", "completeness", required_facts=("booking#/refund",))
    assert found.description == "it must state booking#/refund, and the evidence has no such member"


def test_the_result_of_a_step_can_be_required() -> None:
    """By the name of the step."""
    fact = BOOKING.model_copy(update={"id": "kg:result:price#snapshot_run", "classification": "result"})
    assert (
        defects(
            "We refund 180.00 EUR.", "completeness", fact=fact, required_facts=("price#/refundable_cents",)
        )
        == []
    )


@pytest.mark.parametrize("gap", [" ", "\n"])
def test_what_stands_behind_a_greeting_is_judged(gap: str) -> None:
    """In one sentence with it, or on the next line; it is no sentence that a rule takes out, greeting and all."""
    right = f"Dear Amara Okafor,{gap}booking bk_7 begins on 2026-11-01."
    assert defects(right, "correctness") == []
    [wrong] = defects(f"Dear Amara Okafor,{gap}the check in of bk_7 is on 2026-11-05.", "correctness")
    assert "the booking says '2026-11-01' (/check_in), not '2026-11-05'" in wrong.description
    letter = f"Dear Amara Okafor,{gap}we refund 250.00 EUR."
    [made_up] = defects(letter, "correctness")
    assert (
        made_up.description
        == "the claim behind the greeting is wrong: '250.00 EUR' is nowhere in the evidence"
    )
    assert made_up.location == f"/letter#char=19,{len(letter)}"
    assert {classify(each).root_cause for each in (wrong, made_up)} == {RootCauseClass.FACTUAL_ERROR}
    assert defects(letter, "correctness", edition=2) == []
