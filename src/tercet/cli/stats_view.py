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
    yield "runs", _joined(f"{found.runs:,}", _counts({**found.ended, **unfinished}))
    if (mean := found.mean_time_to_safe_completion_ms) is not None:
        yield "time", f"{took(round(mean))} from request to commit on average, waiting for people included"
    yield "plans", f"{found.plans_reviewed:,} reviewed{_share(found.plan_pass_rate, 'passed the critic')}"
    yield "refused", _counts(found.plans_refused)
    yield "re-planned", f"{count(found.replans, 'time')}: another plan was asked for" if found.replans else ""
    if found.steps:
        yield (
            "steps",
            f"{_counts(found.steps)}{_share(found.step_completion_rate, 'of those tried')}",
        )
    yield "calls", _calls(found)
    if found.retries:
        yield "retries", f"{count(found.retries, 'call')}{_share(found.retry_rate, 'of all calls')}"
        recovered = {"completed": found.steps_recovered, "lost": found.steps_lost}
        yield "retried", f"{_counts(recovered)}{_share(found.recovery_rate, 'of retried steps')}"
    yield "taken back", _counts(found.compensations)
    if found.loop_guard_trips:
        yield "loop guard", f"{count(found.loop_guard_trips, 'trip')}, {found.loop_guard_trip_rate:.2f} a run"
    yield "gates", _counts(found.gates_opened)
    yield "not passed", _counts({_FAILURES.get(name, name): n for name, n in found.gate_failures.items()})
    yield "escalated", _escalations(found)
    yield "checkpoints", f"{found.checkpoints_written:,}, {count(found.checkpoint_bytes, 'byte')}"
    if found.loops_resumed:
        cut_off = count(found.actions_recovered, "call")
        recovered = f", with {cut_off} that a process had left under way" if found.actions_recovered else ""
        yield "resumed", f"{count(found.loops_resumed, 'time')}{recovered}"
    yield "cost", _in_phases({phase: _cents(cost) for phase, cost in found.cost_microcents.items()})
    yield "tokens", _in_phases({phase: f"{number:,}" for phase, number in found.tokens.items()})
    yield "lanes", _counts(found.lanes)


_FAILURES = {
    "quality": "below a quality limit",
    "denied": "denied by a person",
    "expired": "not answered in time",
}
"""Why something did not pass, for people."""


def _calls(found: Figures) -> str:
    tools = sorted(found.actions_dispatched.items(), key=lambda each: -each[1])
    shown = ", ".join(f"{number:,} {printable(tool, 60)}" for tool, number in tools[:_MOST_TOOLS])
    return f"{shown}{', …' if len(tools) > _MOST_TOOLS else ''}"


def _escalations(found: Figures) -> str:
    told = [
        f"{number:,} of risk tier {tier}{f' ({rate:.2f} a run)' if rate else ''}"
        for tier, number in found.escalations.items()
        for rate in (found.escalation_rate.get(tier),)
    ]
    return ", ".join(told)


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{number:,} {printable(name, 60)}" for name, number in counts.items() if number)


def _in_phases(amounts: Mapping[str, str]) -> str:
    return ", ".join(f"{amount} in {printable(phase, 60)}" for phase, amount in amounts.items())


def _cents(microcents: int) -> str:
    return f"{microcents / MICROCENTS_PER_CENT:,.6g} cents"


def _joined(*parts: str) -> str:
    return ": ".join(filter(None, parts))


def _share(rate: float | None, text: str) -> str:
    return "" if rate is None else f" ({f'{100 * rate:.1f}'.removesuffix('.0')} % {text})"
