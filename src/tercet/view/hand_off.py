"""The hand-off packet of an escalated run as a view model: its plan, verdicts, budget, and what was tried."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tercet.contracts.gate import HandOff
from tercet.contracts.shape import JsonObject, as_list, as_object
from tercet.core import events as e
from tercet.view.events import EventLine
from tercet.view.phases import PhaseEvent, PhaseView, read_phase
from tercet.view.text import count, first_names, reasons_text, without_step
from tercet.view.vocabulary import REVIEWS


@dataclass(frozen=True, kw_only=True)
class AttemptView:
    """One attempt of a run before it was escalated: a line, or a phase of the quality loop."""

    line: EventLine
    phase: PhaseView | None = None


_PHASES: dict[str, type[PhaseEvent]] = {
    "sampled": e.SamplesDrawn,
    "tested": e.TestsRun,
    "verified": e.OutputsVerified,
    "attacked": e.OutputsAttacked,
    "critiqued": e.OutputsCritiqued,
    "repaired": e.OutputsRepaired,
}
"""The attempts of a packet that hold the fields of an event of the quality loop."""
_LONGEST = 300
"""The number of characters that are shown of a model's answer; the packet has all of it."""


def attempt_views(attempts: Sequence[JsonObject]) -> tuple[AttemptView, ...]:
    """Return the attempts of a hand-off packet; entries of an unknown kind are left out."""
    found: list[AttemptView] = []
    for attempt in attempts:
        if (kind := _PHASES.get(str(attempt.get("what")))) is not None:
            phase = read_phase(kind, attempt)
            found.append(AttemptView(line=EventLine(phase.mark, phase.tone, phase.text), phase=phase))
        elif (line := _attempt_line(attempt)) is not None:
            found.append(AttemptView(line=line))
    return tuple(found)


def _attempt_line(attempt: JsonObject) -> EventLine | None:
    match attempt.get("what"):
        case "asked":
            return EventLine("·", "quiet", f"asked {attempt.get('model')}")
        case "answered" if attempt.get("code"):
            return EventLine("✗", "bad", f"no answer: {attempt.get('code')}: {attempt.get('error')}")
        case "answered":
            return EventLine("·", "quiet", f"it answered {_model_answer(attempt)}")
        case "no_plan":
            return EventLine("✗", "bad", f"no plan: {attempt.get('code')}: {attempt.get('reason')}")
        case "plan":
            return EventLine("·", "quiet", f"a plan: {_plan(as_object(attempt.get('plan')) or {})}")
        case "verdict":
            return _verdict_line(attempt)
        case "step":
            return EventLine("✗", "bad", f"step {attempt.get('step')}: {attempt.get('reason')}")
        case "turn":
            words = (attempt.get("action"), attempt.get("critic", ""), attempt.get("reason", ""))
            return EventLine("·", "quiet", f"turn: {' '.join(map(str, words))}".rstrip())
        case _:
            return None


def _model_answer(attempt: JsonObject) -> str:
    if attempt.get("blob"):
        return f"at length, see {attempt['blob']}"
    text = " ".join(str(attempt.get("answer", "")).split())
    more = count(len(text) - _LONGEST, "more character")
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}… ({more})"


def _plan(plan: JsonObject) -> str:
    steps = [as_object(step) or {} for step in as_list(plan.get("steps")) or ()]
    return (
        first_names([f"{step.get('id')} {step.get('tool') or 'note'}" for step in steps], most=12)
        or "no steps"
    )


def _verdict_line(verdict: JsonObject) -> EventLine:
    word, tone = REVIEWS.get(str(verdict.get("outcome")), ("refused", "bad"))
    if tone == "good":
        return EventLine("✓", tone, f"plan {word}")
    why = verdict.get("code") or verdict.get("kind") or verdict.get("outcome")
    reasons = reasons_text(as_list(verdict.get("reasons")) or ())
    return EventLine("✗", tone, f"plan {word}: {why}: {reasons}")


@dataclass(frozen=True, kw_only=True)
class PlannedStep:
    """A step of the plan around a gate, and its progress."""

    step: str
    tool: str
    status: str
    is_asked: bool = False


@dataclass(frozen=True, kw_only=True)
class HandOffView:
    """The information for a person when a run escalates."""

    plan: tuple[PlannedStep, ...]
    verdicts: tuple[str, ...]
    budget: Mapping[str, Any]
    attempts: tuple[AttemptView, ...]


def hand_off_view(packet: HandOff) -> HandOffView:
    """Return the view of a hand-off packet."""
    statuses = {"done": "done", "not_done": "failed", "unknown": "unknown"}
    results = [as_object(entry.get("result")) or {} for entry in packet.transcript]
    ended = {str(each.get("step_id")): statuses.get(str(each.get("outcome")), "failed") for each in results}
    steps = [as_object(step) or {} for step in as_list(packet.plan.get("steps")) or ()]
    return HandOffView(
        plan=tuple(
            PlannedStep(
                step=str(each.get("id")), tool=str(each.get("tool") or "note"), status=ended.get(str(each.get("id")), "pending")
            )
            for each in steps
        ),
        verdicts=tuple(map(_stage_verdict, packet.verdicts)),
        budget=packet.budget_remaining,
        attempts=attempt_views(packet.attempts),
    )  # fmt: skip


def _stage_verdict(verdict: JsonObject) -> str:
    reasons = reasons_text(as_list(verdict.get("reasons")) or ()) or str(verdict.get("rationale", ""))
    words = (verdict.get("stage"), verdict.get("step_id"), verdict.get("outcome"))
    reasons = without_step(reasons, str(verdict.get("step_id", "")))
    return f"{' '.join(str(word) for word in words if word)}: {reasons}"
