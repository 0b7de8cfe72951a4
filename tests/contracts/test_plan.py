"""The plan itself: its hash, its revisions, its outputs and its steps."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest
from pydantic import ValidationError

from tercet.contracts.errors import PlanError
from tercet.contracts.plan import Plan, Step
from tercet.contracts.values.references import Leaf, Reference

PLAN = Plan(
    plan_id="p1",
    intent="support.refund",
    steps=(
        Step(id="a", tool="orders.lookup", params={"id": "ord_881"}),
        Step(id="b", kind="note", params={"total": {"$from": "a#/total"}}),
    ),
    declared_outputs=("total",),
)


@pytest.mark.req("R77")
def test_the_hash_is_sha_256_over_canonical_json() -> None:
    """The hash can be worked out by hand: what the plan says, without defaults, with sorted keys."""
    text = (
        '{"declared_outputs":["total"],"intent":"support.refund","steps":['
        '{"id":"a","params":{"id":"ord_881"},"tool":"orders.lookup"},'
        '{"id":"b","kind":"note","params":{"total":{"$from":"a#/total"}}}]}'
    )
    assert PLAN.hash == f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


@pytest.mark.req("R77")
def test_the_hash_does_not_say_which_revision_it_is() -> None:
    """Id, revision and parent name a plan; they are no part of what it does."""
    assert PLAN.model_copy(update={"plan_id": "p2", "revision": 4, "parent": "sha256:0"}).hash == PLAN.hash


def test_the_hash_does_not_depend_on_the_order_of_keys() -> None:
    """Two documents that differ in the order of their fields are one plan."""
    turned = Plan.model_validate(
        {
            "declared_outputs": ["total"],
            "steps": [
                {"params": {"id": "ord_881"}, "tool": "orders.lookup", "id": "a"},
                {"params": {"total": {"$from": "a#/total"}}, "kind": "note", "id": "b"},
            ],
            "intent": "support.refund",
        }
    )
    assert turned.hash == PLAN.hash


def test_a_spelt_out_default_changes_no_hash() -> None:
    """Saying what would be assumed anyway is saying nothing."""
    assert Step(id="a", tool="x.y", kind="tool", priority=0, params={}).hash == Step(id="a", tool="x.y").hash


@pytest.mark.req("R77")
@pytest.mark.parametrize(
    "changes",
    [
        {"intent": "support.refunds"},
        {"intent": None},
        {"steps": PLAN.steps[:1]},
        {"steps": PLAN.steps[::-1]},
        {"steps": (PLAN.steps[0].model_copy(update={"params": {"id": "ord_882"}}), PLAN.steps[1])},
        {"steps": (PLAN.steps[0].model_copy(update={"priority": 1}), PLAN.steps[1])},
        {"steps": (PLAN.steps[0].model_copy(update={"gates": ()}), PLAN.steps[1])},
        {"outputs": {"total": None}},
        {"declared_outputs": ()},
    ],
    ids=range(9),
)
def test_the_hash_changes_with_what_the_plan_does(changes: dict[str, Any]) -> None:
    """Any other change, also from silence about gates to naming none, makes another plan."""
    assert PLAN.model_copy(update=changes).hash != PLAN.hash


def test_numbers_are_hashed_by_value() -> None:
    """JSON knows one kind of number, so 5 and 5.0 are one value, and true is another."""
    plans = [Plan(steps=(Step(id="a", kind="note", params={"x": value}),)) for value in (1, 1.0, True)]
    assert plans[0].hash == plans[1].hash != plans[2].hash


def test_a_step_has_a_hash_of_its_own() -> None:
    """The same step has the same hash in any plan, and another one when it says anything else."""
    step = PLAN.steps[0]
    assert Step(id="a", tool="orders.lookup", params={"id": "ord_881"}).hash == step.hash
    assert Step(id="c", tool="orders.lookup", params={"id": "ord_881"}).hash != step.hash


def test_a_revision_names_its_parent() -> None:
    """A changed plan is a new plan: the next number, with the hash of the one it came from."""
    revised = PLAN.revise(intent="support.exchange")
    assert (revised.revision, revised.parent, revised.intent) == (2, PLAN.hash, "support.exchange")
    assert (revised.plan_id, revised.steps) == (PLAN.plan_id, PLAN.steps)
    again = revised.revise()
    assert (again.revision, again.parent) == (3, revised.hash)
    assert again.hash == revised.hash
    assert PLAN.revision == 1


def test_a_revision_is_checked() -> None:
    """A revision that is no plan is refused like any plan."""
    with pytest.raises(PlanError, match="has the id 'a' of step 0"):
        PLAN.revise(steps=(PLAN.steps[0], PLAN.steps[0]))
    with pytest.raises(ValidationError):
        PLAN.revise(step=())


@pytest.mark.req("R62")
def test_output_names_come_once_each() -> None:
    """Bound outputs first, then those declared by name only; one that is both counts once."""
    plan = Plan(steps=(), outputs={"b": 1, "a": None}, declared_outputs=("c", "a"))
    assert plan.output_names == ("b", "a", "c")


@pytest.mark.req("R11")
@pytest.mark.parametrize("kind", ["note", "lane"])
def test_a_step_that_calls_no_tool_has_none(kind: str) -> None:
    """Notes and lanes are steps like any other, but name no tool."""
    assert Step.model_validate({"id": "a", "kind": kind}).tool is None
    with pytest.raises(ValidationError, match="calls no tool"):
        Step.model_validate({"id": "a", "kind": kind, "tool": "x.y"})


def test_steps_know_their_references() -> None:
    """What a step refers to and what it writes down itself is found once, with its place in the parameters."""
    step = Step(id="c", tool="x.y", params={"amount": {"$from": "a#/total"}, "note": ["hi", {}]})
    assert step.found == [
        Reference("from", "a#/total", ("amount",), "a", "/total", ("a",)),
        Leaf("hi", ("note", 0)),
        Leaf({}, ("note", 1)),
    ]


def test_a_plan_is_frozen() -> None:
    """A plan that was verified stays what it was."""
    with pytest.raises(ValidationError, match="frozen"):
        PLAN.intent = "support.other"  # type: ignore[misc]  # the very thing that must fail
    with pytest.raises(ValidationError, match="frozen"):
        PLAN.steps[0].tool = "x.y"  # type: ignore[misc]


@pytest.mark.parametrize("key", ["$from", "$literal", "$cel", "$other"])
def test_parameters_and_outputs_have_names(key: str) -> None:
    """A reference cannot stand in place of all parameters or outputs: each of them has a name."""
    with pytest.raises(PlanError, match="is no name"):
        Plan.model_validate({"steps": [{"id": "a", "kind": "note", "params": {key: "request"}}]})
    with pytest.raises(PlanError, match="is no name"):
        Plan.model_validate({"steps": [], "outputs": {key: "request"}})
