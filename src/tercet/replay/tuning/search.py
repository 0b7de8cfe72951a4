"""The search for better values: optuna chooses candidates, and replay evaluates them. Nothing is applied.

The same pack, runs, trials and seed give the same candidate. Where there are no more candidates than trials, all of them
are tried.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import product
from math import prod
from typing import Any

from tercet.contracts.errors import extra_missing
from tercet.contracts.packs.tuning import Candidate, Surface, Value
from tercet.replay.tuning.evaluation import Evaluated, Evaluation
from tercet.replay.tuning.frozen import choices_of

_REFUSED = -1_000.0
"""The value of a candidate that breaks rules, less one for each rule."""
_SLIGHT = 1e-9
_MOST_STEPS = 50
_FEW = 10
_MOST_ASKED = 5
"""How many times as many questions as trials: a sampler may ask for the same again, which costs nothing."""


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
    """Look for better values of the pack's surfaces; raises `UsageError` where optuna is not installed."""
    optuna = _optuna()
    choices = {each.id: choices_of(evaluation.pack, each) for each in evaluation.surfaces}
    space = prod(len(values) for values in choices.values())
    startup = max(5, min(20, trials // 3))
    sampler = optuna.samplers.TPESampler(seed=seed, n_startup_trials=startup)
    study = optuna.create_study(direction="maximize", sampler=sampler)
    for numbers in _fixed_candidates(choices, evaluation.now, trials=trials, is_all=space <= trials):
        study.enqueue_trial(numbers)
    seen: dict[str, Evaluated] = {}
    for _ in range(min(space, trials) if space <= trials else trials * _MOST_ASKED):
        trial = study.ask()
        candidate = Candidate(
            values={each.id: _suggest_value(trial, each, choices[each.id]) for each in evaluation.surfaces}
        )
        found = evaluation.evaluate(candidate)
        seen[found.candidate.model_dump_json()] = found
        study.tell(trial, _value_of(found))
        if progress is not None:
            progress(min(len(seen), trials))
        if len(seen) >= trials:
            break
    best = _best(seen)
    return Found(
        best=None if best is None else _simplify(evaluation, _climb(evaluation, best, choices), choices),
        tried=len(seen),
        refused=sum(not each.is_allowed for each in seen.values()),
        space=space,
    )


def demand_libraries() -> None:
    """Raise `UsageError` where a library for tuning is not installed, before any work is done."""
    for name in ("optuna", "tomlkit"):
        if find_spec(name) is None:
            raise extra_missing("tuning", name, "tuning")


def _optuna() -> Any:
    demand_libraries()
    import optuna  # noqa: PLC0415 - an extra, and slow to import

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna


def _fixed_candidates(
    choices: Mapping[str, tuple[Value, ...]], now: Mapping[str, Value], *, trials: int, is_all: bool
) -> Iterator[dict[str, int]]:
    """Yield what is tried in any case, by the numbers of the values: everything, where that is not too much. Else the pack as it
    is, and each surface by itself: of many surfaces mostly one or two matter, and lots would change them all at once."""
    if is_all:
        for numbers in product(*(range(len(values)) for values in choices.values())):
            yield dict(zip(choices, numbers, strict=True))
        return
    usual = {name: values.index(now[name]) for name, values in choices.items()}
    yield usual
    share = max(1, trials // 2 // len(choices))
    for name, values in choices.items():
        others = [number for number in range(len(values)) if number != usual[name]]
        for number in others[:: max(1, -(-len(others) // share))]:
            yield {**usual, name: number}


def _suggest_value(trial: Any, surface: Surface, values: tuple[Value, ...]) -> Value:
    """Return a value by its number: numbers have an order that can be followed, names have none."""
    number: int = (
        trial.suggest_int(surface.id, 0, len(values) - 1)
        if _has_order(values)
        else trial.suggest_categorical(surface.id, list(range(len(values))))
    )
    return values[number]


def _has_order(values: tuple[Value, ...]) -> bool:
    return not any(isinstance(value, bool | str) for value in values)


def _value_of(found: Evaluated) -> float:
    return found.objective if found.is_allowed else _REFUSED - found.broken


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
