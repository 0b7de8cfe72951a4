"""The figures of many runs on the screen: a line for each question that somebody asks of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tercet.cli.screen import Screen
from tercet.cli.text import count, printable, took
from tercet.contracts.budget import MICROCENTS_PER_CENT
from tercet.observe.figures import Figures

_LABEL = 13
_MOST_TOOLS = 8


def show_figures(screen: Screen, found: Figures, unfinished: Mapping[str, int]) -> None:
    """Prints the figures, and where the runs stand that have not ended; what did not happen has no line."""
    if not found.runs and not found.plans_reviewed:
        screen.say("There is no run of this kind.")
        return
    for label, text in _facts(found, unfinished):
        if text:
            screen.put(text, first=f"{label:<{_LABEL}}")


def _facts(found: Figures, unfinished: Mapping[str, int]) -> Iterator[tuple[str, str]]:
    yield "runs", _joined(count(found.runs, "run"), _parts({**found.ended, **unfinished}))
    if (mean := found.mean_time_to_safe_completion_ms) is not None:
        yield "time", f"{took(round(mean))} from request to commit on average, waiting for people included"
    yield "plans", _rated(found.plan_pass_rate, f"of {count(found.plans_reviewed, 'plan')} passed the critic")
    yield "refused", _parts(found.plans_refused)
    yield "re-planned", f"{count(found.replans, 'time')}: another plan was asked for" if found.replans else ""
    yield "steps", _rated(found.step_completion_rate, f"of those tried completed: {_parts(found.steps)}")
    yield "calls", _calls(found)
    if found.retries:
        yield "retries", _rated(found.retry_rate, f"of calls were another attempt: {found.retries:,}")
        yield "recovered", _rated(found.recovery_rate, "of retried steps completed")
    yield "taken back", _parts(found.compensations)
    if found.loop_guard_trips:
        yield "loop guard", f"{count(found.loop_guard_trips, 'trip')}, {found.loop_guard_trip_rate:.2f} a run"
    yield "gates", _parts(found.gates_opened)
    yield "not passed", _parts(found.gate_failures)
    yield "escalated", _escalations(found)
    yield "checkpoints", f"{found.checkpoints_written:,}, {found.checkpoint_bytes:,} bytes"
    if found.loops_resumed:
        cut_off = count(found.actions_recovered, "call")
        recovered = f", with {cut_off} that a process had left under way" if found.actions_recovered else ""
        yield "resumed", f"{count(found.loops_resumed, 'time')}{recovered}"
    yield "cost", _parts({phase: _cents(cost) for phase, cost in found.cost_microcents.items()})
    yield "tokens", _parts(found.tokens)
    yield "inside", _parts(found.lanes)


def _calls(found: Figures) -> str:
    tools = sorted(found.actions_dispatched.items(), key=lambda each: -each[1])
    shown = ", ".join(f"{printable(tool, 60)} {number:,}" for tool, number in tools[:_MOST_TOOLS])
    return f"{shown}{', …' if len(tools) > _MOST_TOOLS else ''}"


def _escalations(found: Figures) -> str:
    told = [
        f"{tier} {number:,} ({rate:.2f} a run)"
        if (rate := found.escalation_rate.get(tier))
        else f"{tier} {number:,}"
        for tier, number in found.escalations.items()
    ]
    return ", ".join(told)


def _parts(counts: Mapping[str, int | str]) -> str:
    return ", ".join(
        f"{printable(name, 60)} {number if isinstance(number, str) else f'{number:,}'}"
        for name, number in counts.items()
    )


def _cents(microcents: int) -> str:
    return f"{microcents / MICROCENTS_PER_CENT:,.6g} cents"


def _joined(*parts: str) -> str:
    return ": ".join(filter(None, parts))


def _rated(rate: float | None, text: str) -> str:
    return "" if rate is None else f"{100 * rate:.1f} % {text}"
