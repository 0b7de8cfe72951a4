"""Words as they are compared: without case and accents, and with their usual endings."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

COMPOUNDING = frozenset({"de", "nl", "sv", "da", "nb", "nn", "no", "fi"})
"""Languages that write compounds as one word."""

# Characters that no one sees do not end a word: soft hyphens, zero-width and bidirectional marks, accents of their own.
_HIDDEN = "\u00ad\u034f\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufe00-\ufe0f\u0300-\u036f"
_HIDDEN_MARKS = re.compile(f"[{_HIDDEN}]")
UNSPACED = "\u3005\u3040-\u30ff\u3400-\u9fff"
"""Characters of scripts without spaces between words: each is compared as a word of its own."""
_LETTER = rf"[^\W_{_HIDDEN}{UNSPACED}]"
_WORD = re.compile(rf"[{UNSPACED}]|{_LETTER}+(?:[{_HIDDEN}]+{_LETTER}*)*")
_SHORT_ENDINGS = frozenset({"s", "e", "n", "en", "es", "em", "er", "x"})
_SHORTEST_PART = 5
_ARABIC_PREFIX = re.compile(r"^(?:[وفبك]?ال|و?لل)(?=\w{3})")


@lru_cache(maxsize=65_536)
def fold(text: str) -> str:
    """Return a text without case, accents and compatibility forms: `Straße` and `STRASSE` are equal."""
    spread = unicodedata.normalize(
        "NFKD", _HIDDEN_MARKS.sub("", unicodedata.normalize("NFC", text)).casefold()
    )
    return "".join(char for char in spread if not unicodedata.combining(char))


def words_of(text: str) -> tuple[str, ...]:
    """Return the folded words of a text."""
    return tuple(fold(match[0]) for match in _WORD.finditer(text))


def bare_word(word: str) -> str:
    """Return a folded word without the article and the prefixes that Arabic writes together with it."""
    return _ARABIC_PREFIX.sub("", word) if "\u0600" <= word[:1] <= "\u06ff" else word


def word_ranges(text: str) -> list[tuple[str, int, int]]:
    """Return the folded words of a text with their places."""
    return [(fold(match[0]), match.start(), match.end()) for match in _WORD.finditer(text)]


def alphanumeric(text: str) -> str:
    """Return the letters and digits of an identifier: `INV-2041` and `inv 2041` are equal."""
    return "".join(char for char in fold(text) if char.isalnum())


@lru_cache(maxsize=65_536)
def same_word(first: str, second: str) -> bool:
    """Return whether two folded words are one word with different endings.

    Conservative: most of the longer word is common, and what remains of each is as short as an ending.
    """
    if first == second:
        return True
    short, long = sorted((first, second), key=len)
    common = 0
    while common < len(short) and short[common] == long[common]:
        common += 1
    if any(char.isdigit() for char in first + second):
        return False
    is_cyrillic = "а" <= long[0] <= "я"
    rest = max(len(long), len(short)) - common
    if len(short) <= 3 and not is_cyrillic:
        return len(short) == 3 == common and long[common:] in _SHORT_ENDINGS
    if is_cyrillic:
        least = 3 if len(short) <= 5 else (2 * len(short)) // 3
        return common >= least and rest <= (2 if common == 3 else 3)
    is_prefix = common == len(short)  # pèse, pèsent
    return common >= 4 and (is_prefix or common * 10 >= 7 * len(long)) and rest <= 2


def compound_part(label: str, word: str) -> int:
    """Return how a longer word contains a label: 2 as its first part, 1 as its last part, 0 not at all.

    The last part says what kind of thing it is (`Rabattbetrag` is a `Betrag`), the first part which one.
    """
    if len(label) < _SHORTEST_PART or len(word) < len(label) + 3:
        return 0
    return (
        2
        if word.startswith(label)
        else int(any(word.endswith(label + end) for end in ("", "s", "e", "n", "en", "es")))
    )
