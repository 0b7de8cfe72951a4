"""Rendering and reading one text of the outputs, and whether it is in the language that it is read in."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tercet.contracts.documents import KnownValue, ReadText
from tercet.locales.lexicon import LEXICONS, word_set
from tercet.locales.slots import Author, render
from tercet.locales.tokens import read_tokens
from tercet.locales.vocabulary import Units, vocabulary
from tercet.quality.words import words_of

_PARAGRAPH = re.compile(r"\n\s*\n")
_ENOUGH = 2
"""Small words that show a language; fewer could be names."""
_LONG = 12
"""Words of a paragraph that has to show its language itself."""


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


def detect_language(text: str, expected: str) -> str:
    """Return the expected language if the text shows it, and no long part of it shows another; else nothing."""
    if expected not in LEXICONS or not _shows(text, expected, _ENOUGH):
        return ""
    long = (part for part in _PARAGRAPH.split(text) if len(words_of(part)) >= _LONG)
    return expected if all(_shows(part, expected, 1) for part in long) else ""


def _shows(text: str, expected: str, enough: int) -> bool:
    """Return whether a text has more small words of a language than of any other."""
    words = [word for word in words_of(text) if not any(char.isdigit() for char in word)]
    counts = {
        language: sum(word in word_set(lexicon.small_words) for word in words)
        for language, lexicon in LEXICONS.items()
    }
    own = counts.pop(expected)
    return own >= enough and own * 12 >= len(words) and all(own > count for count in counts.values())
