"""Places in an output: a JSON Pointer, and a range of characters where the place is a part of a text.

/letter                     the member
/letter#char=10,24          its characters 10 up to 24
/odd#name#                  a member whose name has a `#` in it
"""

from __future__ import annotations

import re
from typing import NamedTuple

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
