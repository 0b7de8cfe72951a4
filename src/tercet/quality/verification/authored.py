"""Text of the pack's author in generated texts: declared sections that a repair has added."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence

from tercet.contracts.documents import ReadText, TextPiece
from tercet.contracts.outputs.repair import SectionTemplate

_SLOT = re.compile(r"\{\{\s*([A-Za-z_]\w*)\s*(?:\|[^{}\n]*)?\}\}")
_LINE = re.compile(r"[^\n]{0,400}")
_Span = tuple[int, int]


def section_words(section: SectionTemplate) -> str:
    """Return a declared section as it is added to a text."""
    return f"{'#' * section.level} {section.heading}\n\n{section.text.strip()}\n"


def mark_authored(read: ReadText, sections: Sequence[SectionTemplate]) -> ReadText:
    """Return a text in which declared sections are the author's, where each stands whole with its own slots.

    With other slots in their places its words are free text like any other. Words in the place of a slot are free text
    themselves, which is looked up, and for which someone else has to vouch.
    """
    spans = sorted(span for each in sections for span in _spans(read, each))
    pieces = [part for piece in read.pieces for part in _split(piece, spans)]
    return read.model_copy(update={"pieces": tuple(pieces)}) if spans else read


def _spans(read: ReadText, section: SectionTemplate) -> Iterator[_Span]:
    """Yield the ranges of a text that are a section's, where it stands whole: its words, and its own values."""
    first, *rest = _SLOT.split(section_words(section).rstrip())
    if any("{{" in literal or "}}" in literal for literal in (first, *rest[1::2])):
        return  # a slot that was written wrongly
    for match in re.finditer(f"^{re.escape(first)}", read.text, re.MULTILINE):
        found = [match.span()]
        for name, literal in zip(rest[::2], rest[1::2], strict=True):
            at = found[-1][1]
            value = _value_at(read, at, name)
            end = value.end if value else _free_end(read, at, literal)
            if literal[:1] == "." and value and read.text[end - 1 : end] == ".":
                literal = literal[1:]  # noqa: PLW2901 - one stop ends the value and the sentence
            if not read.text.startswith(literal, end):
                break
            found += [(at, end)] if value else []
            found.append((end, end + len(literal)))
        else:
            if read.text[found[-1][1] : found[-1][1] + 1] in ("", "\n"):
                yield from found


def _value_at(read: ReadText, at: int, slot: str) -> TextPiece | None:
    """Return the value that a slot has brought to a place."""
    index = bisect_left(read.pieces, at, key=lambda piece: piece.start)
    piece = read.pieces[index] if index < len(read.pieces) else None
    return piece if piece and piece.start == at and piece.slot == slot else None


def _free_end(read: ReadText, at: int, literal: str) -> int:
    """Return where free text ends that stands in the place of a slot, before the words of a section; beyond the text if there is none."""
    line = _LINE.match(read.text, at)
    end = read.text.find(literal, at + 1, line.end() + len(literal)) if line and literal else -1
    is_bound = any(each.source == "bound" and each.start < end and at < each.end for each in read.pieces)
    return len(read.text) + 1 if end < 0 or is_bound or not read.text[at:end].strip() else end


def _split(piece: TextPiece, spans: Sequence[_Span]) -> Iterator[TextPiece]:
    """Yield a piece in parts: free text inside of a span is the author's, and so is the place of a value."""
    if piece.source != "free":
        is_inside = any(low <= piece.start and piece.end <= high for low, high in spans)
        yield piece.model_copy(update={"in_template": True}) if is_inside else piece
        return
    at = piece.start
    for start, end in ((max(low, at), min(high, piece.end)) for low, high in spans):
        if start >= end or start < at:
            continue
        if at < start:
            yield piece.model_copy(update={"start": at, "end": start})
        yield piece.model_copy(update={"start": start, "end": end, "source": "authored"})
        at = end
    if at < piece.end:
        yield piece.model_copy(update={"start": at})
