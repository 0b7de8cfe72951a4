"""Places in an output, and the scalars that stand there.

/letter                     the member
/letter#char=10,24          its characters 10 up to 24
/odd#name#                  a member whose name has a `#` in it
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from tercet.contracts.shape import as_list, as_object
from tercet.contracts.values.references import Place
from tercet.quality.words import UNSPACED

_RANGE = re.compile(r"char=(\d{1,15}),(\d{1,15})")


class Location(NamedTuple):
    """A place in an output."""

    pointer: str = ""
    start: int | None = None
    end: int | None = None

    @property
    def is_range(self) -> bool:
        """Whether it is a part of a text."""
        return self.start is not None

    def __str__(self) -> str:
        if self.is_range:
            return f"{self.pointer}#char={self.start},{self.end}"
        return f"{self.pointer}#" if "#" in self.pointer else self.pointer


def parse_location(text: str) -> Location:
    """Return the place that a text names."""
    before, mark, after = text.rpartition("#")
    if mark and not after:
        return Location(before)
    match = _RANGE.fullmatch(after) if mark else None
    return Location(before, int(match[1]), int(match[2])) if match else Location(text)


_UNSPACED = re.compile(f"[{UNSPACED}]")
_LABELLED = re.compile(r"[^\s\d:：]{2}(?::\s+|：\s*).{0,40}\d")
"""Words with a figure, such as `Total: 74.00`."""


class Leaf(NamedTuple):
    """A scalar of the outputs with its place."""

    value: Any
    place: Place


def leaves(value: Any, place: Place = ()) -> Iterator[Leaf]:
    """Yield every scalar of a value, in its order."""
    if (members := as_object(value)) is not None:
        for key, member in members.items():
            yield from leaves(member, (*place, key))
    elif (items := as_list(value)) is not None:
        for index, item in enumerate(items):
            yield from leaves(item, (*place, index))
    else:
        yield Leaf(value, place)


def names(value: Any, place: Place = ()) -> Iterator[Leaf]:
    """Yield the name of every member of a value, with the place of that member."""
    if (members := as_object(value)) is not None:
        for key, member in members.items():
            yield Leaf(key, (*place, key))
            yield from names(member, (*place, key))
    for index, item in enumerate(as_list(value) or ()):
        yield from names(item, (*place, index))


def is_text(value: Any) -> bool:
    """Return whether a value is a text rather than a single value: it has sentences or lines, or a figure behind a colon."""
    if not isinstance(value, str):
        return False
    words = value.split()
    if len(_UNSPACED.findall(value)) > 8 or _LABELLED.search(value):
        return True
    return (
        "\n" in value.strip()
        or len(words) > 8
        or (len(words) > 2 and value.rstrip()[-1:] in tuple(".!?。！？।؟…"))
    )
