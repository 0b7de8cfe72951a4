"""How alike two texts are, by their words. It says nothing about what is true."""

from __future__ import annotations

import re
from collections import Counter
from itertools import pairwise
from math import sqrt
from typing import Protocol

NEGATORS = frozenset({
    "not", "no", "never", "none", "nobody", "nothing", "neither", "nor", "cannot", "without", "hardly",
    "lacks", "lacked", "lack", "nowhere",
})  # fmt: skip
_ENDING = re.compile(r"(?<=[a-z]{3})(?:ing|ed|es|s)$")
_TOKEN = re.compile(r"\d+(?:[.,]\d+)*|[^\W\d_]+(?:['’][^\W\d_]+)?|[^\w\s]")
HEAVY = 4
"""How often a number or a negation counts: `passed` and `did not pass` share most of their words, and no meaning."""


class Similarity(Protocol):
    """How alike two texts are, from 0 to 1; the same the other way round, and 1 for equal texts."""

    def __call__(self, one: str, other: str, /) -> float:
        """Return the likeness of two texts."""
        ...


def token_similarity(one: str, other: str, /) -> float:
    """The cosine between the counts of words and pairs of words, where numbers and negations weigh more."""
    if one == other:
        return 1.0
    first, second = _count(one), _count(other)
    # Sorted, so that the sum is the same to the last bit whatever the order of hashing.
    product = sum(first[token] * second[token] for token in sorted(first.keys() & second.keys()))
    length = sqrt(_square(first)) * sqrt(_square(second))
    return min(1.0, round(product / length, 6)) if length else 0.0


def _square(counts: Counter[str]) -> int:
    return sum(count * count for count in counts.values())


def _count(text: str) -> Counter[str]:
    tokens = [_plain(token) for token in _TOKEN.findall(text.casefold().replace("’", "'"))]
    counts: Counter[str] = Counter()
    for token in tokens:
        counts[token] += HEAVY if _is_heavy(token) else 1
    counts.update(f"{a} {b}" for a, b in pairwise(tokens))
    return counts


def _plain(token: str) -> str:
    if token in NEGATORS or token.endswith("n't"):
        return "not"
    return _ENDING.sub("", token) if token[:1].isalpha() else token.replace(",", "")


def _is_heavy(token: str) -> bool:
    return token in NEGATORS or token[:1].isdigit()
