"""The head of a report: where the run stands and what that means, who asked for what, and what it came to."""

from __future__ import annotations

from collections.abc import Iterator

from tercet.core import events as e
from tercet.core.budget import DIMENSIONS, budget_of
from tercet.core.state import State
from tercet.replay.report.case import Case
from tercet.replay.report.page import Figure, Meter, Row, Tone
from tercet.replay.report.timeline import crashes
from tercet.replay.report.wording import Wording, cents, count, joined, moment, took
from tercet.view.words import STANDINGS, standing

_MARKS: dict[Tone, str] = {"good": "✓", "bad": "✗", "wait": "…", "busy": "▸", "quiet": "·"}


def headline(state: State) -> tuple[str, Tone, str]:
    """Return where a run stands in one word, with its tone and its mark."""
    where = standing(state)
    is_partial = where == "completed" and state.partial and not state.start.shadow
    tone: Tone = "wait" if is_partial else STANDINGS[where][0]
    return "completed as partial" if is_partial else where, tone, _MARKS[tone]


def reason(state: State) -> str:
    """Why it stands there, where that says more than the sentence."""
    told = state.reason if state.escalation is None else state.escalation
    return "" if state.status == "completed" and not state.partial else told


def facts(case: Case, wording: Wording) -> tuple[Row, ...]:
    """Who asked for what, with which pack, and when."""
    return tuple(_facts(case, wording))


def _facts(case: Case, wording: Wording) -> Iterator[Row]:
    state, start = case.state, case.state.start
    roles = ", ".join(start.actor.get("roles") or ())
    yield Row(label="asked by", text=wording.text(start.actor["id"], 120), note=wording.text(roles, 120))
    if start.dev:
        yield Row(
            label="people", text="simulated: a development session", note="one person may act as any actor"
        )
    yield Row(label="decision", text=wording.text(start.decision, 200))
    yield Row(label="pack", text=wording.text(start.pack, 120))
    evidence = joined((start.snapshot, f"store at {start.library}" if start.library else ""))
    yield Row(label="evidence", text=wording.text(evidence or "none", 200))
    yield Row(label="safety mode", text=wording.text(start.safety_mode, 40))
    yield Row(label="started", text=moment(start.at))
    yield Row(
        label="ended" if state.is_over else "last event",
        text=moment(state.at),
        note=f"after {took(state.at - start.at)}",
    )
    if start.planner:
        models = ", ".join(start.models or ())
        yield Row(label="planner", text=wording.text(start.planner, 120), note=wording.text(models, 200))


def figures(case: Case) -> tuple[Figure, ...]:
    """The run in a few numbers."""
    state = case.state
    planned = [step for step in state.steps.values() if not step.compensates]
    done = sum(step.status in ("done", "skipped") for step in planned)
    people = {(a.actor, a.gate) for a in state.answers if a.answer == "approve"}
    lost = crashes(case.events)
    plans = sum(isinstance(event, e.PlanProposed) for event in case.events)
    work = took(state.used.wall_clock)
    return (
        Figure(number=f"{done} of {len(planned)}", label="steps done"),
        Figure(number=f"{state.used.tool_calls:,}", label=_noun(state.used.tool_calls, "tool call")),
        Figure(number=f"{plans:,}", label=_noun(plans, "plan")),
        Figure(number=f"{len(people):,}", label=_noun(len(people), "approval")),
        *_repairs(case),
        Figure(number=f"{lost:,}", label=_noun(lost, "lost process", "es"), tone="bad" if lost else "quiet"),
        Figure(number=work, label="at work"),
    )


def _repairs(case: Case) -> tuple[Figure, ...]:
    tried = len(case.repairs)
    return (Figure(number=f"{tried:,}", label=_noun(tried, "repair")),) if tried else ()


def _noun(number: int, noun: str, ending: str = "s") -> str:
    return noun if number == 1 else f"{noun}{ending}"


def hashes(case: Case, wording: Wording) -> tuple[Row, ...]:
    """What the run can be held to."""
    state, start = case.state, case.state.start
    rows = {
        "session": start.session,
        "run": start.run,
        "trace": start.trace,
        "plan": state.plan_hash,
        "decision record": state.record,
        "chain head": case.chain and f"sha256:{case.chain}",
        "pack": start.pack_hash,
        "context": start.context,
        "evidence, frozen": start.evidence,
        "store of evidence": start.library_hash,
    }
    notes = {
        "chain head": f"the chain was followed over {count(len(case.events), 'event')} when this page was made",
        "decision record": "the record came to this hash when this page was made" if case.record else "",
    }
    return tuple(
        Row(label=label, text=wording.text(text, 120), is_code=True, note=notes.get(label, ""))
        for label, text in rows.items()
        if text
    )


# --- limits ---


_FIRST = ("tool_calls", "wall_clock_ms")
"""The dimensions that are shown before the others."""


def meters(case: Case) -> tuple[Meter, ...]:
    """One meter for each limit, and the plain amounts of what has none."""
    return tuple(_meters(case))


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
        tone=_meter_tone(used, limit),
        note=f"extended by {_amount(name, more)}" if more else "",
    )


def _meter_tone(used: int, limit: int | None) -> Tone:
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
