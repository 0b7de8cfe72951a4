"""Scores by the short ways are the scores by the long ones."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from critic.naive import Case
from tercet.contracts.plan import Plan, Step
from tercet.contracts.runs.run import Outcome, Run, ToolCall, ToolResult, TranscriptEntry
from tercet.contracts.verdict import VerdictEnvelope
from tercet.critic.evaluators import EVALUATE, Recorded
from tercet.critic.reading import Reading
from tercet.critic.score import print_envelope, score
from tercet.critic.verify import verify

from .houses import SHOP, House, look_up, plan, step, ticket
from .strategies import Draw, cases, examples, pick

TWISTS = ("none", "none", "none", "whole", "other", "more", "absent", "twice", "elsewhere", "failed")


def entry(
    step_id: str, tool: str, params: dict[str, Any], outcome: Outcome = Outcome.DONE
) -> TranscriptEntry:
    """A call as it was recorded."""
    return TranscriptEntry(
        call=ToolCall(step_id=step_id, tool=tool, params=params),
        result=ToolResult(step_id=step_id, outcome=outcome, value={"total": 1}),
    )


def entries(step: Step, twist: str) -> list[TranscriptEntry]:
    """What is recorded of a step: that it ran as it is written, or something else."""
    tool, params = step.tool or "notes.none", dict(step.params)
    match twist:
        case "whole":
            params = {name: float(value) if type(value) is int else value for name, value in params.items()}
        case "other":
            params = dict.fromkeys(params, "other")
        case "more":
            params["one_more"] = 1
        case "elsewhere":
            tool = "orders.elsewhere"
        case "absent":
            return []
        case _:
            pass
    outcome = Outcome.NOT_DONE if twist == "failed" else Outcome.DONE
    return [entry(step.id, tool, params, outcome)] * (2 if twist == "twice" else 1)


@st.composite
def recorded(draw: Draw) -> Run:
    """A run of any case, or of those of its steps that are written out, with what a few of them really did."""
    case: Case = draw(cases())
    done = case.plan
    if draw(st.booleans()):
        steps = [
            step.model_copy(update={"depends_on": (), "when": None})
            for step in done.steps
            if step.is_written_out and step.kind == "tool"
        ]
        done = Plan(steps=tuple(steps), outputs={})
    called = [found for step in done.steps for found in entries(step, pick(draw, TWISTS))]
    transcript = draw(st.permutations(called)) if len(called) < 6 else called
    return Run(
        context=case.ctx, compiled=case.compiled, spec=case.spec, plan=done, transcript=tuple(transcript)
    )


@examples(200)
@given(recorded())
def test_the_short_ways_find_what_the_long_ones_find(run: Run) -> None:
    """Whether or not a run went to the letter, and whoever read its plan before, each evaluator says the same."""
    slow, quick = Recorded(run), Recorded(run)
    vars(slow)["is_to_the_letter"] = False
    expected = {name: evaluate(slow) for name, evaluate in EVALUATE.items()}
    assert {name: evaluate(quick) for name, evaluate in EVALUATE.items()} == expected
    reading = Reading(run.compiled, run.plan)
    verdict = verify(run.context, run.compiled, run.spec, run.plan, reading=reading)
    assert verdict == verify(run.context, run.compiled, run.spec, run.plan)
    assert score(run, reading=reading).scorecard.scores == expected


@examples(50)
@given(recorded())
def test_the_envelope_is_printed_as_its_shape_is_dumped(run: Run) -> None:
    """The printed envelope is the published shape to the letter and in the same order."""
    scored = score(run)
    printed = print_envelope(run, scored, "escalate", 3)
    dumped = VerdictEnvelope.model_validate(printed).model_dump(mode="json")
    assert repr(printed) == repr(dumped)


LETTERS = plan(
    *(step(name, "orders.lookup", params={"order_id": "ord_881"}) for name in ("s1", "s2")), ticket("t1")
)


def ran(twist: str, house: House = SHOP, done: Plan = LETTERS) -> Recorded:
    """The record of a plan whose last step was twisted."""
    *others, last = done.steps
    found = [*(called for step in others for called in entries(step, "none")), *entries(last, twist)]
    return Recorded(
        Run(context=house.ctx, compiled=house.compiled, spec=house.spec, plan=done, transcript=tuple(found))
    )


@pytest.mark.parametrize("twist", ["none", "failed"])
def test_a_run_as_written_is_one_to_the_letter(twist: str) -> None:
    """What was called decides, not what came of it; what ran is then the plan itself."""
    record = ran(twist)
    assert record.is_to_the_letter
    assert record.ran is record.planned


@pytest.mark.parametrize("twist", ["other", "more", "absent", "twice"])
def test_one_call_that_differs_is_enough(twist: str) -> None:
    """A changed, added, missing or repeated call is looked at step by step."""
    assert not ran(twist).is_to_the_letter


def test_what_has_to_be_resolved_is_not_to_the_letter() -> None:
    """A reference, a wrapped literal or a note is never taken as it stands."""
    for last in (
        ticket("t1", {"$from": "s1#/note"}),
        ticket("t1", {"$literal": "a"}),
        step("t1", params={"a": 1}),
    ):
        assert not ran("none", done=plan(look_up("s1"), last)).is_to_the_letter


def test_a_reading_of_another_plan_is_not_used() -> None:
    """A reading serves the very plan and context that it was made of, and no others."""
    house, broken = SHOP, plan(look_up("s1"), step("s2", "orders.nowhere"))
    reading = Reading(house.compiled, LETTERS)
    assert not verify(house.ctx, house.compiled, house.spec, broken, reading=reading).ok
    assert reading.is_of(house.compiled, LETTERS)
    assert not reading.is_of(house.compiled, LETTERS.model_copy())
    assert not reading.is_of(house.compiled.model_copy(), LETTERS)
