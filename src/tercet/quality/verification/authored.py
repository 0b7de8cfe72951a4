"""Text of the pack's author in generated texts: declared sections that a repair has added."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from tercet.contracts.documents import ReadText, TextPiece
from tercet.contracts.outputs.repair import SectionTemplate

_SLOT = re.compile(r"\{\{[^{}]*\}\}")
_VALUE = r"(?:[^\n]{1,400}?)"
"""What a slot may have become: something on one line."""


def section_words(section: SectionTemplate) -> str:
    """Return a declared section as it is added to a text."""
    return f"{'#' * section.level} {section.heading}\n\n{section.text.strip()}\n"


def mark_authored(read: ReadText, sections: Sequence[SectionTemplate]) -> ReadText:
    """Return a text in which the words of declared sections, where they are there whole, are the author's.

    What stands in the place of a slot is not: it is bound, or looked up like any other value.
    """
    spans = sorted(span for each in sections for span in _literal_spans(read.text, each))
    if not spans:
        return read
    pieces = [part for piece in read.pieces for part in _split(piece, spans)]
    return read.model_copy(update={"pieces": tuple(pieces)})


def _literal_spans(text: str, section: SectionTemplate) -> Iterator[tuple[int, int]]:
    literals = _SLOT.split(section_words(section))
    pattern = _VALUE.join(f"({re.escape(literal)})" for literal in literals)
    for match in re.finditer(rf"^{pattern}", text, re.MULTILINE):
        yield from (match.span(group) for group in range(1, len(literals) + 1))


def _split(piece: TextPiece, spans: Sequence[tuple[int, int]]) -> Iterator[TextPiece]:
    """Yield a piece of free text in parts: those inside of a span are the author's."""
    if piece.source != "free":
        yield piece
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
