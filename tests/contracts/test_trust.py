"""Scalars as they are compared, and marks on the places where they stand."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tercet.contracts.values import pointer
from tercet.contracts.values.references import Leaf
from tercet.contracts.values.trust import is_marked, overlaps, scalar, scalars


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


@pytest.mark.parametrize(
    ("mark", "place", "expected"),
    [
        ("/order/note", ("order", 0, "note"), True),
        ("/order/note", ("order", 0, 1, "note", "text"), True),
        ("/order/note", ("order", "0", "note"), True),
        ("/order/note", ("order", "*", "note"), True),
        ("/order/note", ("order", 0), True),
        ("/order/note", ("order", 0, "total"), False),
        ("/order/note", ("order", 0, "line", "note"), False),
        ("/order/note", ("other", 0, "note"), False),
        ("/note", (0, "note"), True),
        ("/note", (0, 0, "total"), False),
        ("/order/*/note", ("order", 0, 1, "note"), True),
        ("/order/*/note", ("order", "a", "note"), True),
        ("/order/*/note", ("order", "note", "text"), True),
        ("/order/*/note", ("order", 0, "total"), False),
        ("/order/*/note", ("order", 0, 0, "total"), False),
        ("/order/*/note", ("order", 0, "a", "note"), True),
        ("/order/0/note", ("order", 0, 0, "note"), True),
        ("/order/0/note", ("order", "note", "text"), True),
        ("/order/0/note", ("order", 1, "note"), False),
        ("/order/0", ("order", 1), False),
        ("/order/0", ("order", "total"), False),
        ("*", ("order", 3), True),
        ("", ("order", 3), True),
    ],
)
def test_a_mark_goes_through_lists_that_it_does_not_spell_out(
    mark: str, place: tuple[Any, ...], expected: bool
) -> None:
    """Who sends a value chooses its shape, and a list around an object takes no mark off it."""
    assert is_marked(("/other/thing", mark), place) is expected
    assert not is_marked((), place)


@settings(deadline=None, max_examples=100)
@given(tokens, st.lists(st.sampled_from(["a", "b", 0, 1]), max_size=4))
def test_lists_only_add_to_what_a_mark_covers(mark: list[str], place: list[Any]) -> None:
    """What the earlier rules cover is covered, and stays so with a list around any part of it."""
    where = pointer.join(mark)
    assert is_marked((where,), place, in_lists=False) is overlaps(where, place)
    if overlaps(where, place):
        for at in range(len(place) + 1):
            assert is_marked((where,), [*place[:at], 0, *place[at:]])


def test_a_mark_of_many_stars_is_compared_with_a_deep_place_at_once() -> None:
    """The work grows with the length of both, and not with the ways to lay one on the other."""
    assert not is_marked(("/*" * 30 + "/note",), (*[0] * 60, "a", "b", *["total"] * 40))
