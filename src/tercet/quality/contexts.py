"""The parts of a text in which a label names a value: sentences, list items, table cells, lines."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Collection, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from tercet.quality.words import words_of

Range = tuple[int, int]

_ITEM = re.compile(r"\s*(?:[-*+•–]|\d{1,3}[.)])\s+")
_TITLE = re.compile(r"\s*(?:#{1,6}\s+.*|(?:\*\*|__)[^*_]+(?:\*\*|__):?\s*)")
_FIELD = re.compile(r"\s*[*_]{0,2}[^\W\d][^:：.!?,;\n]{1,40}[:：][*_]{0,2}[ \t]+\S[^\n]{0,60}$")
"""A line that is a name and a value."""
_LED = re.compile(r"\s*[^\W\d_][^\n]{0,60}?(?:\.(?:[ \xa0]?\.){3,}|…{2,}|[·_]{4,})[^\n]{0,60}")
"""A line with dots between a name and its value."""
_INTRODUCES = re.compile(r"^\s*#|(?::|\*\*|__)\s*$", re.MULTILINE)
_RULE = re.compile(r"[\s|:=-]*-[\s|:=-]*")
_STOP = re.compile(r"[.!?…]+[\"'»”’)\]*_]*\s+(?=[^\sa-zа-яà-ÿ])")
_ABBREVIATED = re.compile(r"(?:^|[^\w])[^\W\d_]{1,3}$|(?:^|[^\w])[^\W\d_]{1,8}-[^\W\d_]{1,4}$")

_LONGEST_WORD = 40


class Segment(NamedTuple):
    """A part of a text, and the parts that say what it is about: its row, its column heading, the line before it."""

    start: int
    end: int
    row: tuple[Range, ...] = ()
    column: Range | None = None
    lead: Range | None = None
    line: Range | None = None
    """Of a cell: where its table and its row begin."""


class _Line(NamedTuple):
    start: int
    end: int
    text: str


class Segments:
    """The segments of a text, found by place."""

    def __init__(
        self, text: str, tokens: Sequence[Range], abbreviations: Collection[tuple[str, ...]] = ()
    ) -> None:
        self._tokens = sorted(tokens)
        self._abbreviations = abbreviations
        self._found = sorted(self._parse(text))
        self._starts = [segment.start for segment in self._found]

    def at(self, place: int) -> Segment:
        """Return the segment that a place is in."""
        return self._found[max(bisect_right(self._starts, place) - 1, 0)]

    def _is_in_token(self, place: int) -> bool:
        at = bisect_right(self._tokens, place, key=lambda each: each[0]) - 1
        return at >= 0 and place < self._tokens[at][1]

    def _parse(self, text: str) -> Iterator[Segment]:
        yield Segment(0, 0)
        lead: Range | None = None
        paragraph: list[_Line] = []
        table: list[_Line] = []
        for line in [*_lines(text), _Line(len(text), len(text), "")]:
            is_row = line.text.count("|") >= 2 or "\t" in line.text.strip()
            is_item, is_title = bool(_ITEM.match(line.text)), bool(_TITLE.fullmatch(line.text))
            if table and not is_row:
                yield from _table_cells(table, lead)
                table = []
            is_led_on = bool(_LED.fullmatch(line.text.rstrip()))
            is_field = is_led_on or bool(_FIELD.match(line.text))
            if paragraph and (is_row or is_item or is_title or is_field or not line.text.strip()):
                is_led = lead is not None and _INTRODUCES.search(text, *lead) is not None
                where = (paragraph[0].start, paragraph[-1].end)
                yield from self._sentences(text, where, lead if is_led else None)
                lead, paragraph = (paragraph[-1].start, paragraph[-1].end), []
            if is_row:
                table.append(line)
            elif is_item:
                yield from self._sentences(text, (line.start, line.end), lead)
            elif is_title:
                yield Segment(line.start, line.end)
                lead = (line.start, line.end)
            elif is_led_on:
                yield Segment(line.start, line.end, lead=lead)
            elif is_field:
                yield from self._sentences(text, (line.start, line.end), lead)
            elif line.text.strip():
                paragraph.append(line)

    def _sentences(self, text: str, where: Range, lead: Range | None) -> Iterator[Segment]:
        start, asked = where[0], None
        for match in _STOP.finditer(text, *where):
            is_word = match[0].startswith(".") and not self._is_in_token(match.start() - 1)
            before = text[max(start, match.start() - _LONGEST_WORD) : match.start()]
            is_abbreviated = bool(_ABBREVIATED.search(before)) or words_of(before)[-1:] in self._abbreviations
            if (
                not (is_word and is_abbreviated)
                and not self._is_in_token(match.start())
                and not _ITEM.fullmatch(text[start : match.end()])
            ):
                yield Segment(start, match.end(), lead=asked or lead)
                asked = (start, match.end()) if match[0].startswith("?") else None  # its answer comes next
                start = match.end()
        yield Segment(start, where[1], lead=asked or lead)


def _lines(text: str) -> Iterator[_Line]:
    start = 0
    for line in text.splitlines(keepends=True):
        yield _Line(start, start + len(line), line.rstrip("\r\n"))
        start += len(line)


def _cells(line: _Line) -> list[Range]:
    """Return the ranges between the bars of a row; an escaped bar is a part of its cell."""
    marks = [match.start() for match in re.finditer(r"(?<!\\)[|\t]", line.text)]
    edges = [-1, *marks, len(line.text)]
    cells = [(line.start + low + 1, line.start + high) for low, high in pairwise(edges)]
    return [
        cell
        for cell in cells
        if line.text[cell[0] - line.start : cell[1] - line.start].strip() or cell[0] > line.start
    ]


def _table_cells(lines: Sequence[_Line], lead: Range | None) -> Iterator[Segment]:
    has_header = len(lines) > 1 and _RULE.fullmatch(lines[1].text) is not None
    header = _cells(lines[0]) if has_header else []
    for number, line in enumerate(lines):
        cells = _cells(line)
        for at, (start, end) in enumerate(cells):
            others = tuple(cell for cell in cells[:8] if cell != (start, end))
            column = header[at] if number and at < len(header) else None
            yield Segment(start, end, others, column, lead, (lines[0].start, line.start))
