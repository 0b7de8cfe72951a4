"""Plans that ask for gigabytes in a few lines: a typed failure, long before the memory is gone."""

from __future__ import annotations

from typing import Any

import pytest

from tercet.contracts.runs.budget import RunBudget
from tercet.core import events as e
from tercet.core.decide import MAX_NOTED_BYTES
from tercet.policy.resolution import MAX_COMPUTED_BYTES, measure

from .workshop import ASK, Workshop, events, plan, step

BUDGET = RunBudget(max_steps=60)


def doubling(expression: str, first: Any) -> list[Any]:
    """Notes of which each is made of the one before it."""
    notes = [step("n0", None, params={"v": first})]
    for number in range(1, 50):
        params = {"v": {"$cel": expression.replace("n.", f"n{number - 1}.")}}
        notes.append(step(f"n{number}", None, params=params))
    return notes


async def ran(workshop: Workshop, *steps: Any, **fields: Any) -> tuple[Any, list[e.Event]]:
    """The report and the events of a run."""
    workshop.tool("do.it")
    async with workshop.runtime(workshop.pack(budget=BUDGET)) as runtime:
        report = await runtime.run(ASK, plan=plan(*steps, **fields))
        return report, await events(runtime.journal, report.session_id)


@pytest.mark.parametrize(
    ("expression", "first"),
    [("n.v + n.v", "x" * 64), ("[n.v, n.v]", "x"), ("n.v + n.v", [1, 2]), ("{'a': n.v, 'b': n.v}", 1)],
)
def test_notes_that_double_each_other_fail_with_a_typed_code(
    workshop: Workshop, expression: str, first: Any
) -> None:
    """Fifty doublings would be a million gigabytes."""
    report, happened = workshop.run(ran(workshop, *doubling(expression, first)))
    assert report.status != "completed"
    failed = [event for event in happened if isinstance(event, e.StepRefused)]
    assert [event.code for event in failed] == ["value_too_large"]
    noted = [event.value for event in happened if isinstance(event, e.Complete)]
    assert sum(measure(value, MAX_NOTED_BYTES) for value in noted) <= MAX_NOTED_BYTES


def test_notes_that_refer_twice_to_each_other_fail_too(workshop: Workshop) -> None:
    """References share memory, but what is written down does not."""
    notes = [step("n0", None, params={"v": "x" * 1_000})]
    notes += [
        step(f"n{n}", None, params={"a": {"$from": f"n{n - 1}"}, "b": {"$from": f"n{n - 1}"}})
        for n in range(1, 50)
    ]
    report, happened = workshop.run(ran(workshop, *notes))
    assert report.status != "completed"
    assert [event.code for event in happened if isinstance(event, e.StepRefused)] == ["value_too_large"]


def test_all_notes_of_a_run_together_are_bounded(workshop: Workshop) -> None:
    """Many notes that are still needed come to as much as a large one."""
    first = step("n0", None, params={"v": "x" * (MAX_NOTED_BYTES // 8)})
    others = [step(f"n{n}", None, params={"v": {"$from": "n0#/v"}}) for n in range(1, 12)]
    outputs = {f"n{n}": {"$cel": f"size(n{n}.v)"} for n in range(12)}
    report, happened = workshop.run(ran(workshop, first, *others, outputs=outputs))
    assert report.status != "completed"
    assert {event.code for event in happened if isinstance(event, e.StepRefused)} == {"value_too_large"}


def test_an_output_that_is_too_large_is_missing(workshop: Workshop) -> None:
    """The outputs are resolved under the same bound."""
    first = step("n0", None, params={"v": "x" * (MAX_COMPUTED_BYTES * 2 // 3)})
    _, happened = workshop.run(ran(workshop, first, outputs={"twice": {"$cel": "n0.v + n0.v"}}))
    (produced,) = [event for event in happened if isinstance(event, e.OutputsProduced)]
    assert "is made of more than" in produced.missing["twice"]


def test_a_condition_is_bounded_as_well(workshop: Workshop) -> None:
    """`when` is an expression like any other."""
    first = step("n0", None, params={"v": "x" * (MAX_COMPUTED_BYTES * 2 // 3)})
    second = step("s", None, when="size(n0.v + n0.v) > 0")
    report, happened = workshop.run(ran(workshop, first, second))
    assert report.status != "completed"
    assert [event.code for event in happened if isinstance(event, e.StepRefused)] == ["value_too_large"]


def test_what_is_too_large_is_not_proposed_as_memory(workshop: Workshop) -> None:
    """It could not be kept, and need not be written down."""
    first = step("n0", None, params={"v": "x" * (MAX_COMPUTED_BYTES * 2 // 3)})
    memory = {"big": [{"$from": "n0#/v"}, {"$from": "n0#/v"}], "small": {"$cel": "size(n0.v)"}}
    _, happened = workshop.run(ran(workshop, first, memory=memory))
    (produced,) = [event for event in happened if isinstance(event, e.OutputsProduced)]
    assert [said["class"] for said in produced.memory] == ["small"]
    assert not produced.memory[0]["trusted"]
