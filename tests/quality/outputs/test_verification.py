"""Verification of outputs: schema, what can be looked up, and what nothing vouches for."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from tercet.contracts.decision import DecisionSpec
from tercet.contracts.documents import KnownValue, ReadText
from tercet.contracts.loop import VerificationVerdict
from tercet.contracts.mode import Trust
from tercet.contracts.outputs.repair import SectionTemplate
from tercet.contracts.outputs.rubric import VerificationSettings
from tercet.contracts.values.pointer import follow
from tercet.locales import read_text
from tercet.quality.verification.authored import mark_authored, section_words
from tercet.quality.verification.places import Location, parse_location
from tercet.quality.verification.verification import verify_output

KNOWN = (
    KnownValue(
        name="order_total",
        value="24500",
        type="money",
        currency="INR",
        labels=("total",),
        pointer="kg:order:1#snapshot_s#/total",
        trust=Trust.TRUSTED,
    ),
    KnownValue(
        name="order_fee",
        value="300",
        type="money",
        currency="INR",
        labels=("fee",),
        pointer="kg:order:1#snapshot_s#/fee",
        trust=Trust.TRUSTED,
    ),
    KnownValue(
        name="rumour", value="77", type="count", labels=("rumour",), pointer="kg:mail:1#snapshot_s#/n"
    ),
)
SCHEMA = {
    "type": "object",
    "properties": {"letter": {"type": "string"}, "lines": {"type": "array", "items": {"type": "integer"}}},
    "additionalProperties": False,
}
GOOD = "The total of the order is 24,500 INR."
BAD = "The total of the order is 25,400 INR."


def spec(**quality: Any) -> DecisionSpec:
    """A decision whose letters are judged by these rules."""
    return DecisionSpec.model_validate(
        {"id": "letter", "required_outputs": ("letter",), "outputs_schema": SCHEMA, "quality": quality}
    )


def read(letter: str, author: str = "agent", place: str = "/letter") -> ReadText:
    """A letter as it is rendered and read."""
    return read_text(place, letter, KNOWN, "en", {}, author)  # pyright: ignore[reportArgumentType] - one of two words


def verify(letter: str, author: str = "agent", **quality: Any) -> VerificationVerdict:
    """The verdict on a letter."""
    found = read(letter, author)
    return verify_output(spec(**quality), {"letter": found.text}, [found], KNOWN)


@pytest.mark.req("R164", "R168")
@pytest.mark.parametrize(
    ("outputs", "pointer", "keyword"),
    [
        ({"letter": 5}, "/letter", "type"),
        ({"letter": GOOD, "lines": [1, "2"]}, "/lines/1", "type"),
        ({"letter": GOOD, "sent": True}, "", "additionalProperties"),
        ({}, "/letter", "required"),
    ],
)
def test_a_broken_schema_is_a_hard_failure(outputs: dict[str, Any], pointer: str, keyword: str) -> None:
    """The score is 0, the fault is named with its place, and nothing else is looked at."""
    verdict = verify_output(spec(), outputs, [read(GOOD)], KNOWN)
    assert (verdict.passed, verdict.schema_valid, verdict.score) == (False, False, 0.0)
    assert (verdict.semantic, verdict.factual, verdict.tokens, verdict.unjudged) == (None, None, (), ())
    assert (verdict.schema_faults[0].pointer, verdict.schema_faults[0].keyword) == (pointer, keyword)


@pytest.mark.req("R164", "R166", "R167", "R168")
@pytest.mark.parametrize(
    ("letter", "v_sem", "v_fact", "score", "passed"),
    [
        (GOOD, 1.0, 1.0, 1.0, True),
        (BAD, 0.0, 0.0, 0.0, False),
        ("The rumour is 77.", 1.0, 0.0, 0.5, False),
        (f"{GOOD} The rumour is 77.", 1.0, 0.5, 0.75, False),
        ("It was a pleasure.", None, None, 1.0, True),
    ],
)
def test_the_scores(
    letter: str, v_sem: float | None, v_fact: float | None, score: float, passed: bool
) -> None:
    """V_sem counts values that are known, V_fact those that a trusted source has in their role; no value is no measure."""
    verdict = verify(letter)
    assert (verdict.semantic, verdict.factual, verdict.score, verdict.passed) == (
        v_sem,
        v_fact,
        score,
        passed,
    )


@pytest.mark.req("R166")
def test_a_refused_value_is_told_with_its_place() -> None:
    """The location leads to the words, and the failure names the status."""
    verdict = verify(BAD)
    (token,) = verdict.tokens
    place = parse_location(token.location)
    assert BAD[place.start : place.end] == token.token.text == "25,400 INR"
    assert (token.status, token.slot) == ("unknown", "order_total")
    assert verdict.failures == (f"{token.location}: '25,400 INR' is unknown",)


@pytest.mark.parametrize(
    ("value", "shown", "place", "slot"),
    [
        ("the total is 25,400 INR", "the total is 25,400 INR", "/letter#char=13,23", "order_total"),
        ("25,400 INR, the fee", "25,400 INR, the fee", "/letter#char=0,10", ""),
        ("25400.5", "the total is 25,400.50 INR", "/letter", ""),
    ],
)
def test_a_value_that_is_read_behind_its_name_is_replaced_where_it_stands(
    value: str, shown: str, place: str, slot: str
) -> None:
    """The words around it stay, and nothing is replaced in a number that is written otherwise."""
    verdict = verify_output(spec(), {"letter": value}, [read(f"letter: {shown}")], KNOWN)
    assert [(each.location, each.slot) for each in verdict.tokens] == [(place, slot)]


@pytest.mark.req("R168")
def test_the_weights_are_those_that_were_set() -> None:
    """They sum to one."""
    weights = {"semantic_weight": 0.25, "factual_weight": 0.75, "threshold": 0.2}
    verdict = verify("The rumour is 77.", verification=weights)
    assert (verdict.score, verdict.threshold) == (0.25, 0.2)
    with pytest.raises(ValidationError, match="sum to 1"):
        VerificationSettings(semantic_weight=0.5, factual_weight=0.4)


@pytest.mark.parametrize(
    ("text", "author", "unjudged"),
    [
        (GOOD, "agent", ["free"]),
        ("The total of the order is {{ order_total }}.", "agent", ["free"]),
        ("The total of the order is {{ order_total }}.", "pack", []),
        ("{{ order_total }}", "agent", []),
        ("It was a pleasure.", "agent", ["free"]),
        ("Vielen Dank für Ihre Bestellung, die wir gerne für Sie versenden.", "agent", ["language"]),
        ("...", "agent", ["empty"]),
    ],
)
def test_words_are_vouched_for_by_the_author_and_values_by_their_slots(
    text: str, author: str, unjudged: list[str]
) -> None:
    """Nothing else that is deterministic vouches for a word; what says nothing at all is not perfect either."""
    verdict = verify(text, author)
    assert [each.reason for each in verdict.unjudged] == unjudged


def test_tests_vouch_only_for_what_they_were_declared_for() -> None:
    """What is executed is not looked up, and is unjudged until its tests have passed."""
    code = read("return 41", place="/letter")
    ran = verify_output(spec(), {"letter": "return 41"}, [code], KNOWN, executed=["/letter"])
    assert (ran.tokens, [each.location for each in ran.unjudged]) == ((), ["/letter"])
    passed = verify_output(
        spec(), {"letter": "return 41"}, [code], KNOWN, executed=["/letter"], passed=["/letter"]
    )
    assert passed.unjudged == ()


@pytest.mark.parametrize(
    ("letter", "missing"),
    [
        (f"{GOOD}\n\n## Returns\n\nWithin a month.", []),
        (f"{GOOD}\n\n## Returns\n", ["empty_section"]),
        (GOOD, ["section"]),
        ("Thank you.\n\n## Returns\n\nWithin a month.", ["value"]),
        ("{{ order_totale }}\n\n## Returns\n\nSoon.", ["slot", "value"]),
    ],
)
def test_what_is_missing_is_told(letter: str, missing: list[str]) -> None:
    """Required values, absent and empty sections, and slots that name nothing."""
    verdict = verify(letter, required_values=["order_total"], required_sections=["Returns"])
    assert [each.kind for each in verdict.missing] == missing
    assert verdict.passed is (not missing)


@pytest.mark.parametrize("slot", ["{{ order_totale }}", "{{ order_total | days }}"])
def test_a_slot_that_cannot_be_filled_is_told_as_it_is_written(slot: str) -> None:
    """Its author finds it by its own text."""
    (failure,) = verify(f"The total is {slot}.").failures
    assert f": {slot}: " in failure


SECTION = SectionTemplate(heading="Returns", text="Within 30 days, for {{ order_total }}.")


def test_a_section_of_the_pack_is_the_authors_in_any_letter() -> None:
    """Its words are not looked up, whole as they are declared; what stands in its slots is."""
    whole = mark_authored(read(f"{GOOD}\n\n{section_words(SECTION)}\nBye."), [SECTION])
    sources = {whole.text[each.start : each.end]: each.source for each in whole.pieces}
    assert sources["₹24,500.00"] == "bound"
    assert sources["## Returns\n\nWithin 30 days, for "] == "authored"
    assert "".join(whole.text[each.start : each.end] for each in whole.pieces) == whole.text
    verdict = verify_output(spec(), {"letter": whole.text}, [whole], KNOWN)
    assert {each.status for each in verdict.tokens} == {"found", "bound"}
    assert verdict.unjudged[0].location == "/letter"  # GOOD is no one's
    changed = section_words(SECTION).replace("30", "90")
    assert mark_authored(read(changed), [SECTION]).pieces == read(changed).pieces


@pytest.mark.parametrize(
    "written",
    [
        "Within 30 days, for {{ order_total }}.",
        "Within 30 days, for {{ order_total | money }}.\n",
    ],
)
def test_a_section_with_its_own_slots_vouches_for_itself(written: str) -> None:
    found = mark_authored(read(f"## Returns\n\n{written}"), [SECTION])
    assert verify_output(spec(), {"letter": found.text}, [found], KNOWN).unjudged == ()


@pytest.mark.parametrize(
    "written",
    [
        "Within 30 days, for {{ order_fee }}.",
        "Within 30 days, for ₹24,500.00.",
        "Within 30 days, for  .",
        "Within 30 days, for {{ order_total }} .",
        "Within 30 days, for ₹24,500.",
        "Within 30 days, for {{ order_total }}{{ order_total }}.",
        "Within 30 days, for -{{ order_total }}.",
        "Within 30 days, for {{ order_total }}. Not.",
        "Within 30 days, for {{ order_total }}.\n\n{{ order_fee }}",
        "Within 30 days, for {{ order_total }}.\n❌",
    ],
)
def test_a_section_with_anything_else_in_its_place_is_free_text(written: str) -> None:
    """Its words do not vouch for another value, however it came there."""
    found = mark_authored(read(f"## Returns\n\n{written}"), [SECTION])
    assert verify_output(spec(), {"letter": found.text}, [found], KNOWN).unjudged != ()


def test_words_in_the_place_of_a_slot_are_free_text_in_a_section_of_the_author() -> None:
    found = mark_authored(read("## Returns\n\nWithin 30 days, for 24,500 INR."), [SECTION])
    sources = [(found.text[each.start : each.end], each.source) for each in found.pieces]
    assert sources[1:] == [("24,500 INR", "free"), (".", "authored")]


def test_a_section_with_a_slot_that_is_written_wrongly_is_free_text() -> None:
    wrong = SectionTemplate(heading="Returns", text="Within 30 days, for {{ order_total.")
    found = mark_authored(read(section_words(wrong)), [wrong])
    assert verify_output(spec(), {"letter": found.text}, [found], KNOWN).unjudged != ()


@pytest.mark.parametrize(
    "letter",
    [
        *(f"{sign}{{{{ order_total }}}}\n" for sign in "-❌⁻(➖¬~🅽⠝°\u0336\u200b*>"),
        *(f"{{{{ order_total }}}}{sign}\n" for sign in (")", " 👎", "²", "?", "\u0338", "-", "~~")),
        "{{ order_total }}{{ order_fee }}",
        "{{ order_total }} {{ order_fee }}",
        "{{ order_total }}\n{{ order_fee }}",
        "{{ order_total }}\n\n{{ order_total }}",
    ],
)
def test_signs_and_the_order_of_slots_say_something(letter: str) -> None:
    """Only one value alone says nothing but itself."""
    assert [each.location for each in verify(letter).unjudged] == ["/letter"]


def test_what_a_template_has_beside_its_values_is_its_authors() -> None:
    verdict = verify("-{{ order_total }}{{ order_fee }} 👎", author="pack")
    assert (verdict.unjudged, {each.status for each in verdict.tokens}) == ((), {"bound"})
    assert verify("{{ order_total }}\n").unjudged == ()


@pytest.mark.parametrize("gap", ["", " ", "\xa0", ",", ".", "×", "/"])
def test_two_values_beside_each_other_are_not_read_as_a_third(gap: str) -> None:
    """14 and 2 are not 142, 14.2 or 28."""
    counts = [
        KnownValue(name=name, value=value, type="count", pointer=f"kg:rx:1#s#/{name}", trust=Trust.TRUSTED)
        for name, value in (("days", "14"), ("times", "2"))
    ]
    found = read_text("/letter", f"{{{{ days }}}}{gap}{{{{ times }}}}\n", counts, "en", {}, "agent")
    verdict = verify_output(spec(), {"letter": found.text}, [found], counts)
    assert verdict.unjudged != ()
    is_whole = any(each.token.text == found.text.strip() for each in verdict.tokens)
    assert not is_whole or {each.status for each in verdict.tokens} != {"bound"}


POINTERS = st.text(max_size=12).map(lambda text: f"/{text.replace('~', '~0').replace('/', '~1')}")
SPANS = st.none() | st.tuples(st.integers(0, 99), st.integers(100, 999))


@given(POINTERS, SPANS)
def test_a_location_survives_being_written(pointer: str, span: tuple[int, int] | None) -> None:
    """Whatever a member is called."""
    place = Location(pointer, *(span or ()))
    assert parse_location(str(place)) == place
    follow({}, "")
