"""Dates and times of day in a text, as far as they can be told without knowing what day it is."""

from __future__ import annotations

import re
from typing import NamedTuple

_MONTHS = {
    "january": 1, "jan": 1, "february": 2, "feb": 2, "march": 3, "mar": 3, "april": 4, "apr": 4, "may": 5, "june": 6,
    "jun": 6, "july": 7, "jul": 7, "august": 8, "aug": 8, "september": 9, "sep": 9, "sept": 9, "october": 10, "oct": 10,
    "november": 11, "nov": 11, "december": 12, "dec": 12,
}  # fmt: skip
_MONTH = "(?P<month>" + "|".join(sorted(_MONTHS, key=len, reverse=True)) + r")\b\.?"
_YEAR = r"(?P<year>(?:1[5-9]|20)\d{2})(?!\d|[.,]\d)"
_DAY = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?"
_ORDINALS = {"first": 1, "second": 2, "third": 3, "fourth": 4}
_BOUND = r"(?:\b(?P<bound>before|after|since|until|by)\s+)?"

_PATTERNS = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"{_BOUND}{_YEAR}-(?P<number>0\d|1[0-2])(?:-(?P<day>[0-3]\d))?(?=T|\b)",
        rf"(?<!\d)(?P<a>[0-3]?\d)[/.](?P<b>[0-3]?\d)[/.]{_YEAR}",
        rf"{_BOUND}(?<!\d)(?P<from>\d{{1,2}})(?:st|nd|rd|th)?\s*(?:to|-|–|and)\s*{_DAY}\s+{_MONTH}(?:,?\s+{_YEAR})?",
        rf"{_BOUND}(?<!\d){_DAY}(?:\s+of)?\s+{_MONTH}(?:,?\s+{_YEAR})?",
        rf"{_BOUND}\b{_MONTH}\s+{_DAY}(?!\d)(?:,?\s+{_YEAR})?",
        rf"{_BOUND}\b{_MONTH},?\s+{_YEAR}",
        rf"{_BOUND}\bQ(?P<quarter>[1-4])(?:\s+(?:of\s+)?{_YEAR})?",
        rf"\b(?P<ordinal>first|second|third|fourth)\s+quarter(?:\s+(?:of\s+)?{_YEAR})?",
        rf"(?:\b(?:in|since|until|of|last|this)\s+){_MONTH}",
    )
)
_DATED = re.compile(r"\d|quarter|" + "|".join(sorted({name[:3] for name in _MONTHS})), re.IGNORECASE)
_BARE_YEAR = re.compile(rf"{_BOUND}(?<![\w.,#-]){_YEAR}(?![\w%°]|-\w)", re.IGNORECASE)
_TIME = re.compile(
    r"(?<![\d:])(?P<hour>[01]?\d|2[0-4])(?:[:.](?P<minute>[0-5]\d)(?::[0-5]\d)?(?:\s*(?P<half>[ap])\.?m\b\.?)?|"
    r"\s*(?P<only>[ap])\.?m\b\.?)(?![\d:])",
    re.IGNORECASE,
)


class Date(NamedTuple):
    """A date, as far as a text gives it."""

    year: int | None
    month: int | None
    day: int | None
    start: int
    end: int
    quarter: int | None = None
    bound: str = ""
    is_swappable: bool = False
    """Whether day and month may be meant the other way round, as in 01/12/2025."""


class Time(NamedTuple):
    """A time of day, in minutes."""

    minutes: int
    start: int
    end: int


def may_have_dates(text: str) -> bool:
    """Whether a text has a figure, or the name of a month or quarter: one without them has no date."""
    return _DATED.search(text) is not None


def find_dates(text: str) -> list[Date]:
    """The dates of a text that are more than a year."""
    found: list[Date] = []
    for pattern in _PATTERNS if may_have_dates(text) else ():
        for match in pattern.finditer(text):
            found += _read(match)
        text = pattern.sub(lambda match: " " * len(match[0]) if _read(match) else match[0], text)
    return sorted(found, key=lambda date: (date.start, date.end))


def find_years(text: str) -> list[Date]:
    """The bare years of a text: to be asked for when all that is longer was found."""
    return [
        Date(int(match["year"]), None, None, *match.span(), bound=(match["bound"] or "").casefold())
        for match in _BARE_YEAR.finditer(text)
    ]


def find_times(text: str) -> list[Time]:
    """The times of day of a text."""
    found: list[Time] = []
    for match in _TIME.finditer(text):
        half = (match["half"] or match["only"] or "").casefold()
        hour = int(match["hour"])
        if ":" not in match[0] and not half:
            continue
        if half and hour <= 12:
            hour = hour % 12 + (12 if half == "p" else 0)
        found.append(Time(hour * 60 + int(match["minute"] or 0), *match.span()))
    return found


def _read(match: re.Match[str]) -> list[Date]:
    part = match.groupdict()
    year = int(part["year"]) if part.get("year") else None
    bound = (part.get("bound") or "").casefold()
    if part.get("a"):
        return _read_slashes(match, year)
    if part.get("quarter") or part.get("ordinal"):
        quarter = int(part["quarter"]) if part.get("quarter") else _ORDINALS[match["ordinal"].casefold()]
        return [Date(year, None, None, *match.span(), quarter=quarter, bound=bound)]
    month = int(part["number"]) if part.get("number") else _MONTHS[match["month"].casefold()]
    day = int(part["day"]) if part.get("day") else None
    dates = [Date(year, month, day, *match.span(), bound=bound)]
    if part.get("from"):
        dates.insert(0, Date(year, month, int(match["from"]), *match.span()))
    return dates if all((date.day or 1) <= 31 for date in dates) else []


def _read_slashes(match: re.Match[str], year: int | None) -> list[Date]:
    first, second = int(match["a"]), int(match["b"])
    if max(first, second) > 31 or min(first, second) > 12 or min(first, second) < 1:
        return []
    day, month = (first, second) if second <= 12 else (second, first)
    return [Date(year, month, day, *match.span(), is_swappable=day <= 12)]


def agrees(claimed: Date, given: Date) -> bool:
    """Whether what is given bears out the date that is claimed."""
    if claimed.bound in ("before", "after") and given.bound != claimed.bound:
        return _is_on_side(claimed, given)
    return any(_is_covered(claimed, other) for other in _readings(given))


def differs(claimed: Date, given: Date) -> bool:
    """Whether both cannot be the same day."""
    if claimed.bound in ("before", "after") and given.bound != claimed.bound:
        return _order(given) is not None and _order(claimed) is not None and not _is_on_side(claimed, given)
    return all(_is_other(mine, other) for mine in _readings(claimed) for other in _readings(given))


def _readings(date: Date) -> list[Date]:
    return [date, date._replace(day=date.month, month=date.day)] if date.is_swappable else [date]


def _fields(date: Date) -> tuple[int | None, int | None, int | None, int | None]:
    quarter = date.quarter or ((date.month - 1) // 3 + 1 if date.month else None)
    return date.year, quarter, date.month, date.day


def _is_covered(claimed: Date, given: Date) -> bool:
    """Whether every part that is claimed is given, and the same; a swappable date is read as the other one is."""
    readings = _readings(claimed)
    return any(
        all(mine is None or mine == its for mine, its in zip(_asked(reading), _fields(given), strict=True))
        for reading in readings
    )


def _asked(date: Date) -> tuple[int | None, int | None, int | None, int | None]:
    return date.year, date.quarter, date.month, date.day


def _is_other(claimed: Date, given: Date) -> bool:
    return any(
        mine is not None and its is not None and mine != its
        for mine, its in zip(_fields(claimed), _fields(given), strict=True)
    )


def _order(date: Date) -> tuple[int, int, int] | None:
    return (date.year, date.month or 0, date.day or 0) if date.year else None


def _is_on_side(claimed: Date, given: Date) -> bool:
    mine, its = _order(claimed), _order(given)
    if mine is None or its is None:
        return False
    size = 3 if claimed.day and given.day else 2 if claimed.month and given.month else 1
    return its[:size] < mine[:size] if claimed.bound == "before" else its[:size] > mine[:size]
