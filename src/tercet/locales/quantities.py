"""Numbers in a text, with what changes them: a decimal mark, words that multiply them, signs, and the unit, currency or percent
sign that is written with them.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Sequence
from decimal import Decimal
from functools import partial
from itertools import pairwise
from typing import NamedTuple

from tercet.contracts.documents import KnownValue, TokenKind
from tercet.locales.lexicon import word_set
from tercet.locales.plain_text import ARTICLE, ORDINAL, WEAK, read_plain
from tercet.locales.scan import MAX_TOKENS, Scan
from tercet.locales.vocabulary import DEGREES, UnitForm, Vocabulary
from tercet.quality.values import NUMERIC, SIZES, UNREAD
from tercet.quality.words import UNSPACED, alphanumeric, fold, same_word, word_ranges, words_of

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


_DIGITS = r"\d+(?:[.,']\d+)*"
_ORDINAL = re.compile(r"-?(?:st|nd|rd|th|er|re|e|eme|ere|º|ª|o|a|и|я|е|го|ыи|ои|ая|ое|м)(?!\w)")
_NOUN = re.compile(r"\.[ \xa0]([A-ZÄÖÜ]\w+)")
_PERCENT = re.compile(
    r"[ \xa0]?%|[ \xa0-](?:per[ \xa0]cent|pour[ \xa0]cent|por[ \xa0]cient?o?)\b|[ \xa0]?(?:प्रतिशत|फ\u093c?ीसदी)"
)
_NEXT_WORD = re.compile(r"[ \xa0-]?([^\W\d_]+)")
_PERCENT_AGAIN = re.compile(r"[ \xa0]?[%‰]+")
_POINTS = re.compile(r"[ \xa0-](?:point|punkt|punto|пункт)")
_POINTS_ALONE = re.compile(
    r"[ \xa0](?:pp|p\.\s?p\.|п\.\s?п\.|пп|pts?\b|bps?\b|basis[ -]points?|per[ ]mille?|pour[ ]mille|por[ ]mil|promille|промилле)(?!\w)"
    r"|[ \xa0]?[‰‱]"
)
_LETTER = r"[^\W\d_\u0900-\u0dff]|[\u0900-\u0963\u0971-\u0dff]"
"""A letter; in Indic scripts also the marks on one."""
_NOUN_BEHIND = re.compile(
    rf"(?P<sign>[\u30a0-\u30ff]{{2,20}}|[\u3400-\u9fff])|(?P<gap>[ \xa0-]?)(?P<word>(?:(?![{UNSPACED}]){_LETTER}){{1,40}})"
)
_LETTER_BEHIND = re.compile(r"[a-wyzа-я](?!\w)")
_NO_NOUN = frozenset("以程前後未超強弱税込及各約内外間中目")
"""Signs behind a Japanese number that say nothing of what is counted."""
_HINDI_WORDS = frozenset({
    "है", "हैं", "था", "थी", "थे", "होगा", "होगी", "होंगे", "हुआ", "हुई", "में", "का", "की", "के", "को",
    "से", "पर", "और", "या", "तक", "ही", "भी", "तथा", "व",
})  # fmt: skip
"""Words behind a number that say nothing of what is counted."""
_PER_YEAR = re.compile(r"[ \xa0]p\.\s?[amp]\b")
_DENOMINATOR = re.compile(r"/([^\W_]{1,20})")
_POWER = re.compile(r"[kcdm]?m[23]")
_MONEY_BEFORE = re.compile(rf"([^\W\d_]{{0,3}}[{SIGNS}]|[^\W\d_]{{1,20}}\.?)[ \xa0]?-?$")
_DASHES = r"(?:[.,]-{1,2}(?!\w))?"
"""In the place of decimals: CHF 1'250.–"""
_NO_DECIMALS = re.compile(_DASHES)
_MONEY_TAIL = re.compile(rf"{_DASHES}[ \xa0-]?")
_MONEY_BEHIND = re.compile(
    rf"[{SIGNS}][^\W\d_]{{0,3}}|[^\W\d_]{{1,3}}\$|(?:{_LETTER})+(?:[ \xa0-](?:{_LETTER})+)?"
)
_AMOUNT_NEXT = re.compile(r"[ \xa0-]?\d")
_UNKNOWN_CURRENCY = "XXX"
_CENTS = re.compile(
    r"\.?[ \xa0](?:(?:and|und|et|y|con|и)[ \xa0])?(\d{1,2})[ \xa0]?(?:коп(?:\.|еики|еек|еика|еику)?|cents?|centimes?|centimos?|centavos?|rappen|pence|p)(?!\w)"
    r"|(?<=[^\W\d_])[ \xa0](?:con[ \xa0])?([1-9]\d)(?=[,;:!?)\n]|\.(?!\d)|$)"
)
"""The smaller coins behind an amount, which may not be named: `38 руб. 20 коп.`, `zwölf Euro fünfzig`."""
_AND_HALF = re.compile(rf"[ \xa0](?:and a half|(?:et|y) 0[.,]5{ARTICLE}|с половинои)(?!\w)")
_AND = re.compile(r" |,? (?:and|und|et|y|и) ")
_OF = re.compile(r"[ \xa0]d(?:e[ \xa0]|')")
_APART = re.compile(r"[,;:.!?()\n|–—]")
_RANGE = re.compile(r"[-/]\d{1,4}(?:-?[^\W\d_]+)?")
_UNSPACED = re.compile(f"[{UNSPACED}]")
_TIMES = frozenset({"second", "minute", "hour", "day", "week", "month", "year"})
_REACH = 200
"""Characters on each side of a number that may belong to its identifier."""


class _Quantity(NamedTuple):
    start: int
    end: int
    kind: TokenKind
    unit: str


class _Labels(NamedTuple):
    """The words that name numbers."""

    all: set[str]
    of_plain_counts: set[str]
    """Those of values without a unit: `one reminder` may state one of these, `one tablet` of 250 mg none."""


def _label_words(values: Iterable[KnownValue]) -> set[str]:
    return {word for value in values for label in value.labels for word in words_of(label)}


def _number_labels(known: Iterable[KnownValue]) -> _Labels:
    numeric = [value for value in known if value.type in NUMERIC]
    plain = (value for value in numeric if value.type in ("count", "number") and not value.unit)
    return _Labels(_label_words(numeric), _label_words(plain))


def begins_amount(scan: Scan, end: int, counted: Collection[KnownValue]) -> bool:
    """Return whether a unit, a currency, a percent sign or a label of one of these values is next."""
    labels = _number_labels(counted)
    money = _currency(scan, end, end)
    is_money = money is not None and not _AMOUNT_NEXT.match(scan.flat, money.end)  # 1. £5 a day
    if is_money or _percent(scan, end, end) or _unit(scan, end, end, labels.all):
        return True
    following = words_of(scan.flat[end : end + 40])[:1]
    return any(same_word(label, word) for word in following for label in labels.of_plain_counts)


def read_numbers(scan: Scan, known: Sequence[KnownValue]) -> None:
    """Find every number that is left, and the identifiers that hold one."""
    _read_whole_forms(scan)
    labels = _number_labels(known)
    spaces = r"[ \xa0]" if scan.vocabulary.has_space_groups else r"\xa0"
    grouped = re.compile(rf"\d{{1,3}}(?:{spaces}\d{{3}})+(?!\d)(?:[.,]\d+)?|{_DIGITS}")
    at = 0
    while (match := grouped.search(scan.flat, at)) is not None:
        start, end = match.span()
        if len(scan.found) > MAX_TOKENS:
            scan.unread = start
            break
        taken = scan.taken.find(1, start, end)
        if taken >= 0:  # read what is left of it
            at = taken + 1 if taken > start else start + 1
            if taken > start:
                _read_number(scan, start, taken, labels)
            continue
        at = end
        run = None if has_leading_mark(scan.flat, start) else _identifier_around(scan, start, end)
        if run is not None:
            scan.add(*run, "identifier", alphanumeric(scan.flat[run[0] : run[1]]))
            at = max(run[1], end)
        else:
            _read_number(scan, start, end, labels)
    _join_measures(scan, known)


def _join_measures(scan: Scan, known: Iterable[KnownValue]) -> None:
    """Read two amounts as one where only together they are as much as a known value: `1 year and 6 months` for 18 months."""
    sizes = {
        (SIZES[value.unit][0], Decimal(str(value.value)) * SIZES[value.unit][1])
        for value in known
        if value.unit in SIZES and value.value
    }
    measured = [each for each in scan.found if each.unit in SIZES and each.value != UNREAD]
    measured.sort(key=lambda each: each.start)
    for first, second in pairwise(measured if sizes else ()):
        (measure, size), (other, least) = SIZES[first.unit], SIZES[second.unit]
        gap = scan.original[first.end : second.start].replace("\xa0", " ")
        if measure != other or least >= size or not _AND.fullmatch(gap):
            continue
        amounts = Decimal(first.value) * size, Decimal(second.value) * least
        are_known = all((measure, each) in sizes for each in amounts)
        if not are_known and amounts[1] < size and (measure, sum(amounts)) in sizes:
            scan.found.remove(second)
            total = f"{(sum(amounts) / least).normalize():f}"
            at = scan.found.index(first)
            scan.found[at] = scan.token(first.start, second.end, first.kind, total, second.unit)


def _identifier_around(scan: Scan, start: int, end: int) -> tuple[int, int] | None:
    """The run of letters and digits that a number is a part of, if it is more than a number with a unit."""
    flat, low, high = scan.flat, start, end
    least, most = max(start - _REACH, 0), min(end + _REACH, len(flat))
    while low > least and not scan.taken[low - 1] and _joins(flat[low - 1], flat[low - 2 : low - 1], "-_/."):
        low -= 1
    while high < most and not scan.taken[high] and _joins(flat[high], flat[high + 1 : high + 2], "-_/"):
        high += 1
    before, number, after = flat[low:start], flat[start:end], flat[end:high]
    if any(char.isalpha() for char in before):
        is_abbreviation = before[-1] == "." and len(before) <= 5  # No.12
        is_currency = before in scan.vocabulary.currency_forms and not after  # EUR74.00
        return None if is_abbreviation or is_currency else (low, high)
    if not any(char.isdigit() for char in before + after) or (not before and _POWER.fullmatch(after)):  # 64m²
        is_code = len(number) > 1 and number.startswith("0") and number.isdigit()
        return (low, high) if is_code else None
    is_range = _RANGE.fullmatch(after) or (not after.strip("-/") and re.fullmatch(r"\d{1,4}[-/]", before))
    return None if is_range else (low, high)


def _joins(char: str, beyond: str, joints: str) -> bool:
    return _continues(char) or (char in joints and beyond.isalnum())


def _continues(char: str) -> bool:
    return char.isalnum() and not _UNSPACED.match(char)


def _read_whole_forms(scan: Scan) -> None:
    """Find amounts that a unit of the pack writes without a number: `once a day`."""
    words = scan.vocabulary
    forms: dict[str, list[tuple[tuple[str, ...], UnitForm]]] = {}
    for form in words.whole_forms:
        # Number words in it are digits in the text that is read.
        plain = words_of(read_plain(" ".join(form.after), words.decimal, words.lexicon).text)
        for parts in {form.after, plain}:
            forms.setdefault(parts[0], []).append((parts, form))
    for at, (word, start, _) in enumerate(scan.words):
        for parts, form in forms.get(word, ()):
            ranges = scan.words[at : at + len(parts)]
            if tuple(part for part, _, _ in ranges) == parts:
                scan.add(start, ranges[-1][2], "amount", str(form.value), form.unit)


def _read_number(scan: Scan, start: int, end: int, labels: _Labels) -> None:
    flat = scan.flat
    if has_leading_mark(flat, start):
        start -= 1
        value = decimals_alone(scan.vocabulary, flat[start:end])
    else:
        value = scan.vocabulary.parse_number(flat[start:end])
    mark = flat[end] if flat[end : end + 1] in (WEAK, ARTICLE, ORDINAL) else ""
    end += len(mark)
    if ordinal := _ORDINAL.match(flat, end):
        end = ordinal.end()
    elif _is_dotted_ordinal(scan, start, end):
        end += 1
    else:
        power, end = scale_behind(scan, start, end)
        value, end = _add_half(flat, value and value.scaleb(power), end)
    # What the locale does not read as a number equals no value.
    shown = f"{value.normalize():f}" if value is not None else UNREAD
    if is_in_brackets(flat, start, end) and (money := _currency(scan, start - 1, end)):
        scan.add(money.start, end + 1, "amount", shown if value is None else f"-{shown}", money.unit)
        return
    is_ordinal = ordinal is not None or mark == ORDINAL
    named = (partial(each, labels=labels.all) for each in (_currency, _unit))
    readers = () if is_ordinal else (_percent, *named)
    for found in (reader(scan, start, end) for reader in readers):
        if found is not None:
            value, end = _add_part(flat, value, found)
            shown = shown if value is None else f"{value.normalize():f}"
            again = _PERCENT_AGAIN.match(flat, end) if found.kind == "percent" else None
            end = again.end() if again else end
            first, shown = _with_signs(flat, start, min(found.start, start), UNREAD if again else shown)
            scan.add(first, end, found.kind, shown, found.unit)
            return
    is_weak = mark and (mark == ARTICLE or not _is_beside(flat, start, end, labels.of_plain_counts))
    if not is_weak or (mark == WEAK and _begins_own_unit(scan, end)):
        first, shown = _with_signs(flat, start, start, shown)
        if _LETTER_BEHIND.match(flat, end):  # seat 5C
            scan.add(start, end + 1, "identifier", alphanumeric(flat[start : end + 1]))
        else:
            scan.add(first, end, "number", shown, _noun(scan, end))


def _add_half(flat: str, value: Decimal | None, end: int) -> tuple[Decimal | None, int]:
    """Return a whole number with the half that is added in words, and where they end: `2 and a half`."""
    if value is not None and value % 1 == 0 and (half := _AND_HALF.match(flat, end)):
        return value + Decimal("0.5"), half.end()
    return value, end


def _add_part(flat: str, value: Decimal | None, found: _Quantity) -> tuple[Decimal | None, int]:
    """Return an amount with what is written behind its unit, and where that ends: smaller coins, `and a half`."""
    if value is not None and value % 1 == 0 and _is_money(found) and (cents := _CENTS.match(flat, found.end)):
        return value + Decimal(cents[1] or cents[2]) / 100, cents.end()
    return _add_half(flat, value, found.end)


def _with_signs(flat: str, start: int, first: int, shown: str) -> tuple[int, str]:
    """Return where a number begins with the signs before it and before its currency, and its value with them."""
    minus = sign_start(flat, start)
    minus = sign_start(flat, first) if minus is None and first < start else minus
    first = first if minus is None else min(first, minus)
    limit = comparison_start(flat, first)
    if limit is not None:
        return limit, UNREAD
    return first, shown if minus is None or shown == UNREAD else f"-{shown}"


def _begins_own_unit(scan: Scan, end: int) -> bool:
    """Return whether what is behind a number begins as a unit of the pack does: `twice a week` where that has `{} times a day`."""
    words = words_of(scan.flat[end : end + 40])
    forms = scan.vocabulary.unit_forms.get(words[0], ()) if words else ()
    return any(
        form.is_own and words[: len(form.after) - 1] == form.after[:-1]
        for form in forms
        if len(form.after) > 2
    )


def _is_money(found: _Quantity) -> bool:
    return found.kind == "amount" and len(found.unit) == 3 and found.unit.isupper()


def _noun(scan: Scan, end: int) -> str:
    """The word behind a number that may say what is counted, such as `points`; empty for `and` and its like."""
    lexicon, found = scan.vocabulary.lexicon, _NOUN_BEHIND.match(scan.flat, end)
    if found is None or _PER_YEAR.match(scan.flat, end):
        return ""
    if found["sign"]:
        return "" if found["sign"] in _NO_NOUN else found["sign"]
    word, start = found["word"], found.start("word")
    if scan.vocabulary.language == "hi":
        return "" if word in _HINDI_WORDS else word
    is_initial = (
        len(word) == 1 and bool(found["gap"]) and not scan.text[start].isupper()
    )  # 150 F, but 150 a month
    is_small = lexicon is None or word in word_set(lexicon.small_words) or word == "x"
    return "" if is_initial or is_small else word


def _is_dotted_ordinal(scan: Scan, start: int, end: int) -> bool:
    """Return whether a number with a stop is an ordinal, as in `die 2. Mahnung`, rather than the end of a sentence."""
    lexicon = scan.vocabulary.lexicon
    if scan.vocabulary.language != "de" or end - start > 2 or lexicon is None:
        return False
    following = _NOUN.match(scan.text, end)
    return following is not None and fold(following[1]) not in word_set(lexicon.small_words)


def _is_beside(flat: str, start: int, end: int, labels: set[str]) -> bool:
    """Return whether one of these words stands directly before or after a number."""
    before, after = (
        re.split(_APART, flat[max(start - 40, 0) : start])[-1],
        re.split(_APART, flat[end : end + 40])[0],
    )
    before, after = words_of(before)[-1:], words_of(after)[:1]
    return any(same_word(label, word) for word in (*before, *after) for label in labels)


def _percent(scan: Scan, start: int, end: int) -> _Quantity | None:
    if points := _POINTS_ALONE.match(scan.flat, end):
        return _Quantity(start, points.end(), "percent", "percentage-point")
    sign = _PERCENT.match(scan.flat, end)
    lexicon = scan.vocabulary.lexicon
    if sign is None and lexicon and (word := _NEXT_WORD.match(scan.flat, end)):
        sign = word if any(same_word(each, word[1]) for each in word_set(lexicon.percent)) else None
    if sign is None:
        return None
    points = _POINTS.match(scan.flat, sign.end())
    return _Quantity(start, sign.end(), "percent", "percentage-point" if points else "percent")


def _currency(scan: Scan, start: int, end: int, labels: Collection[str] = ()) -> _Quantity | None:
    """A currency before the number that no other number has taken, or behind it: not `un peso máximo`, which is a label."""
    flat, forms = scan.flat, scan.vocabulary.currency_forms
    before = _MONEY_BEFORE.search(flat, max(start - 24, 0), start)
    name = before[1].rstrip(".") if before and scan.is_free(before.start(), start) else ""
    code = forms.get(name) or _unknown_currency(name)
    if before and code and _is_spelled_so(scan, before.start(1), name, code):
        dashes = _NO_DECIMALS.match(flat, end)
        return _Quantity(before.start(), dashes.end() if dashes else end, "amount", code)
    tail = _OF.match(flat, end) or _MONEY_TAIL.match(flat, end)
    begin = tail.end() if tail else end
    behind = _MONEY_BEHIND.match(flat, begin)
    for name in _shorter(behind[0] if behind else ""):
        following = flat[begin + len(name) : begin + len(name) + 1]
        code = scan.vocabulary.currency_named(fold(name)) or _unknown_currency(name)
        goes_on = _NEXT_WORD.match(flat, begin + len(name))
        is_label = fold(name) in labels and goes_on is not None and goes_on[1] in {*labels, "de"}
        if (
            code
            and not (is_label and flat[end - 1 : end] == ARTICLE)
            and not _continues(following)
            and _is_spelled_so(scan, begin, name, code)
        ):
            return _Quantity(start, begin + len(name), "amount", code)
    return None


def _unknown_currency(name: str) -> str:
    """Return the code for no currency where a sign is one that no known currency has: 25 ¢ are not 25."""
    return _UNKNOWN_CURRENCY if len(name) == 1 and unicodedata.category(name) == "Sc" else ""


def _is_spelled_so(scan: Scan, start: int, name: str, code: str) -> bool:
    """Return whether a currency is written out, or its code in capitals: the verb "try" does not mean Turkish lira."""
    return name.upper() != code or scan.text[start : start + len(name)].isupper()


def _shorter(text: str) -> Iterator[str]:
    """Yield a phrase, its beginnings where there are no spaces, and its first word or sign."""
    yield text
    if _UNSPACED.match(text):
        yield from (text[:size] for size in range(min(len(text) - 1, 6), 0, -1))
    head = re.match(rf"(?:{_LETTER})+|[^\w\s]", text)
    if head and head[0] != text:
        yield head[0]


def _unit(scan: Scan, start: int, end: int, labels: set[str]) -> _Quantity | None:
    """Return a unit behind the number, or words of the pack's before it. A label that is only spelled like a unit does not count."""
    behind = scan.flat[end : end + 80].split("\n\n")[0]
    if of := _OF.match(behind):  # une quinzaine de jours
        end, behind = end + of.end() - 1, behind[of.end() - 1 :]
    ranges = word_ranges(behind)[:8]
    if ranges and not behind[: ranges[0][1]].strip(" \xa0-\n°"):
        names = tuple(word for word, _, _ in ranges)
        for form in scan.vocabulary.forms_after(names[0]):
            size = len(form.after)
            is_label = names[0] in labels and names[0] != form.after[0]
            if is_label or (names[0] in DEGREES and "°" not in behind[: ranges[0][1]]):
                continue
            is_same = len(names) >= size and all(map(same_word, form.after[1:], names[1:size]))
            if is_same and _has_words_before(scan.flat, start, form):
                found = _Quantity(start, end + ranges[size - 1][2], "amount", form.unit)
                return found if form.is_own else _qualified(scan, found, labels)
    for form in scan.vocabulary.unit_forms.get("", ()):
        if form.before and _has_words_before(scan.flat, start, form):
            return _Quantity(start, end, "amount", form.unit)
    return None


def _qualified(scan: Scan, found: _Quantity, labels: set[str]) -> _Quantity:
    """Return an amount with what makes its unit another one: `10 jours ouvrés`, `500 mg/kg`. Per day or year it is still the same."""
    lexicon = scan.vocabulary.lexicon
    other = _NEXT_WORD.match(scan.flat, found.end)
    if other and lexicon and other[1] in word_set(lexicon.other_units) - labels:
        return found._replace(end=other.end(), unit=f"{found.unit} {other[1]}")
    per = _DENOMINATOR.match(scan.flat, found.end)
    if (
        per is None
        or per[1] == "a"
        or any(form.unit in _TIMES for form in scan.vocabulary.forms_after(per[1]))
    ):
        return found
    return found._replace(end=per.end(), unit=f"{found.unit}{per[0]}")


def _has_words_before(flat: str, start: int, form: UnitForm) -> bool:
    size = len(form.before)
    return not size or words_of(flat[max(start - 60, 0) : start])[-size:] == form.before
