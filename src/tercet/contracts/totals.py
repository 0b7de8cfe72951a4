"""What items come to: the arithmetic of totals, as critic and repair both do it.

An object has a total if it states one, or if one of its members is a list of items each of which has an amount, or a
price and a count. What is charged or taken off beside the items belongs to the total where it is a plain number; where
it is a rate, or may be in the items already, nobody can say what the total is.

Totals in texts: which number the words mean as one.

`The shipping total` is another one than the total of the items: with a word of its own before `total`, or between it and
the number, a number is not taken for one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from typing import Any, NamedTuple

from tercet.contracts.shape import JsonObject, as_list, as_object

_KEY_WORD = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])")
_TOTALS = frozenset({"total", "sum"})
_LINES = frozenset({"total", "amount", "subtotal", "sum"})
_PRICES = frozenset({"price", "cost"})
_COUNTS = frozenset({"quantity", "qty", "count", "pieces"})
_ADDED = frozenset(
    {"tax", "vat", "shipping", "delivery", "postage", "handling", "fee", "fees", "tip", "surcharge"}
)
_TAKEN_OFF = frozenset({"discount", "rebate", "voucher", "credit"})
_RATES = frozenset({"rate", "percent", "percentage", "pct"})
_UNSURE = _RATES | {"rounding", "net", "gross", "included"}
_BESIDE = _ADDED | _TAKEN_OFF | _UNSURE
_NO_SUM = frozenset({"sub", "count", "items", "number", "pages", "results", "quantity"})
"""Words that make a total one of something else than money."""
LARGEST = Decimal(10) ** 15


class Worked(NamedTuple):
    """What the items of one list come to."""

    member: str
    """The name of the list."""
    amounts: tuple[Decimal, ...]
    is_plain: bool
    """Whether each item has an amount of its own, or a price and a count; a bare price may be of anything."""

    @property
    def total(self) -> Decimal:
        """The sum of the items."""
        return sum(self.amounts, Decimal(0))


class Totals(NamedTuple):
    """What may be called the total of an object."""

    right: Decimal | None
    """What it is; None where something beside the items makes it unsure."""
    others: tuple[Decimal, ...] = ()
    """What may be called so as well: the items alone, without what is charged beside them."""
    worked: Worked | None = None
    """How it was worked out; None where the object states it."""


def key_words(key: str) -> list[str]:
    """The words of a member's name: `price_eur` and `priceEur` are two."""
    return list(_split(key))


@lru_cache(maxsize=4_096)
def _split(key: str) -> tuple[str, ...]:
    return tuple(word.casefold() for word in _KEY_WORD.findall(key))


@lru_cache(maxsize=4_096)
def _word_set(key: str) -> frozenset[str]:
    return frozenset(_split(key))


def to_decimal(value: Any) -> Decimal | None:
    """A number, or a text that is one, as it is written; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        found = Decimal(str(value).strip())
    except InvalidOperation:
        return None
    return found if found.is_finite() and abs(found) < LARGEST else None


def amount_of(item: JsonObject) -> Decimal | None:
    """What one item comes to: its own amount, or its price as often as it is there."""
    line = stated_line(item)
    if line is not None:
        return line
    price, count = _find(item, _PRICES), count_of(item)
    if price is None or any(_word_set(key) & _BESIDE for key in item):
        return None
    return price if count is None else price * count


def count_of(item: JsonObject) -> Decimal | None:
    """How many of an item there are, where it says so."""
    return _find(item, _COUNTS)


def stated_line(item: JsonObject) -> Decimal | None:
    """The amount that an item states for itself."""
    return _find(item, _LINES)


def _is_plain(item: JsonObject) -> bool:
    return stated_line(item) is not None or count_of(item) is not None


def _find(item: JsonObject, names: frozenset[str]) -> Decimal | None:
    """The one number whose name has one of these words."""
    found = [
        number
        for key, value in item.items()
        if (words := _word_set(key)) & names
        and not words & _BESIDE
        and (number := to_decimal(value)) is not None
    ]
    return found[0] if len(found) == 1 else None


def work_out(members: JsonObject) -> Worked | None:
    """What the one list of items in an object comes to; None if there is none, or more than one."""
    found = [
        worked
        for key, member in members.items()
        if (items := as_list(member)) and (worked := _work(key, items))
    ]
    return found[0] if len(found) == 1 else None


def _work(key: str, items: list[Any]) -> Worked | None:
    rows = [as_object(item) or {} for item in items]
    amounts = [amount for row in rows if (amount := amount_of(row)) is not None]
    if len(amounts) < len(rows):
        return None
    return Worked(key, tuple(amounts), all(map(_is_plain, rows)))


def stated_total(members: JsonObject) -> Decimal | None:
    """The total that an object states."""
    names = total_names(members)
    named = next((name for name in ("grand_total", "total") if name in names), None)
    if named is None and len(names) == 1:
        named = names[0]
    return None if named is None else to_decimal(members[named])


def total_names(members: JsonObject) -> list[str]:
    """The names of the members that are totals."""
    return [
        key for key, value in members.items() if _is_total(key_words(key)) and to_decimal(value) is not None
    ]


def _is_total(words: list[str]) -> bool:
    said = set(words)
    return words == ["amount", "due"] or bool(said & _TOTALS and not said & (_BESIDE | _NO_SUM))


def totals_of(members: JsonObject) -> Totals | None:
    """What may be called the total of an object: what it states, else what its items come to."""
    stated = stated_total(members)
    return Totals(stated) if stated is not None else worked_totals(members)


def worked_totals(members: JsonObject) -> Totals | None:
    """What the items of an object come to, whatever it states."""
    worked = work_out(members)
    if worked is None:
        return None
    plain, rated = _beside(members)
    rates = [rate for key, value in rated if (rate := _rate(key, value)) is not None]
    if rated:
        with_rate = [round((worked.total + plain) * rate, 2) for rate in rates if len(rated) == 1]
        return Totals(None, (worked.total, *with_rate), worked)
    return Totals(worked.total + plain, (worked.total,) if plain else (), worked)


def _beside(members: JsonObject) -> tuple[Decimal, list[tuple[str, Any]]]:
    """What is charged beside the items, less what is taken off; and what of it is no plain number."""
    total, unsure = Decimal(0), list[tuple[str, Any]]()
    for key, value in members.items():
        words = _word_set(key)
        if not words & _BESIDE or value is None:
            continue
        number = to_decimal(value)
        if number is None or words & _UNSURE:
            unsure.append((key, value))
        else:
            total += -abs(number) if words & _TAKEN_OFF else number
    return total, unsure


def _rate(key: str, value: Any) -> Decimal | None:
    """What a rate multiplies a sum with: 20 per cent of tax by 1.2; None if it is no rate."""
    words, number = _word_set(key), to_decimal(value)
    if number is None or not words & _RATES or not words & (_ADDED | _TAKEN_OFF):
        return None
    share = number if 0 < number < 1 else number / 100
    return 1 - share if words & _TAKEN_OFF else 1 + share


def totals_in(content: Any) -> set[Decimal | None]:
    """The right totals of all that a fact tells of: of what has items, else of what only states a total.

    A total in a list of objects without items is that of one line; None stands for one that is unsure.
    """
    holders = list(_objects(content, is_line=False))
    with_items = {_right(members) for members, _ in holders if work_out(members) is not None}
    if with_items:
        return with_items
    return {
        stated
        for members, is_line in holders
        if not is_line and (stated := stated_total(members)) is not None
    }


def _right(members: JsonObject) -> Decimal | None:
    found = totals_of(members)
    return None if found is None else found.right


def _objects(value: Any, *, is_line: bool) -> Iterator[tuple[JsonObject, bool]]:
    """Every object in a value, and whether it is an item of a list."""
    if (members := as_object(value)) is not None:
        yield members, is_line
        for member in members.values():
            yield from _objects(member, is_line=False)
    for item in as_list(value) or ():
        yield from _objects(item, is_line=True)


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
_CURRENCY_BEFORE = re.compile(r"(?:\b[A-Z]{3}|[€$£¥₹])\s?\Z")
_STOP = re.compile(r"[.!?](?=\s|\Z)|\n")
FARTHEST = 200
"""How many characters behind such a word a number is looked for."""


def find_totals(text: str, start: int = 0, end: int | None = None) -> Iterator[tuple[int, int]]:
    """Where the numbers are that plain words for a total lead to."""
    end = len(text) if end is None else end
    for word in _TOTAL.finditer(text, start, end):
        limit = min(len(text), word.end() + FARTHEST)
        stop = _STOP.search(text, word.end(), limit)
        numbers = list(_NUMBER.finditer(text, word.end(), stop.start() if stop else limit))
        number = next((one for one in numbers if _is_sum(text, one)), numbers[0] if numbers else None)
        before = _BEFORE.search(text, max(start, word.start() - 40), word.start())
        if number is None or (before and not _PLAIN.fullmatch(before["word"])):
            continue
        if all(_is_light(said) for said in _WORD.finditer(text, word.end(), number.start())):
            yield number.span()


def _is_sum(text: str, number: re.Match[str]) -> bool:
    """Whether a number has decimals, or a currency beside it."""
    behind, before = text[number.end() : number.end() + 4], text[max(0, number.start() - 4) : number.start()]
    return "." in number[0] or bool(_CURRENCY.match(behind.lstrip()) or _CURRENCY_BEFORE.search(before))


def _is_light(said: re.Match[str]) -> bool:
    """Whether a word leaves a total what it is: a plain one, a currency, or a part of an identifier."""
    around = said.string[max(0, said.start() - 1) : said.end() + 1]
    is_part = any(char.isdigit() or char in "_#" for char in around)
    return is_part or any(pattern.fullmatch(said[0]) for pattern in (_PLAIN, _CURRENCY))
