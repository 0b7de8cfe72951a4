"""Events in words: one sentence each, the same for everybody who shows them."""

from __future__ import annotations

import pytest
from hypothesis import assume, given

from engine.happenings import ANYTHING
from tercet.core import events as e
from tercet.core.state import State, StepState
from tercet.view.events import TITLES, describe
from tercet.view.phases import PhaseEvent
from tercet.view.terminal.outputs import line_of
from tercet.view.text import as_words, duration_text, first_names, join_names, reasons_text


@given(ANYTHING)
def test_every_event_has_a_sentence(event: e.Event) -> None:
    """None is listed by the name of its type alone."""
    assume(not isinstance(event, PhaseEvent))  # their fields follow contracts; see test_quality.py
    assume(not isinstance(event, e.PlanProposed) or isinstance(event.plan.get("steps", []), list))
    assume(not isinstance(event, e.RunReported) or event.outcome != "accept")
    assume(not isinstance(event, e.BudgetExtended) or set(map(type, event.more.values())) <= {int})
    assert describe(event).text not in ("", as_words(str(type(event).__struct_config__.tag)))


def test_terminal_and_report_say_the_same() -> None:
    """The report names the step in front of the sentence, the terminal in a column."""
    event = e.Abort(at=9, step="pay", attempt=1, outcome="unknown", error="no answer")
    line = line_of(State(), event)
    assert line is not None
    assert line.plain.split() == ["?", "pay", "outcome", "unknown:", "no", "answer"]
    assert (describe(event).sentence, describe(event).tone) == ("pay: outcome unknown: no answer", "wait")


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
        (59_999, "59.9 s"),
        (125_000, "2 min 5 s"),
        (12_000_000, "3 h 20 min"),
        (86_400_000, "1 day"),
    ],
)
def test_durations_have_two_units_at_most(ms: int, text: str) -> None:
    """Hours and days are not told in minutes."""
    assert duration_text(ms) == text


@pytest.mark.parametrize(
    ("recorded", "shown"),
    [
        ("1 steps, 0 required outputs covered", "1 step"),
        ("2 steps, 1 required outputs covered", "2 steps, 1 required output covered"),
        ("3 steps, 2 required outputs covered", "3 steps, 2 required outputs covered"),
        ("plan has 3 steps, exceeds max_steps", "plan has 3 steps, exceeds max_steps"),
    ],
)
def test_numbers_agree_with_their_nouns(recorded: str, shown: str) -> None:
    """The published reason of a review counts in the plural; people read it with the right nouns."""
    assert reasons_text([recorded]) == shown
    reviewed = e.PlanReviewed(at=1, hash="", verdict={"outcome": "ok", "reasons": [recorded]})
    assert describe(reviewed).text == f"plan verified: {shown}"


def test_a_step_is_named_once() -> None:
    """The recorded reason begins with the step, and so does the line."""
    judged = e.StepJudged(
        at=1, step="pay", attempt=1, outcome="escalate", reason="step pay was not done: busy"
    )
    assert describe(judged).sentence == "pay: the critic escalates to a person: it was not done: busy"


SKIPPING = State(
    plan={
        "steps": [{"id": "ask"}, {"id": "pay", "when": "ask.is_due"}],
        "outputs": {"paid": {"$from": "pay#/cents"}, "at": {"$from": "pay#/at"}, "by": {"$from": "ask#/by"}},
    },
    steps={"ask": StepState(status="done"), "pay": StepState(status="skipped", error="condition_false")},
)


def test_a_skipped_step_says_which_condition_is_false() -> None:
    """The expression is shown; without the plan the sentence says no more than the event."""
    skipped = e.StepSkipped(at=1, step="pay", reason="condition_false")
    assert describe(skipped, SKIPPING).text == "skipped: `ask.is_due` is false"
    assert describe(skipped).text == "skipped: its condition is false"


def test_outputs_of_a_skipped_step_are_missing_for_that_reason() -> None:
    """The step is named once for all of its outputs."""
    missing = {
        "paid": "pay#/cents points at pay, which is not there",
        "at": "the same",
        "by": "no such field",
    }
    event = e.OutputsProduced(at=1, missing=missing)
    assert describe(event, SKIPPING).text == (
        "outputs are missing: paid and at (step pay was skipped), by (no such field)"
    )


def test_names_are_joined() -> None:
    """One, two or more names read as a list."""
    assert [join_names(list(names)) for names in ("", "a", "ab", "abc")] == ["", "a", "a and b", "a, b and c"]


def test_the_sentences_of_a_log_hold_no_value() -> None:
    """Each action word and each sentence belongs to one type of event."""
    words, sentences = zip(*TITLES.values(), strict=True)
    assert len(set(words)) == len(set(sentences)) == len(TITLES)


def test_long_lists_are_cut() -> None:
    """The first names, and how many more there are."""
    assert first_names(list("abcdef")) == "a, b, c, d, … 2 more"
