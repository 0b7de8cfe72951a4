"""Words and numbers as people write them, and the words of a text as a search compares them: the same for every store, and
for review.

A search word is a run of letters and digits, without case and accents, with the plural of English folded away; each
character of a script that is written without spaces is a word. Nothing else of a text counts, so no text can be an operator.
"""

from __future__ import annotations

import re
import unicodedata
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from typing import Any

MOST_LETTERS = 100_000
"""So much of one fact is searched; a chunk of a document has far less. A server's text index ends at one megabyte."""
MOST_TERMS = 64
"""So many different words of a query are searched for."""
LONGEST = 64
"""A longer word counts by its beginning."""

_UNSPACED = "\u0e00-\u0eff\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_WORD = re.compile(rf"[{_UNSPACED}]|[^\W_{_UNSPACED}]+")
_COMMON = frozenset(
    {"a", "an", "and", "are", "as", "at", "be", "by", "do", "does", "for", "from", "had", "has", "have", "how", "i", "if",
     "in", "is", "it", "its", "may", "of", "on", "or", "our", "shall", "should", "that", "the", "their", "there", "they",
     "this", "to", "was", "we", "were", "what", "when", "which", "who", "why", "will", "with", "you", "your"}
)  # fmt: skip


def words_of(text: str) -> list[str]:
    """The words of a text, in order."""
    if not text.isascii():
        text = unicodedata.normalize("NFKD", text)
    text = text.casefold()
    if not text.isascii():
        text = "".join(letter for letter in text if unicodedata.category(letter) != "Mn")
    # Most words are short and do not end in s, and calling something for each would take most of the time.
    return [
        word if word[-1] != "s" and len(word) <= LONGEST else _folded(word) for word in _WORD.findall(text)
    ]


def terms_of(query: str) -> tuple[str, ...]:
    """The words that a query searches for, each once; the commonest count only where there are no others."""
    words = dict.fromkeys(words_of(query[:MOST_LETTERS]))
    telling = tuple(word for word in words if word not in _COMMON)
    return (telling or tuple(words))[:MOST_TERMS]


def _folded(word: str) -> str:
    """A word cut to its beginning, and an English plural without its ending; whatever else ends so is treated alike."""
    word = word[:LONGEST]
    if len(word) < 4 or word[-1] != "s" or not word.isascii():
        return word
    if word.endswith("ies"):
        return word if word[-4] in "ae" else f"{word[:-3]}y"
    if word.endswith("es"):
        return word if word[-3] in "aeo" else word[:-1]
    return word if word[-2] in "us" else word[:-1]


_HEADINGS = re.compile(r"^[ \t]*#{1,6}[ \t].*$", re.MULTILINE)
_SILENT = ("P", "Z", "C")
_KEY_WORD = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])")
_LARGEST = Decimal(10) ** 15


@lru_cache(maxsize=4_096)
def key_words(key: str) -> tuple[str, ...]:
    """Return the words of a member's name: `price_eur` and `priceEur` have two."""
    return tuple(word.casefold() for word in _KEY_WORD.findall(key))


def to_decimal(value: Any) -> Decimal | None:
    """Return a number, or a text that is one, as it is written; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        found = Decimal(str(value).strip())
    except InvalidOperation:
        return None
    return found if found.is_finite() and abs(found) < _LARGEST else None


def is_blank(text: str) -> bool:
    """Whether a text says nothing: it is empty, or has only white space and marks such as `-` and `...`."""
    return all(unicodedata.category(char)[0] in _SILENT for char in text)


def is_only_headings(text: str) -> bool:
    """Whether a text says nothing but for its headings."""
    return is_blank(_HEADINGS.sub("", text))
