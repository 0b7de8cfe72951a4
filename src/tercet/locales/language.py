"""Whether a text is in the language that it is read in. Not sure means no."""

from __future__ import annotations

import re

from tercet.locales.lexicon import LEXICONS, word_set
from tercet.quality.words import words_of

_PARAGRAPH = re.compile(r"\n\s*\n")
_ENOUGH = 2
"""Small words that show a language; fewer could be names."""
_LONG = 12
"""Words of a paragraph that has to show its language itself."""


def detect_language(text: str, expected: str) -> str:
    """Return the expected language if the text shows it, and no long part of it shows another; else nothing."""
    if expected not in LEXICONS or not _shows(text, expected, _ENOUGH):
        return ""
    long = (part for part in _PARAGRAPH.split(text) if len(words_of(part)) >= _LONG)
    return expected if all(_shows(part, expected, 1) for part in long) else ""


def _shows(text: str, expected: str, enough: int) -> bool:
    """Whether a text has more small words of a language than of any other."""
    words = [word for word in words_of(text) if not any(char.isdigit() for char in word)]
    counts = {
        language: sum(word in word_set(lexicon.small_words) for word in words)
        for language, lexicon in LEXICONS.items()
    }
    own = counts.pop(expected)
    return own >= enough and own * 12 >= len(words) and all(own > count for count in counts.values())
