"""Tokens of a text that can be checked: numbers, amounts, dates, identifiers, addresses, names."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Sequence

from tercet.contracts.documents import KnownValue, TextToken
from tercet.contracts.mode import Trust
from tercet.locales.dates import read_dates, read_times
from tercet.locales.known_names import read_known_texts, read_names
from tercet.locales.plain_text import read_plain
from tercet.locales.quantities import begins_amount, read_numbers
from tercet.locales.scan import Scan, begin_scan
from tercet.locales.vague import read_vague
from tercet.locales.vocabulary import Vocabulary
from tercet.quality.rubric.safety import ACCOUNT
from tercet.quality.words import UNSPACED, alphanumeric, fold, word_ranges, words_of

_PATH = r"[^\s<>|\"')\]]"
_ADDRESS = re.compile(
    rf"(?:https?://|www\.){_PATH}{{1,500}}"
    r"|(?<![\w.+-])[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,6}"
    r"|(?<![\w@.-])(?:[a-z0-9-]{1,63}\.){1,4}(?:com|org|net|info|biz|de|at|ch|fr|es|mx|ru|eu|io|uk|co|us|app|dev|shop|store|online|site|xyz|example|invalid|test)"
    rf"(?:/{_PATH}{{0,500}})?(?![\w-])",
    re.IGNORECASE,
)
_PHONE = re.compile(
    rf"(?<![^\W{UNSPACED}])(?<![+.,])(?:(?:\+|\(?0)\d[\d \xa0/()-]{{4,22}}\d"
    rf"|(?:\d[ \xa0-])?\(\d{{3,5}}\)[ \xa0-]?\d[\d \xa0-]{{4,10}}\d|\d{{3}}-\d{{3}}-\d{{4}})(?![^\W{UNSPACED}]|[.,]\d)"
)
_NATIONAL_PHONE = re.compile(r"(?<![\w.,+-])\d{1,4}(?:[ \xa0.-]\d{2,4}){2,5}(?![\w-]|[.,]\d)")
_THOUSANDS = re.compile(r"\d{1,3}(?:[ \xa0.]\d{3})+")
_LONGEST_NAME = 120
_PHONE_DIGITS = range(7, 16)
_MARKER = re.compile(
    r"^[ \t>]*(?:(?:[-*+•]|\*\*)[ \t]*)?(?P<number>\d{1,2})(?P<mark>[.)]\)?)(?=[ \t]|\*\*[ \t])", re.MULTILINE
)
_HEADING = re.compile(
    r"^[ \t]*(?:#{1,6}|\*\*)[ \t]*(?P<number>\d{1,2}(?:\.\d{1,2}){0,3})(?P<mark>\.?\)?)(?=[ \t])",
    re.MULTILINE,
)
_MANY = 3
"""Headings that count up; fewer could be values."""
_IDIOM = re.compile(r"(?<!\w)24\s?/\s?7(?!\w)|\[\^\w{1,9}\]")
"""Figures that state nothing: `24/7`, and marks of footnotes in Markdown."""


def read_tokens(text: str, words: Vocabulary, known: Sequence[KnownValue]) -> tuple[TextToken, ...]:
    """Return what can be looked up in a text, in its order."""
    scan = begin_scan(text, words)
    for match in _ADDRESS.finditer(scan.text):
        address = match[0].rstrip(".,;:!?")
        scan.add(match.start(), match.start() + len(address), "address", fold(address))
    read_known_texts(scan, known)
    _skip_named_numbers(scan, known)
    for match in ACCOUNT.finditer(scan.text):
        scan.add(match.start(), match.end(), "account", alphanumeric(match[0]))
    for start, end, value in read_dates(scan.flat, words):
        scan.add(start, end, "date", value)
    for start, end, value in read_times(scan.flat, words):
        scan.add(start, end, "time", value)
    for match in _PHONE.finditer(scan.text):
        if (number := _phone(match[0])) is not None:
            scan.add(match.start(), match.end(), "phone", number)
    _read_national_phones(scan, known)
    _skip_counters(scan, known)
    read_vague(scan, known)
    read_numbers(scan, known)
    read_names(scan, known)
    return scan.tokens()


def _phone(text: str) -> str | None:
    digits = re.sub(r"\D", "", text.replace("(0)", ""))
    if len(digits) not in _PHONE_DIGITS:
        return None
    return f"+{digits.removeprefix('00')}" if text.startswith(("+", "00")) else digits


def _read_national_phones(scan: Scan, known: Sequence[KnownValue]) -> None:
    """Find groups of digits that are as many as those of a known international number without its country."""
    international = [str(value.value) for value in known if str(value.value).startswith("+")]
    whole = [re.sub(r"\D", "", number) for number in international]
    sizes = {len(digits) - country for digits in whole for country in (1, 2, 3)} & set(range(9, 13))
    for match in _NATIONAL_PHONE.finditer(scan.text) if sizes else ():
        digits = re.sub(r"\D", "", match[0])
        is_number = _THOUSANDS.fullmatch(match[0]) and not any(each.endswith(digits) for each in whole)
        if len(digits) in sizes and not is_number:
            scan.add(match.start(), match.end(), "phone", digits)


def _skip_named_numbers(scan: Scan, known: Sequence[KnownValue]) -> None:
    """Leave out number words in trusted names and in labels, such as `Three Harbours` and `each one`."""
    words = scan.vocabulary
    texts = {label for value in known for label in value.labels}
    texts |= {
        str(value.value) for value in known if value.type in ("text", "name") and value.trust is Trust.TRUSTED
    }
    phrases: dict[str, set[tuple[str, ...]]] = {}
    for text in texts:
        is_phrase = " " in text and len(text) <= _LONGEST_NAME
        plain = read_plain(text, words.decimal, words.lexicon).text if is_phrase else ""
        if any(char.isdigit() for char in plain) and not any(char.isdigit() for char in text):
            phrases.setdefault(words_of(text)[0], set()).add(words_of(text))
    ranges = word_ranges(scan.original) if phrases else []
    for at, (word, start, _) in enumerate(ranges):
        for phrase in phrases.get(word, ()):
            if tuple(each for each, _, _ in ranges[at : at + len(phrase)]) == phrase:
                end = ranges[at + len(phrase) - 1][2]
                scan.skip(bisect_left(scan.plain.starts, start), bisect_left(scan.plain.starts, end))


def _skip_counters(scan: Scan, known: Sequence[KnownValue]) -> None:
    """Leave out the numbers of list items and headings that count up from 1.

    One with a stop or bracket behind it may stand alone, unless it stands before a unit or what it could count.
    """
    listed = [value for value in known if value.name]
    for pattern in (_HEADING, _MARKER):
        for series in _series(pattern.finditer(scan.text)):
            counted = listed if len(series) < _MANY else []
            for match in series:
                is_marked = bool(match["mark"])
                is_sure = is_marked and len(series) > 1
                is_likely = is_marked or len(series) > 1
                if is_sure or (is_likely and not begins_amount(scan, match.end("mark"), counted)):
                    scan.skip(match.start("number"), match.end("mark"))
    for match in _IDIOM.finditer(scan.text):
        scan.skip(*match.span())


def _series(counters: Iterable[re.Match[str]]) -> list[list[re.Match[str]]]:
    """Return the counters that count up from 1, each run of them together; several may be 1, as Markdown counts itself."""
    found: list[list[re.Match[str]]] = []
    last: tuple[int, ...] = ()
    for match in counters:
        number = tuple(map(int, match["number"].split(".")))
        goes_on = (
            bool(last) and last <= number and number[0] <= last[0] + 1 and (number > last or match["mark"])
        )
        if goes_on:
            found[-1].append(match)
        elif number[0] == 1:
            found.append([match])
        else:
            continue
        last = number
    return found
