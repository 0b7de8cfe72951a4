"""Lines on a terminal: each letter of braille is a grid of two by four dots."""

from __future__ import annotations

_EMPTY = 0x2800
# The dots of a braille letter are numbered down its left column, then down its right one; the lowest row came later.
_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))


class Canvas:
    """A grid of dots, so many letters wide and high; what lies outside is not drawn."""

    def __init__(self, *, columns: int, rows: int) -> None:
        self.columns = columns
        self.rows = rows
        self._cells = [[0] * columns for _ in range(rows)]

    @property
    def width(self) -> int:
        """How many dots it is wide."""
        return self.columns * 2

    @property
    def height(self) -> int:
        """How many dots it is high."""
        return self.rows * 4

    def dot(self, x: int, y: int) -> None:
        """Sets a dot; the first one is at the top left."""
        if 0 <= x < self.width and 0 <= y < self.height:
            self._cells[y // 4][x // 2] |= _DOTS[y % 4][x % 2]

    def line(self, start: tuple[int, int], end: tuple[int, int]) -> None:
        """Sets the dots of a straight line."""
        (x0, y0), (x1, y1) = start, end
        steps = max(abs(x1 - x0), abs(y1 - y0), 1)
        for number in range(steps + 1):
            self.dot(round(x0 + (x1 - x0) * number / steps), round(y0 + (y1 - y0) * number / steps))

    def letter(self, row: int, column: int) -> str:
        """The letter at a place; a blank where nothing is set."""
        dots = self._cells[row][column]
        return chr(_EMPTY | dots) if dots else " "
