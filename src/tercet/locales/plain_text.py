"""A text as it is read: without hidden characters, with ASCII digits, and with its number words as digits."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache

from tercet.locales.lexicon import Lexicon, word_set
from tercet.quality.words import fold

WEAK = "\ue000"
"""Stands behind a number that was a word which mostly means something else: `one`, `second`."""

ARTICLE = "\ue001"
"""Stands behind a number that was an article."""

ORDINAL = "\ue002"
"""Stands behind a number that was an ordinal: the first day is not one day."""

_FILLERS = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0")
_LOOKALIKES = str.maketrans("OoОоΟοlIІіΙ|ЗзЅ", "000000111111335")
_DISGUISED = re.compile(r"(?<![\w|])(?=[^\W_]*\d)(?=\d*[OoОоΟοIІΙ|ЗзЅ])[\dOoОоΟοlIІіΙ|ЗзЅ]+(?![\w|])")
_DISGUISED_AMOUNT = re.compile(r"(?<![\w|])[OoОоΟοlIІΙ|ЗзЅ]{2,12}(?=\s?[€$£¥₽%])")
_KANJI_NUMBER = re.compile(
    r"(?:[〇一二三四五六七八九十百千万億]|(?<![\d,.])\d{1,3}(?:,\d{3})+(?=[百千万億])"
    r"|(?<=[千万億])\d{1,3}(?:,\d{3})+(?!\d|[.,]\d)"
    r"|(?<![\d,.])\d{1,4}(?=[十百千万億])|(?<=[千万億])\d{1,4}(?!\d|[.,]\d)){2,}"
    "|[一二三四五六七八九十](?=[円名個回泊日月年週時間分か])"
)
_SCALED = re.compile(r"\d[ \xa0-]$")
_PER = frozenset({"per", "pour", "por"})
_WORD = re.compile(r"[^\W\d_]+")
_LONG_ORDINAL = re.compile(r"s?te[nrsm]?$")


@dataclass
class PlainText:
    """A text with the range of the original that each of its characters stands for."""

    text: str = ""
    starts: list[int] = field(default_factory=list[int])
    ends: list[int] = field(default_factory=list[int])

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Return the range of the original for a range of this text."""
        return self.starts[start], self.ends[end - 1]


def level(text: str) -> str:
    """Return a text of the same length without case and accents."""
    folded = (fold(char) for char in text)
    return "".join(new if len(new) == 1 else old for new, old in zip(folded, text, strict=True))


def read_plain(text: str, decimal_mark: str, lexicon: Lexicon | None) -> PlainText:
    """Return a text without disguises: hidden characters, foreign digits, lookalikes, number words."""
    plain = _without_hidden(text, decimal_mark)
    shown = _DISGUISED.sub(lambda match: match[0].translate(_LOOKALIKES), plain.text)
    plain.text = _DISGUISED_AMOUNT.sub(lambda match: match[0].translate(_LOOKALIKES), shown)
    return _with_digits(
        plain,
        _kanji_numbers(plain.text)
        if lexicon is None
        else _spelled_numbers(plain.text, lexicon, decimal_mark),
    )


def _without_hidden(text: str, decimal_mark: str) -> PlainText:
    plain, parts, last = PlainText(), list[str](), ""
    for at, char in enumerate(text):
        shown = char if " " <= char <= "~" or char == "\n" else _shown(char, last, decimal_mark)
        for each in shown:
            parts.append(each)
            plain.starts.append(at)
            plain.ends.append(at + 1)
        last = shown[-1:] or last
    plain.text = "".join(parts)
    return plain


def _shown(char: str, last: str, decimal_mark: str) -> str:
    """Return what a reader sees of a character, in ASCII where that has it."""
    category, value = unicodedata.category(char), unicodedata.numeric(char, None)
    category = "No" if category == "Nl" and value is not None and char != "〇" else category  # Ⅻ
    is_hidden = category in ("Cf", "Cc", "Me") or char in _FILLERS or "\ufe00" <= char <= "\ufe0f"
    if char in "\t\r\u2028\u2029\x0b\x0c\x85":
        return "\t" if char == "\t" else "\n" if char in "\u2028\u2029\x85" else " "
    if is_hidden or "\u0300" <= char <= "\u036f" or (category == "Mn" and last.isdigit()):
        return ""
    if category == "Nd":
        return str(unicodedata.decimal(char))
    if category == "No" and value is not None:
        return char if last.isalpha() else _number_sign(value, last, decimal_mark)
    if category == "Zs":
        return "\xa0"
    if category == "Pd" or char == "−":
        return "-"
    marks = {"٫": ".", "٬": ",", "٪": "%", "’": "'", "‘": "'", "ʼ": "'", "º": char, "ª": char}
    return marks.get(char) or unicodedata.normalize("NFKC", char)


def _number_sign(value: float, last: str, decimal_mark: str) -> str:
    """Return the digits of a sign such as `①` or `½`."""
    exact = Fraction(value).limit_denominator(1000)
    if exact.denominator == 1:
        return str(exact.numerator)
    if 1000 % exact.denominator:
        return f"{exact.numerator}/{exact.denominator}"
    digits = f"{float(exact):.3f}".rstrip("0").partition(".")
    return f"{'' if last.isdigit() else digits[0]}{decimal_mark}{digits[2]}"


def _kanji_numbers(text: str) -> Iterator[tuple[int, int, str]]:
    """The numbers that are written in kanji, as digits."""
    for match in _KANJI_NUMBER.finditer(text):
        total, section, digit = 0, 0, 0
        for char in match[0].replace(",", ""):
            number = int(unicodedata.numeric(char))
            if number < 10:  # 一二 is 12, as 12 is
                digit = digit * 10 + number
            elif number < 10_000:
                section, digit = section + max(digit, 1) * number, 0
            else:
                total, section, digit = total + max(section + digit, 1) * number, 0, 0
        yield match.start(), match.end(), str(total + section + digit)


def _with_digits(plain: PlainText, spelled: Iterable[tuple[int, int, str]]) -> PlainText:
    read, parts, done = PlainText(), list[str](), 0
    for start, end, digits in spelled:
        parts += [plain.text[done:start], digits]
        read.starts += [*plain.starts[done:start], *[plain.starts[start]] * len(digits)]
        read.ends += [*plain.ends[done:start], *[plain.ends[end - 1]] * len(digits)]
        done = end
    read.text = "".join([*parts, plain.text[done:]])
    read.starts += plain.starts[done:]
    read.ends += plain.ends[done:]
    return read


def _spelled_numbers(text: str, lexicon: Lexicon, decimal_mark: str) -> Iterator[tuple[int, int, str]]:
    """The numbers that are written in words, as digits."""
    weak, articles = word_set(lexicon.weak), word_set(lexicon.articles)
    words = [(fold(match[0]), match.start(), match.end()) for match in _WORD.finditer(text)]
    at = 0
    while at < len(words):
        word, start, end = words[at]
        if at and word in lexicon.scales | lexicon.numbers and words[at - 1][0] in _PER:
            pass  # per cent
        elif word == "cents":
            pass  # coins, where no number is before it
        elif word in lexicon.scales and _SCALED.search(text, max(start - 2, 0), start):
            pass  # 92 thousand
        elif (phrase := _phrase_number(text, words, at, lexicon, decimal_mark)) is not None:
            yield start, words[phrase[0]][2], phrase[1]
            at = phrase[0]
        elif length_value := _spelled_number(text, words, at, lexicon) or _one_and_half(words, at, lexicon):
            length, value = length_value
            length, fraction = _spelled_fraction(text, words, at, length, lexicon)
            end = words[at + length - 1][2]
            following = words[at + length] if at + length < len(words) else ("", 0, 0)
            unit = _ordinal_value(following[0], lexicon) if value % 10 == 0 and value >= 20 else 0
            if 0 < unit < 10 and text[end : following[1]] in ("-", " ", "\xa0"):  # twenty-first
                yield start, following[2], f"{value + unit}{ORDINAL}"
                at += length + 1
                continue
            mark = ARTICLE if word in articles else WEAK if word in weak else ""
            half, behind_unit = (_half_behind(words, at + length + gap, lexicon) for gap in (0, 1))
            if not _touches(text, start, end) and not _is_idiom(words, at, length, value, lexicon):
                fraction = "5" if half or behind_unit or _has_half(word, lexicon) else fraction
                shown = (
                    f"{value}{decimal_mark}{fraction}"
                    if fraction
                    else f"{value}{mark if length == 1 else ''}"
                )
                yield start, words[at + length + half - 1][2], shown
            if behind_unit:  # an hour and a half
                at += 1
                yield words[at + length][1] - 1, words[at + length + behind_unit - 1][2], " "
            at += length + half + behind_unit - 1
        elif (ordinal := _ordinal_value(word, lexicon)) and not _touches(text, start, end):
            yield start, end, f"{ordinal}{ORDINAL}"
        at += 1


def _ordinal_value(word: str, lexicon: Lexicon) -> int:
    """Return the value of an ordinal, also of a German compound; 0 for any other word."""
    if (value := lexicon.ordinal_numbers.get(word)) is not None or lexicon.hundreds != "hundert":
        return value or 0
    stem = _LONG_ORDINAL.sub("", word)
    return (_word_value(stem, lexicon) or 0) if stem != word and len(stem) > 9 else 0


def _spelled_fraction(
    text: str, words: list[tuple[str, int, int]], at: int, length: int, lexicon: Lexicon
) -> tuple[int, str]:
    """Return how many words a number and its decimals are, and their digits: `four point two five`."""
    digits, end = "", at + length + 1
    if not lexicon.point or end >= len(words) or words[end - 1][0] != fold(lexicon.point):
        return length, ""
    while len(digits) < 6 and end < len(words) and (found := _spelled_number(text, words, end, lexicon)):
        digits += str(found[1])
        end += found[0]
    return (end - at, digits) if digits else (length, "")


def _has_half(word: str, lexicon: Lexicon) -> bool:
    """Return whether a number word ends in what adds a half to it: `fünfeinhalb`."""
    return bool(lexicon.half_ending) and word.endswith(lexicon.half_ending)


def _phrase_number(
    text: str, words: list[tuple[str, int, int]], at: int, lexicon: Lexicon, decimal_mark: str
) -> tuple[int, str] | None:
    """Return where words end that are a number besides the regular ones, and its digits: `twice`, `fortnight`, `half an hour`."""
    word, start, end = words[at]
    if times := {fold(each): value for each, value in lexicon.times.items()}.get(word):
        return at, f"{times}{WEAK} {lexicon.times_word}"
    amount = {fold(each): shown for each, shown in lexicon.amounts.items()}.get(word)
    if amount and not _touches(text, start, end):
        return at, amount
    following = [each for each, _, _ in words[at + 1 : at + 3]]
    if word in word_set(lexicon.halves):
        for behind, each in enumerate(following, 1):
            if each in word_set(lexicon.dozens):
                return at + behind, "6"
        articles = word_set(lexicon.indefinite)
        if not articles or (following and following[0] in articles):
            return at + bool(articles), f"0{decimal_mark}5{ARTICLE}"
    is_article = word in word_set(lexicon.indefinite) and len(following) > 1
    is_possessive = is_article and text[words[at + 1][2] : words[at + 2][2]] == "'s"
    return (at, f"1{ARTICLE}") if is_possessive else None


def _half_behind(words: list[tuple[str, int, int]], at: int, lexicon: Lexicon) -> int:
    """Return how many words from here on add a half to a number: `and a half`."""
    phrases = (tuple(phrase.split("_")) for phrase in word_set(lexicon.and_half))
    found = (
        len(each) for each in phrases if tuple(word for word, _, _ in words[at : at + len(each)]) == each
    )
    return next(found, 0)


def _one_and_half(words: list[tuple[str, int, int]], at: int, lexicon: Lexicon) -> tuple[int, int] | None:
    """Return an article as a number, of one word, where a half is added to what it stands before: `an hour and a half`."""
    is_article = words[at][0] in word_set(lexicon.indefinite)
    return (1, 1) if is_article and _half_behind(words, at + 2, lexicon) else None


def _is_idiom(words: list[tuple[str, int, int]], at: int, length: int, value: int, lexicon: Lexicon) -> bool:
    """Return whether a number states nothing: it stands behind `between` or `any`, and is not the first of a range."""
    reach = 3 if value > 1 else 1
    before = [word for word, _, _ in words[max(at - reach, 0) : at]]
    following = words[at + length][0] if at + length < len(words) else ""
    is_range = following in word_set(lexicon.to)
    return not is_range and any(lexicon.idioms.get(word) == value for word in before)


def _touches(text: str, start: int, end: int) -> bool:
    """Return whether a word is a part of a name or an address: `one-to-one`, `@two`, `l'un`."""
    return (
        text[start - 1 : start] in ("@", "_", "'", "/")
        or text[end : end + 1] in ("@", "_", "'")
        or (text[start - 1 : start] == "-" and text[start - 2 : start - 1].isalpha())
    )


def _spelled_number(
    text: str, words: list[tuple[str, int, int]], at: int, lexicon: Lexicon
) -> tuple[int, int] | None:
    """Return how many words from here on are one number, and its value."""
    total, current, used, position = 0, -1, 0, at
    while position < len(words):
        word, start, _ = words[position]
        if position > at and text[words[position - 1][2] : start] not in (" ", "-", "\xa0", "\n"):
            break
        value = _word_value(word, lexicon)
        if word in word_set(lexicon.dozens) and (current < 0 or 0 < current < 100):
            current = max(current, 1) * 12
        elif word in lexicon.scales and (current > 0 or lexicon.hundreds != "hundred" or position > at):
            scale = lexicon.scales[word]
            if scale == 100:
                if lexicon.joints == "et" and (current == 10 or 20 <= current < 100):
                    break  # quarante-quatre cents, which are coins
                current = max(current, 1) * 100 if current < 100 else -2
            else:
                total, current = total + max(current, 1) * scale, 0
        elif value is not None and _can_add(max(current, 0), value, current < 0):
            is_eighty = lexicon.joints == "et" and value == 20 and current % 100 == 4
            current = max(current, 0) + (76 if is_eighty else value)
        elif word not in word_set(lexicon.joints) or position == at or current < 20:
            break
        else:
            position += 1
            continue
        if current < 0:
            return None
        position += 1
        used = position - at
    return (used, total + max(current, 0)) if used else None


def _can_add(current: int, value: int, is_first: bool) -> bool:  # noqa: FBT001 - a step of the loop above
    if is_first or current == 0 or (current % 100 == 0 and value < 100):
        return True
    tens = current % 100
    is_french = (
        (tens in (60, 80) and value < 20) or (tens, value) == (4, 20) or (tens == 10 and 7 <= value <= 9)
    )
    return is_french or (tens >= 20 and tens % 10 == 0 and 0 < value < 10)


@lru_cache(maxsize=16_384)
def _compound_value(word: str, joined: tuple[tuple[str, int], ...]) -> int | None:
    """The value of a German number, which is one word: `einundzwanzig`, `zweihundertfünf`."""
    numbers = dict(joined)
    if word in numbers:
        return numbers[word]
    for joint, scale in (("tausend", 1000), ("hundert", 100), ("und", 1)):
        before, found, after = word.partition(joint)
        if found:
            first = _compound_value(before, joined) if before else (1 if scale > 1 else None)
            second = _compound_value(after, joined) if after else (0 if scale > 1 else None)
            return None if first is None or second is None else first * scale + second
    return None


def _word_value(word: str, lexicon: Lexicon) -> int | None:
    if _has_half(word, lexicon):
        word = word.removesuffix(lexicon.half_ending)
    value = lexicon.numbers.get(word)
    if value is None and lexicon.hundreds == "hundert" and 6 < len(word) < 60:
        return _compound_value(word, tuple(lexicon.numbers.items()))
    return value
