"""Totals worked out again: what evidence states, or its items come to, or those beside the total.

Which number is meant as a total is told by the words before it. `The shipping total` is another one than the total of the
items, so a word of its own before `total`, or between it and the number, and nothing is done.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from tercet.contracts.shape import JsonObject, as_object
from tercet.contracts.totals import to_decimal, total_names, totals_in, worked_totals
from tercet.repair.edits import Edit
from tercet.repair.materials import Materials
from tercet.repair.regions import Region, parent_of, text_at, texts, value_at, window

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
_STOP = re.compile(r"[.!?](?=\s|\Z)|\n")


def recompute_total(output: JsonObject, place: Region | None, materials: Materials) -> tuple[Edit, ...]:
    """The edit that puts the right total in the place of a wrong one; none where it is not clear which is right."""
    region = _total_at(output, place)
    if region is None:
        return ()
    right = _right_total(output, region, materials)
    if right is None:
        return ()
    if region.start is not None and region.end is not None:
        shown = (text_at(output, region.pointer) or "")[region.start : region.end]
        new: Any = None if to_decimal(shown.replace(",", "")) == right else _written_like(shown, right)
    else:
        old = value_at(output, region.pointer)
        new = None if to_decimal(old) == right else _number(right)
    return () if new is None else (Edit(region=region, replacement=new),)


def _total_at(output: JsonObject, place: Region | None) -> Region | None:
    """The number that is meant as a total."""
    if place is None:
        spots = [spot for where in texts(output) if (spot := _total_in(output, Region(pointer=where)))]
        return spots[0] if len(spots) == 1 else None
    if place.is_range or text_at(output, place.pointer) is not None:
        return _total_in(output, place)
    name = place.pointer.rpartition("/")[2]
    holder = as_object(value_at(output, parent_of(place.pointer))) or {}
    return place if name in total_names(holder) else None


def _total_in(output: JsonObject, place: Region) -> Region | None:
    """The number behind a word for a total, on a line of the place; of several the one that the place holds."""
    text = text_at(output, place.pointer) or ""
    lines = (
        window(output, place, 0) if place.is_range else Region(pointer=place.pointer, start=0, end=len(text))
    )
    found = set(_totals(text, lines.start or 0, lines.end or 0))
    start, end = place.start or 0, len(text) if place.end is None else place.end
    held = {spot for spot in found if spot[0] < end and start < spot[1]} or found
    if len(held) != 1:
        return None
    ((first, last),) = held
    return Region(pointer=place.pointer, start=first, end=last)


def _totals(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Where the numbers are that plain words for a total lead to."""
    for word in _TOTAL.finditer(text, start, end):
        stop = _STOP.search(text, word.end())
        numbers = list(_NUMBER.finditer(text, word.end(), stop.start() if stop else len(text)))
        number = next((one for one in numbers if _is_sum(text, one)), numbers[0] if numbers else None)
        before = _BEFORE.search(text, max(start, word.start() - 40), word.start())
        if number is None or (before and not _PLAIN.fullmatch(before["word"])):
            continue
        if all(_is_light(said) for said in _WORD.finditer(text, word.end(), number.start())):
            yield number.span()


def _is_sum(text: str, number: re.Match[str]) -> bool:
    """Whether a number has decimals, or a currency beside it."""
    behind = text[number.end() : number.end() + 4].lstrip()
    before = text[max(0, number.start() - 4) : number.start()].rstrip()
    return (
        "." in number[0]
        or _CURRENCY.match(behind) is not None
        or _CURRENCY.fullmatch(before[-3:]) is not None
    )


def _is_light(said: re.Match[str]) -> bool:
    """Whether a word leaves a total what it is: a plain one, a currency, or a part of an identifier."""
    around = said.string[max(0, said.start() - 1) : said.end() + 1]
    is_part = any(char.isdigit() or char in "_#" for char in around)
    return is_part or any(pattern.fullmatch(said[0]) for pattern in (_PLAIN, _CURRENCY))


def _right_total(output: JsonObject, region: Region, materials: Materials) -> Decimal | None:
    for facts in materials.by_trust:
        totals = {total for fact in facts for total in totals_in(fact.content)}
        if totals:
            return next(iter(totals)) if len(totals) == 1 else None
    worked = worked_totals(as_object(value_at(output, parent_of(region.pointer))) or {})
    return None if worked is None else worked.right


def _number(total: Decimal) -> int | float:
    return int(total) if total == total.to_integral_value() else float(total)


def _written_like(shown: str, total: Decimal) -> str:
    """A total with as many decimals as it was shown with, more if it needs them, and commas where there were some."""
    needed = max(0, -int(total.normalize().as_tuple().exponent))
    places = max(len(shown.partition(".")[2]), needed)
    return f"{total:{',' if ',' in shown else ''}.{places}f}"
