"""How the entities of a sentence are written: accounts, dates, amounts, numbers, files, ids and names, word by word."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import date
from decimal import Decimal
from itertools import pairwise, takewhile
from typing import NamedTuple

Number = int | float

FILLER = "\ufffc"
"""Stands in for parts of a text that are not read as words."""


class Word(NamedTuple):
    """A word of a text without the punctuation around it."""

    text: str
    start: int
    end: int
    gap: str
    """What stands between the word before and this one."""
    is_blob: bool
    """Whether brackets, quotation marks or the like stand inside: it counts as a whole, and is not understood."""


class Form(NamedTuple):
    """What some words in a row were recognised as; without a kind they are understood and name nothing."""

    kind: str | None
    start: int
    end: int
    value: str = ""
    number: Number | None = None


def _word_set(text: str) -> frozenset[str]:
    return frozenset(text.split())


# --- words ---

_CHUNK = re.compile(rf"[^\s{FILLER}]+")
_SPLIT = re.compile(r"[;]+|(?<!\d)[,—–]+|[,—–]+(?!\d)")
_OPENING = "([{<*'\"`‘’‚“”„«»‹›¿¡:,"
_CLOSING = ")]}>*'\"`‘’‚“”„«»‹›.,:;!?…"
_INSIDE_BLOB = re.compile(r"[()\[\]{}<>|*\"`“”„«»‹›!?=,–—]")


def split_words(text: str) -> tuple[Word, ...]:
    """Return the words of a text. A word is never a part of what stands without a space, a comma or a dash."""
    words: list[Word] = []
    end = 0
    for chunk in _CHUNK.finditer(text):
        for part_start, part_end in _split_chunk(chunk[0]):
            part = chunk[0][part_start:part_end]
            core = part.lstrip(_OPENING)
            start = chunk.start() + part_start + len(part) - len(core)
            core = core.rstrip(_CLOSING)
            if not any(map(str.isalnum, core)) and not _is_currency(core) and core != "%":
                continue
            is_blob = bool(_INSIDE_BLOB.search(core)) and not _MONEY.fullmatch(core)
            words.append(Word(core, start, start + len(core), text[end:start], is_blob))
            end = start + len(core)
    return tuple(words)


def _split_chunk(chunk: str) -> Iterator[tuple[int, int]]:
    start = 0
    for match in _SPLIT.finditer(chunk):
        yield start, match.start()
        start = match.end()
    yield start, len(chunk)


def split_possessive(word: str) -> tuple[str, bool]:
    """Return a word without a possessive `'s`, and whether it had one."""
    is_possessive = len(word) > 2 and word[-2] in "'’" and word[-1] in "sS"
    return (word[:-2], True) if is_possessive else (word, False)


def _is_joined(word: Word) -> bool:
    return len(word.gap) == 1 and word.gap.isspace() and word.gap != "\n"


# --- numbers and amounts ---

_WRITTEN_NUMBER = re.compile(r"-?\d(?:[\d.,'’]*\d)?")
_PLAIN = re.compile(r"-?(?:0|[1-9]\d{0,29})(?:\.\d{1,12})?")
_UNCLEAR = re.compile(r"-?[1-9]\d{0,2}\.\d{3}")
"""`1.200`: a thousand two hundred in one country, one and a fifth in another."""
_GROUPED = (
    (re.compile(r"-?[1-9]\d{0,2}(?:,\d{3}){1,9}(?:\.\d{1,2})?"), ",", "."),
    (re.compile(r"-?[1-9]\d{0,2}(?:'\d{3}){1,9}(?:\.\d{1,2})?"), "'", "."),
    (re.compile(r"-?[1-9]\d{0,2}(?:\.\d{3}){1,9},\d{1,2}"), ".", ","),
    (re.compile(r"-?[1-9]\d{0,2}(?:\.\d{3}){2,9}"), ".", ","),
)
_DECIMAL_COMMA = re.compile(r"-?(?:0|[1-9]\d{0,29}),\d{2}")
_THREE_DIGITS = re.compile(r"\d{3}(?:[.,]\d{1,2})?")
_FIRST_DIGITS = re.compile(r"-?[1-9]\d{0,2}")
_FIRM_SPACES = "\u00a0\u202f\u2009"
"""Spaces that do not break a line: between groups of digits they make one number."""

_CODES = _word_set(
    "USD EUR GBP INR CHF JPY CNY AUD CAD NZD SEK NOK DKK PLN CZK HUF RON TRY BRL MXN ZAR SGD HKD KRW THB AED SAR ILS"
)
_SYMBOLS = "$€£¥₹₽₩₺₴₫฿₪"
_SIGN = rf"(?:US|CA|AU|NZ|HK|[ACS])?\$|[{_SYMBOLS}]|Rs\.?|{'|'.join(sorted(_CODES))}"
_MONEY = re.compile(
    rf"(?P<before>{_SIGN})?(?P<number>{_WRITTEN_NUMBER.pattern})(?P<after>[{_SYMBOLS}]|{'|'.join(sorted(_CODES))})?"
)
_CURRENCY = re.compile(_SIGN)
_CURRENCY_WORDS = _word_set(
    "dollar dollars euro euros pound pounds rupee rupees franc francs franken yen yuan peso pesos zloty krone kronen kronor"
)
_MINOR_UNITS = _word_set("cent cents pence penny paise paisa centime centimes rappen ct c p")
_MULTIPLES = _word_set(
    "k m mn bn thousand thousands million millions billion billions trillion hundred dozen lakh lakhs crore crores "
    "tausend millionen milliarde milliarden mio mrd mille milliard milliards"
)
_PERCENT = _word_set("% percent prozent")


def _is_currency(text: str) -> bool:
    return bool(_CURRENCY.fullmatch(text)) or text.lower() in _CURRENCY_WORDS


def parse_number(text: str, *, is_money: bool = False) -> Number | None:
    """Return the number that a text writes down; None if it writes none, or could be read in two ways."""
    text = text.replace("’", "'")
    if _UNCLEAR.fullmatch(text):
        return None
    if _PLAIN.fullmatch(text):
        return _exact(text)
    for pattern, separator, point in _GROUPED:
        if pattern.fullmatch(text):
            return _exact(text.replace(separator, "").replace(point, "."))
    return _exact(text.replace(",", ".")) if is_money and _DECIMAL_COMMA.fullmatch(text) else None


def _exact(text: str) -> Number | None:
    value = Decimal(text)
    if value == value.to_integral_value():
        return int(value)
    number = float(text)
    return number if Decimal(repr(number)) == value else None


def write_number(number: Number) -> str:
    """Return a number as plain decimal text."""
    return str(number) if isinstance(number, int) else format(Decimal(repr(number)), "f")


def _read_amount(words: Sequence[Word], first: int) -> tuple[int, Form] | None:
    """An amount or a number that begins with a word, and how many words it has."""
    index = first
    has_sign = bool(_CURRENCY.fullmatch(words[index].text)) and index + 1 < len(words)
    if has_sign:
        index += 1
        if not _is_joined(words[index]):
            return None
    match = _MONEY.fullmatch(words[index].text)
    if match is None or words[index].is_blob:
        return None
    digits, is_firm = match["number"], True
    is_money = has_sign or bool(match["before"] or match["after"])
    index += 1
    if not match["after"] and _FIRST_DIGITS.fullmatch(digits):
        while index < len(words) and _is_joined(words[index]) and _THREE_DIGITS.fullmatch(words[index].text):
            digits, is_firm = digits + words[index].text, is_firm and words[index].gap in _FIRM_SPACES
            index += 1
    index, unit = _read_unit(words, index, is_money=is_money)
    is_money = is_money or unit in ("currency", "minor")
    raw = (words[first].start, words[index - 1].end)
    if unit == "percent":
        return index - first, Form(None, *raw)
    number = parse_number(digits, is_money=is_money) if is_firm and unit in ("", "currency") else None
    if number is None and not is_money and index - first == 1 and not _is_unclear_number(digits):
        return None
    return index - first, Form("amount" if is_money else "number", *raw, "", number)


def _read_unit(words: Sequence[Word], index: int, *, is_money: bool) -> tuple[int, str]:
    """Return the index behind the words that belong to a number, and what they make of it."""
    unit = ""
    while index < len(words) and _is_joined(words[index]):
        text = words[index].text
        if text.lower() in _PERCENT:
            return index + 1, "percent"
        if text.lower() in _MULTIPLES:
            unit = "multiple"
        elif text in _CODES or text in _SYMBOLS or text.lower() in _CURRENCY_WORDS:
            if _starts_amount(words, index):
                break
            return index + 1, "minor" if unit else "currency"
        elif text.lower() in _MINOR_UNITS and not is_money:
            return index + 1, "minor"
        else:
            break
        index += 1
    return index, unit


def _starts_amount(words: Sequence[Word], index: int) -> bool:
    """Whether a currency belongs to the number behind it, as in `$50 EUR 30`, and not to the one before."""
    behind = index + 1
    return (
        behind < len(words)
        and _is_joined(words[behind])
        and bool(_WRITTEN_NUMBER.fullmatch(words[behind].text))
    )


def _is_unclear_number(digits: str) -> bool:
    """Whether digits with points and commas are a number or a list of numbers, rather than a version or an address."""
    return "," in digits or "'" in digits or "’" in digits or bool(_UNCLEAR.fullmatch(digits))


# --- accounts ---

_IBAN = re.compile(r"[A-Z]{2}\d{2}[A-Z0-9]{11,30}")
_IBAN_START = re.compile(r"[A-Z]{2}\d{2}")
_IBAN_GROUP = re.compile(r"[A-Z0-9]{1,4}")


def _read_account(words: Sequence[Word], first: int) -> tuple[int, Form] | None:
    word = words[first]
    if _IBAN.fullmatch(word.text):
        return 1, Form("account", word.start, word.end, word.text)
    if not _IBAN_START.fullmatch(word.text):
        return None
    groups = [word.text]
    for following in words[first + 1 : first + 9]:
        is_group = _IBAN_GROUP.fullmatch(following.text) and _is_joined(following)
        if not is_group or len(groups[-1]) < 4:
            break
        groups.append(following.text)
    valid = [count for count in range(1, len(groups) + 1) if _has_check_digits("".join(groups[:count]))]
    count = valid[0] if len(valid) == 1 else len(groups)
    value = "".join(groups[:count])
    if not _IBAN.fullmatch(value):
        return None
    return count, Form("account", word.start, words[first + count - 1].end, value)


def _has_check_digits(iban: str) -> bool:
    """Whether an IBAN's check digits are right, by ISO 7064."""
    if not _IBAN.fullmatch(iban):
        return False
    return int("".join(str(int(character, 36)) for character in iban[4:] + iban[:4])) % 97 == 1


# --- dates ---

_MONTHS = {
    name: number
    for number, names in enumerate(
        (
            "january jan januar jänner janvier",
            "february feb februar février",
            "march mar märz mars",
            "april apr avril",
            "may mai",
            "june jun juni juin",
            "july jul juli juillet",
            "august aug août",
            "september sep sept septembre",
            "october oct oktober okt octobre",
            "november nov novembre",
            "december dec dezember dez décembre",
        ),
        start=1,
    )
    for name in names.split()
}
_ISO_DATE = re.compile(r"(\d{4})[-/](\d{2})[-/](\d{2})")
_ISO_TIME = re.compile(r"(\d{4})-(\d{2})-(\d{2})T\d{2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?(?:Z|[+-]\d{2}:?\d{2})?")
_DOTTED_DATE = re.compile(r"(\d{1,2})\.(\d{1,2})\.(\d{4})")
_DAY = re.compile(r"(\d{1,2})(?:st|nd|rd|th|er)?")
_ORDINAL = re.compile(r"\d{1,2}(?:st|nd|rd|th|er|ème)")
_YEAR = re.compile(r"\d{4}")
_TIME_OF_DAY = re.compile(r"\d{1,2}(?::\d{2}){1,2}(?:am|pm)?|\d{1,2}(?:am|pm|h)", re.IGNORECASE)


def _make_date(year: str, month: str | int, day: str) -> str | None:
    try:
        return date(int(year), int(month), int(day)).isoformat()
    except ValueError:
        return None


def _read_date(words: Sequence[Word], first: int) -> tuple[int, Form] | None:
    word = words[first]
    value: str | None = None
    if match := _ISO_DATE.fullmatch(word.text):
        value = _make_date(*match.groups())
    elif match := _ISO_TIME.fullmatch(word.text):
        value = word.text if _make_date(*match.groups()) else None
    elif match := _DOTTED_DATE.fullmatch(word.text):
        value = _make_date(match[3], match[2], match[1])
    if value is not None:
        return 1, Form("date", word.start, word.end, value)
    if _TIME_OF_DAY.fullmatch(word.text):
        return 1, Form(None, word.start, word.end)
    return _read_spelled_date(words, first)


def _read_spelled_date(words: Sequence[Word], first: int) -> tuple[int, Form] | None:
    """A date with the name of its month, in either order; without a year it names no day."""
    following = takewhile(lambda word: word.gap in (" ", ". ", ", "), words[first + 1 : first + 3])
    parts = [words[first], *following]
    texts = [part.text for part in parts]
    if len(texts) < 2:
        return (1, Form(None, words[first].start, words[first].end)) if _ORDINAL.fullmatch(texts[0]) else None
    is_day_first = texts[1].lower() in _MONTHS
    month, day = (texts[1], texts[0]) if is_day_first else (texts[0], texts[1])
    number, days = _MONTHS.get(month.lower()), _DAY.fullmatch(day)
    start = words[first].start
    if number is None:
        return (1, Form(None, start, words[first].end)) if _ORDINAL.fullmatch(texts[0]) else None
    if days is None or int(days[1]) not in range(1, 32):
        is_year = not is_day_first and month[0].isupper() and _YEAR.fullmatch(day)
        return (2, Form(None, start, parts[1].end)) if is_year else None
    if len(parts) == 3 and _YEAR.fullmatch(texts[2]) and (value := _make_date(texts[2], number, days[1])):
        return 3, Form("date", start, parts[2].end, value)
    return (2, Form(None, start, parts[1].end)) if month[0].isupper() else None


# --- addresses, files and ids ---

_LOOSE_END = r"[^\s<>\"`“”„«»" + FILLER + "]"
_TOP_LEVEL = "com|org|net|edu|gov|info|biz|io|dev|app|eu|uk|de|fr|ch|at|nl|es|it"
_URI = re.compile(
    rf"(?<![\w@/.:+\\-])(?:[A-Za-z][A-Za-z0-9+.-]{{1,20}}://{_LOOSE_END}+"
    rf"|www\.{_LOOSE_END}+"
    rf"|(?:[A-Za-z0-9][A-Za-z0-9-]{{0,62}}\.){{1,5}}(?:{_TOP_LEVEL})(?![\w@-]|\.(?![A-Z][a-z])\w)(?:[/:?#]{_LOOSE_END}*)?)"
)
_NEXT_SENTENCE = re.compile(rf"\.(?:{_TOP_LEVEL})(?=\.[A-Z][a-z]*$)")
"""An ending of a host and a capitalised word behind it: the next sentence, begun without a blank."""
_WEB_ADDRESS = re.compile(r"www\.[\w-]+(?:\.[\w-]+)+(?:[/:?#].*)?", re.DOTALL)
_EMAIL = re.compile(r"[\w.+'%-]+@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+")
_FILE = re.compile(
    r"(?:[A-Za-z]:)?[\w./\\~@+-]*[\w-]\.(?:[a-z][a-z0-9]{1,5}|[A-Z][A-Z0-9]{1,5}|7z)|[\w./\\+-]*\w{2}\.[chrm]"
)
_HIDDEN_FILE = re.compile(r"\.[a-z][\w-]+")
_PATH = re.compile(r"(?:~|\.{1,2})?/[\w.@+-]+(?:/[\w.@+-]*)*")
_ID = re.compile(r"\w[\w.:/\\#+-]*")
_INNER_MARK = re.compile(r"\w[_-]\w")
_MARKED = re.compile(r"[#@]\w[\w.-]*")
_COMMON_PARTS = _word_set(
    "e co re non pre post anti semi self well up to in out off on of the and by time times long short high low day days "
    "term based related free half mid multi first second third last next new old all one two three so no not ex vice "
    "part full double single end step real left right back down over under check follow sign log set take make pick "
    "per cross inter intra sub super read only ready made known read write year years month months week weeks ci peut "
    "être même là dire vous nous moi toi lui je tu il elle on est a t"
)


def find_uris(text: str) -> Iterator[Form]:
    """Yield the web addresses of a text, without punctuation or the beginning of a sentence behind them."""
    for match in _URI.finditer(text):
        value = _strip_end(match[0])
        if joined := _NEXT_SENTENCE.search(value):
            value = value[: joined.end()]
        is_address = not value.startswith("www.") or _WEB_ADDRESS.fullmatch(value)
        if is_address and not value.endswith("://"):
            yield Form("uri", match.start(), match.start() + len(value), value)


def _strip_end(text: str) -> str:
    """Return an address without trailing punctuation; a closing bracket stays where its opening one is in the address."""
    while text:
        last = text[-1]
        pair = {")": "(", "]": "[", "}": "{"}.get(last)
        is_loose = pair is not None and text.count(pair) < text.count(last)
        if last not in ".,:;!?'’*…|" and not is_loose:
            return text
        text = text[:-1]
    return text


def _read_word(word: Word) -> Form | None:
    """An e-mail address, a file or an id."""
    text = split_possessive(word.text)[0]
    end = word.start + len(text)
    if _EMAIL.fullmatch(text):
        local, _, domain = text.rpartition("@")
        return Form("email", word.start, end, f"{local}@{domain.lower()}")
    if _FILE.fullmatch(text) or _HIDDEN_FILE.fullmatch(text) or _PATH.fullmatch(text):
        return Form("file", word.start, end, text)
    if _MARKED.fullmatch(text):
        return Form("id" if text[1:].isdecimal() else "name", word.start, end, text)
    if _ID.fullmatch(text) and _is_id(text):
        return Form("id", word.start, end, text)
    return None


def _is_id(text: str) -> bool:
    if any(map(str.isdigit, text)) or "_" in text[1:-1]:
        return True
    parts = text.split("-")
    is_compound = bool(_INNER_MARK.search(text)) and not all(part[:1].isupper() for part in parts)
    return is_compound and _COMMON_PARTS.isdisjoint(part.lower() for part in parts)


# --- names ---

_CAPITALISED = re.compile(r"[^\W\d_]+(?:['’.&-][^\W\d_]+)*")
_TITLES = _word_set("mr mrs ms dr prof st herr herrn frau mme mlle m")
_NO_NAMES = _word_set(
    "i i'm i'd i'll i've i’m i’d i’ll i’ve sie ihnen ihr ihre ihren ihrem ihrer ok please "
    "monday tuesday wednesday thursday friday saturday sunday "
    "montag dienstag mittwoch donnerstag freitag samstag sonntag "
    "iban bic pdf csv json xml html url uri api id pin vat sms faq ceo cfo cto hr it eta asap fyi ps am pm"
) | {code.lower() for code in _CODES}


def find_names(words: Sequence[Word], used: Sequence[bool], *, is_prose: bool = True) -> Iterator[Form]:
    """Yield the names among words: capitalised words in a row, in prose without the first word of a sentence."""
    run: list[Form] = []
    for index, word in enumerate(words):
        text, is_possessive = split_possessive(word.text)
        is_name = not used[index] and not word.is_blob and _is_name(text)
        is_start = is_prose and _starts_sentence(words, index)
        if run and (is_start or not is_name or not _continues(run[-1], word)):
            yield _join(run)
            run = []
        if is_name and not is_start:
            run.append(Form("name", word.start, word.start + len(text), text))
            if is_possessive:
                yield _join(run)
                run = []
    if run:
        yield _join(run)


def _is_name(text: str) -> bool:
    lowered = text.lower()
    is_word = text[:1].isupper() and _CAPITALISED.fullmatch(text) is not None
    return is_word and lowered not in _NO_NAMES and lowered not in _TITLES and lowered not in _MONTHS


def _continues(before: Form, word: Word) -> bool:
    is_initial = len(before.value) == 1
    return _is_joined(word) or (is_initial and word.gap == ". ")


def _join(run: Sequence[Form]) -> Form:
    text = run[0].value
    for before, part in pairwise(run):
        text += (" " if part.start - before.end == 1 else ". ") + part.value
    return Form("name", run[0].start, run[-1].end, text)


def _starts_sentence(words: Sequence[Word], index: int) -> bool:
    if index == 0:
        return FILLER not in words[0].gap
    before, gap = words[index - 1].text, words[index].gap
    is_abbreviated = gap == ". " and (before.lower() in _TITLES or (len(before) == 1 and before.isupper()))
    return not is_abbreviated and any(character in ".!?:…\n" for character in gap)


# --- all of them ---


def read_words(words: Sequence[Word]) -> tuple[list[Form], list[bool]]:
    """Return what words are recognised as, without names, and which of the words that took."""
    found: list[Form] = []
    used = [False] * len(words)
    index = 0
    while index < len(words):
        count, form = _read_at(words, index)
        if form is not None:
            found.append(form)
            used[index : index + count] = [True] * count
        index += count
    return found, used


def _read_at(words: Sequence[Word], index: int) -> tuple[int, Form | None]:
    word = words[index]
    if word.is_blob:
        return 1, None
    if _is_bullet(words, index):
        return 1, Form(None, word.start, word.end)
    for read in (_read_account, _read_date, _read_amount):
        if (found := read(words, index)) is not None:
            return found
    return 1, _read_word(words[index])


def _is_bullet(words: Sequence[Word], index: int) -> bool:
    """Whether a number only counts the items of a list: `1. Pay Bob`."""
    begins_line = index == 0 or "\n" in words[index].gap
    is_marked = index + 1 < len(words) and words[index + 1].gap[:2] in (". ", ") ")
    return begins_line and is_marked and len(words[index].text) <= 2 and words[index].text.isdecimal()
