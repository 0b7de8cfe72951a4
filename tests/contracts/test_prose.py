"""Words and numbers as people write them."""

from __future__ import annotations

from decimal import Decimal

import pytest

from tercet.contracts.text.words import is_blank, is_only_headings, key_words, to_decimal


@pytest.mark.parametrize(
    ("name", "words"),
    [("price_eur", ("price", "eur")), ("priceEur", ("price", "eur")), ("IBAN", ("iban",)), ("", ())],
)
def test_the_words_of_a_name(name: str, words: tuple[str, ...]) -> None:
    """However they are joined."""
    assert key_words(name) == words


@pytest.mark.parametrize(
    ("value", "number"),
    [("12.50", Decimal("12.50")), (3, Decimal(3)), (True, None), ("1,5", None), (None, None), ("NaN", None)],
)
def test_a_number_is_read_as_it_is_written(value: object, number: Decimal | None) -> None:
    """Nothing else is one."""
    assert to_decimal(value) == number


@pytest.mark.parametrize(
    ("text", "blank", "bare"), [("...", True, True), ("# A\n", False, True), ("a", False, False)]
)
def test_what_says_nothing(text: str, *, blank: bool, bare: bool) -> None:
    """Marks alone, or headings alone."""
    assert (is_blank(text), is_only_headings(text)) == (blank, bare)
