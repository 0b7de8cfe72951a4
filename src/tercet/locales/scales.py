"""What stands around the digits of a number and changes it: a decimal mark, words that multiply it, signs."""

from __future__ import annotations

import re
from decimal import Decimal

from tercet.locales.scan import Scan
from tercet.locales.vocabulary import Vocabulary

SIGNS = "$€£¥¢₠-⃀"
"""Signs of currencies, as a part of a class of characters."""

_POWERS = {
    "k": 3, "tsd": 3, "тыс": 3, "thousands": 3, "millier": 3, "milliers": 3, "mio": 6, "mn": 6, "m": 6, "млн": 6,
    "million": 6, "millions": 6, "millionen": 6, "millones": 6, "миллиона": 6, "миллионов": 6, "mrd": 9, "bn": 9,
    "billion": 9, "billions": 9, "milliarde": 9, "milliarden": 9, "milliard": 9, "milliards": 9, "млрд": 9,
    "lakh": 5, "lakhs": 5, "crore": 7, "crores": 7, "हजार": 3, "हज\u093cार": 3, "लाख": 5, "करोड": 7, "करोड\u093c": 7,
    "अरब": 9, "सौ": 2, "百": 2, "千": 3, "万": 4, "億": 8, "兆": 12,
}  # fmt: skip
_COINS = frozenset({"cent", "cents"})
"""A hundred, and a coin; behind digits it is the coin."""
_WORD = re.compile(r"[ \xa0-]?([^\W\d_]+)\b(?:(?<=tsd)\.|(?<=mi[od])\.|(?<=mrd)\.|(?<=тыс)\.|(?<=мл[нр])\.)?")
_OTHER_SCRIPT = re.compile(
    rf"([百千万億兆])|[ \xa0]?({'|'.join(word for word in _POWERS if 'ऀ' <= word[0] <= 'ॿ')})(?![\u0900-\u097f])"
)
_BEFORE_SIGN = re.compile(rf"[ \xa0]?([kmt]|mn|bn|mrd|mio)(?=[{SIGNS}])")
_MINUS = re.compile(
    r"(?<![^\W\d_])(?<!au )(?<!du )(?<!al )(?<!lo )(?:minus|moins|menos|минус|माइनस|ऋण)[ \xa0]$|マイナス$"
)
_SUBTRACTS = re.compile(r"\d[^.;:\n]{0,16}$")
"""A number before a minus in words: both are parts of a sum."""
_COMPARED = re.compile(r"[<>≤≥≦≧]=?[ \xa0]?$")
_OPEN_TAG = re.compile(r"<[^<>]*$")


def has_leading_mark(flat: str, start: int) -> bool:
    """Return whether a number begins with its decimals: `.5`."""
    before = flat[max(start - 2, 0) : start]
    return (
        before[-1:] in (".", ",")
        and not before[:-1].isalnum()
        and before[:-1] not in (".", ",", "…", "!", "?")
    )


def decimals_alone(vocabulary: Vocabulary, text: str) -> Decimal | None:
    """Return the number that a mark and decimals are; None if the mark is another one's."""
    return Decimal(f"0.{text[1:]}") if text[0] == vocabulary.decimal and text[1:].isdigit() else None


def scale_behind(scan: Scan, start: int, end: int) -> tuple[int, int]:
    """Return the power of ten that the words behind a number multiply it by, and where they end."""
    total, at = 0, end
    while (found := _one_scale(scan, start, at)) is not None:
        total, at = total + found[0], found[1]
    return total, at


def _one_scale(scan: Scan, start: int, end: int) -> tuple[int, int] | None:
    flat, lexicon = scan.flat, scan.vocabulary.lexicon
    if other := _OTHER_SCRIPT.match(flat, end):
        return _POWERS[other[1] or other[2]], other.end()
    if short := _BEFORE_SIGN.match(flat, end):  # k€
        return _POWERS.get(short[1], 3), short.end()
    match = _WORD.match(flat, end)
    if match is None or match[1] in _COINS:
        return None
    size = lexicon.scales.get(match[1]) if lexicon else None
    power = _POWERS.get(match[1]) or (len(str(size)) - 1 if size else None)
    is_money = flat[start - 1 : start] != "" and re.match(rf"[{SIGNS}]", flat[start - 1]) is not None
    is_unit = len(match[1]) == 1 and match.start(1) > end and not is_money  # 5 m, but 5m people
    return None if power is None or is_unit else (power, match.end())


def sign_start(flat: str, start: int) -> int | None:
    """Return where a minus before a number begins, which no other number stands before as in a range."""
    if word := _MINUS.search(flat, max(start - 10, 0), start):
        return None if _SUBTRACTS.search(flat, max(word.start() - 20, 0), word.start()) else word.start()
    before = flat[max(start - 3, 0) : start]
    is_sign = before[-1:] == "-" and (
        len(before) == 1 or (before[-2] in " \n(\xa0|:\t€$£" and not before[:1].isdigit())
    )
    return start - 1 if is_sign else None


def is_in_brackets(flat: str, start: int, end: int) -> bool:
    """Return whether a number is a negative amount as bookkeepers write it: `£(1,180)`."""
    return (
        flat[end : end + 1] == ")"
        and re.search(rf"[{SIGNS}]\($", flat[max(start - 2, 0) : start]) is not None
    )


def comparison_start(flat: str, start: int) -> int | None:
    """Return where a sign begins that makes a number a limit: `> 4`. Tags, arrows and quotations have none."""
    sign = _COMPARED.search(flat, max(start - 3, 0), start)
    if sign is None:
        return None
    line = flat[max(sign.start() - 200, 0) : sign.start()].rpartition("\n")[2]
    is_mark = not line.strip(" \t>") or line[-1] in "-=" or _OPEN_TAG.search(line)
    return None if sign[0][0] == ">" and is_mark else sign.start()
