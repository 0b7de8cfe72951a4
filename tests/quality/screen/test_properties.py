"""What holds for every value, locale and disguise."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from tercet.contracts.documents import KnownValue, TokenVerdict
from tercet.contracts.mode import Trust
from tercet.locales import read_text
from tercet.locales.formats import format_value
from tercet.quality.screen import screen

from .scenarios import LANGUAGES, UNITS, screened

LABELS = {"en": "deposit", "de": "Anzahlung", "fr": "acompte", "es": "depósito", "ru": "залог"}
LOCALES = ("en", "en_GB", "en_IN", "de", "de_CH", "fr", "fr_CA", "es", "es_MX", "ru")
HIDDEN = "\u00ad\u200b\u200c\u200d\u2060\ufeff\u202a\u202e\u2066\u200f\ufe0f\u0332"
NUMBERS = st.decimals(Decimal(0), Decimal(9999999), places=2).map(lambda number: f"{number:f}")
WHOLE = st.integers(0, 10**7).map(str)
DATES = st.dates(date(1990, 1, 1), date(2060, 12, 31)).map(str)
# No part of an identifier may be a word for something else: `1 kg` is an amount.
IDENTIFIERS = st.from_regex(r"[BCDFG][HJKLM][NPQRS]-[1-9][0-9]{3,6}", fullmatch=True)


@st.composite
def known(draw: st.DrawFn) -> tuple[KnownValue, str]:
    """A value of any scalar type that a text may state, and a locale."""
    locale = draw(st.sampled_from(LOCALES))
    kind, unit, currency, values = draw(
        st.sampled_from(
            [
                ("money", "", "EUR", NUMBERS),
                ("money", "", "USD", NUMBERS),
                ("money", "", "INR", NUMBERS),
                ("count", "day", "", WHOLE),
                ("count", "kilogram", "", NUMBERS),
                ("count", "times_per_day", "", WHOLE),
                ("count", "", "", WHOLE),
                ("number", "", "", NUMBERS),
                ("percent", "", "", NUMBERS),
                ("date", "", "", DATES),
                ("identifier", "", "", IDENTIFIERS),
                ("name", "", "", st.sampled_from(["Anna Rao", "José Ñúñez", "Zoë van Dyk"])),
            ]
        )
    )
    fields = {"type": kind, "unit": unit, "currency": currency, "value": draw(values)}
    labels = (LABELS[locale.partition("_")[0]],)
    return KnownValue.model_validate(
        {**fields, "name": "v", "labels": labels, "pointer": "e#/v", "trust": Trust.TRUSTED}
    ), locale


def _verdicts(text: str, value: KnownValue, locale: str) -> tuple[TokenVerdict, ...]:
    return screen(read_text("/t", text, [value], locale, UNITS, "agent"), [value])


FOUR_EUROS = KnownValue(
    name="v",
    value="4.01",
    type="money",
    currency="EUR",
    labels=("deposit",),
    pointer="e#/v",
    trust=Trust.TRUSTED,
)
"""At the end of a sentence, €4.01 looks like a date."""


@given(known())
@example((FOUR_EUROS, "en"))
def test_a_rendered_slot_is_bound(given: tuple[KnownValue, str]) -> None:
    value, locale = given
    verdicts = _verdicts(f"{value.labels[0]}: {{{{ v }}}}.", value, locale)
    assert [verdict.status for verdict in verdicts] == ["bound"]


@given(known())
def test_the_same_text_beside_its_label_is_found(given: tuple[KnownValue, str]) -> None:
    value, locale = given
    verdicts = _verdicts(f"{value.labels[0]}: {format_value(value, locale, UNITS)}", value, locale)
    assert [verdict.status for verdict in verdicts] == ["found"]


@given(known())
def test_without_its_label_it_is_elsewhere(given: tuple[KnownValue, str]) -> None:
    value, locale = given
    # A unit of the pack names its value, and a listed name needs no label.
    assume(value.unit != "times_per_day" and value.type != "name")
    verdicts = _verdicts(f"xyz: {format_value(value, locale, UNITS)}", value, locale)
    assert [verdict.status for verdict in verdicts] == ["elsewhere"]


@given(known(), st.data())
def test_a_changed_digit_is_never_found(given: tuple[KnownValue, str], data: st.DataObject) -> None:
    value, locale = given
    text = format_value(value, locale, UNITS)
    places = [at for at, char in enumerate(text) if char.isdigit()]
    assume(places)
    place = data.draw(st.sampled_from(places))
    digit = data.draw(st.sampled_from([each for each in "0123456789" if each != text[place]]))
    verdicts = _verdicts(f"{value.labels[0]}: {text[:place]}{digit}{text[place + 1 :]}", value, locale)
    assert verdicts
    assert not [verdict for verdict in verdicts if verdict.status == "found"]


@given(known(), st.sampled_from("٠०๐０𝟎৪"[:5]))
def test_digits_of_any_script_are_equal(given: tuple[KnownValue, str], zero: str) -> None:
    value, locale = given
    text = format_value(value, locale, UNITS)
    other = "".join(chr(ord(zero) + int(char)) if char.isdigit() else char for char in text)
    verdicts = _verdicts(f"{value.labels[0]}: {other}", value, locale)
    assert [verdict.status for verdict in verdicts] == ["found"]


TEXTS = {
    "en": "Dear Ms Rao, the total is 74 EUR, the discount 74 EUR; two reminders, order ORD-882, due 18 May 2026, 99 days.",
    "de": "Frau Rao, der Gesamtbetrag ist 74,00 €, der Rabatt 74 €; zwei Mahnungen, Bestellung ORD-882, fällig 18. Mai.",
    "fr": "Madame Rao, le total est de 74 €, remise 74 € ; commande ORD-882, échéance 18 mai 2026, quinze jours.",
    "es": "Señora Rao, el total es de 74 €, descuento 74 €; pedido ORD-882, vence el 18 de mayo de 2026, 99 días.",
    "ru": "Госпожа Rao, сумма 74 €, скидка 74 €; заказ ORD-882, оплатить до 18 мая 2026 г., 99 дней.",
}


@given(
    st.sampled_from(LANGUAGES), st.lists(st.tuples(st.integers(0, 120), st.sampled_from(HIDDEN)), max_size=12)
)
def test_hidden_characters_never_change_a_verdict(language: str, hidden: list[tuple[int, str]]) -> None:
    text = TEXTS[language]
    shown = [
        (verdict.token.value, verdict.token.unit, verdict.status) for verdict in screened(text, language)
    ]
    assert {status for _, _, status in shown} > {"found"}
    for place, char in hidden:
        text = text[:place] + char + text[place:]
    disguised = [
        (verdict.token.value, verdict.token.unit, verdict.status) for verdict in screened(text, language)
    ]
    assert disguised == shown


@given(st.text(max_size=300), st.sampled_from(LANGUAGES))
def test_any_text_can_be_read_and_its_tokens_lie_in_order(text: str, language: str) -> None:
    read = read_text("/t", text, [], language, UNITS, "agent")
    assert all(token.text == read.text[token.start : token.end] != "" for token in read.tokens)
    ends = [place for token in read.tokens for place in (token.start, token.end)]
    assert ends == sorted(ends)
    assert all(verdict.status == "unknown" for verdict in screen(read, []))


@pytest.mark.parametrize("zero", ["\uff10", "\u0660", "\u0966", "\U0001d7ce", "\U0001d7d8"])
def test_every_digit_in_a_text_is_a_part_of_a_token(zero: str) -> None:
    text = "".join(chr(ord(zero) + digit) for digit in (9, 1))
    assert [verdict.status for verdict in screened(f"Pay {text} now", "en")] == ["unknown"]
