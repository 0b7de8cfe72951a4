"""What in a text can be looked up: numbers, amounts, dates, identifiers, addresses, names."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tercet.contracts.documents import KnownValue, TextToken
from tercet.locales.dates import read_dates, read_times
from tercet.locales.known_names import read_known_texts, read_names
from tercet.locales.quantities import read_numbers
from tercet.locales.scan import Scan, begin_scan
from tercet.locales.vocabulary import Vocabulary
from tercet.quality.words import alphanumeric, fold

_PATH = r"[^\s<>|\"')\]]"
_ADDRESS = re.compile(
    rf"(?:https?://|www\.){_PATH}{{1,500}}"
    r"|(?<![\w.+-])[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,6}"
    r"|(?<![\w@.-])(?:[a-z0-9-]{1,63}\.){1,4}(?:com|org|net|de|fr|es|ru|eu|io|example|co|uk|test)"
    rf"(?:/{_PATH}{{0,500}})?(?![\w-])",
    re.IGNORECASE,
)
_ACCOUNT = re.compile(r"(?<!\w)[A-Z]{2}\d{2}(?:[ \xa0]?[A-Z0-9]{4}){2,7}(?:[ \xa0]?[A-Z0-9]{1,3})?(?!\w)")
_PHONE = re.compile(r"(?<![\w+.,])(?:\+|\(?0)\d[\d \xa0/()-]{4,22}\d(?!\w|[.,]\d)")
_PHONE_DIGITS = range(7, 16)
_MARKER = re.compile(r"^[ \t>]*(?:(?:[-*+•]|\*\*)[ \t]*)?(\d{1,2})(?:[.)]\)?)(?=[ \t])", re.MULTILINE)
_HEADING = re.compile(
    r"^[ \t]*(?:#{1,6}|\*\*)[ \t]*(\d{1,2})((?:\.\d{1,2}){0,3})\.?\)?(?=[ \t])", re.MULTILINE
)
_IDIOM = re.compile(r"(?<!\w)24\s?/\s?7(?!\w)")


def read_tokens(text: str, words: Vocabulary, known: Sequence[KnownValue]) -> tuple[TextToken, ...]:
    """Return what can be looked up in a text, in its order."""
    scan = begin_scan(text, words)
    for match in _ADDRESS.finditer(scan.text):
        address = match[0].rstrip(".,;:!?")
        scan.add(match.start(), match.start() + len(address), "address", fold(address))
    read_known_texts(scan, known)
    for match in _ACCOUNT.finditer(scan.text):
        scan.add(match.start(), match.end(), "account", alphanumeric(match[0]))
    for found in read_dates(scan.flat, words):
        scan.add(found.start, found.end, "date", found.value)
    for found in read_times(scan.flat):
        scan.add(found.start, found.end, "time", found.value)
    for match in _PHONE.finditer(scan.text):
        if (number := _phone(match[0])) is not None:
            scan.add(match.start(), match.end(), "phone", number)
    _skip_counters(scan)
    read_numbers(scan, known)
    read_names(scan, known)
    return scan.tokens()


def _phone(text: str) -> str | None:
    digits = re.sub(r"\D", "", text.replace("(0)", ""))
    if len(digits) not in _PHONE_DIGITS:
        return None
    return f"+{digits.removeprefix('00')}" if text.startswith(("+", "00")) else digits


def _skip_counters(scan: Scan) -> None:
    """Leave out the numbers of list items and headings, as long as they count up from 1."""
    for pattern in (_HEADING, _MARKER):
        last = 0
        for match in pattern.finditer(scan.text):
            number = int(match[1])
            if number == 1 or last <= number <= last + 1:
                scan.skip(match.start(1), match.end(pattern.groups))
                last = number
    for match in _IDIOM.finditer(scan.text):
        scan.skip(*match.span())
