"""Spans of any history: one tree, the same for everybody who weaves it, and each span told exactly once."""

from __future__ import annotations

import random

import pytest

from engine.test_machine import wander
from tercet.core import events as e
from tercet.core.fold.apply import fold_event
from tercet.core.state import State
from tercet.engine.subscription import ReleasedSession
from tercet.observe.spans import Span, build_spans

HISTORIES = 500


def histories() -> list[list[e.Event]]:
    """Ways through everything that can happen to a run, the same every time."""
    draw = random.Random(11)  # noqa: S311 - no secret: the same ways every time
    return [[event for _, event, _ in wander(draw, 80)] for _ in range(HISTORIES)]


def fold(events: list[e.Event]) -> State:
    """The state after these events."""
    state = State()
    for event in events:
        state = fold_event(state, event)
    return state


def everything(events: list[e.Event]) -> list[Span]:
    """The spans of a history that one process carried."""
    return build_spans(ReleasedSession(state=fold(events), events=events))


@pytest.mark.req("R319")
def test_whatever_happens_is_one_tree() -> None:
    """Ids are unique, every ended run has one root, and nothing is outside of what it belongs to, in time or position."""
    ended = 0
    for history in histories():
        spans = everything(history)
        known = {span.span_id: span for span in spans}
        assert len(known) == len(spans)
        for span in spans:
            assert span.first <= span.last
            above = known.get(span.parent_id)
            if above is not None:
                assert above.first <= span.first
                assert span.last <= above.last
                assert above.start <= span.start
                assert span.end <= above.end
        if fold(history).is_over:
            ended += 1
            assert [span.kind for span in spans if span.parent_id not in known] == ["run"]
            phases = [span for span in spans if span.kind == "phase"]
            assert [span.first for span in phases[1:]] == [span.last for span in phases[:-1]]
    assert ended > 20


def tenures(history: list[e.Event]) -> list[ReleasedSession]:
    """The same history, carried by one process after the other; those that were in the middle of something died, and
    told nobody."""
    found: list[ReleasedSession] = []
    first, state = 1, State()
    for position, event in enumerate(history, start=1):
        if isinstance(event, e.SessionResumed) and position > first:
            left = position - 1
            while left and getattr(history[left - 1], "outside", False):
                left -= 1  # somebody else wrote that, while nobody carried the session
            resting = fold(history[:left])
            if resting.status in ("paused", "awaiting_gate") and left >= first:
                found.append(ReleasedSession(state=resting, events=history[:left], first=first))
            first = position
        state = fold_event(state, event)
    return [*found, ReleasedSession(state=state, events=history, first=first)]


def test_processes_that_share_a_run_tell_each_span_once() -> None:
    """However often a run is let go of, taken over or left by a process that died, all of it is told, and once."""
    shared = 0
    for history in histories():
        parts = tenures(history)
        told = [span.span_id for tenure in parts for span in build_spans(tenure)]
        assert sorted(told) == sorted(span.span_id for span in everything(history))
        shared += len(parts) > 1
    assert shared > 20


def test_what_was_not_traced_at_the_first_rest_is_told_at_the_next() -> None:
    """A run that nobody wanted while it was only paused is told whole once it failed."""
    checked = 0
    for history in histories():
        parts = tenures(history)
        if len(parts) > 1 and parts[-1].state.ending:
            last = build_spans(parts[-1], lambda state: bool(state.ending) and state.is_over)
            rested = [part for part in parts[:-1] if part.state.ending and part.state.is_over]
            assert not rested
            assert {span.span_id for span in last} == {span.span_id for span in everything(history)}
            checked += 1
    assert checked > 5
