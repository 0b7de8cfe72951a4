"""Rendering and reading one text of the outputs."""

from __future__ import annotations

from collections.abc import Sequence

from tercet.contracts.documents import KnownValue, ReadText
from tercet.locales.language import detect_language
from tercet.locales.slots import Author, render
from tercet.locales.tokens import read_tokens
from tercet.locales.vocabulary import Units, vocabulary


def read_text(
    pointer: str, text: str, known: Sequence[KnownValue], locale: str, units: Units, author: Author
) -> ReadText:
    """Fill the slots of a text, and find what in it can be looked up."""
    rendered = render(text, known, locale, units, author=author)
    currencies = {value.currency for value in known if value.currency}
    used_units = {value.unit for value in known if value.unit}
    words = vocabulary(locale, units, currencies, used_units)
    free = "".join(
        rendered.text[piece.start : piece.end] for piece in rendered.pieces if piece.source == "free"
    )
    language = words.language if author == "pack" and words.lexicon else detect_language(free, words.language)
    return ReadText(
        pointer=pointer,
        text=rendered.text,
        pieces=rendered.pieces,
        tokens=read_tokens(rendered.text, words, known),
        faults=rendered.faults,
        language=language,
    )
