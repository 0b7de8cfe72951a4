"""The steps of a plan: how far each came, what the critic said of it, and every call that was made for it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tercet.contracts.plan import Step
from tercet.core import events as e
from tercet.core.state import StepState
from tercet.replay.report.page import Attempt, Chip, Row, StepCard, Tone
from tercet.replay.report.wording import BLOCK, Wording, joined, moment, took
from tercet.view.events import describe, lane_use
from tercet.view.words import SKIPPED, STEPS, settlement


@dataclass(frozen=True, kw_only=True)
class Services:
    """What a step is told with, beside its own plan."""

    wording: Wording
    anchor: str
    """What the anchors of this plan's steps begin with."""
    is_over: bool
    answers: Mapping[str, tuple[str, ...]]
    """Who approved which step."""
    earlier: Sequence[e.Event] = ()
    """What happened before this plan: a step that was kept was carried out there."""


def step_card(
    number: int,
    step: Step,
    state: StepState,
    review: Mapping[str, Any],
    events: Sequence[e.Event],
    around: Services,
) -> StepCard:
    """A step as it came out."""
    mine = [event for event in events if getattr(event, "step", None) == step.id]
    is_kept = state.status == "done" and not any(isinstance(event, e.Intent | e.Complete) for event in mine)
    if is_kept:
        mine = [event for event in around.earlier if getattr(event, "step", None) == step.id]
    mark, tone, word = STEPS[state.status]
    is_idle = around.is_over and state.status in ("gated", "pending")
    calls = attempts(mine, around.wording)
    wording = around.wording
    return StepCard(
        anchor=f"{around.anchor}-{number}",
        id=wording.text(step.id, 80),
        tool=wording.text(step.tool or step.kind, 200),
        mark="·" if is_idle else mark,
        tone="quiet" if is_idle else tone,
        how=joined(
            ("never called" if is_idle else word, "under an earlier plan" if is_kept else "", *_timing(mine)),
            " · ",
        ),
        why=wording.text(_why(state), 1_000),
        chips=tuple(_chips(step, mine, review, wording)),
        rows=tuple(_rows(step, state, around)),
        params=wording.value(_params(step, mine)),
        result=_result(mine, wording),
        attempts=calls,
    )


def _why(state: StepState) -> str:
    if state.status == "skipped":
        return SKIPPED.get(state.error, state.error)
    return state.error if state.status in ("failed", "unknown") else ""


def _timing(events: Iterable[e.Event]) -> Iterator[str]:
    latest = [event for event in events if isinstance(event, e.Complete | e.Abort)]
    if latest and latest[-1].latency:
        yield took(latest[-1].latency)
    tries = max((event.attempt for event in events if isinstance(event, e.Intent)), default=0)
    if tries > 1:
        yield f"{tries} attempts"


# --- what was said of it ---


def _chips(
    step: Step, events: Iterable[e.Event], review: Mapping[str, Any], wording: Wording
) -> Iterator[Chip]:
    """Every verdict at this step, in the order in which they were given."""
    refusals = [each for each in review.get("refusals", ()) if each.get("step_id") == step.id]
    for refusal in refusals:
        yield Chip(text=wording.text(f"refused: {refusal.get('code')}", 80), tone="bad")
    for event in events:
        if isinstance(event, e.StepJudged | e.StepRefused | e.LoopGuardTripped) and (view := describe(event)):
            yield Chip(text=wording.text(view.text), tone=view.tone)


def _rows(step: Step, state: StepState, around: Services) -> Iterator[Row]:
    say = around.wording.text
    if step.depends_on:
        yield Row(label="waits for", text=say(", ".join(step.depends_on)))
    if step.when:
        yield Row(label="only when", text=say(step.when, 500), is_code=True)
    if step.gates:
        yield Row(label="gates", text=say(", ".join(step.gates)))
    if step.id in around.answers:
        yield Row(label="people", text=say("; ".join(around.answers[step.id])))
    for ref in step.evidence_refs:
        yield Row(label="stands on", text=say(ref), is_code=True)
    if step.optional:
        yield Row(label="optional", text="the run goes on without it")
    if state.lane:
        yield Row(label="lane", text=say(f"session {state.lane}, {lane_use(state)}"))
    if state.key:
        yield Row(label="key", text=say(state.key, 100), is_code=True)


# --- what it did ---


def _params(step: Step, events: Iterable[e.Event]) -> Any:
    """What it was last called with; as the plan says it, where it never was."""
    calls = [event.params for event in events if isinstance(event, e.Intent)]
    return calls[-1] if calls else step.params


def _result(events: Iterable[e.Event], wording: Wording) -> str:
    done = [event for event in events if isinstance(event, e.Complete)]
    if not done:
        return ""
    if done[-1].blob:
        return wording.text(f"too large to stand here: {done[-1].blob}", 200)
    return wording.value(done[-1].value, BLOCK)


def attempts(events: Sequence[e.Event], wording: Wording) -> tuple[Attempt, ...]:
    """The calls of one step."""
    made = [event for event in events if isinstance(event, e.Intent) and event.tool]
    return tuple(_attempt(intent, events, wording) for intent in made)


def _attempt(intent: e.Intent, events: Sequence[e.Event], wording: Wording) -> Attempt:
    ends = [
        each for each in events if isinstance(each, e.Complete | e.Abort) and each.attempt == intent.attempt
    ]
    settled = [each for each in events if isinstance(each, e.Settled) and each.attempt == intent.attempt]
    how, tone, note = _ended(ends[-1] if ends else None, settled[-1] if settled else None)
    return Attempt(
        number=intent.attempt,
        at=moment(intent.at),
        how=how,
        tone=tone,
        note=wording.text(note, 600),
        key=wording.text(intent.key, 100),
    )


def _ended(end: e.Complete | e.Abort | None, settled: e.Settled | None) -> tuple[str, Tone, str]:
    """How one call ended, in words, with its colour and what there is to add."""
    match end:
        case e.Complete() if end.error:
            return "done, but unusable", "bad", end.error
        case e.Complete():
            found = "found to have happened" if end.reconciled else f"done after {took(end.latency)}"
            return found, "good", ""
        case e.Abort(outcome="not_done"):
            return f"not done, after {took(end.latency)}", "bad", end.error
        case e.Abort():
            return (
                "outcome unknown",
                "wait",
                joined((end.error, settlement(settled) if settled else ""), "; "),
            )
        case None:
            lost = "its process was lost before it could write down what came of it"
            return (
                ("cut off", "wait", joined((lost, settlement(settled) if settled else ""), "; "))
                if settled
                else ("no end is recorded", "wait", "")
            )
