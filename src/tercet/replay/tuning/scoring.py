"""The results of many recorded runs under two packs, and their certainty.

Runs of one request form one case. Cases with a known outcome under both packs are compared. If the outcome is known under
one pack only, the worst is assumed for the other, so that unknown outcomes never count as gains. Intervals are made by
bootstrapping cases with a fixed seed.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean

from tercet.contracts.packs.tuning import ScoreWeights
from tercet.contracts.shape import Published
from tercet.replay.tuning.measuring import Outcome

DRAWS = 1_000
"""How many sets of cases an interval is made of."""
LEVEL = 0.95
_SEED = 2025


class Interval(Published):
    """A mean, and where it lies in 95 of 100 sets of such cases."""

    value: float
    low: float
    high: float


class Score(Published):
    """The results of a pack on recorded runs. Rates and utility are means over cases."""

    runs: int
    """How many runs it rests on."""
    cases: int
    pass_rate: Interval
    utility: Interval
    escalations: Interval
    trips: Interval
    cost_microcents: Interval
    held_ms: Interval
    risky_calls: Interval


Metric = Callable[[Outcome], float]


@dataclass(frozen=True, kw_only=True)
class Wish:
    """The wanted result of a run: accepted, not accepted, or unknown."""

    accepted: bool | None = None

    def utility(self, is_accepted: bool) -> float:  # noqa: FBT001 - the one thing it is about
        """1 for a wanted outcome, -1 for committing a wrong one, else 0."""
        if self.accepted is None:
            return 0.0
        if is_accepted == self.accepted:
            return 1.0
        return -1.0 if is_accepted else 0.0


NO_WISH = Wish()


@dataclass(frozen=True)
class Comparison:
    """Two packs on the same runs."""

    before: Sequence[Outcome]
    after: Sequence[Outcome]
    wishes: Mapping[str, Wish]
    weights: ScoreWeights

    @cached_property
    def cases(self) -> tuple[str, ...]:
        """The cases that are known under both packs."""
        told = [{each.case for each in side if each.is_told} for side in (self.before, self.after)]
        return tuple(sorted(told[0] & told[1]))

    @cached_property
    def runs(self) -> int:
        """How many runs show the results of the second pack in these cases."""
        return len(self._known_outcomes(self.after))

    @property
    def pairs(self) -> list[tuple[Outcome, Outcome]]:
        """The runs that are known under both packs."""
        pairs = zip(self.before, self.after, strict=True)
        return [(old, new) for old, new in pairs if old.is_told and new.is_told]

    def _known_outcomes(self, side: Iterable[Outcome]) -> list[Outcome]:
        wanted = set(self.cases)
        return [each for each in side if each.is_told and each.case in wanted]

    def by_case(self, metric: Metric, *, is_after: bool) -> list[float]:
        """Return the mean of a measurement in each case."""
        found: dict[str, list[float]] = {case: [] for case in self.cases}
        for each in self._known_outcomes(self.after if is_after else self.before):
            found[each.case].append(metric(each))
        return [fmean(found[case]) for case in self.cases]

    def utility(self, outcome: Outcome) -> float:
        """Return the utility of a run to its users."""
        return self.wishes.get(outcome.session, NO_WISH).utility(outcome.is_accepted)

    def gain(self, metric: Metric) -> list[float]:
        """By how much a measurement grows in each case."""
        before, after = self.by_case(metric, is_after=False), self.by_case(metric, is_after=True)
        return [new - old for old, new in zip(before, after, strict=True)]

    @cached_property
    def gains(self) -> list[float]:
        """Return the advantage of the second pack in each case: utility, less the price of cost, people and time."""
        weights = self.weights
        parts = [
            (1.0, self.gain(self.utility)),
            (-weights.cost, _relative(self.gain(cost), self.by_case(cost, is_after=False))),
            (-weights.escalations, self.gain(escalated)),
            (-weights.held, _relative(self.gain(held), self.by_case(held, is_after=False))),
        ]
        known = [sum(weight * values[case] for weight, values in parts) for case in range(len(self.cases))]
        return [*known, *self._lost_cases()]

    def _lost_cases(self) -> list[float]:
        """Return the value of each case whose result is no longer known."""
        told = {each.case for each in self.after if each.is_told}
        open_ = {each.case for each in self.after if not each.is_told and not each.is_elsewhere} - told
        worth: dict[str, list[float]] = {}
        for each in self.before:
            if each.is_told and each.case in open_:
                worth.setdefault(each.case, []).append(self.utility(each))
        return [-max(0.0, fmean(values)) for _, values in sorted(worth.items())]

    @cached_property
    def objective(self) -> float:
        """The number that the search maximises: 0 for the current pack."""
        return round(fmean(self.gains), 9) if self.gains else 0.0

    def interval(self) -> Interval:
        """Return the objective, and where it lies."""
        return interval_of(self.gains)

    def score(self, *, is_after: bool) -> Score:
        """Everything that was measured of one of the two."""

        def over(metric: Metric) -> Interval:
            return interval_of(self.by_case(metric, is_after=is_after))

        return Score(
            runs=len(self._known_outcomes(self.after if is_after else self.before)),
            cases=len(self.cases),
            pass_rate=over(accepted),
            utility=over(self.utility),
            escalations=over(escalated),
            trips=over(trips),
            cost_microcents=over(cost),
            held_ms=over(held),
            risky_calls=over(risky),
        )


def _relative(values: list[float], before: list[float]) -> list[float]:
    usual = fmean(before) if before else 0.0
    return [value / usual for value in values] if usual > 0 else [0.0 for _ in values]


def interval_of(values: Sequence[float]) -> Interval:
    """Return the mean of some values, with its interval; the same values always give the same one."""
    if not values:
        return Interval(value=0.0, low=0.0, high=0.0)
    lots = random.Random(_SEED)  # noqa: S311 - it shall be the same every time
    size = len(values)
    means = sorted(fmean(lots.choices(values, k=size)) for _ in range(DRAWS))
    edge = int(DRAWS * (1 - LEVEL) / 2)
    found = (fmean(values), means[edge], means[-1 - edge])
    return Interval(**dict(zip(("value", "low", "high"), (round(each, 6) for each in found), strict=True)))


def accepted(outcome: Outcome) -> float:
    """Return whether a run is accepted."""
    return float(outcome.is_accepted)


def escalated(outcome: Outcome) -> float:
    """Return whether a run is escalated to a person."""
    return float(outcome.is_escalated)


def trips(outcome: Outcome) -> float:
    """Return the rate at which the loop guard trips."""
    return float(outcome.trips)


def cost(outcome: Outcome) -> float:
    """Return the cost of a run."""
    return float(outcome.cost)


def held(outcome: Outcome) -> float:
    """Return how long a session is open."""
    return float(outcome.held_ms)


def risky(outcome: Outcome) -> float:
    """Return how many calls are above local_write."""
    return float(len(outcome.risky))
