"""Self-consistency: several samples of the same task, and what they agree on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import isnan

from tercet.contracts.errors import UsageError
from tercet.contracts.outputs.quality import Consensus
from tercet.contracts.shape import Json, Score
from tercet.contracts.values.canonical import canonical
from tercet.quality.verification.similarity import Similarity, token_similarity

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
