"""The closed union of events."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest

from tercet.core import codec
from tercet.core import events as e
from tercet.core.events.fact import Fact

TYPES: tuple[type[Any], ...] = get_args(e.Event)

TAGS = {
    "session_started", "session_resumed", "session_paused", "session_ended", "plan_proposed", "planning_failed",
    "decomposed", "evidence_retrieved", "plan_reviewed", "outputs_produced", "INTENT", "COMPLETE", "ABORT",
    "retry_scheduled", "settled", "step_refused", "step_skipped", "step_judged", "loop_guard_tripped", "decision_taken",
    "run_reported", "gate_opened", "gate_answered", "given_up", "approval_granted", "message_dropped",
    "session_cancelled", "session_expired", "session_migrated", "budget_extended", "compensation_begun", "effects_kept",
    "model_asked", "model_answered", "turn_judged", "experience_drawn", "tests_run", "outputs_verified",
    "outputs_critiqued", "outputs_repaired", "evidence_fetched", "acceptance_lapsed", "outputs_attacked",
    "samples_drawn", "repeats_checked", "outputs_accepted", "outputs_read", "step_proposed", "proposals_reviewed",
}  # fmt: skip
"""The words that stand in journals: one of them may be added, none renamed."""

SAMPLES: tuple[tuple[Any, Any], ...] = (
    (int, 7),
    (float, 0.5),
    (str, "word"),
    (str | None, "word"),
    (bool, True),
    (float | None, -0.25),
    (Any, {"v": 1}),
    (tuple[Any, ...], ({"v": 1}, "word")),
    (tuple[str, ...], ("one", "two")),
    (tuple[int, ...], (1, 2)),
    (tuple[dict[str, Any], ...], ({"k": 1},)),
    (
        tuple[e.Undo, ...],
        (
            e.Undo(
                step="one",
                tool="do.it",
                params={"k": 1},
                key="key",
                note="word",
                bound=e.BoundCompensation(tool="do.it", proposed=True),
            ),
        ),
    ),
    (
        tuple[e.EarlierCall, ...],
        (e.EarlierCall(session="one", step="two", key="key", at=7, outcome="unknown"),),
    ),
    (tuple[e.ToolRetry, ...], (e.ToolRetry(step="one", tool="do.it", result={"k": 1}, error="word"),)),
    (e.CallMarks | None, e.CallMarks(same="one", like="two", names=("one",))),
    (e.BoundCompensation | None, e.BoundCompensation(tool="undo.it", params={"k": 1}, approved=("one",))),
    (dict[str, Any], {"k": [1, None]}),
    (dict[str, Any] | None, {"k": 1}),
    (dict[str, str], {"k": "v"}),
    (dict[str, int], {"k": 7}),
    (dict[str, tuple[str, ...]], {"k": ("one", "two")}),
    (dict[str, e.Need], {"k": e.Need(roles=("one",), quorum=2)}),
)
"""For each type of a field something to put into it."""


def sample(kind: type[Any]) -> Any:
    """An event of this type with every field filled."""
    fields: dict[str, Any] = {}
    for field in msgspec.structs.fields(kind):
        known = [value for type_, value in SAMPLES if field.type == type_]
        # What is not known is a Literal: its first word.
        fields[field.name] = known[0] if known else get_args(field.type)[0]
    return kind(**fields)


def test_the_words_of_the_journal_are_these() -> None:
    """A renamed event would make every journal before it unreadable."""
    assert {str(kind.__struct_config__.tag) for kind in TYPES} == TAGS
    facts = {each for each in vars(e).values() if isinstance(each, type) and issubclass(each, Fact)}
    assert facts == set(TYPES)


def test_the_page_on_the_journal_names_every_event() -> None:
    """Whoever reads a journal without Tercet finds each type in the table, and no other."""
    page = (Path(__file__).parents[2] / "docs" / "journal.md").read_text(encoding="utf-8")
    table = page.partition("The events of a session")[2].partition("`tercet.core.events`")[0]
    assert set(re.findall("`([A-Za-z_]+)`", table.partition("|---|")[2])) == TAGS


@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: kind.__name__)
def test_an_event_is_a_frozen_fact_that_survives_writing(kind: type[Any]) -> None:
    """Every field comes back as it was, its tag stands under `type`, and nobody can change it."""
    event = sample(kind)
    assert codec.decode(codec.encode(event)) == event
    assert msgspec.json.decode(codec.encode(event)[1:])["type"] == kind.__struct_config__.tag
    with pytest.raises(AttributeError):
        event.at = 8


@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: kind.__name__)
def test_every_event_has_its_time(kind: type[Any]) -> None:
    """It is given by whoever records it, and has no default."""
    fields = {field.name: field for field in msgspec.structs.fields(kind)}
    assert fields["at"].required


@pytest.mark.req("R40")
def test_the_write_ahead_records_say_what_is_about_to_happen_and_what_came_of_it() -> None:
    """INTENT names action, tool, input and time; COMPLETE adds the result, ABORT the error."""
    names = {kind.__struct_config__.tag: {f.name for f in msgspec.structs.fields(kind)} for kind in TYPES}
    assert names["INTENT"] >= {"step", "tool", "params", "at"}
    assert names["COMPLETE"] >= {"step", "value", "at"}
    assert names["ABORT"] >= {"step", "error", "at"}
