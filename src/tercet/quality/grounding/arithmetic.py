"""Numbers of a claim that the evidence does not state, and that follow from some that it does.

A difference, a share, a part of something, or a number that the claim itself works out of two others. The claim must say
in words what is worked out, or name the members that it is worked out of: two numbers that happen to fit prove nothing.
What is worked out here bears claims out, and contradicts none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import chain, combinations, permutations
from typing import NamedTuple

from tercet.quality.grounding import lexicon, quantities
from tercet.quality.grounding.quantities import Quantity
from tercet.quality.grounding.statements import Reading, Statement

MAX_NUMBERS = 40
"""Of an object with more numbers, the rest is not worked with: it takes the square of that."""
MAX_GROUPS = 50
MAX_CLAIMED = 12
"""A claim with more numbers is a table, and nobody works it out."""
_LESS = re.compile(
    r"\b(?:remain(?:s|ing|der)?|left|balance|outstanding|difference|less|minus|fewer|more|sav(?:es?|ed|ings?)|still|rest"
    r"|change|lower|higher|increase[sd]?|decrease[sd]?|rose|fell)\b",
    re.IGNORECASE,
)
_PLUS = re.compile(r"\b(?:totals?|sum|together|altogether|in all|combined|plus|comes? to)\b", re.IGNORECASE)
_WORD = re.compile(r"[A-Za-z]+")


class Number(NamedTuple):
    """A number of the evidence, with the statement that has it."""

    quantity: Quantity
    statement: Statement


def group_numbers(statements: Sequence[Statement]) -> list[list[Number]]:
    """The numbers of each object of the evidence; of them, `MAX_GROUPS` are worked with."""
    groups: dict[tuple[int, str], list[Number]] = {}
    for said in statements:
        if said.reading.is_label and len(said.reading.quantities) == 1:
            holder = said.pointer.rpartition("/")[0]
            groups.setdefault((said.source, holder), []).append(Number(said.reading.quantities[0], said))
    return [group[:MAX_NUMBERS] for group in groups.values() if len(group) > 1]


def work_out(
    claim: Reading, wanted: Quantity, groups: Sequence[Sequence[Number]], borne: Sequence[Number]
) -> tuple[Statement, ...]:
    """The statements that a number of a claim follows from; none if it does not.

    `borne` are the other numbers of the claim that the evidence has, each with the statement that has it.
    """
    if wanted.bound != "=" or wanted.is_vague or len(claim.quantities) > MAX_CLAIMED:
        return ()
    ways = chain(
        _within(claim, wanted, borne), (way for group in groups for way in _among(claim, wanted, group))
    )
    return next(((one.statement, other.statement) for one, other in ways), ())


def _within(claim: Reading, wanted: Quantity, borne: Sequence[Number]) -> Iterator[tuple[Number, Number]]:
    """What a claim works out of two numbers that it has itself: `2 at 12.25 each: 24.50`."""
    for one, other in permutations(borne, 2):
        is_count = not one.quantity.measure and quantities.is_same_measure(other.quantity, wanted)
        if is_count and _fits(wanted, one.quantity.value * other.quantity.value):
            yield one, other
    for one, other in combinations(borne, 2):
        is_sum = _PLUS.search(claim.text) and _are_alike(one.quantity, other.quantity, wanted)
        if is_sum and _fits(wanted, one.quantity.value + other.quantity.value):
            yield one, other
    yield from _differences(claim, wanted, borne)


def _among(claim: Reading, wanted: Quantity, group: Sequence[Number]) -> Iterator[tuple[Number, Number]]:
    said = {lexicon.concept(word)[0] for word in _WORD.findall(claim.text)}
    named = {id(number) for number in group if number.statement.reading.label & said}
    yield from _differences(claim, wanted, group)
    counts = {said.value for said in claim.quantities if not said.measure and said != wanted}
    for one in group:
        is_named = id(one) in named
        may_count = not one.quantity.measure and one.quantity.value in counts
        is_share = is_named and one.quantity.measure == "share"
        if not (may_count or is_share or (named and wanted.measure == "share")):
            continue  # there is nothing that it could be multiplied with, or a part of
        for other in group:
            if other is one:
                continue
            if _is_product(claim, one.quantity, other.quantity, wanted):
                yield one, other
            if is_named and _is_share_of(one.quantity, other.quantity, wanted):
                yield one, other
            if (is_named or id(other) in named) and _is_ratio(one.quantity, other.quantity, wanted):
                yield one, other


def _is_product(claim: Reading, count: Quantity, price: Quantity, wanted: Quantity) -> bool:
    """Whether it is a price as often as the claim says: `the two shades cost 24.50`."""
    is_said = not count.measure and any(
        not said.measure and said.value == count.value and said != wanted for said in claim.quantities
    )
    return is_said and quantities.is_same_measure(price, wanted) and _fits(wanted, count.value * price.value)


def _is_share_of(share: Quantity, whole: Quantity, wanted: Quantity) -> bool:
    """Whether it is so many per cent of something."""
    is_alike = share.measure == "share" and quantities.is_same_measure(whole, wanted)
    return is_alike and _fits(wanted, share.value * whole.value)


def _is_ratio(part: Quantity, whole: Quantity, wanted: Quantity) -> bool:
    """Whether it is the share that a part is of the whole."""
    is_part = quantities.is_same_measure(part, whole) and part.measure != "share"
    is_less = is_part and 0 <= part.value <= whole.value and whole.value > 0
    return wanted.measure == "share" and is_less and _fits(wanted, part.value / whole.value)


def _differences(
    claim: Reading, wanted: Quantity, numbers: Sequence[Number]
) -> Iterator[tuple[Number, Number]]:
    if not _LESS.search(claim.text):
        return
    least, most = quantities.range_of(wanted)
    for one, other in permutations(numbers, 2):
        left = one.quantity.value - other.quantity.value
        if least <= left <= most and _are_alike(one.quantity, other.quantity, wanted) and _fits(wanted, left):
            yield one, other


def _are_alike(one: Quantity, other: Quantity, wanted: Quantity) -> bool:
    return quantities.is_same_measure(one, other) and quantities.is_same_measure(one, wanted)


def _fits(wanted: Quantity, value: float) -> bool:
    """Whether a number is the one that is wanted, to the places that it is written with."""
    return bool(value) and quantities.agrees(wanted, wanted._replace(value=value, step=0.0, is_rough=False))
