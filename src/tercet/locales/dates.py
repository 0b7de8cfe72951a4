"""Dates and times in a text. A date without its year stays without it: nothing is read by today's date."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date
from functools import lru_cache

from tercet.locales.plain_text import ORDINAL, WEAK, level
from tercet.locales.vocabulary import Vocabulary

_PIVOT = 70
"""Two-digit years below it are of this century."""
_DAY = rf"(?P<d>\d{{1,2}})(?:st|nd|rd|th|er|º|ª|\.|-?го|-?е|[{WEAK}{ORDINAL}])?"
_NUMERIC = re.compile(
    r"(?<![\w.,/-])(?:(?P<iso>[12]\d{3}(?P<is>[-/.])\d{1,2}(?P=is)\d{1,2})(?=t\d{2}:\d{2}|(?![\w/-]))"
    r"|(?P<a>\d{1,2})(?P<sep>[./-])(?P<b>\d{1,2})(?P=sep)(?P<y>\d{4}|\d{2})(?![\w/-]|[.,]\d)"
    r"|(?P<da>\d{1,2})\.\s?(?P<mo>\d{1,2})\.(?!\d)"
    r"|(?P<m>0?[1-9]|1[0-2])/(?P<my>(?:19|20)\d{2})(?![\w/-]))"
)
_WITH_SIGNS = re.compile(
    r"(?:(?P<y>\d{4})\s?[年년]\s?)?(?P<m>\d{1,2})\s?[月월]\s?(?P<d>\d{1,2})\s?[日일]|(?P<fy>\d{4})\s?[年년]\s?(?P<fm>\d{1,2})\s?[月월]"
)
_TIMES = {
    mark: re.compile(
        r"(?:(?<![\w.,:])|(?<=\dt))(?P<h>[01]?\d|2[0-3])(?:(?::|\s?h\s?)(?P<mi>[0-5]\d)(?::[0-5]\d)?(?:z|[+-]\d{2}:?\d{2})?"
        rf"|\.(?P<dm>[0-5]\d)(?=\s?(?:[ap](?:m\b|\.\s?m\.)|uhr\b{clock}))|(?=\s?(?:[ap](?:m\b|\.\s?m\.)|uhr\b|o'clock)))"
        r"(?:\s?(?P<half>[ap])(?:m\b|\.\s?m\.)|\s?(?:uhr|o'clock|h)\b)?(?![\w:]|\s?min)",
    )
    for mark, clock in ((".", ""), (",", r"|h\b"))
}
"""By the decimal mark: `17.30 h` is a time of day where a point is none."""
_END_OF_YEAR = re.compile(
    r"(?<!\w)(?:(?:the end of|end of|ende|fin|fin de|finales de|конца|конце|конец)|(?P<first>anfang|beginning of|start of|debut|principios de))"
    r"[ \xa0](?P<y>(?:19|20)\d{2})(?![\w/-]|[.,]\d)"
)
_WORD_BEFORE = re.compile(r"([^\W\d_]*[^\s\w]|[^\W\d_]+)[ \xa0]?$")
_INVALID = "invalid"


Found = tuple[int, int, str]
"""Where a date or time begins and ends, and its value."""


def read_dates(text: str, words: Vocabulary) -> Iterator[Found]:
    """Find dates in a level text: `2026-05-04`, `--05-04` without a year, `2026-05` without a day."""
    for match in _NUMERIC.finditer(text):
        if match["da"] and _is_behind_currency(text, match.start(), words):
            continue  # €4.01 at the end of a sentence
        if value := _numeric_value(match, words):
            yield (match.start(), match.end(), value)
    for match in _WITH_SIGNS.finditer(text):
        year, month = match["y"] or match["fy"] or "-", int(match["m"] or match["fm"])
        day = f"-{int(match['d']):02}" if match["d"] else ""
        yield (match.start(), match.end(), f"{year}-{month:02}{day}")
    for match in _END_OF_YEAR.finditer(text):
        yield (match.start("y"), match.end("y"), f"{match['y']}-{'01' if match['first'] else '12'}")
    for pattern in _named_patterns(words):
        for match in pattern.finditer(text):
            yield from _named_dates(match, words)


def read_times(text: str, words: Vocabulary) -> Iterator[Found]:
    """Find times of day, as hours and minutes."""
    for match in _TIMES[words.decimal if words.decimal in _TIMES else "."].finditer(text):
        hour, half = int(match["h"]), match["half"]
        if half and 1 <= hour <= 12:
            hour = hour % 12 + (12 if half == "p" else 0)
        yield (match.start(), match.end(), f"{hour:02}:{match['mi'] or match['dm'] or '00'}")


def _is_behind_currency(text: str, start: int, words: Vocabulary) -> bool:
    before = _WORD_BEFORE.search(text, max(start - 24, 0), start)
    return before is not None and before[1] in words.currency_forms


def _numeric_value(match: re.Match[str], words: Vocabulary) -> str:
    if match["iso"]:
        year, month, day = match["iso"].split(match["is"])
        return f"{year}-{int(month):02}-{int(day):02}"
    if match["my"]:
        return f"{match['my']}-{int(match['m']):02}"
    if match["da"]:
        day, month = int(match["da"]), int(match["mo"])
        return f"--{month:02}-{day:02}" if 1 <= day <= 31 and 1 <= month <= 12 else ""
    first, second = int(match["a"]), int(match["b"])
    is_month_first = words.is_month_first and match["sep"] != "."
    month, day = (first, second) if is_month_first else (second, first)
    return f"{_year(match['y'])}-{month:02}-{day:02}"


def _year(text: str) -> str:
    return text if len(text) != 2 else f"{20 if int(text) < _PIVOT else 19}{text}"


@lru_cache(maxsize=64)
def _named_patterns(words: Vocabulary) -> tuple[re.Pattern[str], ...]:
    names = "|".join(sorted(map(re.escape, words.months), key=len, reverse=True))
    days = "|".join(sorted(map(re.escape, words.weekdays), key=len, reverse=True))
    to = "|".join(map(re.escape, (words.lexicon.to if words.lexicon else "").split()))
    month = rf"(?P<m>{names})(?!\w)(?:\.(?=\s+\d))?"
    weekday = rf"(?:\b(?P<w>{days})\b\.?,?\s+(?:the\s+|den\s+|dem\s+|le\s+|el\s+)?)?"
    year = r"(?:,?\s+(?:del?\s+)?(?P<y>\d{4}|'\d{2})(?!\d)(?:\s?г(?:ода|\.)?)?)"
    ends = (
        rf"(?:(?P<from>\d{{1,2}})(?:st|nd|rd|th|er|\.)?(?:\s?-\s?|\s(?:{to})\s+(?:the\s+|dem\s+|zum\s+)?))?"
        if to
        else r"(?P<from>(?!))?"
    )
    return (
        re.compile(rf"(?<![\w.,]){weekday}{ends}(?<![\d]){_DAY}\s?(?:of\s+|de\s+)?\s?{month}{year}?"),
        re.compile(rf"{weekday}\b{month}\s(?:the\s+)?{_DAY}(?![\d:%]|[.,]\d)(?:\s?-\s?(?P<till>\d{{1,2}})(?!\d))?{year}?"),
        re.compile(rf"\b{month}{year}"),
    )  # fmt: skip


def _named_dates(match: re.Match[str], words: Vocabulary) -> Iterator[Found]:
    groups = match.groupdict()
    month = words.months[level(match["m"]).rstrip(".")]
    year = _year((groups.get("y") or "").lstrip("'"))
    if groups.get("d") is None:
        yield (match.start(), match.end(), f"{year}-{month:02}")
        return
    prefix = year or "-"
    start = match.start()
    for name in ("from", "till"):
        if groups.get(name):
            yield (match.start(name), match.end(name), f"{prefix}-{month:02}-{int(groups[name]):02}")
            start = match.start("d") if name == "from" else start
    value = f"{prefix}-{month:02}-{int(match['d']):02}"
    end = match.start("till") - 1 if groups.get("till") else match.end()
    yield (start, end, value if _weekday_agrees(value, groups.get("w"), words) else f"{value} {_INVALID}")


def _weekday_agrees(value: str, weekday: str | None, words: Vocabulary) -> bool:
    """Return whether a date falls on the day of the week that is written with it."""
    if not weekday or value.startswith("--"):
        return True
    try:
        return date.fromisoformat(value).weekday() == words.weekdays[level(weekday).rstrip(".")]
    except ValueError:
        return False
