"""The controller in real runs: each reason for which it lets nothing more be repaired, as the journal tells it."""

from __future__ import annotations

from typing import Any

import pytest

from tercet.contracts.control import StopReason
from tercet.contracts.shape import JsonObject
from tercet.core import events as e

from .quality_desk import THRESHOLDS, Carried, carry, desk, last, mended, model, of
from .workshop import Workshop

KIND: JsonObject = {
    "dimensions": [
        {"name": "tone", "weight": 1.0, "minimum": 0.8, "scorer": "model", "question": "Is it kind?"}
    ],
    "threshold": 0.8,
}
"""One dimension: what the critic says is the quality that the controller measures."""
TEXTS = ("amber lantern", "quiet harbour", "stone bridges", "winter orchard", "copper kettle", "paper boats")


def steered(
    workshop: Workshop, scores: tuple[float, ...], control: JsonObject, *, menders: int = 1, **header: Any
) -> Carried:
    """A run whose outputs a critic scores so, one after the other, under this controller; each repair writes another text."""
    opinions: list[JsonObject] = [
        {"score": score, "defects": [{"quote": "", "problem": "it is curt", "hint": "thank them"}]}
        for score in scores
    ]
    pack = desk(
        workshop,
        {"letter": "cold"},
        decision={"thresholds": THRESHOLDS},
        control={"letter": {"setpoint": 0.9, "epsilon": 0.05, "k_max": 9, **control}},
        **{"budget": {"max_repairs": 20}, "quality": {"rubric": KIND}, **header},
    )
    repairers = [model(*map(mended, TEXTS), name=f"scripted:mender{n}") for n in range(menders)]
    return carry(workshop, pack, critics=[model(*opinions)], repairers=repairers)


def reasons(done: Carried) -> list[str]:
    """Why the controller stopped, at each measurement at which it did."""
    said = [event.control.get("command", {}) for event in of(e.OutputsCritiqued, done.found)]
    return [command["reason"] for command in said if command.get("kind") == "stop"]


STOPS: dict[StopReason, tuple[tuple[float, ...], JsonObject]] = {
    StopReason.ITERATIONS: ((0.1, 0.3, 0.5), {"k_max": 2}),
    StopReason.STALLED: ((0.2, 0.4, 0.5, 0.505), {}),
    StopReason.NOISE: ((0.2, 0.7), {"sigma": 0.3}),
    StopReason.COST: ((0.2, 0.21, 0.22), {"c_base": 1.0, "beta": 1.0, "c_max": 5.0}),
}
"""What was measured, and under which controller the last measurement is the one at which it stops."""


@pytest.mark.req("R306", "R313")
@pytest.mark.parametrize("reason", STOPS)
def test_each_reason_to_stop_ends_a_run(workshop: Workshop, reason: StopReason) -> None:
    """It is recorded with the measurement that led to it; no repair follows, and a person is handed the outputs."""
    scores, control = STOPS[reason]
    done = steered(workshop, scores, control)
    assert reasons(done) == [reason]
    stopped = last(e.OutputsCritiqued, done.found)
    assert (stopped.next, stopped.control["quality"]) == ("exit", scores[-1])
    assert len(of(e.OutputsRepaired, done.found)) == len(scores) - 1
    assert done.state.quality.course == scores
    assert (done.result.status, last(e.RunReported, done.found).outcome) == ("paused", "escalate")
    helper = stopped.control.get("helper")
    assert helper == ("ask_human" if reason in (StopReason.STALLED, StopReason.NOISE) else None)


@pytest.mark.req("R306")
def test_a_quality_that_is_reached_commits_no_grave_defect(workshop: Workshop) -> None:
    """Near enough to the setpoint the controller asks for nothing more; a required section is missed all the same."""
    tone, complete = KIND["dimensions"][0], {"name": "sections", "scorer": "complete", "minimum": 0.0}
    both = {**KIND, "dimensions": [{**tone, "weight": 0.9}, {**complete, "weight": 0.1}]}
    rules: JsonObject = {"rubric": both, "required_sections": ["Returns"]}
    done = steered(workshop, (0.2, 0.6, 1.0, 1.0, 1.0, 1.0), {}, quality=rules)
    assert reasons(done)[0] == StopReason.REACHED
    last_look = last(e.OutputsCritiqued, done.found)
    assert [each["dimension"] for each in last_look.diagnosis["defects"]] == ["sections"]
    assert (last_look.exit["outcome"], done.result.status) == ("ESCALATE", "paused")


@pytest.mark.req("R311")
def test_repairs_that_are_foreseen_to_be_too_dear_are_not_begun(workshop: Workshop) -> None:
    """The first measurement foresees the cost of all of them: where that is too much, and the pack says so, none is made."""
    done = steered(workshop, (0.1,), {"c_max": 1.0, "on_over_cost": "fail"})
    assert reasons(done) == [StopReason.COST]
    first = last(e.OutputsCritiqued, done.found)
    assert first.control["prediction"]["choice"]["kind"] == "fail"
    assert (of(e.OutputsRepaired, done.found), done.result.status) == ([], "paused")


@pytest.mark.req("R312")
@pytest.mark.parametrize("reason", [StopReason.STALLED, StopReason.NOISE])
def test_another_model_is_asked_where_repairing_again_does_not_help(
    workshop: Workshop, reason: StopReason
) -> None:
    """A stall or the noise floor is the first model's: with a second one the run goes on, and commits what that wrote."""
    scores, control = STOPS[reason]
    done = steered(workshop, (*scores, 0.95), control, menders=2)
    assert reasons(done)[0] == reason
    helped = [event for event in of(e.OutputsCritiqued, done.found) if event.control.get("helper")]
    assert [event.control["helper"] for event in helped] == ["switch_model"]
    assert last(e.OutputsRepaired, done.found).models == ("scripted:mender1",)
    assert done.result.status == "completed"


@pytest.mark.req("R306")
def test_the_budget_of_the_run_stops_what_the_controller_would_go_on_with(workshop: Workshop) -> None:
    """The run has fewer repairs than the controller may order: then it is not asked any more."""
    done = steered(workshop, (0.1, 0.3, 0.5), {}, budget={"max_repairs": 2})
    assert (reasons(done), len(of(e.OutputsRepaired, done.found))) == ([], 2)
    stopped = last(e.OutputsCritiqued, done.found)
    assert ("command" in stopped.control, stopped.next) == (False, "exit")
    assert "no repair is left" in done.result.reason
