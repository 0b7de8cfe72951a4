"""Lines that go on in the next one, and lines that do not."""

from __future__ import annotations

import pytest

from tercet.contracts.prose import goes_on


@pytest.mark.parametrize(
    ("before", "after", "is_one"),
    [
        ("the lamp was shipped", "on 4 May", True),
        ("the lamp that you have bought from us was shipped on", "4 May and comes soon", True),
        ("Total: 74.00 EUR", "Paid: 10.00 EUR", False),
        ("It was shipped.", "then it came", False),
        ("Dear Ms. Okafor:", "thank you", False),
        ("the lamp that you have bought from us and also the shade", "- an item", False),
        ("# A heading that is rather long and has no stop at its end", "Words", False),
        ("", "words", False),
        ("words", "", False),
    ],
)
def test_a_line_goes_on_in_the_next(before: str, after: str, *, is_one: bool) -> None:
    """Where no stop ends it, and the next begins small or it was broken for its length."""
    text = f"{before}\n{after}"
    assert goes_on(text, len(before)) is is_one
    assert goes_on(f"First.\n{text}\nlast", len(before) + 7) is is_one
