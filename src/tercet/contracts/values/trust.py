"""Scalars and their places, for comparison by value."""

from __future__ import annotations

from collections.abc import Sequence
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


def with_dotted(names: Sequence[str]) -> tuple[str, ...]:
    """Return the marked request fields, and for each dotted name also the JSON Pointer that it may mean."""
    dotted = (pointer.join(name.split(".")) for name in names if "." in name and not name.startswith("/"))
    return (*names, *dotted)


def input_marks(names: Sequence[str]) -> tuple[str, ...]:
    """Return the JSON Pointers of marked request fields."""
    return tuple(name if name.startswith("/") else f"/{name}" for name in names)
