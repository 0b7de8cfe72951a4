"""Totals of outputs that are objects: those that are not the sum of their items, and what the right ones are."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any, NamedTuple

from tercet.contracts.evidence import Evidence
from tercet.contracts.references import Place
from tercet.contracts.shape import JsonObject, as_list, as_object
from tercet.contracts.totals import Totals, to_decimal, total_names, worked_totals


class WrongTotal(NamedTuple):
    """A total that its items do not come to."""

    place: Place
    given: Decimal
    computed: Decimal


def find_wrong_totals(output: Any) -> Iterator[WrongTotal]:
    """Every total that stands beside one list of items and is not what they come to."""
    for members, place, totals in _worked(output, ()):
        names = total_names(members)
        given = to_decimal(members[names[0]]) if len(names) == 1 else None
        if given is None or totals.right is None or given in (totals.right, *totals.others):
            continue
        yield WrongTotal((*place, names[0]), given, totals.right)


def own_totals(output: JsonObject) -> tuple[Evidence, ...]:
    """What the items of an output come to, as something that its texts can be held against."""
    found = [totals.right for _, _, totals in _worked(output, ()) if totals.right is not None]
    return tuple(
        Evidence(id=f"kg:output:total_{number}#snapshot_output", content={"total": float(total)})
        for number, total in enumerate(found)
    )


def _worked(value: Any, place: Place) -> Iterator[tuple[JsonObject, Place, Totals]]:
    """Every object with items that have amounts of their own, or prices and counts."""
    if (members := as_object(value)) is not None:
        totals = worked_totals(members)
        if totals is not None and totals.worked is not None and totals.worked.is_plain:
            yield members, place, totals
        for key, member in members.items():
            yield from _worked(member, (*place, key))
    for index, item in enumerate(as_list(value) or ()):
        yield from _worked(item, (*place, index))
