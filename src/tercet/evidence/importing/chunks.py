"""Splits a text into chunks: by headings, then by paragraphs, without overlap, and deterministically.

A heading begins a chunk. Paragraphs are combined as long as they fit; one that is too long is split at the end of a
sentence, else at a space, else anywhere. Every non-space character is in exactly one chunk.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

MOST = 1_500
"""The maximum length of a chunk: a few paragraphs, which a person reads at a glance."""

_HEADING = re.compile(r" {0,3}(?P<marks>#{1,6})(?:[ \t]+(?P<title>[^\n]*?))?[ \t]*(?:#+[ \t]*)?\n?")
_FENCE = re.compile(r" {0,3}(?P<marks>`{3,}|~{3,})")
_LONGEST_HEADING = 1_000
_SENTENCE = re.compile(r"[.!?。](?=\s)|\n")


class Chunk(NamedTuple):
    """A part of a text: its characters, the headings above it, and its byte range in the UTF-8 text."""

    text: str
    heading: str
    start: int
    end: int


class _Block(NamedTuple):
    """A heading, a paragraph or a fenced block: its characters from `start` up to `end`."""

    start: int
    end: int
    heading: str
    is_heading: bool


def split(text: str) -> Iterator[Chunk]:
    """Return the chunks of a text, in order."""
    counted = bytes_before = 0
    for first, end, heading in _spans(text):
        chunk = text[first:end].strip()
        if not chunk:
            continue
        start = text.index(chunk, first)
        bytes_before += len(text[counted:start].encode())
        size = len(chunk.encode())
        yield Chunk(chunk, heading, bytes_before, bytes_before + size)
        counted, bytes_before = start + len(chunk), bytes_before + size


def _spans(text: str) -> Iterator[tuple[int, int, str]]:
    """Yield where each chunk begins and ends, and its heading."""
    begun: _Block | None = None
    end, has_body = 0, False
    for block in _blocks(text):
        is_new_section = block.is_heading and has_body
        if begun is not None and (is_new_section or block.end - begun.start > MOST):
            yield from _cut(text, begun.start, end, begun.heading)
            begun = None
        if begun is None:
            begun, has_body = block, False
        elif not has_body:
            begun = begun._replace(heading=block.heading)
        end, has_body = block.end, has_body or not block.is_heading
    if begun is not None:
        yield from _cut(text, begun.start, end, begun.heading)


def _cut(text: str, start: int, end: int, heading: str) -> Iterator[tuple[int, int, str]]:
    """Yield a span in pieces of limited length."""
    while end - start > MOST:
        stop = _last_break(text, start, start + MOST)
        yield start, stop, heading
        start = stop
    yield start, end, heading


def _last_break(text: str, start: int, end: int) -> int:
    """Return the best place to split before `end`: after a sentence in the second half, else after a space, else `end`."""
    half = (start + end) // 2
    ends = [match.end() for match in _SENTENCE.finditer(text, half, end)]
    if ends:
        return ends[-1]
    space = max(text.rfind(" ", half, end), text.rfind("\t", half, end))
    return space + 1 if space > start else end


def _blocks(text: str) -> Iterator[_Block]:
    titles: list[tuple[int, str]] = []
    begin, position, fence = -1, 0, ""
    for line in text.splitlines(keepends=True):
        start, position = position, position + len(line)
        mark = _FENCE.match(line)
        if fence:
            fence = "" if mark and mark["marks"].startswith(fence) else fence
            continue
        heading = _HEADING.fullmatch(line) if len(line) <= _LONGEST_HEADING else None
        if begin >= 0 and (heading or not line.strip()):
            yield _Block(begin, start, _path(titles), is_heading=False)
            begin = -1
        if heading:
            _enter(titles, len(heading["marks"]), heading["title"] or "")
            yield _Block(start, position, _path(titles), is_heading=True)
        elif line.strip():
            fence = mark["marks"] if mark else ""
            begin = start if begin < 0 else begin
    if begin >= 0:
        yield _Block(begin, position, _path(titles), is_heading=False)


def _enter(titles: list[tuple[int, str]], level: int, title: str) -> None:
    while titles and titles[-1][0] >= level:
        titles.pop()
    titles.append((level, title[:200]))


def _path(titles: list[tuple[int, str]]) -> str:
    return " > ".join(title for _, title in titles if title)
