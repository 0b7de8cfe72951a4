"""How much of each limit was used."""

from __future__ import annotations

from collections.abc import Iterator

from tercet.core.budget import DIMENSIONS, budget_of
from tercet.replay.report.case import Case
from tercet.replay.report.page import Meter, Tone
from tercet.replay.report.words import cents, took


def meters(case: Case) -> tuple[Meter, ...]:
    """One meter for each limit, and the plain amounts of what has none."""
    return tuple(_meters(case))


_FIRST = ("tool_calls", "wall_clock_ms")
"""The dimensions that are shown before the others."""


def _meters(case: Case) -> Iterator[Meter]:
    state = case.state
    budget, is_judged = budget_of(state), bool(state.quality.drawn or state.used.repairs)
    for each in sorted(DIMENSIONS, key=lambda each: each.name not in _FIRST):
        if each.limit and (each.name != "repairs" or is_judged):
            used, limit = getattr(state.used, each.used), getattr(budget, each.limit)
            yield _meter(each.label, each.name, used, limit, state.extended.get(each.name, 0))
    yield _meter("phases", "iterations", state.iterations, budget.max_iterations)


def _meter(label: str, name: str, used: int, limit: int | None, more: int = 0) -> Meter:
    share = 0.0 if limit is None else min(100.0, 100 * used / limit) if limit else (100.0 if used else 0.0)
    return Meter(
        name=label,
        used=_amount(name, used),
        limit="no limit" if limit is None else f"of {_amount(name, limit)}",
        share=round(share, 1),
        tone=_tone(used, limit),
        note=f"extended by {_amount(name, more)}" if more else "",
    )


def _tone(used: int, limit: int | None) -> Tone:
    if limit is None:
        return "quiet"
    if used > limit:
        return "bad"
    return "wait" if limit and used >= 0.9 * limit else "good"


def _amount(name: str, amount: int) -> str:
    match name:
        case "wall_clock_ms":
            return took(amount)
        case "cost_microcents":
            return cents(amount)
        case _:
            return f"{amount:,}"
