"""The plans of a run in their order, each with how far its steps came and what happened while it was the plan."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tercet.core import events as e
from tercet.core.fold.apply import fold_event
from tercet.core.state import State, StepState


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
