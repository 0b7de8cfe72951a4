"""What follows from evidence by adding up: the totals of its lists, and what so many of an item come to.

A total that is worked out stands beside the statements of the evidence as if it had been stated, so that a right total is
borne out and a wrong one contradicted. Where something beside the items makes it unsure what the total is, what was worked
out bears claims out and contradicts none.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from functools import cached_property
from itertools import islice
from typing import Any

from tercet.contracts import pointer
from tercet.contracts.references import Place
from tercet.contracts.shape import JsonObject, as_list, as_object
from tercet.contracts.totals import (
    Totals,
    Worked,
    amount_of,
    count_of,
    find_totals,
    key_words,
    stated_line,
    totals_of,
)
from tercet.quality.grounding import quantities
from tercet.quality.grounding.quantities import Quantity
from tercet.quality.grounding.statements import (
    MAX_SENTENCE,
    Reading,
    Statement,
    currency_in,
    describe,
    label_of,
    numbered,
    read,
)
from tercet.quality.grounding.units import MONEY

MAX_COMPUTED = 400
"""More of one piece of evidence is not worked out."""
_MOST_SHOWN = 6
_TOTAL = re.compile(
    r"total|\bsum\b|altogether|\bin all\b|amount due|\bcomes? to\b|\bcame to\b", re.IGNORECASE
)


def compute(content: Any, source: int, topic: str = "") -> list[Statement]:
    """What one piece of evidence comes to, as statements; `topic` is what it is about as a whole."""
    return list(islice(_walk(content, (), source, _Context(lambda: topic), None), MAX_COMPUTED))


class _Context:
    """What stands around a sum, put into words when there is one: of many objects, few have any."""

    def __init__(self, describe: Callable[[], str]) -> None:
        self._describe = describe

    @cached_property
    def text(self) -> str:
        """The words."""
        return self._describe()

    def with_object(self, members: JsonObject) -> _Context:
        """The same with what an object says about itself."""
        return _Context(lambda: " . ".join(part for part in (self.text, describe(members)) if part))

    def with_key(self, key: str) -> _Context:
        """The same with the name of a member."""
        return _Context(lambda: f"{self.text} . {' '.join(key_words(key))}")


def _walk(
    value: Any, place: Place, source: int, context: _Context, currency: str | None
) -> Iterator[Statement]:
    if (members := as_object(value)) is not None:
        currency = currency_in(members) or currency
        context = context.with_object(members)
        sums = [*_totals(members, context), *_line(members, context)]
        found = [replace(said, reading=_with_currency(said, currency)) for said in sums]
        for said in (*found, *_counts(members, context)):
            yield replace(said, source=source, pointer=pointer.join(place) + said.pointer)
        for key, member in members.items():
            if isinstance(member, dict | list):
                yield from _walk(member, (*place, key), source, context.with_key(key), currency)
    for index, item in enumerate(as_list(value) or ()):
        yield from _walk(item, (*place, index), source, context, currency)


def _with_currency(said: Statement, currency: str | None) -> Any:
    (quantity,) = said.reading.quantities
    return replace(said.reading, quantities=(quantity._replace(measure=currency or MONEY),))


def _totals(members: JsonObject, context: _Context) -> Iterator[Statement]:
    found = totals_of(members)
    if found is None or found.worked is None:
        return
    about = _about(context, as_list(members[found.worked.member]) or [])
    where = pointer.join((found.worked.member,))
    if found.right is not None:
        yield _state(["total"], found.right, _working(found), where, about)
    for other in found.others:
        rated = "" if other == found.worked.total else ", with the rate beside them"
        working = f"{_added(found.worked)}{rated}"
        yield replace(_state(["total"], other, working, where, about), is_lenient=True)


def _about(context: _Context, items: list[Any]) -> str:
    """What a list of items is about, as far as it is read."""
    about = context.text
    for item in items:
        about += f" . {describe(as_object(item) or {})}"
        if len(about) >= MAX_SENTENCE:
            break
    return about


def _line(members: JsonObject, context: _Context) -> Iterator[Statement]:
    """What so many of an item come to, where the item does not say it."""
    amount = amount_of(members)
    if amount is not None and stated_line(members) is None:
        yield replace(_state(["amount"], amount, "price by count", "", context.text), is_lenient=True)


def _counts(members: JsonObject, context: _Context) -> Iterator[Statement]:
    """How many there are in a list: its rows, and what their counts come to."""
    for key, member in members.items():
        rows = [as_object(item) or {} for item in as_list(member) or ()]
        counts = [count for row in rows if (count := count_of(row)) is not None]
        numbers = (
            {Decimal(len(rows)), sum(counts, Decimal(0))}
            if len(counts) == len(rows)
            else {Decimal(len(rows))}
        )
        for number in sorted(numbers) if rows and key_words(key) else ():
            said = _state(key_words(key), number, "counted", pointer.join((key,)), context.text)
            yield replace(said, is_lenient=True)


def _state(words: list[str], value: Decimal, working: str, where: str, about: str) -> Statement:
    reading = numbered(words, float(value), None)
    return Statement(
        reading=replace(reading, text=f"{' '.join(words)}: {show(value)} ({working})", label=label_of(words)),
        source=0,
        pointer=where,
        context=read(about) if about else None,
        value=float(value),
        is_computed=True,
    )


def _working(found: Totals) -> str:
    if found.worked is None or found.right is None:
        return ""
    beside = found.right - found.worked.total
    return f"{_added(found.worked)}{f', {show(beside)} beside them' if beside else ''}"


def _added(worked: Worked) -> str:
    shown = [show(amount) for amount in worked.amounts[:_MOST_SHOWN]]
    more = len(worked.amounts) - len(shown)
    return " + ".join(shown) + (f" + {more} more" if more else "")


class KnownTotals:
    """What may be called the total by all evidence together, where there is one total and no more."""

    def __init__(self, stated: Sequence[Collection[Decimal | None]], statements: Sequence[Statement]) -> None:
        totals = {total for each in stated for total in each}
        self._right = next(iter(totals)) if len(totals) == 1 else None
        self._said = [said for said in statements if _is_total(said)]
        self._given = sorted(
            (given for said in self._said for given in said.reading.quantities), key=lambda given: given.value
        )
        self._values = [given.value for given in self._given]
        self._measures = {given.measure: given for given in self._given}

    def find_wrong(self, claim: Reading) -> tuple[str, Statement] | None:
        """A number that a claim plainly calls the total, and that nothing calls so; with what is the total instead."""
        if self._right is None or not self._said:
            return None
        for start, _ in find_totals(claim.text):
            meant = next((one for one in claim.quantities if one.start <= start < one.end), None)
            if meant is not None and _is_comparable(meant) and not self._has(meant):
                return claim.text[meant.start : meant.end].strip(), self._best()
        return None

    def _has(self, meant: Quantity) -> bool:
        """Whether something called a total bears a number out, or measures something else."""
        # What is meant is a sum or a plain number: whether it is compared with another goes by the other's measure alone.
        if any(not quantities.is_same_measure(meant, given) for given in self._measures.values()):
            return True
        least, most = quantities.range_of(meant)
        near = self._given[bisect_left(self._values, least) : bisect_right(self._values, most)]
        return any(quantities.agrees(meant, given) for given in near)

    def _best(self) -> Statement:
        right = float(self._right or 0)
        return next((said for said in self._said if said.value == right), self._said[0])


def _is_total(said: Statement) -> bool:
    """Whether a statement is about a total, or may be."""
    return bool(said.reading.quantities) and _TOTAL.search(said.reading.text) is not None


def _is_comparable(meant: Quantity) -> bool:
    return not meant.measure or meant.measure == MONEY or quantities.is_currency(meant)


def show(value: Decimal) -> str:
    """A number without zeros that say nothing."""
    return f"{value.normalize():f}"
