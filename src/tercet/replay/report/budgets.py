"""How much of each limit was used."""

from __future__ import annotations

from collections.abc import Iterator

from tercet.contracts.budget import RunBudget
from tercet.replay.report.case import Case
from tercet.replay.report.page import Meter, Tone
from tercet.replay.report.words import cents, took


def meters(case: Case) -> tuple[Meter, ...]:
    """One meter for each limit, and the plain amounts of what has none."""
    return tuple(_meters(case))


def _meters(case: Case) -> Iterator[Meter]:
    budget, used = RunBudget.model_validate(case.state.start.budget), case.state.used
    yield _meter(case, "tool calls", "tool_calls", used.tool_calls, budget.tool_calls)
    yield _meter(case, "time at work", "wall_clock_ms", used.wall_clock, budget.wall_clock_ms)
    yield _meter(case, "tokens", "tokens", used.tokens, budget.tokens)
    yield _meter(case, "cost", "cost_microcents", used.cost, budget.cost_microcents)
    yield _meter(case, "steps", "max_steps", used.steps, budget.max_steps)
    yield _meter(case, "retries", "max_retries", used.retries, budget.max_retries)
    yield _meter(case, "re-plans", "max_replans", used.replans, budget.max_replans)
    if case.state.quality.drawn or used.repairs:
        yield _meter(case, "repairs", "max_repairs", used.repairs, budget.max_repairs)
    yield _meter(case, "phases", "max_iterations", case.state.iterations, budget.max_iterations)


def _meter(case: Case, name: str, field: str, used: int, limit: int | None) -> Meter:
    more = case.state.extended.get(field, 0)
    whole = None if limit is None else limit + more
    share = 0.0 if whole is None else min(100.0, 100 * used / whole) if whole else (100.0 if used else 0.0)
    return Meter(
        name=name,
        used=_amount(field, used),
        limit="no limit" if whole is None else f"of {_amount(field, whole)}",
        share=round(share, 1),
        tone=_tone(used, whole),
        note=f"extended by {_amount(field, more)}" if more else "",
    )


def _tone(used: int, limit: int | None) -> Tone:
    if limit is None:
        return "quiet"
    if used > limit:
        return "bad"
    return "wait" if limit and used >= 0.9 * limit else "good"


def _amount(field: str, amount: int) -> str:
    match field:
        case "wall_clock_ms":
            return took(amount)
        case "cost_microcents":
            return cents(amount)
        case _:
            return f"{amount:,}"
