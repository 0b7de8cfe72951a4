"""The words of a fact, and BM25 over one snapshot: pure, so that every store searches and ranks alike.

The weight of a word depends on how many facts contain it. SQLite's own `bm25()` counts over the whole table, so a fact
that is added later would change the order of an old snapshot; here only the searched facts are counted.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

from tercet.contracts.shape import as_list, as_object
from tercet.contracts.text.search_words import LONGEST, MOST_LETTERS, words_of

_K1 = 1.2
_B = 0.75
"""The usual values of FTS5, Lucene and the literature."""
PLACES = 6


class Totals(NamedTuple):
    """The number of searched facts, and of their words."""

    facts: int
    words: int


class Match(NamedTuple):
    """A fact that contains a word: its number, how often it contains the word, and its number of words."""

    number: int
    times: int
    length: int


def score(matches: Sequence[Sequence[Match]], totals: Totals) -> dict[int, float]:
    """Return the scores by fact number, given the matches of each word of a query."""
    mean = max(1.0, totals.words / max(1, totals.facts))
    scores: dict[int, float] = {}
    for found in matches:
        worth = math.log(1 + (totals.facts - len(found) + 0.5) / (len(found) + 0.5)) * (_K1 + 1)
        for number, times, length in found:
            weight = times / (times + _K1 * (1 - _B + _B * length / mean))
            scores[number] = scores.get(number, 0.0) + worth * weight
    return {number: round(value, PLACES) for number, value in scores.items()}


def best(scores: Mapping[int, float], limit: int) -> list[int]:
    """Return the numbers that may be among the best: those with the highest scores, including ties with the last."""
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


MOST_WORDS = 10_000
"""The maximum number of indexed words of a fact."""


def indexed(content: Any) -> list[str]:
    """Return the words of a fact's content: of its texts, numbers and field names."""
    found: list[str] = []
    for text in _texts(content):
        found += words_of(text[:MOST_LETTERS])
        if len(found) > MOST_WORDS:
            break
    return _bounded(found[:MOST_WORDS])


def _bounded(words: list[str]) -> list[str]:
    """Return the first words up to the limit of indexed characters."""
    if len(words) * LONGEST <= MOST_LETTERS:
        return words
    sizes = accumulate(map(len, words))
    return [word for word, size in zip(words, sizes, strict=True) if size <= MOST_LETTERS]


def _texts(content: Any) -> Iterator[str]:
    """Yield texts, field names and numbers, in canonical order."""
    stack: list[Any] = [content]
    while stack:
        item = stack.pop()
        if (members := as_object(item)) is not None:
            for name in sorted(members, reverse=True):
                stack += (members[name], name)
        elif (items := as_list(item)) is not None:
            stack.extend(reversed(items))
        elif isinstance(item, str):
            yield item
        elif item is not None and not isinstance(item, bool):
            yield format(item, "g") if isinstance(item, float) and item.is_integer() else str(item)
