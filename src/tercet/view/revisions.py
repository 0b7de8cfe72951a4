"""The plans of a run compared: the steps that each one kept, changed, added and dropped, and why.

A step is kept if it has the same content, and so the same hash. A step with the same id and other content is changed;
mostly it depends on other steps, because those that it depended on were dropped.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tercet.contracts.plan import Step
from tercet.core import events as e
from tercet.core.fold.apply import fold_event
from tercet.core.plans import read_plan
from tercet.core.state import State, StepState, StepStatus


@dataclass(frozen=True, kw_only=True)
class Kept:
    """A step that is the same in both plans."""

    id: str
    hash: str
    is_done: bool
    """Whether it has completed on results that are still valid, so that it is not executed again."""


@dataclass(frozen=True, kw_only=True)
class Changed:
    """A step with the same id and other content."""

    id: str
    hash: str
    before: str
    """Its earlier hash."""
    fields: tuple[str, ...]
    """The fields that differ."""


@dataclass(frozen=True, kw_only=True)
class New:
    """A step that the plan before did not have."""

    id: str
    hash: str


@dataclass(frozen=True, kw_only=True)
class GivenUp:
    """A step that the new plan does not have."""

    id: str
    hash: str
    status: StepStatus
    """Its status; the effects of a completed step remain."""
    why: str


@dataclass(frozen=True, kw_only=True)
class Revision:
    """One plan of a run, compared with the one before it."""

    number: int
    hash: str
    origin: str
    planner: str
    why: tuple[str, ...] = ()
    """Why the previous plan was replaced; empty for the first plan."""
    kept: tuple[Kept, ...] = ()
    changed: tuple[Changed, ...] = ()
    new: tuple[New, ...] = ()
    given_up: tuple[GivenUp, ...] = ()


def revisions(events: Iterable[e.Event]) -> tuple[Revision, ...]:
    """Return the plans of a run in order, each compared with the one before."""
    state, found = State(), list[Revision]()
    setbacks = 0
    for event in events:
        before, state = state, fold_event(state, event)
        if isinstance(event, e.PlanProposed):
            is_setback = len(before.setbacks) > setbacks
            found.append(_compared(before, state, event, is_setback=is_setback))
            setbacks = len(before.setbacks)
    return tuple(found)


def _compared(before: State, after: State, event: e.PlanProposed, *, is_setback: bool) -> Revision:
    old, new = _steps(before.plan), _steps(after.plan)
    same = {name for name in new if name in old and old[name] == new[name]}
    blamed = before.setbacks[-1] if is_setback else ()
    return Revision(
        number=after.revision,
        hash=event.hash,
        origin=event.origin,
        planner=event.planner,
        why=_why(before, event) or (before.feedback if is_setback else ()),
        kept=tuple(_kept(new[name], after.steps[name]) for name in new if name in same),
        changed=tuple(_changed(old[name], new[name]) for name in new if name in old and name not in same),
        new=tuple(New(id=name, hash=new[name].hash) for name in new if name not in old),
        given_up=tuple(_given_up(old[name], before, blamed) for name in old if name not in new),
    )


def _why(before: State, event: e.PlanProposed) -> tuple[str, ...]:
    """Return who changed a call of the previous plan, or why the critic refused the change; else an empty text."""
    if before.change is None:
        return ()
    if not event.changed_by:
        return (f"the critic refused the values that {before.change.by} had set: {before.change.refusal}",)
    places = ", ".join(each.place.removeprefix("/") for each in before.change.values)
    return (f"{event.changed_by} set {places}: {before.change.note}",)


def _steps(plan: Mapping[str, Any]) -> dict[str, Step]:
    return {step.id: step for step in read_plan(dict(plan)).steps} if plan else {}


def _kept(step: Step, state: StepState) -> Kept:
    return Kept(id=step.id, hash=step.hash, is_done=state.status in ("done", "skipped"))


def _changed(old: Step, new: Step) -> Changed:
    fields = tuple(name for name in type(new).model_fields if getattr(old, name) != getattr(new, name))
    return Changed(id=new.id, hash=new.hash, before=old.hash, fields=fields)


def _given_up(step: Step, before: State, blamed: tuple[str, ...]) -> GivenUp:
    state = before.steps[step.id]
    if step.id in blamed:
        why = "; ".join(before.feedback)
    else:
        why = state.error or (
            f"it was planned together with {blamed[0]}" if blamed else "the new plan does without it"
        )
    return GivenUp(id=step.id, hash=step.hash, status=state.status, why=why)
