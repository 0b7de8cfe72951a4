"""A run up to one of its events, in parts of a bounded size: what the pages of a session show."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Generic, TypeVar

from tercet.core import events as e
from tercet.core.state import State
from tercet.engine.personal.reveal import Revealer
from tercet.engine.session_reader import load_history, read_policies
from tercet.engine.streams.artifacts import rollback_result
from tercet.journal.protocol import Journal
from tercet.replay.run_data import read_facts, read_minimums, read_texts
from tercet.view.events import RunData
from tercet.view.evidence import ExchangeView, exchange_views
from tercet.view.html.graph import Drawing, draw_plan
from tercet.view.html.safe_text import SafeText
from tercet.view.plan import CallAttempt, PlanView, StepView, call_attempts
from tercet.view.timeline import Timeline, timeline
from tercet.view.vocabulary import step_text

STEPS, EVENTS, CALLS, FACTS, POINTS = 40, 120, 20, 25, 50
"""How many of each a page shows."""
_T = TypeVar("_T")


@dataclass(frozen=True, kw_only=True)
class Part(Generic[_T]):
    """One page of a list."""

    items: Sequence[_T]
    number: int
    """From 1."""
    pages: int
    first: int
    """The position of its first item, from 0."""
    total: int

    @property
    def last(self) -> int:
        """The position after its last item."""
        return self.first + len(self.items)


def part_of(items: Sequence[_T], number: int, size: int) -> Part[_T]:
    """Return a page of a list; a number beyond it means the last page."""
    pages = max(1, -(-len(items) // size))
    at = min(max(1, number), pages)
    first = (at - 1) * size
    return Part(items=items[first : first + size], number=at, pages=pages, first=first, total=len(items))


# --- the run ---


@dataclass(frozen=True, kw_only=True)
class RunAt:
    """A run as it was after one of its events."""

    data: RunData
    at: int
    """The position of that event, from 1."""
    last: int
    """The position of the newest event."""

    @property
    def is_newest(self) -> bool:
        """Whether nothing has been recorded since."""
        return self.at == self.last


async def read_run_at(journal: Journal, tenant: str, session: str, at: int | None = None) -> RunAt:
    """Return a run after one of its events, with its personal values; by default, after the newest. Raises `JournalCorrupt` for damage."""
    history = await load_history(journal, tenant, session)
    last = len(history.events)
    position = last if at is None else min(max(1, at), last)
    state = State()
    for _, after in islice(history.walk(), position):
        state = after
    revealer = Revealer(journal, tenant, session)
    data = RunData(
        state=await revealer.reveal_struct(state),
        events=tuple([await revealer.reveal_struct(event) for event in history.events[:position]]),
        chain=history.stored[position - 1].chain.hex(),
        rollback=await rollback_result(journal, tenant, state),
        policies=await read_policies(journal, tenant, state),
    )
    return RunAt(data=data, at=position, last=last)


async def with_facts(journal: Journal, tenant: str, data: RunData) -> RunData:
    """Return a run with the facts that it stored."""
    return replace(data, facts=tuple(await read_facts(journal, tenant, data.state, data.events)))


async def with_minimums(journal: Journal, tenant: str, data: RunData) -> RunData:
    """Return a run with the minimums of its rubric."""
    return replace(data, minimums=await read_minimums(journal, tenant, data.state, data.events))


# --- the plan ---


@dataclass(frozen=True, kw_only=True)
class PlanPart:
    """Some steps of a plan, and their graph."""

    plan: PlanView
    """With these steps only."""
    part: Part[StepView]
    drawing: Drawing | None


def plan_part(plan: PlanView, number: int | None, safe: SafeText) -> PlanPart:
    """Return a page of a plan's steps; by default, the page with the first step that has not ended well."""
    if number is None:
        open_step = next((n for n, step in enumerate(plan.steps) if step.tone != "good"), 0)
        number = open_step // STEPS + 1
    part = part_of(plan.steps, number, STEPS)
    steps = tuple(
        replace(
            step, predecessors=tuple(p - part.first for p in step.predecessors if part.first <= p < part.last)
        )
        for step in part.items
    )
    shown = replace(plan, steps=steps)
    return PlanPart(plan=shown, part=part, drawing=draw_plan(shown, safe))


# --- the timeline ---


def timeline_part(events: Sequence[e.Event], part: Part[e.Event]) -> Timeline | None:
    """Return the timeline of a page of events; None if there is nothing to draw."""
    whole = timeline(events)
    found = None if whole is None else whole.window(part.first, part.last)
    return found if found is not None and len(found.times) > 1 else None


# --- the transcript ---


@dataclass(frozen=True, kw_only=True)
class TranscriptEntry:
    """A tool call with its result, or a question to a model with its answer."""

    position: int
    at: int
    call: CallAttempt | None
    """None for a question to a model."""
    exchange: ExchangeView | None
    step: str = ""
    tool: str = ""
    params: Any = None
    has_result: bool = False
    result: Any = None
    result_digest: str = ""


async def transcript_part(
    journal: Journal, tenant: str, data: RunData, number: int | None
) -> Part[TranscriptEntry]:
    """Return a page of the calls of a run, in the order in which they began; by default, the last page."""
    begun = [
        (position, event)
        for position, event in enumerate(data.events, start=1)
        if isinstance(event, e.ModelAsked) or (isinstance(event, e.Intent) and event.tool)
    ]
    found = part_of(begun, len(begun) if number is None else number, CALLS)
    asked = {event.call for _, event in found.items if isinstance(event, e.ModelAsked)}
    steps = {event.step for _, event in found.items if isinstance(event, e.Intent)}
    talk = [event for event in data.events if isinstance(event, _MODEL) and event.call in asked]
    revealer = Revealer(journal, tenant, data.state.start.session)
    texts = await revealer.reveal(await read_texts(journal, tenant, talk))
    exchanges = iter(exchange_views(replace(data, events=tuple(talk), texts=texts)))
    by_step = _by_step(data.events, steps)
    return Part(
        items=[
            TranscriptEntry(position=position, at=event.at, call=None, exchange=next(exchanges))
            if isinstance(event, e.ModelAsked)
            else _call_entry(position, event, by_step[event.step])
            for position, event in found.items
        ],
        number=found.number,
        pages=found.pages,
        first=found.first,
        total=found.total,
    )


_MODEL = (e.ModelAsked, e.ModelAnswered)


def _by_step(events: Iterable[e.Event], steps: set[str]) -> dict[str, list[e.Event]]:
    found: dict[str, list[e.Event]] = {step: [] for step in steps}
    for event in events:
        if (step := getattr(event, "step", "")) in found:
            found[step].append(event)
    return found


def _call_entry(position: int, intent: e.Intent, events: Sequence[e.Event]) -> TranscriptEntry:
    # A re-plan may call a step of the same name again, from attempt 1.
    own = events[events.index(intent) :]
    later = next((n for n, event in enumerate(own[1:], start=1) if isinstance(event, e.Intent)), len(own))
    mine = own[:later]
    done = next((event for event in mine if isinstance(event, e.Complete)), None)
    return TranscriptEntry(
        position=position,
        at=intent.at,
        call=call_attempts(mine)[0],
        exchange=None,
        step=step_text(intent.step),
        tool=intent.tool,
        params=intent.params,
        has_result=done is not None,
        result=done.value if done and not done.blob else None,
        result_digest=done.blob if done else "",
    )
