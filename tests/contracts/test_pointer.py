"""JSON Pointers, as RFC 6901 has them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tercet.contracts.values import pointer
from tercet.contracts.values.pointer import PointerError, follow

DOCUMENT: dict[str, Any] = {
    "foo": ["bar", "baz"],
    "": 0,
    "a/b": 1,
    "c%d": 2,
    "e^f": 3,
    "g|h": 4,
    "i\\j": 5,
    'k"l': 6,
    " ": 7,
    "m~n": 8,
}


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("", DOCUMENT),
        ("/foo", ["bar", "baz"]),
        ("/foo/0", "bar"),
        ("/", 0),
        ("/a~1b", 1),
        ("/c%d", 2),
        ("/e^f", 3),
        ("/g|h", 4),
        ("/i\\j", 5),
        ('/k"l', 6),
        ("/ ", 7),
        ("/m~0n", 8),
    ],
)
def test_the_examples_of_the_rfc(where: str, expected: Any) -> None:
    """The section on evaluation, line by line."""
    assert follow(DOCUMENT, where) == expected


def test_a_tilde_is_unescaped_once() -> None:
    """~01 is the key ~1, and not a slash."""
    assert follow({"~1": "tilde", "/": "slash"}, "/~01") == "tilde"


@pytest.mark.parametrize(
    "where",
    [
        "/none",
        "/foo/2",
        "/foo/-",
        "/foo/-1",
        "/foo/00",
        "/foo/01",
        "/foo/٠",
        "/foo/0/x",
        "/foo/1.0",
        f"/foo/{'9' * 5_000}",
    ],
    ids=lambda where: where[:12],
)
def test_a_pointer_that_leads_nowhere(where: str) -> None:
    """Missing keys, items beyond the end and numbers in other spellings all end in the same error."""
    with pytest.raises(PointerError):
        follow(DOCUMENT, where)


def test_a_pointer_begins_with_a_slash() -> None:
    """Anything else is no pointer, and the error shows it."""
    with pytest.raises(PointerError, match="begins with '/', not 'foo'"):
        pointer.parts("foo")


def test_a_key_that_is_a_number_is_a_key() -> None:
    """In an object, a number names a member."""
    assert follow({"0": "zero"}, "/0") == "zero"


@settings(deadline=None, max_examples=100)
@given(st.lists(st.text(max_size=5) | st.integers(0, 99), max_size=5))
def test_parts_undo_join(tokens: list[str | int]) -> None:
    """Whatever the tokens hold, joining and parting gives them back, and the pointer leads to the value."""
    assert pointer.parts(pointer.join(tokens)) == tuple(map(str, tokens))
    value: Any = "here"
    for token in reversed(tokens):
        value = {token: value} if isinstance(token, str) else [None] * token + [value]
    assert follow(value, pointer.join(tokens)) == "here"
