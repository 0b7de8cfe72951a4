"""Scalars and their places, for comparison by value."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

from tercet.contracts.shape import as_list, as_object
from tercet.contracts.values import pointer
from tercet.contracts.values.references import ANY_ITEM, Leaf, Place

Scalar: TypeAlias = Any
"""A scalar as it is compared: by value, except for booleans, since `True == 1` in Python but not in JSON."""


class _Boolean(NamedTuple):
    value: bool


_TRUE, _FALSE = _Boolean(value=True), _Boolean(value=False)


def scalar(value: Any) -> Scalar:
    """Return the key by which a scalar is compared."""
    if value is True or value is False:
        return _TRUE if value else _FALSE
    return value


def scalars(value: Any) -> list[Leaf]:
    """Return every scalar of plain data, with its place; nothing in it is read as a reference."""
    found: list[Leaf] = []
    stack: list[tuple[Any, Place]] = [(value, ())]
    while stack:
        item, place = stack.pop()
        if (members := as_object(item)) is not None:
            stack.extend((member, (*place, key)) for key, member in members.items())
        elif (items := as_list(item)) is not None:
            stack.extend((member, (*place, index)) for index, member in enumerate(items))
        else:
            found.append(Leaf(item, place))
    return found


def overlaps(mark: str, place: Sequence[str | int]) -> bool:
    """Return whether a marked pointer and a place overlap: one equals the other, or lies inside it.

    `*` matches any item in both: a selection reads a field of items that are not known yet.
    """
    for marked, token in zip(pointer.parts(mark), place, strict=False):
        if marked != ANY_ITEM and token != ANY_ITEM and marked != str(token):
            return False
    return True


def is_marked(marks: Sequence[str], place: Sequence[str | int], *, in_lists: bool = True) -> bool:
    """Return whether a place may hold text under one of the marks; the mark `*` covers every place.

    The shape of a value is its author's, so marks go through lists of any depth that they do not spell out, and an
    object may be where they expect a list. `in_lists` is false under the rules before
    `Behaviour.WIDTHS_ARE_NO_KINDS`.
    """
    covers = _reaches if in_lists else overlaps
    return any(mark == ANY_ITEM or covers(mark, place) for mark in marks)


def _reaches(mark: str, place: Sequence[str | int]) -> bool:
    marked = pointer.parts(mark)
    return _matches(marked, place) or _matches(marked, place, is_star_free=True)


def _matches(marked: Sequence[str], place: Sequence[str | int], *, is_star_free: bool = False) -> bool:
    """Return whether a mark and a place are on one way, if items that the mark does not name are left out.

    With `is_star_free`, a `*` need not be the first item that it meets: then the whole mark must be in the place.
    """
    reached = {0}
    """How many tokens of the mark each reading of the place has matched."""
    for token in place:
        if not is_star_free and not _is_item(token):
            reached |= {end for start in reached for end in _after_items(marked, start)}
        if len(marked) in reached:
            return True
        matched = {at + 1 for at in reached if ANY_ITEM in (marked[at], token) or marked[at] == str(token)}
        if _is_item(token):
            passing = (at for at in reached if not _is_item(marked[at]))
            stars = (at for at in reached if is_star_free and marked[at] == ANY_ITEM)
            matched.update(passing, stars)
        reached = matched
    return len(marked) in reached if is_star_free else bool(reached)


def _after_items(marked: Sequence[str], start: int) -> Iterator[int]:
    """Yield the positions behind each of the items that a mark names from a position on, before another token."""
    while start + 1 < len(marked) and _is_item(marked[start]):
        start += 1
        yield start


def _is_item(token: str | int) -> bool:
    return token == ANY_ITEM or str(token).isdecimal()


def with_dotted(names: Sequence[str]) -> tuple[str, ...]:
    """Return the marked request fields, and for each dotted name also the JSON Pointer that it may mean."""
    dotted = (pointer.join(name.split(".")) for name in names if "." in name and not name.startswith("/"))
    return (*names, *dotted)


def input_marks(names: Sequence[str]) -> tuple[str, ...]:
    """Return the JSON Pointers of marked request fields."""
    return tuple(name if name.startswith("/") else f"/{name}" for name in names)
