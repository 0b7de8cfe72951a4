"""Totals worked out again: the sum of the items that evidence lists, or of those beside the total."""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation
from typing import Any

from tercet.contracts.shape import JsonObject, as_list, as_object
from tercet.repair.edits import Edit
from tercet.repair.materials import Materials, objects
from tercet.repair.regions import Region, parent_of, text_at, texts, value_at, window

_TOTAL = re.compile(r"\b(?:grand total|total|sum|altogether|in all|amount due|comes to)\b", re.IGNORECASE)
_TOTAL_NAME = re.compile(r"total|sum|amount_due", re.IGNORECASE)
_NUMBER = re.compile(r"(?<![\w.,])-?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?![\w]|[.,]\d)")
_AMOUNTS = ("line_total", "amount", "subtotal", "total", "sum", "price", "cost")
_COUNTS = ("quantity", "qty", "count")
_PRICES = ("unit_price", "price_each", "price", "unit_cost")


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
        new: Any = None if _decimal(shown.replace(",", "")) == right else _written_like(shown, right)
    else:
        old = value_at(output, region.pointer)
        new = None if _decimal(old) == right else _number(right)
    return () if new is None else (Edit(region=region, replacement=new),)


def _total_at(output: JsonObject, place: Region | None) -> Region | None:
    """The number that is meant as a total."""
    if place is None:
        spots = [spot for where in texts(output) if (spot := _total_in(output, Region(pointer=where)))]
        return spots[0] if len(spots) == 1 else None
    if place.is_range or text_at(output, place.pointer) is not None:
        return _total_in(output, place)
    is_total = _TOTAL_NAME.search(place.pointer.rpartition("/")[2]) is not None
    return place if is_total and _decimal(value_at(output, place.pointer)) is not None else None


def _total_in(output: JsonObject, place: Region) -> Region | None:
    """The number behind a word for a total, on a line of the place; of several the one that the place holds."""
    text = text_at(output, place.pointer) or ""
    lines = (
        window(output, place, 0) if place.is_range else Region(pointer=place.pointer, start=0, end=len(text))
    )
    found = {
        (number.start(), number.end())
        for word in _TOTAL.finditer(text, lines.start or 0, lines.end or 0)
        if (number := _NUMBER.search(text, word.end(), _line_end(text, word.end())))
    }
    start, end = place.start or 0, len(text) if place.end is None else place.end
    held = {spot for spot in found if spot[0] < end and start < spot[1]} or found
    if len(held) != 1:
        return None
    ((first, last),) = held
    return Region(pointer=place.pointer, start=first, end=last)


def _line_end(text: str, position: int) -> int:
    found = text.find("\n", position)
    return len(text) if found < 0 else found


def _right_total(output: JsonObject, region: Region, materials: Materials) -> Decimal | None:
    for facts in materials.by_trust:
        sums = {
            total
            for fact in facts
            for holder in objects(fact.content)
            if (total := _told(holder)) is not None
        }
        if sums:
            return next(iter(sums)) if len(sums) == 1 else None
    holder = as_object(value_at(output, parent_of(region.pointer)))
    return None if holder is None else _sum_of_items(holder)


def _told(holder: JsonObject) -> Decimal | None:
    """The total that a fact states beside its items, for it may know of discounts; else the sum of them."""
    summed = _sum_of_items(holder)
    stated = next((_decimal(holder[name]) for name in ("grand_total", "total") if name in holder), None)
    return summed if summed is None or stated is None else stated


def _sum_of_items(holder: JsonObject) -> Decimal | None:
    lists = [items for member in holder.values() if (items := as_list(member))]
    sums = [total for items in lists if (total := _sum(items)) is not None]
    return sums[0] if len(sums) == 1 else None


def _sum(items: list[Any]) -> Decimal | None:
    amounts = [_amount(as_object(item) or {}) for item in items]
    return None if None in amounts else sum((each for each in amounts if each is not None), Decimal(0))


def _amount(item: JsonObject) -> Decimal | None:
    count, price = _first(item, _COUNTS), _first(item, _PRICES)
    whole = _first(item, _AMOUNTS[:3])
    if whole is not None:
        return whole
    if count is not None and price is not None:
        return count * price
    return _first(item, _AMOUNTS)


def _first(item: JsonObject, names: tuple[str, ...]) -> Decimal | None:
    return next((found for name in names if (found := _decimal(item.get(name))) is not None), None)


def _decimal(value: Any) -> Decimal | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        found = Decimal(str(value).strip())
    except InvalidOperation:
        return None
    return found if found.is_finite() and abs(found) < Decimal(10) ** 15 else None


def _number(total: Decimal) -> int | float:
    return int(total) if total == total.to_integral_value() else float(total)


def _written_like(shown: str, total: Decimal) -> str:
    """A total with as many decimals as it was shown with, more if it needs them, and commas where there were some."""
    needed = max(0, -int(total.normalize().as_tuple().exponent))
    places = max(len(shown.partition(".")[2]), needed)
    return f"{total:{',' if ',' in shown else ''}.{places}f}"
