"""Other people's words, made safe for a terminal."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tercet.view.terminal.text import count, json_text, printable


@given(st.text())
def test_printable_text_prints(text: str) -> None:
    """Whatever comes in, what comes out is one line without a single control code."""
    assert printable(text).isprintable()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("हिन्दी", "हिन्दी"),
        ("\x1b[2J", "\\x1b[2J"),
        ("\x9b2J", "\\x9b2J"),
        ("a\nb\r", "a\\nb\\r"),
        ("pay\u202egpj", "pay\\u202egpj"),
        ("\ud800", "\\ud800"),
        ("1\xa0000", "1 000"),
    ],
)
def test_what_does_not_print_becomes_visible(text: str, shown: str) -> None:
    """Escape codes, line breaks, bidirectional marks and surrogates are shown as what they are."""
    assert printable(text) == shown


def test_long_text_keeps_its_ends() -> None:
    """The middle of a long text is left out, not its end: that is often where the point is."""
    shown = printable("begin" + "x" * 10_000_000 + "end")
    assert len(shown) < 700
    assert shown.startswith("begin")
    assert shown.endswith("end")


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists, max_leaves=10))
def test_json_loses_nothing(value: object) -> None:
    """A JSON answer reads back as what went in, and no raw control code or unpaired surrogate is in it."""
    text = json_text(value)
    assert json.loads(text) == value
    assert text.encode()
    assert all(letter.isprintable() or letter == "\n" for letter in text if ord(letter) < 0xA0)


def test_numbers_agree_with_their_nouns() -> None:
    """One step, but two steps."""
    assert (count(1, "step"), count(2, "step"), count(10_000, "step")) == (
        "1 step",
        "2 steps",
        "10,000 steps",
    )


@pytest.mark.parametrize("letter", ["\ufe01", "\U000e0158", "\u3164", "\u2800", "\u034f"])
def test_a_text_that_prints_as_nothing_is_made_visible(letter: str) -> None:
    """A row of such letters can spell words that a planner reads and a person does not see; JSON keeps them as they were."""
    hidden = f"Looks.{letter * 3}"
    assert letter not in printable(hidden)
    shown = json_text(hidden)
    assert letter not in shown
    assert json.loads(shown) == hidden
