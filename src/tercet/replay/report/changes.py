"""What repairs changed in outputs: line by line, before the first one and at the end."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from itertools import takewhile
from typing import Any, Literal

from tercet.replay.report.loop_page import Change, Line, Piece
from tercet.replay.report.wording import Wording, count

MOST_OUTPUTS, MOST_LINES = 20, 160
LARGEST = 100_000
"""Longer outputs are not compared: that would take long, and nobody would read it."""
_MOST_COMPARED = 2_000
_AROUND = 2
"""How many lines are shown on each side of what was changed."""
_ALIKE = 0.4
"""Two lines that have less in common are shown as another line each."""
_WORDS = re.compile(r"\s+|\S+")


def changes(
    before: Mapping[str, Any], after: Mapping[str, Any], wording: Wording
) -> tuple[tuple[Change, ...], str]:
    """What became of each output that is another one now, and in words how many more there are."""
    changed = [name for name in {**before, **after} if before.get(name) != after.get(name)]
    shown = tuple(_change(name, before, after, wording) for name in changed[:MOST_OUTPUTS])
    more = len(changed) - len(shown)
    return shown, f"{count(more, 'more output')} changed too." if more > 0 else ""


def _change(name: str, before: Mapping[str, Any], after: Mapping[str, Any], wording: Wording) -> Change:
    old = wording.lines(name, before[name]) if name in before else []
    new = wording.lines(name, after[name]) if name in after else []
    if sum(map(len, old)) + sum(map(len, new)) > LARGEST or max(len(old), len(new)) > _MOST_COMPARED:
        return Change(name=wording.text(name, 120), lines=(), note="It is too long to be compared here.")
    lines = tuple(_lines(old, new, wording))
    more = len(lines) - MOST_LINES
    return Change(
        name=wording.text(name, 120),
        lines=lines[:MOST_LINES],
        note=_note(more, is_hidden=old == new),
    )


def _note(more: int, *, is_hidden: bool) -> str:
    if is_hidden:
        return "It changed in something that this report leaves out."
    return f"{count(more, 'more line')} are left out." if more > 0 else ""


def _lines(old: Sequence[str], new: Sequence[str], wording: Wording) -> Iterator[Line]:
    # Beyond 200 lines it passes over those that come again and again: without that, some texts take minutes.
    blocks = SequenceMatcher(None, old, new).get_opcodes()
    for number, (kind, a, b, c, d) in enumerate(blocks):
        if kind == "equal":
            yield from _same(old[a:b], wording, is_first=number == 0, is_last=number == len(blocks) - 1)
        else:
            yield from _replaced(old[a:b], new[c:d], wording)


def _same(lines: Sequence[str], wording: Wording, *, is_first: bool, is_last: bool) -> Iterator[Line]:
    """What did not change, as far as it stands beside something that did."""
    head = 0 if is_first else _AROUND
    tail = 0 if is_last else _AROUND
    hidden = len(lines) - head - tail
    if hidden < 2:  # a gap would take as much room
        yield from (_line("same", line, wording) for line in lines)
        return
    yield from (_line("same", line, wording) for line in lines[:head])
    yield Line(kind="gap", pieces=(Piece(text=f"{count(hidden, 'line')} as before", is_changed=False),))
    yield from (_line("same", line, wording) for line in lines[len(lines) - tail :])


def _replaced(old: Sequence[str], new: Sequence[str], wording: Wording) -> Iterator[Line]:
    """What went and what came in its place, the lines beside each other as far as there are two."""
    parted = [_parted(before, after, wording) for before, after in zip(old, new, strict=False)]
    yield from (Line(kind="gone", pieces=gone) for gone, _ in parted)
    yield from (_line("gone", line, wording) for line in old[len(parted) :])
    yield from (Line(kind="new", pieces=come) for _, come in parted)
    yield from (_line("new", line, wording) for line in new[len(parted) :])


def _line(kind: Literal["same", "gone", "new"], text: str, wording: Wording) -> Line:
    return Line(kind=kind, pieces=(_piece(text, wording, is_changed=False),))


def _piece(text: str, wording: Wording, *, is_changed: bool) -> Piece:
    return Piece(text=wording.text(text, 2_000), is_changed=is_changed)


def _parted(before: str, after: str, wording: Wording) -> tuple[tuple[Piece, ...], tuple[Piece, ...]]:
    """Two lines in pieces: what both begin and end with, and what they differ in; whole where they are not alike."""
    old, new = _WORDS.findall(before), _WORDS.findall(after)
    head = _shared(old, new)
    tail = _shared(old[head:][::-1], new[head:][::-1])
    if head + tail < _ALIKE * max(len(old), len(new)):
        head = tail = 0
    return _pieces(old, head, tail, wording), _pieces(new, head, tail, wording)


def _shared(old: Sequence[str], new: Sequence[str]) -> int:
    """How many words both begin with."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(old, new, strict=False)))


def _pieces(words: Sequence[str], head: int, tail: int, wording: Wording) -> tuple[Piece, ...]:
    if not head + tail:
        return (_piece("".join(words), wording, is_changed=False),)
    end = len(words) - tail
    parts = (("".join(words[:head]), False), ("".join(words[head:end]), True), ("".join(words[end:]), False))
    return tuple(_piece(text, wording, is_changed=is_changed) for text, is_changed in parts if text)
