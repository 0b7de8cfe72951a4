"""The search for better values: candidates are drawn, and replay evaluates them. Nothing is applied.

The same pack, runs, trials and seed give the same candidate. Where there are no more candidates than trials, all of them
are tried.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import product
from math import prod

from tercet.contracts.errors import extra_missing
from tercet.contracts.packs.tuning import Candidate, Surface, Value
from tercet.replay.tuning.evaluation import Evaluated, Evaluation
from tercet.replay.tuning.frozen import choices_of

_SLIGHT = 1e-9
_MOST_STEPS = 50
_FEW = 10
_MOST_DRAWN = 5
"""How many times as many draws as trials: one may come to the same again, which costs nothing."""


@dataclass(frozen=True, kw_only=True)
class Found:
    """The result of a search."""

    best: Evaluated | None
    """The best candidate that keeps every rule and is better than the pack; None if there is none."""
    tried: int
    refused: int
    """How many of those would have broken a floor or a guardrail."""
    space: int
    """How many candidates there are."""


def search(
    evaluation: Evaluation,
    *,
    trials: int = 100,
    seed: int = 0,
    progress: Callable[[int], None] | None = None,
) -> Found:
    """Look for better values of the pack's surfaces."""
    choices = {each.id: choices_of(evaluation.pack, each) for each in evaluation.surfaces}
    space = prod(len(values) for values in choices.values())
    seen: dict[str, Evaluated] = {}
    draw = random.Random(seed)  # noqa: S311 - a search, no secret
    for values in _candidates(evaluation, choices, seen, trials=trials, draw=draw):
        found = evaluation.evaluate(Candidate(values=values))
        seen[found.candidate.model_dump_json()] = found
        if progress is not None:
            progress(len(seen))
        if len(seen) >= trials:
            break
    best = _climb(evaluation, _best(seen) or evaluation.evaluate(Candidate()), choices)
    return Found(
        best=_simplify(evaluation, best, choices) if best.objective > _SLIGHT else None,
        tried=len(seen),
        refused=sum(not each.is_allowed for each in seen.values()),
        space=space,
    )


def demand_libraries() -> None:
    """Raise `UsageError` where the library for tuning is not installed, before any work is done."""
    if find_spec("tomlkit") is None:
        raise extra_missing("tuning", "tomlkit", "tuning")


def _candidates(
    evaluation: Evaluation,
    choices: Mapping[str, tuple[Value, ...]],
    seen: Mapping[str, Evaluated],
    *,
    trials: int,
    draw: random.Random,
) -> Iterator[dict[str, Value]]:
    """Yield everything, where that is not too much. Else the pack as it is, each surface by itself, and then changes to one
    or two surfaces of the best that was seen: of many surfaces mostly one or two matter, and lots would change all at once.
    """
    if prod(len(values) for values in choices.values()) <= trials:
        for values in product(*choices.values()):
            yield dict(zip(choices, values, strict=True))
        return
    now = evaluation.now
    yield now
    share = max(1, trials // 2 // len(choices))
    for name, values in choices.items():
        others = [value for value in values if value != now[name]]
        for value in others[:: max(1, -(-len(others) // share))]:
            yield {**now, name: value}
    for _ in range(trials * _MOST_DRAWN):
        best = _best(seen)
        changed = draw.sample(list(choices), min(len(choices), draw.randint(1, 2)))
        drawn = {name: draw.choice(choices[name]) for name in changed}
        yield {**now, **(best.candidate.values if best else {}), **drawn}


def _has_order(values: tuple[Value, ...]) -> bool:
    return not any(isinstance(value, bool | str) for value in values)


def _best(seen: Mapping[str, Evaluated]) -> Evaluated | None:
    """Return the best candidate; of several equally good ones, the one that changes least."""
    better = [each for each in seen.values() if each.is_allowed and each.objective > _SLIGHT]
    return max(
        better,
        # Of those that are as good, the one that was tried first: it does not depend on how values are spelt.
        key=lambda each: (each.objective, -len(each.candidate.values)),
        default=None,
    )


def _climb(evaluation: Evaluation, best: Evaluated, choices: Mapping[str, tuple[Value, ...]]) -> Evaluated:
    """Return the local optimum from a candidate on: no neighbouring value is better."""
    for _ in range(_MOST_STEPS):
        services = [
            evaluation.evaluate(Candidate(values={**evaluation.now, **best.candidate.values, name: value}))
            for name, values in choices.items()
            for value in _neighbours({**evaluation.now, **best.candidate.values}[name], values)
        ]
        higher = _best({each.candidate.model_dump_json(): each for each in services})
        if higher is None or higher.objective <= best.objective + _SLIGHT:
            break
        best = higher
    return best


def _neighbours(value: Value, values: tuple[Value, ...]) -> list[Value]:
    """Return the values next to one; where they have no order, all others as far as they are few."""
    if not _has_order(values):
        return [other for other in values if other != value][:_FEW]
    ordered = sorted(values, key=float)
    at = ordered.index(value)
    return [*ordered[max(0, at - 1) : at], *ordered[at + 1 : at + 2]]


def _simplify(evaluation: Evaluation, best: Evaluated, choices: Mapping[str, tuple[Value, ...]]) -> Evaluated:
    """Return the smallest change with the same score: each value moves back to its original as far as possible."""
    for surface in evaluation.surfaces:
        way = _values_between(evaluation, best, surface, choices[surface.id])
        low, high = 0, len(way)
        while low < high:  # what lies between two values that are as good is taken to be as good
            middle = 0 if low == 0 and high == len(way) else (low + high) // 2
            values = {**best.candidate.values, surface.id: way[middle]}
            tried = evaluation.evaluate(Candidate(values=values))
            if tried.is_allowed and tried.objective >= best.objective - _SLIGHT:
                best, high = tried, middle
            else:
                low = middle + 1
    return best


def _values_between(
    evaluation: Evaluation, best: Evaluated, surface: Surface, values: tuple[Value, ...]
) -> list[Value]:
    """Return the values from the original of a surface to the current one, in this order."""
    if surface.id not in best.candidate.values:
        return []
    before, now = evaluation.now[surface.id], best.candidate.values[surface.id]
    if not _has_order(values):
        return [before]
    ordered: list[Value] = sorted(values, key=float)
    start, end = ordered.index(before), ordered.index(now)
    return ordered[start:end] if start < end else ordered[end + 1 : start + 1][::-1]
