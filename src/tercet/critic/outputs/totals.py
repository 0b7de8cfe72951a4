"""Totals that are not the sum of their items, in outputs that are objects."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any, NamedTuple

from tercet.contracts.references import Place
from tercet.contracts.shape import JsonObject, as_list, as_object
from tercet.critic.outputs.grounding.statements import key_words

_TOTALS = frozenset({"total", "sum"})
_LINES = frozenset({"total", "amount", "subtotal", "sum"})
_PRICES = frozenset({"price", "cost", "unit"})
_COUNTS = frozenset({"quantity", "qty", "count"})
_BESIDES = frozenset(
    {"tax", "vat", "shipping", "fee", "fees", "discount", "rebate", "tip", "rounding", "net", "gross"}
)
"""Where one of these stands beside the items, a total may be more than their sum."""


class WrongTotal(NamedTuple):
    """A total that its items do not come to."""

    place: Place
    given: Decimal
    computed: Decimal


def find_wrong_totals(value: Any, place: Place = ()) -> Iterator[WrongTotal]:
    """Every total that stands beside one list of items and is not their sum."""
    if (members := as_object(value)) is not None:
        yield from _check(members, place)
        for key, member in members.items():
            yield from find_wrong_totals(member, (*place, key))
    elif (items := as_list(value)) is not None:
        for index, item in enumerate(items):
            yield from find_wrong_totals(item, (*place, index))


def _check(members: JsonObject, place: Place) -> Iterator[WrongTotal]:
    lists = [_sum(items) for member in members.values() if (items := as_list(member))]
    sums = [total for total in lists if total is not None]
    named = [key for key in members if set(key_words(key)) & _TOTALS and _number(members[key]) is not None]
    is_more = any(set(key_words(key)) & _BESIDES for key in members)
    if len(sums) != 1 or len(named) != 1 or is_more:
        return
    given = _number(members[named[0]])
    if given is not None and given != sums[0]:
        yield WrongTotal((*place, named[0]), given, sums[0])


def _sum(items: list[Any]) -> Decimal | None:
    amounts = [_amount(as_object(item) or {}) for item in items]
    known = [amount for amount in amounts if amount is not None]
    return sum(known, Decimal(0)) if known and len(known) == len(amounts) else None


def _amount(item: JsonObject) -> Decimal | None:
    """What one item comes to: its own amount, or its price times its count."""
    line = _find(item, _LINES)
    if line is not None:
        return line
    price, count = _find(item, _PRICES), _find(item, _COUNTS)
    return price * count if price is not None and count is not None else None


def _find(item: JsonObject, names: frozenset[str]) -> Decimal | None:
    found = [
        number
        for key, value in item.items()
        if set(key_words(key)) & names and (number := _number(value)) is not None
    ]
    return found[0] if len(found) == 1 else None


def _number(value: Any) -> Decimal | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return Decimal(str(value))
