"""Totals: what items come to, what counts beside them, and which number of a text is meant as one."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tercet.contracts.totals import amount_of, find_totals, totals_in, totals_of

D = Decimal


@pytest.mark.parametrize(
    ("item", "amount"),
    [
        ({"amount": 5, "name": "lamp"}, 5),
        ({"unit_price": 12.25, "quantity": 2}, "24.50"),
        ({"price": "3.10"}, "3.1"),
        ({"line_total": 9, "unit_price": 5, "quantity": 2}, 9),
        ({"price": 5, "quantity": 2, "discount": 1}, None),
        ({"price": 5, "cost": 4}, None),
        ({"price": True}, None),
        ({"name": "lamp"}, None),
        ({"price": "NaN"}, None),
    ],
)
def test_what_an_item_comes_to(item: dict[str, Any], amount: Any) -> None:
    """Its own amount, or its price as often as it is there; nothing where that is unsure."""
    assert amount_of(item) == (None if amount is None else D(str(amount)))


ITEMS = [{"amount": 10}, {"amount": 20}]


@pytest.mark.parametrize(
    ("beside", "right", "others"),
    [
        ({}, 30, ()),
        ({"tax": 3, "shipping_fee": 2}, 35, (30,)),
        ({"discount": 5}, 25, (30,)),
        ({"discount": -5}, 25, (30,)),
        ({"tax_rate": 0.2}, None, (30, 36)),
        ({"discount_percent": 10}, None, (30, 27)),
        ({"net": 25}, None, (30,)),
        ({"total": 29, "discount": 5}, 29, ()),
        ({"total": 29, "grand_total": 28}, 28, ()),
        ({"subtotal": 30, "amount_due": 31}, 31, ()),
        ({"total_items": 2}, 30, ()),
    ],
)
def test_what_may_be_called_the_total(
    beside: dict[str, Any], right: int | None, others: tuple[int, ...]
) -> None:
    """What is stated; else the items with what is charged beside them, where that is a plain number."""
    found = totals_of({"items": ITEMS, **beside})
    assert found is not None
    assert (found.right, found.others) == (right, others)


def test_the_totals_of_a_fact() -> None:
    """Of all that has items; without items what is stated, but not by the lines of a list."""
    assert totals_in([{"items": ITEMS}, {"lines": [{"amount": 1}]}]) == {D(30), D(1)}
    assert totals_in({"invoice": {"total": 12}, "rows": [{"total": 4}, {"name": "x"}]}) == {D(12)}
    assert totals_in({"rows": [{"total": 4}, {"total": 5}]}) == {D(9)}
    assert totals_in({"a": ITEMS, "b": ITEMS}) == set()
    assert totals_in("The total is 5.") == set()


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("The total is 80.00 EUR.", ["80.00"]),
        ("Total: EUR 1,080.00", ["1,080.00"]),
        ("The total of order ord_881 is 25,400 INR.", ["25,400"]),
        ("The total for the 3 items is $80.", ["80"]),
        ("Altogether it comes to 12 EUR.", ["12"]),
        ("In all, you pay 1.50.", ["1.50"]),
        ("The shipping total is 5 EUR.", []),
        ("The total weight is 5 kg.", []),
        ("Shipping comes to 5 EUR.", []),
        ("The total is known. We sold 5.", []),
        ("The total number of visitors is 5.", []),
    ],
)
def test_a_number_is_a_total_by_the_words_around_it(text: str, found: list[str]) -> None:
    """Plain words lead to it; with a word of its own it is the total of something else."""
    assert sorted({text[start:end] for start, end in find_totals(text)}) == found


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["total", "amount", "price", "quantity", "tax", "tax_rate", "items", "x"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(VALUES, st.text(max_size=60))
def test_nothing_is_too_odd_to_be_added_up(value: Any, text: str) -> None:
    """Any value and any text get an answer, and the numbers that are found are in the text."""
    assert all(total is None or total.is_finite() for total in totals_in(value))
    assert all(0 <= start < end <= len(text) for start, end in find_totals(text))
