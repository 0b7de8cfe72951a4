"""Success rates of repair strategies, from records and a prior.

The chance is the mean of a Beta distribution. Its prior is worth four repairs, so a handful of records outweighs it.

Also here: the novelty of a run compared with earlier ones.

A run is a bag of features with weights: the words of its intent, the tools that it used, the classes of its evidence, the
fields of its request. The distance of two runs is what they do not share of all that they have together. Runs of another
tenant or task class are not compared; the caller chooses the runs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from tercet.contracts.outputs.exit import Novelty
from tercet.contracts.outputs.quality import RepairEntry, RepairMeans, RepairStrategy, RootCauseClass
from tercet.contracts.outputs.repair import RepairTally, SuccessRates
from tercet.contracts.shape import as_object

PRIOR_WEIGHT = 4.0
_STRATEGIES: tuple[RepairStrategy, ...] = ("MINIMAL_EDIT", "SECTION_REWRITE", "FULL_REGENERATION")
_BY_RULE = 0.9
_C = RootCauseClass
_BY_MODEL: dict[RootCauseClass, tuple[float, float, float]] = {
    _C.SCHEMA_VIOLATION: (0.7, 0.7, 0.75),
    _C.FACTUAL_ERROR: (0.65, 0.65, 0.6),
    _C.LOGIC_ERROR: (0.55, 0.6, 0.6),
    _C.INCOMPLETENESS: (0.35, 0.65, 0.65),
    _C.COHERENCE_FAILURE: (0.35, 0.6, 0.65),
    _C.SAFETY_VIOLATION: (0.7, 0.7, 0.6),
    _C.HALLUCINATION: (0.65, 0.65, 0.55),
    _C.RETRIEVAL_GAP: (0.2, 0.4, 0.6),
    _C.TOOL_FAILURE: (0.1, 0.2, 0.5),
    _C.CAPABILITY_LIMIT: (0.1, 0.1, 0.1),
    _C.COMPLEXITY_EXCEEDED: (0.1, 0.1, 0.1),
}
"""What a model is expected to resolve, by edit, section and all again, before anything is recorded."""


def prior(means: RepairMeans, strategy: RepairStrategy, cause: RootCauseClass) -> float:
    """Return the chance that one would expect."""
    return _BY_RULE if means == "rule" else _BY_MODEL[cause][_STRATEGIES.index(strategy)]


def chance(rates: SuccessRates, means: RepairMeans, strategy: RepairStrategy, cause: RootCauseClass) -> float:
    """P(resolve | way of repairing, class): the posterior mean."""
    found = _find(rates, means, strategy, cause)
    expected = prior(means, strategy, cause) * PRIOR_WEIGHT
    return round((expected + found.resolved) / (PRIOR_WEIGHT + found.tried), 6)


def _find(
    rates: SuccessRates, means: RepairMeans, strategy: RepairStrategy, cause: RootCauseClass
) -> RepairTally:
    key = (means, strategy, cause)
    for tally in rates.tallies:
        if (tally.means, tally.strategy, tally.root_cause) == key:
            return tally
    return RepairTally(means=means, strategy=strategy, root_cause=cause)


def record(rates: SuccessRates, entry: RepairEntry) -> SuccessRates:
    """Return the rates with one more repair; one that is pending counts for nothing yet."""
    if entry.success is None:
        return rates
    found = _find(rates, entry.means, entry.strategy, entry.root_cause)
    counted = found.model_copy(
        update={"tried": found.tried + 1, "resolved": found.resolved + int(entry.success)}
    )
    others = [tally for tally in rates.tallies if tally is not found]
    ordered = sorted([*others, counted], key=lambda each: (each.root_cause, each.strategy, each.means))
    return SuccessRates(tallies=tuple(ordered))


LIMIT = 0.5
"""A run that shares less than half with any before it is novel."""
_WORD = re.compile(r"\w+")

Pattern = Mapping[str, float]


def pattern_of(
    *, intent: str, request: Any = None, tools: Iterable[str] = (), evidence: Iterable[str] = ()
) -> dict[str, float]:
    """Return the features of a run: names and kinds, no values, so that nothing of a customer is kept."""
    found = {f"intent:{word}": 1.0 for word in _WORD.findall(intent.casefold())}
    for name, value in (as_object(request) or {}).items():
        found[f"field:{name}:{_kind(value)}"] = 1.0
    for prefix, names in (("tool", tools), ("evidence", evidence)):
        for name in names:
            # A tool that is used often says more, but a hundred times does not say a hundred times as much.
            found[f"{prefix}:{name}"] = min(found.get(f"{prefix}:{name}", 0.0) + 1.0, 3.0)
    return dict(sorted(found.items()))


def _kind(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return "flag"
    if isinstance(value, int | float):
        return "number"
    return "text" if isinstance(value, str) else "list" if isinstance(value, list) else "object"


def distance(one: Pattern, other: Pattern) -> float:
    """Return what two runs do not share, between 0 and 1."""
    names = sorted({*one, *other})
    most = sum(max(one.get(name, 0.0), other.get(name, 0.0)) for name in names)
    least = sum(min(one.get(name, 0.0), other.get(name, 0.0)) for name in names)
    return round(1.0 - least / most, 6) if most > 0 else 0.0


def novelty(pattern: Pattern, past: Mapping[str, Pattern], *, limit: float = LIMIT) -> Novelty:
    """Return how far a run is from the nearest one before it; as far as can be, if there is none."""
    ranked = sorted((distance(pattern, each), name) for name, each in past.items())
    if not ranked:
        return Novelty(distance=1.0, limit=limit)
    nearest, name = ranked[0]
    return Novelty(distance=nearest, limit=limit, nearest=name)
