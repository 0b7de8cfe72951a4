"""Sets of statements as whole numbers: bit `i` stands for statement `i`.

A claim is about few of the statements of a large evidence. Which ones, is said by unions and intersections of such sets;
they take as long as copying a few hundred bytes, however many statements there are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator


def mask_of(positions: Iterable[int], size: int) -> int:
    """The set of these statements, out of `size`."""
    marked = bytearray(size // 8 + 1)
    for at in positions:
        marked[at >> 3] |= 1 << (at & 7)
    return int.from_bytes(marked, "little")


def members(mask: int) -> Iterator[int]:
    """The statements of a set, in their order."""
    shown = bin(mask)[:1:-1]
    at = shown.find("1")
    while at >= 0:
        yield at
        at = shown.find("1", at + 1)


def first(mask: int) -> int:
    """The first statement of a set that has one."""
    return (mask & -mask).bit_length() - 1


def last(mask: int) -> int:
    """The last statement of a set that has one."""
    return mask.bit_length() - 1


class Tally:
    """In how many of some sets each statement is: a binary number for each, of which a set holds one digit."""

    def __init__(self, sets: Iterable[int]) -> None:
        self._digits: list[int] = []
        self.most = 0
        """How many sets there are."""
        for each in sets:
            self.most += 1
            self._add(each)

    def _add(self, carried: int) -> None:
        for place, digit in enumerate(self._digits):
            self._digits[place], carried = digit ^ carried, digit & carried
        if carried:
            self._digits.append(carried)

    def equal(self, count: int, within: int) -> int:
        """Those of a set that are in just so many of the sets."""
        if count >> len(self._digits):
            return 0
        for place, digit in enumerate(self._digits):
            within &= digit if count >> place & 1 else ~digit
        return within

    def at_least(self, count: int, within: int) -> int:
        """Those of a set that are in so many of the sets, or in more."""
        if count >> len(self._digits):
            return 0
        more, even = 0, within
        for place in reversed(range(len(self._digits))):
            digit = self._digits[place]
            if not count >> place & 1:
                more |= even & digit
                even &= ~digit
            else:
                even &= digit
        return more | even

    def descend(self, within: int) -> Iterator[tuple[int, int]]:
        """The counts that occur in a set, the highest first, each with those that have it."""
        for count in range(self.most, -1, -1):
            if not within:
                return
            if having := self.equal(count, within):
                within &= ~having
                yield count, having
