"""Scalars as they are compared, and marks on the places where they stand."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tercet.contracts.values import pointer
from tercet.contracts.values.references import Leaf
from tercet.contracts.values.trust import overlaps, scalar, scalars


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        (1, 1.0, True),
        (0, False, False),
        (1, True, False),
        (1.0, True, False),
        (True, True, True),
        ("1", 1, False),
        (None, False, False),
        (None, 0, False),
        ("", None, False),
        ("a", "a", True),
        ("A", "a", False),
        (0, -0.0, True),
    ],
)
def test_scalars_are_compared_as_json_has_them(first: Any, second: Any, same: bool) -> None:
    """Numbers compare by value, and a boolean is no number."""
    assert (scalar(first) == scalar(second)) is same
    assert (len({scalar(first), scalar(second)}) == 1) is same


def test_scalars_of_plain_data_are_found_with_their_places() -> None:
    """Nothing in plain data is a reference, and empty containers hold nothing."""
    value: Any = {"a": [1, {"$from": "s1"}], "b": {}, "c": [], "d": None}
    assert sorted(scalars(value), key=lambda leaf: str(leaf.place)) == [
        Leaf(1, ("a", 0)),
        Leaf("s1", ("a", 1, "$from")),
        Leaf(None, ("d",)),
    ]
    assert scalars(3) == [Leaf(3, ())]


def test_scalars_of_deep_data_need_no_recursion() -> None:
    """A value that nests deeper than Python's stack is walked as well."""
    value: Any = 1
    for _ in range(5_000):
        value = [value]
    assert len(scalars(value)[0].place) == 5_000


@pytest.mark.parametrize(
    ("mark", "place", "expected"),
    [
        ("/note", ("note",), True),
        ("/note", ("note", "text"), True),
        ("/note/text", ("note",), True),
        ("/note", (), True),
        ("/note", ("total",), False),
        ("/note", ("notes",), False),
        ("/items/*/text", ("items", 3, "text"), True),
        ("/items/*/text", ("items", 3, "sku"), False),
        ("/items/*/text", ("items",), True),
        ("/items/0", ("items", 0), True),
        ("/items/0", ("items", "0"), True),
        ("/items/0", ("items", 1), False),
        ("/a~1b", ("a/b",), True),
        ("", ("anything",), True),
        ("/*", ("anything", "at", "all"), True),
    ],
)
def test_a_mark_covers_what_it_names_and_all_around_it(
    mark: str, place: tuple[Any, ...], expected: bool
) -> None:
    """A mark and a place overlap if one is the other or lies inside it; * is any item."""
    assert overlaps(mark, place) is expected


tokens = st.lists(st.sampled_from(["a", "b", "0"]), max_size=4)


@settings(deadline=None, max_examples=100)
@given(tokens, tokens)
def test_overlap_is_being_on_one_way(first: list[str], second: list[str]) -> None:
    """Without *, two places overlap exactly if one begins with the other, whichever is the mark."""
    shorter = min(len(first), len(second))
    expected = first[:shorter] == second[:shorter]
    assert overlaps(pointer.join(first), second) is expected
    assert overlaps(pointer.join(second), first) is expected
