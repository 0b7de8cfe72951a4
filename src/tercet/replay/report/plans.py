"""The plans of a run: each drawn, with its verdict, why it took the place of the one before, and what that changed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tercet.core import events as e
from tercet.core.fold.apply import fold_event
from tercet.core.plans import read_plan
from tercet.core.state import OpenGate, State, StepState
from tercet.engine.revisions import Revision, revisions
from tercet.replay.report.case import Case
from tercet.replay.report.drawing import draw
from tercet.replay.report.page import Chip, PlanPart, Row, Tone
from tercet.replay.report.steps import Services, step_card
from tercet.replay.report.wording import Wording, count
from tercet.view.events import describe_turn
from tercet.view.words import ANSWERS

MOST_PLANS = 12
"""How many plans are shown, the last ones: an agent that decides step by step has one for each step."""
MOST_STEPS = 200

_APPROVALS = ("approve", "grant", "deny", "modify", "withdraw")
_REVIEWED: dict[str, tuple[str, Tone]] = {
    "ok": ("verified", "good"),
    "replan": ("refused, to be planned again", "bad"),
    "reject": ("refused", "bad"),
}


def plan_parts(case: Case, wording: Wording) -> tuple[tuple[PlanPart, ...], str]:
    """The plans of a run, the last one first, and in words how many more there were."""
    found = chapters(case.events)
    compared = {revision.number: revision for revision in revisions(case.events)}
    shown = found[-MOST_PLANS:]
    left_out = len(found) - len(shown)
    parts = [
        _part(case, chapter, compared.get(chapter.number), wording, is_last=chapter is found[-1])
        for chapter in reversed(shown)
    ]
    note = f"{count(left_out, 'earlier plan')} before these are left out." if left_out else ""
    return tuple(parts), note


def _part(
    case: Case, chapter: Chapter, revision: Revision | None, wording: Wording, *, is_last: bool
) -> PlanPart:
    plan, review = read_plan(dict(chapter.plan)), chapter.review
    answers = _answers(case)
    around = Services(
        wording=wording,
        anchor=f"plan-{chapter.number}-step",
        is_over=case.state.is_over or not is_last,
        answers=answers,
        earlier=_before(case.events, chapter),
    )
    cards = [
        step_card(number, step, chapter.steps[step.id], review, chapter.events, around)
        for number, step in enumerate(plan.steps[:MOST_STEPS], start=1)
    ]
    waiting = {gate.step: gate for gate in case.state.gates.values()} if is_last else {}
    gates = {
        card.anchor: text
        for card, step in zip(cards, plan.steps, strict=False)
        if (text := _gate(step.id, answers, waiting, wording))
    }
    is_turn = case.state.is_stepwise
    planner = chapter.proposed.planner or chapter.proposed.origin
    by = "brought by the caller" if planner == "caller" else f"by {planner}"
    words = _REVIEWED.get(str(review.get("outcome")))
    return PlanPart(
        number=chapter.number,
        word="turn" if is_turn else "plan",
        title=wording.text(f"{'Turn' if is_turn else 'Plan'} {chapter.number}, {by}", 120),
        hash=chapter.proposed.hash,
        is_last=is_last,
        review=Chip(text=words[0], tone=words[1]) if words else None,
        reasons=tuple(wording.text(reason, 600) for reason in (*review.get("reasons", ()), *_turns(chapter))),
        remedies=tuple(_remedies(review, wording)),
        why=tuple(wording.text(why, 600) for why in (revision.why if revision else ())),
        changes=tuple(_changes(revision, wording))
        if revision and revision.number > 1 and not is_turn
        else (),
        drawing=draw(plan.graph, cards, gates),
        steps=tuple(cards),
        left_out=f"{len(plan.steps) - MOST_STEPS:,} more steps are left out."
        if len(plan.steps) > MOST_STEPS
        else "",
    )


def _before(events: Sequence[e.Event], chapter: Chapter) -> list[e.Event]:
    at = next((n for n, event in enumerate(events) if event is chapter.proposed), 0)
    return list(events[:at])


# --- verdicts ---


def _turns(chapter: Chapter) -> Iterator[str]:
    """What the critics made of a turn."""
    for event in chapter.events:
        if isinstance(event, e.TurnJudged):
            yield describe_turn(event).text


def _remedies(review: Mapping[str, Any], wording: Wording) -> Iterator[Row]:
    """Every problem that the critic found, and what to do about each."""
    for refusal in review.get("refusals", ()):
        where = f" at {refusal['step_id']}" if refusal.get("step_id") else ""
        yield Row(
            label=wording.text(f"{refusal.get('code')}{where}", 120),
            text=wording.text(refusal.get("reason", ""), 600),
            note=wording.text(refusal.get("remedy", ""), 600),
            tone="bad",
        )


def _changes(revision: Revision, wording: Wording) -> Iterator[Row]:
    """What became of the steps of the plan before."""
    rows: dict[str, Iterable[str]] = {
        "kept": [f"{step.id}{' (done)' if step.is_done else ''}" for step in revision.kept],
        "new": [step.id for step in revision.new],
        "changed": [f"{step.id} ({', '.join(step.fields)})" for step in revision.changed],
        "given up": [f"{step.id}: {step.why}" for step in revision.given_up],
    }
    for label, names in rows.items():
        if text := "; ".join(names):
            yield Row(label=label, text=wording.text(text, 1_000))


# --- people ---


def _answers(case: Case) -> dict[str, tuple[str, ...]]:
    """Who said what about which step, each answer once."""
    found: dict[str, dict[str, None]] = {}
    for answer in case.state.answers:
        if answer.answer in _APPROVALS:
            who = answer.actor.removeprefix("policy:") if answer.answer == "grant" else answer.actor
            by = f"by policy {who}" if answer.answer == "grant" else f"by {who}"
            found.setdefault(answer.step, {})[f"{ANSWERS[answer.answer][0]} {by}"] = None
    return {step: tuple(said) for step, said in found.items()}


def _gate(
    step: str, answers: Mapping[str, tuple[str, ...]], waiting: Mapping[str, OpenGate], wording: Wording
) -> str:
    if step in waiting:
        return wording.text(f"waits for {', '.join(waiting[step].names) or 'people'}", 200)
    return wording.text(answers[step][-1], 200) if step in answers else ""


# --- chapters ---


@dataclass(frozen=True, kw_only=True)
class Chapter:
    """One plan, from its proposal to the next one or to the end."""

    number: int
    proposed: e.PlanProposed
    plan: Mapping[str, Any]
    """As it was reviewed: with the evidence that was found for it."""
    steps: Mapping[str, StepState]
    events: tuple[e.Event, ...]

    @property
    def review(self) -> Mapping[str, Any]:
        """What the critic said of it, the last time that it was asked; empty if it never was."""
        found = [event.verdict for event in self.events if isinstance(event, e.PlanReviewed)]
        return found[-1] if found else {}


def chapters(events: Iterable[e.Event]) -> tuple[Chapter, ...]:
    """The plans of a run; what happened before the first one belongs to none."""
    state, found = State(), list[Chapter]()
    proposed: e.PlanProposed | None = None
    since: list[e.Event] = []
    for event in events:
        if isinstance(event, e.PlanProposed):
            found += _closed(proposed, state, since, len(found))
            proposed, since = event, []
        state = fold_event(state, event)
        since.append(event)
    return (*found, *_closed(proposed, state, since, len(found)))


def _closed(
    proposed: e.PlanProposed | None, state: State, events: Sequence[e.Event], before: int
) -> list[Chapter]:
    if proposed is None:
        return []
    chapter = Chapter(
        number=before + 1, proposed=proposed, plan=state.plan, steps=state.steps, events=tuple(events)
    )
    return [chapter]
