"""BM25 over one snapshot: pure, so that every store ranks alike.

What a word is worth depends on how many facts have it. SQLite's own `bm25()` counts over the whole table, so a fact that
is added later would change the order of an old snapshot; here the counts are those of the facts that are searched.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

_K1 = 1.2
_B = 0.75
"""The values that FTS5, Lucene and the literature use."""
PLACES = 6
MOST_TIMES = 1_000
"""More often in one fact counts as often."""


class Totals(NamedTuple):
    """How many facts are searched, and how many words they have."""

    facts: int
    words: int


class Match(NamedTuple):
    """A fact that has a word: the fact's number, how often it has the word, and how many words it has."""

    number: int
    times: int
    length: int


def score(matches: Sequence[Sequence[Match]], totals: Totals) -> dict[int, float]:
    """The scores by the facts' numbers, given the matches of each word of a query."""
    mean = max(1.0, totals.words / max(1, totals.facts))
    scores: dict[int, float] = {}
    for found in matches:
        worth = math.log(1 + (totals.facts - len(found) + 0.5) / (len(found) + 0.5)) * (_K1 + 1)
        for number, found_times, length in found:
            times = min(found_times, MOST_TIMES)
            weight = times / (times + _K1 * (1 - _B + _B * length / mean))
            scores[number] = scores.get(number, 0.0) + worth * weight
    return {number: round(value, PLACES) for number, value in scores.items()}


def best(scores: Mapping[int, float], limit: int) -> list[int]:
    """The numbers that may be among the best: those with the highest scores, and all that equal the last of them."""
    if limit <= 0:
        return []
    ordered = sorted(scores, key=lambda number: -scores[number])
    if len(ordered) <= limit:
        return ordered
    lowest = scores[ordered[limit - 1]]
    end = limit
    while end < len(ordered) and scores[ordered[end]] == lowest:
        end += 1
    return ordered[:end]
