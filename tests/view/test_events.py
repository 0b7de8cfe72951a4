"""Events in words: one sentence each, the same for everybody who shows them."""

from __future__ import annotations

import pytest
from hypothesis import assume, given

from engine.happenings import ANYTHING
from tercet.cli.event_view import line_of
from tercet.core import events as e
from tercet.core.state import State
from tercet.replay.report.happenings import sentence
from tercet.view.events import describe, some
from tercet.view.judging import Judged
from tercet.view.text import took


@given(ANYTHING)
def test_every_event_but_those_of_the_quality_loop_has_a_sentence(event: e.Event) -> None:
    """An event without one would be listed by its type alone."""
    assume(not isinstance(event, e.PlanProposed) or isinstance(event.plan.get("steps", []), list))
    assume(not isinstance(event, e.RunReported) or event.outcome != "accept")
    assume(not isinstance(event, e.BudgetExtended) or set(map(type, event.more.values())) <= {int})
    assert (describe(event) is None) == isinstance(event, Judged)


def test_terminal_and_report_say_the_same() -> None:
    """The report names the step in front of the sentence, the terminal in a column."""
    event = e.Abort(at=9, step="pay", attempt=1, outcome="unknown", error="no answer")
    line = line_of(State(), event)
    assert line is not None
    assert line.plain.split() == ["?", "pay", "outcome", "unknown:", "no", "answer"]
    assert sentence(event) == ("pay: outcome unknown: no answer", "wait")


def test_what_people_wrote_cannot_draw_on_the_screen() -> None:
    """A sentence holds words as they are; whoever prints it takes out what does not print."""
    line = line_of(State(), e.SessionPaused(at=1, reason="\x1b[31mred", outside=False))
    assert line is not None
    assert line.plain == "· paused: \\x1b[31mred"


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (999, "999 ms"),
        (3_400, "3.4 s"),
        (125_000, "2 min 5 s"),
        (12_000_000, "3 h 20 min"),
        (86_400_000, "1 day"),
    ],
)
def test_durations_have_two_units_at_most(ms: int, text: str) -> None:
    """Hours and days are not told in minutes."""
    assert took(ms) == text


def test_long_lists_are_cut() -> None:
    """The first names, and how many more there are."""
    assert some(list("abcdef")) == "a, b, c, d, … 2 more"
