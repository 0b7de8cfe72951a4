"""Scalars and the places they stand in, for comparing values by what they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from tercet.contracts import pointer
from tercet.contracts.references import Leaf, Place
from tercet.contracts.shape import as_list, as_object

Scalar: TypeAlias = tuple[bool, Any]
"""A value with whether it is a boolean: JSON tells `true` from `1`, and Python does not. Numbers compare by value."""

ANY_ITEM = "*"


def scalar(value: Any) -> Scalar:
    """The key under which a scalar is compared."""
    return (isinstance(value, bool), value)


def scalars(value: Any) -> list[Leaf]:
    """Every scalar of plain data, with its place; nothing in it is taken for a reference."""
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
    """Whether a marked pointer and a place have anything in common: one is the other, or lies inside it."""
    marked = pointer.parts(mark)
    return all(m in (ANY_ITEM, str(p)) for m, p in zip(marked, place, strict=False))
