"""Differences: the changes of repairs in outputs, line by line, and those between the revisions of a plan."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import takewhile
from typing import Any, Literal, TypeAlias

from tercet.contracts.plan import Step
from tercet.core import events as e
from tercet.core.fold.apply import fold_event
from tercet.core.plans import read_plan
from tercet.core.state import State, StepState, StepStatus
from tercet.view.text import count

MOST_LINES = 160
LARGEST = 100_000
"""Longer outputs are not compared: that would take too long."""
_MOST_COMPARED = 2_000
_AROUND = 2
"""The number of unchanged lines that are shown on each side of a change."""
_ALIKE = 0.4
"""Two lines with a smaller share of common words are shown as a removed and an added line."""
_WORDS = re.compile(r"\s+|\S+")

Lines: TypeAlias = Callable[[str, Any], list[str]]
"""Returns the lines of an output by its name and value."""


@dataclass(frozen=True, kw_only=True)
class Piece:
    """A part of a line, and whether it was changed."""

    text: str
    is_changed: bool


@dataclass(frozen=True, kw_only=True)
class DiffLine:
    """A line of an output, before or after."""

    kind: Literal["same", "gone", "new", "gap"]
    pieces: tuple[Piece, ...]

    @property
    def sign(self) -> str:
        """The sign before the line."""
        return {"same": " ", "gone": "−", "new": "+", "gap": "⋯"}[self.kind]


@dataclass(frozen=True, kw_only=True)
class OutputChange:
    """An output before the first repair and at the end, line by line."""

    name: str
    lines: tuple[DiffLine, ...]
    note: str


def compare_outputs(
    before: Mapping[str, Any], after: Mapping[str, Any], lines: Lines | None = None
) -> tuple[OutputChange, ...]:
    """Return the differences of each output that changed."""
    split = lines or _plain_lines
    changed = [name for name in {**before, **after} if before.get(name) != after.get(name)]
    return tuple(_change(name, before, after, split) for name in changed)


def _plain_lines(_: str, value: Any) -> list[str]:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2, default=str)
    return text.removesuffix("\n").split("\n")


def _change(name: str, before: Mapping[str, Any], after: Mapping[str, Any], split: Lines) -> OutputChange:
    old = split(name, before[name]) if name in before else []
    new = split(name, after[name]) if name in after else []
    if sum(map(len, old)) + sum(map(len, new)) > LARGEST or max(len(old), len(new)) > _MOST_COMPARED:
        return OutputChange(name=name, lines=(), note="It is too long to be compared here.")
    lines = tuple(_lines(old, new))
    more = len(lines) - MOST_LINES
    return OutputChange(
        name=name,
        lines=lines[:MOST_LINES],
        note=_note(more, is_hidden=old == new),
    )


def _note(more: int, *, is_hidden: bool) -> str:
    if is_hidden:
        return "It changed in something that is left out here."
    return f"{count(more, 'more line')} are left out." if more > 0 else ""


def _lines(old: Sequence[str], new: Sequence[str]) -> Iterator[DiffLine]:
    # Beyond 200 lines, frequent lines are ignored as anchors: otherwise some texts take minutes.
    blocks = SequenceMatcher(None, old, new).get_opcodes()
    for number, (kind, a, b, c, d) in enumerate(blocks):
        if kind == "equal":
            yield from _same(old[a:b], is_first=number == 0, is_last=number == len(blocks) - 1)
        else:
            yield from _replaced(old[a:b], new[c:d])


def _same(lines: Sequence[str], *, is_first: bool, is_last: bool) -> Iterator[DiffLine]:
    """Yield unchanged lines next to a change, and a gap for the others."""
    head = 0 if is_first else _AROUND
    tail = 0 if is_last else _AROUND
    hidden = len(lines) - head - tail
    if hidden < 2:  # a gap would take as much room
        yield from (_line("same", line) for line in lines)
        return
    yield from (_line("same", line) for line in lines[:head])
    yield DiffLine(kind="gap", pieces=(Piece(text=f"{count(hidden, 'line')} as before", is_changed=False),))
    yield from (_line("same", line) for line in lines[len(lines) - tail :])


def _replaced(old: Sequence[str], new: Sequence[str]) -> Iterator[DiffLine]:
    """Yield removed lines and those that replace them, compared in pairs as far as there are two."""
    parted = [_parted(before, after) for before, after in zip(old, new, strict=False)]
    yield from (DiffLine(kind="gone", pieces=gone) for gone, _ in parted)
    yield from (_line("gone", line) for line in old[len(parted) :])
    yield from (DiffLine(kind="new", pieces=come) for _, come in parted)
    yield from (_line("new", line) for line in new[len(parted) :])


def _line(kind: Literal["same", "gone", "new"], text: str) -> DiffLine:
    return DiffLine(kind=kind, pieces=(Piece(text=text, is_changed=False),))


def _parted(before: str, after: str) -> tuple[tuple[Piece, ...], tuple[Piece, ...]]:
    """Return two lines in pieces: common start and end, and the difference; undivided if the lines are not similar."""
    old, new = _WORDS.findall(before), _WORDS.findall(after)
    head = _shared(old, new)
    tail = _shared(old[head:][::-1], new[head:][::-1])
    if head + tail < _ALIKE * max(len(old), len(new)):
        head = tail = 0
    return _pieces(old, head, tail), _pieces(new, head, tail)


def _shared(old: Sequence[str], new: Sequence[str]) -> int:
    """Return the number of words at the start that both share."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(old, new, strict=False)))


def _pieces(words: Sequence[str], head: int, tail: int) -> tuple[Piece, ...]:
    if not head + tail:
        return (Piece(text="".join(words), is_changed=False),)
    end = len(words) - tail
    parts = (("".join(words[:head]), False), ("".join(words[head:end]), True), ("".join(words[end:]), False))
    return tuple(Piece(text=text, is_changed=is_changed) for text, is_changed in parts if text)


# --- revisions ---
# A step is kept if it has the same content, and so the same hash. A step with the same id and other content is
# changed; mostly it depends on other steps, because those that it depended on were dropped.


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
