"""How likely a way of repairing helps: what was recorded, and before that what one would expect.

The chance is the mean of a Beta distribution. Its prior is worth four repairs, so a handful of records outweighs it.
"""

from __future__ import annotations

from tercet.contracts.quality import RepairEntry, RepairMeans, RepairStrategy, RootCauseClass
from tercet.contracts.repair import RepairTally, SuccessRates

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
"""What a model is expected to resolve, by edit, section and all anew, before anything is recorded."""


def prior(means: RepairMeans, strategy: RepairStrategy, cause: RootCauseClass) -> float:
    """The chance that one would expect."""
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
    """The rates with one more repair; one that is pending counts for nothing yet."""
    if entry.success is None:
        return rates
    found = _find(rates, entry.means, entry.strategy, entry.root_cause)
    counted = found.model_copy(
        update={"tried": found.tried + 1, "resolved": found.resolved + int(entry.success)}
    )
    others = [tally for tally in rates.tallies if tally is not found]
    ordered = sorted([*others, counted], key=lambda each: (each.root_cause, each.strategy, each.means))
    return SuccessRates(tallies=tuple(ordered))
