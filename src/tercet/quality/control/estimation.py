"""The repair gain and its noise, learned from recorded repairs; and the course that these repairs took.

The model is a line through zero, after - before = G·u + w, so the gain is the least-squares slope and the noise is what
is left over. Sums are exact (`fsum`), so the order of the rows changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import fsum, sqrt

from tercet.contracts.control import GainEstimate, RepairObservation, rounded

LEAST_SAMPLE = 8
"""With fewer repairs than this a pack's own numbers are the better guess."""
LEAST_GAIN = 0.01
MOST_GAIN = 1.0
_TWO_SIDED = 1.959963984540054
"""The 97.5 per cent point of the normal distribution."""


def estimate(rows: Iterable[RepairObservation]) -> GainEstimate | None:
    """Return what these repairs say, with a confidence interval of 95 per cent; None if there are too few of them.

    Repairs without intensity say nothing about a gain, and neither do those that rules made alone, which are the same at
    every intensity: both are left out.
    """
    steered = (row for row in rows if row.intensity > 0.0 and row.means == "model")
    pairs = [(row.intensity, row.after - row.before) for row in steered]
    if len(pairs) < LEAST_SAMPLE:
        return None
    square = fsum(u * u for u, _ in pairs)
    if square <= 0.0:  # so small that their squares are nothing
        return None
    slope = fsum(u * rise for u, rise in pairs) / square
    freedom = len(pairs) - 1
    sigma = sqrt(fsum((rise - slope * u) ** 2 for u, rise in pairs) / freedom)
    spread = _quantile(freedom) * sigma / sqrt(square)
    gain = _bounded(slope)
    return GainEstimate(
        sample=len(pairs),
        gain=rounded(gain),
        low=rounded(_bounded(slope - spread)),
        high=rounded(_bounded(slope + spread)),
        sigma=rounded(sigma),
        is_at_bound=gain != slope,
    )


def _bounded(slope: float) -> float:
    return min(max(slope, LEAST_GAIN), MOST_GAIN)


def _quantile(freedom: int) -> float:
    """Return the 97.5 per cent point of Student's t, from that of the normal distribution by its usual expansion."""
    z = _TWO_SIDED
    first = (z**3 + z) / 4.0
    second = (5.0 * z**5 + 16.0 * z**3 + 3.0 * z) / 96.0
    third = (3.0 * z**7 + 19.0 * z**5 + 17.0 * z**3 - 15.0 * z) / 384.0
    return z + first / freedom + second / freedom**2 + third / freedom**3


def trajectories(rows: Iterable[RepairObservation]) -> Mapping[str, tuple[float, ...]]:
    """Return the qualities of each output, from before its first repair to after its last one, by its name."""
    runs: dict[str, list[RepairObservation]] = {}
    for row in rows:
        runs.setdefault(row.run, []).append(row)
    return {name: _qualities(sorted(runs[name], key=lambda row: row.iteration)) for name in sorted(runs)}


def mean_course(courses: Iterable[Sequence[float]]) -> tuple[float, ...]:
    """Return the mean quality after each repair; an output that needed no more keeps the quality that it had.

    Otherwise the last means would be those of the hardest outputs alone.
    """
    given = [course for course in courses if course]
    longest = max(map(len, given), default=0)
    return tuple(
        rounded(fsum(course[min(number, len(course) - 1)] for course in given) / len(given))
        for number in range(longest)
    )


def _qualities(rows: Sequence[RepairObservation]) -> tuple[float, ...]:
    return (rows[0].before, *(row.after for row in rows))
