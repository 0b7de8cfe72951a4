"""The loop as types: phases, events, the arcs that must exist, and what crosses each border."""

from __future__ import annotations

import re

import pytest
from pydantic import ValidationError

from tercet.contracts.decision import Threshold
from tercet.contracts.loop import (
    LIFECYCLE,
    LOOP_PROTOCOL,
    REQUIRED_ARCS,
    START,
    TERMINAL,
    LoopConfig,
    LoopEvent,
    Phase,
    PhaseContract,
    decompose,
    phase_contracts,
)
from tercet.contracts.plan import Plan, Step
from tercet.contracts.runs.budget import RunBudget
from tercet.contracts.schema import PUBLIC_TYPES


@pytest.mark.req("R29")
def test_the_phases() -> None:
    """The phases of the chapter with REVIEW between RETRIEVE and ACT; it starts at PLAN and ends in three ways."""
    assert [phase.value for phase in Phase] == [
        "PLAN",
        "DECOMPOSE",
        "RETRIEVE",
        "REVIEW",
        "ACT",
        "VERIFY",
        "CRITIQUE",
        "REPAIR",
        "COMMIT",
        "FAIL",
        "HALT",
    ]
    assert START is Phase.PLAN
    assert {Phase.COMMIT, Phase.FAIL, Phase.HALT} == TERMINAL


@pytest.mark.req("R30")
def test_the_events() -> None:
    """Completion, error, timeout, exhausted budget, quality passed and failed; a failed schema is told apart."""
    assert {event.value for event in LoopEvent} == {
        "phase_complete",
        "error",
        "timeout",
        "budget_exceeded",
        "quality_passed",
        "quality_failed",
        "schema_failed",
    }


@pytest.mark.req("R31")
def test_the_arcs_that_every_machine_has() -> None:
    """A failed output is criticised, repaired and verified again, until it passes or the budget ends."""
    assert {
        (Phase.VERIFY, LoopEvent.QUALITY_FAILED): Phase.CRITIQUE,
        (Phase.CRITIQUE, LoopEvent.PHASE_COMPLETE): Phase.REPAIR,
        (Phase.REPAIR, LoopEvent.PHASE_COMPLETE): Phase.VERIFY,
        (Phase.REPAIR, LoopEvent.BUDGET_EXCEEDED): Phase.FAIL,
        (Phase.VERIFY, LoopEvent.QUALITY_PASSED): Phase.COMMIT,
        (Phase.VERIFY, LoopEvent.SCHEMA_FAILED): Phase.REPAIR,
    } == REQUIRED_ARCS
    assert not any(phase in TERMINAL for phase, _ in REQUIRED_ARCS)


@pytest.mark.req("R32")
def test_each_phase_has_a_typed_contract() -> None:
    """Eight rows; every type that a row names is public, and what a phase takes some earlier phase gave."""
    rows = phase_contracts()
    assert [row.phase.value for row in rows] == [
        "PLAN",
        "DECOMPOSE",
        "RETRIEVE",
        "ACT",
        "VERIFY",
        "CRITIQUE",
        "REPAIR",
        "COMMIT",
    ]
    assert (rows[0].takes, rows[0].gives) == (("TaskSpec", "ExecutionContext"), "Plan")
    assert rows[-1].gives == "AgentResult"
    given = {"TaskSpec", "ExecutionContext"}
    for row in rows:
        assert set(row.takes) <= given
        given.add(row.gives)
        for name in (*row.takes, row.gives):
            assert re.sub(r"^list\[(\w+)\]$", r"\1", name) in PUBLIC_TYPES


@pytest.mark.req("R33")
def test_another_major_version_of_the_protocol_does_not_load() -> None:
    """A breaking change of a phase contract is another protocol, and says so."""
    row = phase_contracts()[0].model_dump()
    assert row["protocol"] == LOOP_PROTOCOL
    with pytest.raises(ValidationError):
        PhaseContract.model_validate({**row, "protocol": "2.0"})


@pytest.mark.req("R23")
def test_the_names_of_the_lifecycle() -> None:
    """Plan, verify, execute, score, consolidate, in this order."""
    assert LIFECYCLE == ("plan", "verify", "execute", "score", "consolidate")


@pytest.mark.req("R55")
def test_a_loop_is_bounded_in_every_way() -> None:
    """Iterations, repairs, depth, budgets and quality thresholds have their place, and none may be unlimited."""
    config = LoopConfig.model_validate(
        {
            "max_iterations": 5,
            "max_repairs": 1,
            "max_depth": 2,
            "budget": {"tokens": 100},
            "thresholds": [{"name": "safety", "minimum": 0.99}],
        }
    )
    assert (config.max_iterations, config.max_repairs, config.max_depth) == (5, 1, 2)
    assert config.budget == RunBudget(tokens=100)
    assert config.thresholds == (Threshold(name="safety", minimum=0.99),)
    for wrong in ({"max_iterations": 0}, {"max_repairs": -1}, {"max_depth": -1}):
        with pytest.raises(ValidationError):
            LoopConfig.model_validate(wrong)


def test_a_plan_falls_into_one_sub_task_for_each_step() -> None:
    """A sub-task knows its plan and its step."""
    plan = Plan(plan_id="p", steps=(Step(id="a", kind="note"), Step(id="b", tool="x.y")))
    assert [(task.plan_id, task.step.id) for task in decompose(plan)] == [("p", "a"), ("p", "b")]
