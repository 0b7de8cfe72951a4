"""Totals in texts: which number the words mean as one.

`The shipping total` is another one than the total of the items: with a word of its own before `total`, or between it and
the number, a number is not taken for one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_TOTAL = re.compile(
    r"\b(?:grand total|total|sum|altogether|in all|amount due|comes? to|came to)\b", re.IGNORECASE
)
_BEFORE = re.compile(r"(?P<word>[A-Za-z]+)[*_\s]*\Z")
_WORD = re.compile(r"[A-Za-z]+")
_PLAIN = re.compile(
    r"the|an?|your|our|its|this|that|whole|overall|final|new|right|grand|order|purchase|invoice|bill|it|all|everything|which"
    r"|items|together|altogether|total|sum|so|thus|and|is|are|was|were|now|of|for|in|to|due|amounts?|price|cost|comes?|came"
    r"|makes|be|will|worth|exactly|therefore|then|you|owe|have|pay|paid",
    re.IGNORECASE,
)
"""Words around a total that do not make it that of something else."""
_NUMBER = re.compile(r"(?<![\w.,])-?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?![\w]|[.,]\d)")
_CURRENCY = re.compile(r"[A-Z]{3}\b|[€$£¥₹]")
_CURRENCY_BEFORE = re.compile(r"(?:\b[A-Z]{3}|[€$£¥₹])\s?\Z")
_STOP = re.compile(r"[.!?](?=\s|\Z)|\n")
FARTHEST = 200
"""How many characters behind such a word a number is looked for."""


def find_totals(text: str, start: int = 0, end: int | None = None) -> Iterator[tuple[int, int]]:
    """Where the numbers are that plain words for a total lead to."""
    end = len(text) if end is None else end
    for word in _TOTAL.finditer(text, start, end):
        limit = min(len(text), word.end() + FARTHEST)
        stop = _STOP.search(text, word.end(), limit)
        numbers = list(_NUMBER.finditer(text, word.end(), stop.start() if stop else limit))
        number = next((one for one in numbers if _is_sum(text, one)), numbers[0] if numbers else None)
        before = _BEFORE.search(text, max(start, word.start() - 40), word.start())
        if number is None or (before and not _PLAIN.fullmatch(before["word"])):
            continue
        if all(_is_light(said) for said in _WORD.finditer(text, word.end(), number.start())):
            yield number.span()


def _is_sum(text: str, number: re.Match[str]) -> bool:
    """Whether a number has decimals, or a currency beside it."""
    behind, before = text[number.end() : number.end() + 4], text[max(0, number.start() - 4) : number.start()]
    return "." in number[0] or bool(_CURRENCY.match(behind.lstrip()) or _CURRENCY_BEFORE.search(before))


def _is_light(said: re.Match[str]) -> bool:
    """Whether a word leaves a total what it is: a plain one, a currency, or a part of an identifier."""
    around = said.string[max(0, said.start() - 1) : said.end() + 1]
    is_part = any(char.isdigit() or char in "_#" for char in around)
    return is_part or any(pattern.fullmatch(said[0]) for pattern in (_PLAIN, _CURRENCY))
