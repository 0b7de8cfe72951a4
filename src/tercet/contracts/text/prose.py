"""Words and numbers as people write them: whether a text says anything, the words of a name, the number in a text."""

from __future__ import annotations

import re
import unicodedata
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from typing import Any

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
