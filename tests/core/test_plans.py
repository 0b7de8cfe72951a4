"""Plans as events record them: the same words are the same plan, and nobody can change it afterwards."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from pydantic import ValidationError

from tercet.contracts.errors import PlanError
from tercet.contracts.plan import Plan
from tercet.core.plans import dump_plan, read_plan


def plan_of(value: Any, **fields: Any) -> Plan:
    """A plan of one step with this parameter."""
    return Plan.model_validate({"steps": [{"id": "a", "tool": "do.it", "params": {"n": value}}], **fields})


def test_what_was_dumped_is_read_as_the_same_plan() -> None:
    """Two dumps of equal plans are two dicts, and one plan."""
    one, other = dump_plan(plan_of(1)), dump_plan(plan_of(1))
    assert one == other == {"steps": [{"id": "a", "tool": "do.it", "params": {"n": 1}}]}
    assert one is not other
    assert read_plan(one) is read_plan(other) is read_plan(msgspec.json.decode(msgspec.json.encode(one)))
    assert read_plan(one) == plan_of(1)


@pytest.mark.parametrize(("one", "other"), [(1, 1.0), (1, True), (0, False), ("1", 1), (None, "null")])
def test_values_that_python_takes_for_equal_are_different_plans(one: Any, other: Any) -> None:
    """What a call is made with is what its plan says, to the type."""
    read = read_plan(dump_plan(plan_of(other))), read_plan(dump_plan(plan_of(one)))
    assert [type(each.steps[0].params["n"]) for each in read] == [type(other), type(one)]


def test_a_dumped_plan_has_the_hash_of_the_plan() -> None:
    """Without its id, its revision and its parent."""
    plan = plan_of(2, plan_id="p", revision=3, parent="sha256:0")
    assert read_plan(dump_plan(plan)).hash == plan.hash == plan_of(2).hash != plan_of(3).hash


def test_defaults_that_are_written_out_make_no_difference_to_the_hash() -> None:
    """A journal may hold a plan that says what needs no saying."""
    fields = dump_plan(plan_of(4))
    said: dict[str, Any] = {
        **fields,
        "revision": 1,
        "outputs": {},
        "steps": [{**fields["steps"][0], "kind": "tool"}],
    }
    assert read_plan(said).hash == plan_of(4).hash


def test_a_plan_says_what_it_says_when_it_is_dumped() -> None:
    """Its owner may change the dicts in it: the next dump is about that, and an earlier one is not."""
    plan = plan_of({"deep": [1]})
    before = dump_plan(plan)
    plan.steps[0].params["n"]["deep"].append(2)
    after = dump_plan(plan)
    assert read_plan(before).steps[0].params == {"n": {"deep": [1]}}
    assert read_plan(after).steps[0].params == {"n": {"deep": [1, 2]}}
    assert read_plan(before).hash != read_plan(after).hash


def test_whoever_changes_a_recorded_plan_changes_no_other_run() -> None:
    """Each dump is a dict of its own, and the plan holds none of it."""
    one = dump_plan(plan_of({"deep": [5]}))
    one["steps"][0]["params"]["n"]["deep"].append(6)
    assert dump_plan(plan_of({"deep": [5]}))["steps"][0]["params"] == {"n": {"deep": [5]}}
    assert read_plan(dump_plan(plan_of({"deep": [5]}))).steps[0].params == {"n": {"deep": [5]}}


def test_what_was_broken_after_it_was_checked_is_found() -> None:
    """A plan is checked again when it is dumped, since its owner may have changed it."""
    plan = plan_of(7)
    plan.steps[0].params["n"] = {"$from": "nobody#no-pointer"}
    with pytest.raises((PlanError, ValidationError)):
        dump_plan(plan)
