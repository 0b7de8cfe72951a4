"""Recorded repairs as what they were: outputs that became better or did not, one repair after the other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import fsum

from tercet.contracts.control import RepairObservation, rounded


def trajectories(rows: Iterable[RepairObservation]) -> Mapping[str, tuple[float, ...]]:
    """The qualities of each output, from before its first repair to after its last one, by its name."""
    runs: dict[str, list[RepairObservation]] = {}
    for row in rows:
        runs.setdefault(row.run, []).append(row)
    return {name: _qualities(sorted(runs[name], key=lambda row: row.iteration)) for name in sorted(runs)}


def mean_course(courses: Iterable[Sequence[float]]) -> tuple[float, ...]:
    """The mean quality after each repair; an output that needed no more keeps the quality that it had.

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
