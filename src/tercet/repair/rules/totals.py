"""Totals worked out again: what evidence states, or its items come to, or those beside the total."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from tercet.contracts.shape import JsonObject, as_object
from tercet.contracts.totals import find_totals, to_decimal, total_names, totals_in, worked_totals
from tercet.repair.edits import Edit
from tercet.repair.materials import Materials
from tercet.repair.regions import Region, parent_of, text_at, texts, value_at, window


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
    found = set(find_totals(text, lines.start or 0, lines.end or 0))
    start, end = place.start or 0, len(text) if place.end is None else place.end
    held = {spot for spot in found if spot[0] < end and start < spot[1]} or found
    if len(held) != 1:
        return None
    ((first, last),) = held
    return Region(pointer=place.pointer, start=first, end=last)


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
