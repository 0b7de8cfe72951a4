"""Self-consistency: several samples of the same task, and what they agree on, exactly or by their words.

How alike two texts are says nothing about what is true.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from math import isnan, sqrt
from typing import Protocol

from tercet.contracts.errors import UsageError
from tercet.contracts.outputs.quality import Consensus
from tercet.contracts.shape import Json, Score
from tercet.contracts.values.canonical import canonical

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


SIZES = (3, 5, 7)
"""How many samples may be drawn: an odd number, and beyond seven they cost more than they say."""
USUAL_MINIMUM: Score = 0.70


def vote_exactly(samples: Sequence[Json], *, minimum: Score = USUAL_MINIMUM) -> Consensus:
    """Return the sample that occurs most often; among equals, the first. For answers that are the same or not."""
    printed = [_print(sample) for sample in _check_samples(samples)]
    counts = Counter(printed)
    best = max(range(len(printed)), key=lambda index: (counts[printed[index]], -index))
    pairs = [float(one == other) for i, one in enumerate(printed) for other in printed[i + 1 :]]
    return _conclude(samples, best, counts[printed[best]] / len(printed), pairs, minimum, is_exact=True)


def vote_by_similarity(
    samples: Sequence[Json], *, minimum: Score = USUAL_MINIMUM, similarity: Similarity = token_similarity
) -> Consensus:
    """The sample that is most like all others; among equals, the first. For answers in words."""
    texts = [sample if isinstance(sample, str) else _print(sample) for sample in _check_samples(samples)]
    size = len(texts)
    matrix = [[0.0] * size for _ in texts]
    for i in range(size):
        for j in range(i + 1, size):
            matrix[i][j] = matrix[j][i] = _bounded(similarity(texts[i], texts[j]))
    means = [round(sum(row) / (size - 1), 6) for row in matrix]
    best = max(range(size), key=lambda index: (means[index], -index))
    pairs = [matrix[i][j] for i in range(size) for j in range(i + 1, size)]
    return _conclude(samples, best, means[best], pairs, minimum, is_exact=False)


def _check_samples(samples: Sequence[Json]) -> Sequence[Json]:
    if len(samples) not in SIZES:
        raise UsageError(
            f"self-consistency takes 3, 5 or 7 samples, not {len(samples)}",
            code="sample_count",
            remedy="draw one of these numbers of samples",
        )
    return samples


def _print(sample: Json) -> str:
    return canonical(sample).decode()


def _bounded(value: float) -> float:
    """Return a similarity from outside, kept within its range; 0 for one that is not a number."""
    return 0.0 if isnan(value) else min(1.0, max(0.0, value))


def _conclude(
    samples: Sequence[Json],
    best: int,
    consistency: float,
    pairs: list[float],
    minimum: float,
    *,
    is_exact: bool,
) -> Consensus:
    score = round(consistency, 6)
    is_sure = score >= minimum
    return Consensus(
        output=samples[best],
        index=best,
        consistency=score,
        mean_similarity=round(sum(pairs) / len(pairs), 6),
        method="exact" if is_exact else "similarity",
        verdict="PASS" if is_sure else "LOW_CONFIDENCE",
    )
